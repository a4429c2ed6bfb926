"""A lesson as others see it."""

from __future__ import annotations

from dataclasses import replace

from app.dependencies import page_state
from app.features.lessons.base import Lesson
from app.features.lessons.table import LESSONS
from app.panels.shared import CARDS, Asked, NotShared, Shared, SharedPage, about, bare, card_url, shares
from app.parts.share import of_part
from app.request.state import State
from app.server.prefix import Url
from app.services import Services
from model import Run


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


CARDS |= {f"lesson/{lesson.name}": (lesson.title, lesson.lead) for lesson in LESSONS}
