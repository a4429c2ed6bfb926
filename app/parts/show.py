"""From a part's name and a query to HTML: inside a lesson, as a placeholder that loads later, or alone."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from app.parts.base import RUN, Here, Part, Scene, Settings
from app.parts.numbers import Numbers
from app.parts.table import PARTS
from app.request.state import State
from app.services import Services
from model import Run


def part_html(services: Services, part: Part, run: Run, state: State, settings: Settings) -> Markup:
    """The whole fragment. Its numbers open where the state says: on the part's own page where it stands alone."""
    here = Here(part, state.select("").replace(order="size"), settings)
    num = Numbers(run, here.state, form=here.go)
    scene = Scene(services, run, here.state, num)
    settings.check(scene)
    return Markup(
        services.templates.render(
            part.template,
            part=part,
            here=here,
            s=settings,
            view=settings.view(scene),
            num=num,
            scene=scene,
            run=run,
            model=run.model,
            go_action=here.state.page,
            go_fields=here.state.page_query,
        )
    )


class Live:
    """`live("arrows", ax=2.0)` in a lesson's template. `everything` renders all parts at once, for paper."""

    def __init__(self, scene: Scene, *, everything: bool = False) -> None:
        self.scene, self.everything = scene, everything

    def __call__(self, name: str, *, now: bool = False, **given: Any) -> Markup:
        """A part: at once (`now`), or a place that is filled when the reader comes near.

        `model`, `text`, `target` and `bos` may be given too: the part then looks at a run of its own.
        """
        part = PARTS[name]
        state = self.scene.state.replace(at="", **{k: given.pop(k) for k in RUN if k in given})
        settings = part.settings.model_validate(given)
        if now or self.everything:
            run = self.scene.run if state == self.scene.state.replace(at="") else self.scene.run_of(state)
            return part_html(self.scene.services, part, run, state, settings)
        here = Here(part, state, settings)
        return Markup(self.scene.services.templates.render("parts/_later.html", part=part, here=here))
