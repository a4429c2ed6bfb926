"""The lessons: prose in which every number is read from the reader's own run, and live parts between."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Request
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.dependencies import StateDep, page_state
from app.features.lessons.base import Lesson
from app.features.lessons.math import LESSON as MATH
from app.features.lessons.transformer import LESSON as TRANSFORMER
from app.panels.articles import ARTICLES, Article
from app.panels.loading import model_ready
from app.panels.selection import checked, target_field
from app.panels.shared import CARDS, Asked, NotShared, Shared, SharedPage, about, bare, card_url, shares
from app.panels.why.view import why_view
from app.parts.base import Scene
from app.parts.numbers import Numbers
from app.parts.show import Live, of_part
from app.render.formulas import mathml, table
from app.request import answers
from app.request.state import State
from app.server.prefix import Url, origin_of
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False, dependencies=[Depends(model_ready)])

WORDS_A_MINUTE = 200
LESSONS: tuple[Lesson, ...] = (TRANSFORMER, MATH)  # in reading order


@router.api_route("/lessons", methods=["GET", "HEAD"])
async def contents(services: ServicesDep) -> Response:
    """All lessons with their sections."""
    return answers.html(services.page("lessons/contents.html", State(), lessons=LESSONS))


@router.api_route("/lessons/{name}", methods=["GET", "HEAD"])
async def lesson(request: Request, name: str, state: StateDep, services: ServicesDep, all: bool = False) -> Response:
    """One lesson. `all` puts every live part into the page at once, as paper needs it."""
    found = next((each for each in LESSONS if each.name == name), None)
    if found is None:
        raise HTTPException(404)
    plain = State.of(state, "model", "text", "target", "bos", "at", "order", "offset")
    state = found.aimed(plain, asked=bool({"target", "text"} & set(request.query_params)))
    page = partial(render, services, found, state, everything=all, origin=origin_of(request))
    return answers.html(await services.runs.use(state, page))


def written(
    services: Services, lesson: Lesson, run: Run, state: State, *, everything: bool = False
) -> tuple[Markup, dict[str, Any]]:
    """The lesson's sections, and the names that its templates see."""
    plain = state.select("").replace(order="size")
    scene = Scene(services, run, plain, Numbers(run, plain))
    names = {
        "lesson": lesson,
        "lessons": {one.name: one for one in LESSONS},
        "state": state,
        "run": run,
        "model": run.model,
        "models": services.models,
        "scene": scene,
        "num": scene.num,
        "live": Live(scene, everything=everything),
        "maths": mathml,
        "display": display,
        "f": lesson.facts(scene),
        **lesson.extra(scene),
    }
    return Markup(services.templates.render("lessons/_sections.html", **names)), names


def render(
    services: Services, lesson: Lesson, state: State, run: Run, *, everything: bool = False, origin: str = ""
) -> str:
    selected = state.select(checked(run, state.at)) if state.at else state
    article, names = written(services, lesson, run, selected, everything=everything)
    around = LESSONS.index(lesson)
    return services.templates.render(
        "lessons/base_lesson.html",
        **names,
        article=article,
        minutes=minutes(article),
        why=why_view(run, selected) if selected.at else None,
        target_field=target_field(run, state),
        wrong="",
        everything=everything,
        shared=of_lesson(run, lesson, state),
        origin=origin,
        before=LESSONS[around - 1] if around else None,
        after=LESSONS[around + 1] if around + 1 < len(LESSONS) else None,
    )


def minutes(article: str) -> int:
    """How long it takes to read the prose; playing is extra."""
    words = re.sub(
        r'<section class="live-part.*?</section>|<(math|svg|table|form|pre)\b.*?</\1>|<[^>]*>',
        " ",
        article,
        flags=re.DOTALL,
    ).split()
    return max(1, round(len(words) / WORDS_A_MINUTE))


def display(*lines: str) -> Markup:
    """A formula on a line of its own, or several lines aligned at their equals signs (`left & right`)."""
    pairs = [(left, right) if right else ("", left) for left, _, right in (line.partition(" & ") for line in lines)]
    return Markup('<div class="display scroll" tabindex="0" role="group" aria-label="Formula">{}</div>').format(
        table(pairs)
    )


def article(lesson: Lesson) -> Article:
    """The lesson as a file shows it: all its parts at once."""
    return Article(
        about=lesson,
        path=lesson.path,
        title=lesson.title,
        aimed=lambda state, asked: lesson.aimed(state, asked=asked),
        html=lambda services, run, state: written(services, lesson, run, state, everything=True)[0],
    )


# -- as others see it


def of_lesson(run: Run, lesson: Lesson, state: State, section: str = "") -> Shared:
    """A lesson; its frame shows the first live part of the section, or of the lesson."""
    homes = lesson.live_parts
    part = next((part for part in homes if part.home == f"{lesson.name}#{section}"), homes[0])
    title = next((one.title for one in lesson.sections if one.id == section), "")
    alone = bare(state)
    return replace(
        of_part(run, part, alone, part.settings()),
        title=f"{lesson.title}: {title}" if title else lesson.title,
        description=f"{lesson.lead} {about(run)}",
        path=Url(alone.url(lesson.path) + (f"#{section}" if title else "")),
        card=card_url(alone, of=f"lesson/{lesson.name}"),
    )


@shares("/lessons/*")
def shared(services: Services, page: SharedPage) -> Asked:
    lesson = next((one for one in LESSONS if one.path == page.path), None)
    if lesson is None:
        raise NotShared
    state = lesson.aimed(page_state(services, page.query), asked=bool({"target", "text"} & set(page.query)))
    return Asked(state, lambda run: of_lesson(run, lesson, state, page.section))


ARTICLES |= {lesson.name: article(lesson) for lesson in LESSONS}
CARDS |= {f"lesson/{lesson.name}": (lesson.title, lesson.lead) for lesson in LESSONS}
