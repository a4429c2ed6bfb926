"""A paragraph made token by token, each showing the odds it had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.live import base
from app.live.base import Numbers, Part, Scene, formatted
from app.present import heat, numbers
from app.urls import State
from model.generate import Step, reads_back
from model.sample import MAX_SEED, MAX_TEMPERATURE


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
    likely: float
    total: str


def view(scene: Scene, s: Settings) -> View:
    steps = list(
        scene.model.generate(
            list(scene.run.tokens), s.tokens, temperature=s.temperature, top_k=s.top_k or None, top_p=s.top_p,
            seed=s.seed,
        )
    )  # fmt: skip
    shares = heat.Scale(1.0, 1.0).steps(np.array([step.prob for step in steps]))
    made = [one(scene, step, int(shade)) for step, shade in zip(steps, shares, strict=True)]
    tokens, chances = [step.token for step in steps], np.array([step.prob for step in steps])
    return View(
        made, steps[-1].end, scene.state.text + scene.model.tokenizer.decode(tokens),
        float(chances.mean()), numbers.scientific(float(chances.prod())),
    )  # fmt: skip


def one(scene: Scene, step: Step, shade: int) -> Made:
    """The run before a token is the text so far, where that text gives the same tokens again."""
    text = formatted(step.prob, "percent")
    number = Markup(text)
    read = list(step.read)
    if not step.dropped and reads_back(scene.model, read, bos=scene.state.bos):
        state = State(scene.state.model, scene.model.tokenizer.decode(read), "", scene.state.bos)
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
