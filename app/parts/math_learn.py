"""Real steps of learning: the loss along the slope at an η that the reader sets, one step, and step after step."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from markupsafe import Markup

from app.panels.learning.view import learn_view
from app.parts import base
from app.parts.base import Here, Part, Scene
from app.render import numbers
from app.render.curves import along_slope
from app.render.templating import Context
from app.request.state import State
from app.server.size import is_large
from app.stores.jobs import Job
from model.errors import SettingError

PATIENCE = 2.0  # seconds
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0)


class Settings(base.Settings):
    """Whether a large model may begin. η and the number of steps are part of the run's own state."""

    go: bool = False


@dataclass(frozen=True)
class View:
    """`learnt` is None while the steps are being taken, or until they are asked for."""

    learnt: Context | None
    curve: Markup
    eta: str
    measured: bool
    lower: bool
    etas: list[tuple[str, str, bool]]
    job: Job | None
    go: str
    steps: int
    n: str


def view(scene: Scene, s: Settings) -> View:
    if scene.state.changes:
        raise SettingError("set", "Learning begins from the run as it is.", "Take the numbers that you set away.")
    state, n = scene.state, scene.model.n_parameters
    job = begun(scene, go=s.go or not is_large(n))
    eta = "" if state.eta is None else f"{state.eta:g}"
    go = Here(PART, state, Settings(go=True)).url()
    empty = View(None, Markup(""), eta, state.eta is None, False, [], job, go, state.steps, numbers.count(n))
    if job is None or job.result is None:
        if job is not None and job.error:
            raise job.error
        return empty
    found = job.result
    way = "chosen" if found.rate.optimizer == "sgd" else ""

    def to(other: float) -> str:
        return Here(PART, state.replace(eta=other, optimizer="sgd"), s).url()

    curve = along_slope(
        found.etas, found.curve, found.rate.eta if way else None, found.steepness, to,
        f"The loss at {len(found.etas)} places along the slope, on both sides of the weights as they are",
    )  # fmt: skip
    usual = measured(scene)
    etas = [(numbers.full(usual * times, 3), to(usual * times), usual * times == found.rate.eta) for times in TIMES]
    return replace(
        empty, learnt=learn_view(scene.run, state, found, scene.num.form), curve=curve,
        lower=found.losses[1] < found.losses[0], etas=etas,
    )  # fmt: skip


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


PART = Part(
    "math_learn", "Learn from this sentence", Settings, view, home="math#steps", rem=80,
    about="Choose η: the loss along the slope, one real step of all weights, and step after step.",
)  # fmt: skip
