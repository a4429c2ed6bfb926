"""A paragraph made token by token, each showing the odds it had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import (
    Numbers,
    Part,
    Scene,
    formatted,
)
from app.render import heat, numbers
from model.runtime.generate import Step, generate
from model.runtime.sample import MAX_SEED, MAX_TEMPERATURE


class Settings(base.Settings):
    """How long, and how each token is chosen."""

    tokens: int = Field(24, ge=1, le=60)
    temperature: float = Field(0.8, ge=0, le=MAX_TEMPERATURE)
    top_k: int = Field(0, ge=0, le=100_000)
    top_p: float = Field(0.9, ge=0, le=1)
    seed: int = Field(1, ge=0, le=MAX_SEED)


@dataclass(frozen=True)
class Made:
    """One token: itself, and its probability as a link into the run that chose it where that run can be named."""

    shown: Markup
    number: Markup
    css: str
    odds: str


@dataclass(frozen=True)
class View:
    made: list[Made]
    end: str
    text: str
    total: Markup


def view(scene: Scene, s: Settings) -> View:
    steps = list(
        generate(scene.model,
            list(scene.run.tokens), s.tokens, temperature=s.temperature, top_k=s.top_k or None, top_p=s.top_p,
            seed=s.seed,
        )
    )  # fmt: skip
    shares = heat.Scale(1.0, 1.0).steps(np.array([step.prob for step in steps]))
    made = [one(scene, step, int(shade)) for step, shade in zip(steps, shares, strict=True)]
    tokens = [step.token for step in steps]
    return View(
        made, steps[-1].end, scene.state.text + scene.model.tokenizer.decode(tokens),
        total(scene, steps),
    )  # fmt: skip


def total(scene: Scene, steps: list[Step]) -> Markup:
    """All chances multiplied: e to minus the costs of the tokens made, in the run of the whole text with them."""
    text = numbers.scientific(float(np.prod([step.prob for step in steps])))
    read = [*steps[-1].read, steps[-1].token]
    if any(step.dropped for step in steps) or len(read) > scene.model.config.n_ctx:
        return Markup(text)
    state = scene.state.replace(text=scene.model.spelled(read[scene.state.bos :]), target="", changes=())
    first, last = len(read) - len(steps) - 1, len(read) - 1
    return Numbers(scene.run, state, form="").shown(
        f"calc(exp(-sum(loss_per_token[{first}:{last}])))", text, css="num live"
    )


def one(scene: Scene, step: Step, shade: int) -> Made:
    """The run before a token is the text so far, as long as none of it was dropped."""
    text = formatted(step.prob, "percent")
    number = Markup(text)
    read = list(step.read)
    if not step.dropped:
        state = scene.state.replace(text=scene.model.spelled(read[scene.state.bos :]), target="")
        number = Numbers(scene.run, state).shown(f"probs[{len(read) - 1},{step.token}]", text)
        if "<button" in number:  # the text is too long for a link in every token
            number = Markup(text)
    return Made(
        scene.num.token(step.token), number, heat.css(shade), formatted(float(step.choice.odds[step.token]), "percent")
    )


PART = Part(
    "paragraph", "A paragraph, token by token", Settings, view, home="transformer#append", rem=24,
    about="Let the model write on, and see the odds that each token had.",
)  # fmt: skip
