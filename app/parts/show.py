"""From a part's name and a query to HTML (in a lesson, as a placeholder that loads later, or alone); sharing it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.datastructures import QueryParams

from app.panels.shared import Shared, about, bare, card_url
from app.parts.base import RUN, Here, Part, Scene, Settings
from app.parts.numbers import Numbers
from app.parts.table import PARTS
from app.request import look
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


def of_part(run: Run, part: Part, state: State, settings: Settings) -> Shared:
    """A live part with its settings."""
    here = Here(part, bare(state), settings)
    return Shared(
        title=part.title,
        description=f"{part.about} {about(run)}",
        path=here.url(),
        frame=here.url(),
        card=card_url(here.state, of=f"embed/{part.name}"),
        height=part.rem * 16 + 120,
        hides=can_hide(part),
        state=here.state,
        is_number=False,
    )


def can_hide(part: Part) -> tuple[str, ...]:
    """What can be left out of a live part: each of its controls, and kinds of things that it shows."""
    return (*part.settings.model_fields, *look.RUN_FIELDS, *look.PART, *look.WHY)


def part_run(part: Part, state: State, query: QueryParams) -> State:
    """The state with the part's own run, where the query names neither a model nor a text."""
    if part.run is None or {"model", "text"} & set(query):
        return state
    run = part.run
    return state.replace(model=run.model, text=run.text, target=run.target, bos=run.bos)
