"""Learning from one sentence: the loss along its slope, real steps, every weight before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from app.dependencies import StateDep
from app.features.learn.weights import chosen, weights_view
from app.panels import errors
from app.panels.learning.view import learn_view
from app.panels.loading import model_ready
from app.panels.selection import target_field
from app.panels.sentence import sentence_view, writable
from app.panels.slopes import slopes_view
from app.render.cost import in_words
from app.render.tokens import token_html
from app.request import answers
from app.request.htmx import HtmxDep
from app.request.paths import LEARN
from app.request.state import State
from app.server.prefix import Url
from app.server.process import is_large
from app.services import Services, ServicesDep
from app.stores.jobs import Job
from app.stores.learned import work
from model import Run
from model.runtime.long_run import LongRun

router = APIRouter(include_in_schema=False, dependencies=[Depends(model_ready)])

errors.FORMS[LEARN] = "learn/_form.html"

PATIENCE = 1.2  # seconds that a page waits for its job before it shows the progress
POLLED = 0.3  # and that a question for the progress waits

Go = Annotated[bool | None, Query()]


@router.api_route(LEARN, methods=["GET", "HEAD"])
async def learn(request: Request, asked: StateDep, services: ServicesDep, htmx: HtmxDep, go: Go = None) -> Response:
    """The page; for HTMX its results alone. `go` starts the work on a large model, go=0 starts none."""
    state = asked.change()
    is_part = htmx.target == "results"
    job = begun(services, state, go, may_start=request.method == "GET")
    if job:
        await services.jobs.wait(job, POLLED if is_part else PATIENCE)
        job = replace(job)  # as it is now, though it goes on
    is_done = job is not None and job.result is not None
    used = state if is_done else state.replace(eta=None, optimizer="sgd")  # measures no rate
    return answers.html(await services.runs.use(used, lambda run: render(services, run, asked, job, is_part, go)))


@router.post("/learn/cancel")
async def cancel(asked: StateDep, services: ServicesDep) -> Response:
    """Call the work off, and back to the page, which then starts none."""
    state = asked.change()
    services.jobs.cancel(services.jobs.id(state))
    return RedirectResponse(state.url(LEARN) + "&go=0", 303)


def begun(services: Services, state: State, go: bool | None, *, may_start: bool) -> Job | None:
    """The job of this page: started where it costs little or the reader has asked for it."""
    is_small = not is_large(services.models.entry(state.model).n_parameters)
    wanted = is_small if go is None else go
    if wanted and may_start:
        return services.jobs.start(state)
    return services.jobs.find(services.jobs.id(state))


def render(services: Services, run: Run, asked: State, job: Job | None, is_part: bool, go: bool | None) -> str:
    """HTML of the page or of its results. With a result, `run` learns in the way that the state says."""
    state = asked.change()
    if job and job.error:
        raise job.error
    if isinstance(run, LongRun):
        raise run.too_long_to_learn()
    chosen(run, state.at)  # an address that names nothing is told before any work
    context: dict[str, Any] = {"job": job, "go": go, "poll": state.url(LEARN) + ("&go=1" if go else "")}
    if job and job.result:
        context |= {
            "learnt": learn_view(run, state, job.result),
            "weights": weights_view(run, state),
            "slopes": slopes_view(run, state),
        }
    else:
        context |= {"learnt": None, "cost": cost(run, state), "n_ahead": services.jobs.ahead_of(job) if job else 0}
    if is_part:
        return services.page("learn/_results.html", state, run, **context)
    return services.page(
        "learn/page.html",
        state,
        run,
        **context,
        dropped=asked.changes,
        fields=fields(state) | {"target": target_field(run, state)},
        sentence=sentence_view(run, state.replace(at="loss")),
        others=others(run, state),
        wrong="",
    )


def fields(state: State) -> dict[str, str]:
    """What stands in the form."""
    return {
        "text": state.text,
        "target": state.target,
        "eta": dict(state.run_query).get("eta", ""),
        "optimizer": state.optimizer,
        "steps": str(state.steps),
    }


def others(run: Run, state: State) -> list[tuple[Markup, Url]]:
    """Other likely tokens to teach: their HTML and where that leads."""
    return [
        (token_html(run.model.tokenizer, token), state.aim(writable(run.model, token)).url(LEARN))
        for token, _ in run.top(5)
        if run.is_sequence or token != run.target
    ][:4]


def cost(run: Run, state: State) -> str:
    """About how long the work takes, in words, by what passes of this process have taken."""
    return in_words(run.model.seconds(run.n_pos) * work(state.steps))
