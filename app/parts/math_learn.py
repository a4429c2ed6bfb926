"""Real steps of learning: the loss along the slope at an η that the reader sets, one step, and step after step."""

from __future__ import annotations

import time

from app.panels.learning.view import learn_view
from app.parts.base import PARTS, Here, Scene, Settings, View, live_part
from app.render import numbers
from app.render.curves import along_slope
from app.request.state import State
from app.server.process import is_large
from app.stores.jobs import Job
from model.errors import SettingError

PATIENCE = 2.0  # seconds
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0)


@live_part("Learn from this sentence", home="math#steps", rem=80)
class Learn(Settings):
    """Choose η: the loss along the slope, one real step of all weights, and step after step."""

    go: bool = False  # on a large model; η and the number of steps are part of the run's own state

    def view(self, scene: Scene) -> View:
        """`learnt` is None while the steps are being taken, or until they are asked for."""
        if scene.state.changes:
            raise SettingError("set", "Learning begins from the run as it is.", "Take the numbers that you set away.")
        job = begun(scene, go=self.go or not is_large(scene.model.n_parameters))
        if job is None or job.result is None:
            if job is not None and job.error:
                raise job.error
            return View(learnt=None, job=job)
        learned = job.result
        here = Here(PARTS["math_learn"], scene.state, self)

        def to(eta: float) -> str:
            return here.url(eta=eta, optimizer="sgd")

        chosen = learned.rate.eta if learned.rate.optimizer == "sgd" else None
        curve = along_slope(
            learned.etas, learned.curve, chosen, learned.steepness, to,
            f"The loss at {len(learned.etas)} places along the slope, on both sides of the weights as they are",
        )  # fmt: skip
        etas = [measured(scene) * times for times in TIMES]
        return View(
            learnt=learn_view(scene.run, scene.state, learned, scene.num.form),
            curve=curve,
            lower=learned.losses[1] < learned.losses[0],
            etas=[(numbers.full(eta, 3), to(eta), eta == learned.rate.eta) for eta in etas],
        )


def measured(scene: Scene) -> float:
    """The η that is used where the reader sets none; kept with the plain run."""
    plain = State(model=scene.state.model, text=scene.state.text, target=scene.state.target, bos=scene.state.bos)
    return scene.run_of(plain).rate.eta


def begun(scene: Scene, *, go: bool) -> Job | None:
    """The job, given a moment to end; on a large model only where the reader asks or has asked for it."""
    jobs = scene.services.jobs
    job = jobs.start(scene.state) if go else jobs.find(jobs.id(scene.state))
    until = time.monotonic() + PATIENCE
    while job is not None and not job.is_over and time.monotonic() < until:
        time.sleep(0.02)
    return job
