"""A paragraph made token by token, each showing the odds it had."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.numbers import Numbers
from app.render import heat, numbers
from model.runtime.generate import Step, generate
from model.runtime.sample import MAX_SEED, MAX_TEMPERATURE


@live_part("A paragraph, token by token", home="transformer#append")
class Paragraph(Settings):
    """Let the model write on, and see the odds that each token had."""

    tokens: int = Field(24, ge=1, le=60)
    temperature: float = Field(0.8, ge=0, le=MAX_TEMPERATURE)
    top_k: int = Field(0, ge=0, le=100_000)
    top_p: float = Field(0.9, ge=0, le=1)
    seed: int = Field(1, ge=0, le=MAX_SEED)

    def view(self, scene: Scene) -> View:
        steps = list(
            generate(
                scene.model, list(scene.run.tokens), self.tokens, temperature=self.temperature,
                top_k=self.top_k or None, top_p=self.top_p, seed=self.seed,
            )
        )  # fmt: skip
        shades = heat.Scale(1.0, 1.0).steps(np.array([step.prob for step in steps]))
        made = [
            View(
                token=step.token,
                number=chance(scene, step),
                css=heat.css(int(shade)),
                odds=numbers.formatted(float(step.choice.odds[step.token]), "percent"),
            )
            for step, shade in zip(steps, shades, strict=True)
        ]
        return View(made=made, end=steps[-1].end, total=total(scene, steps))


def total(scene: Scene, steps: list[Step]) -> Markup:
    """All chances multiplied: e to minus the costs of the tokens made, in the run of the whole text with them."""
    text = numbers.scientific(float(np.prod([step.prob for step in steps])))
    read = [*steps[-1].read, steps[-1].token]
    if any(step.dropped for step in steps) or len(read) > scene.model.config.n_ctx:
        return Markup(text)
    state = scene.state.replace(text=scene.model.spelled(read[scene.state.bos :]), target="", changes=())
    first, last = len(read) - len(steps) - 1, len(read) - 1
    num = Numbers(scene.run, state, form="")
    return num.shown(f"calc(exp(-sum(loss_per_token[{first}:{last}])))", text, css="num live")


def chance(scene: Scene, step: Step) -> Markup:
    """A token's probability, as a link into the run that chose it: of the text so far, as long as none was dropped."""
    text = numbers.formatted(step.prob, "percent")
    if step.dropped:
        return Markup(text)
    read = list(step.read)
    state = scene.state.replace(text=scene.model.spelled(read[scene.state.bos :]), target="")
    num = Numbers(scene.run, state)
    if num.as_buttons:  # the text is too long for a link in every token
        return Markup(text)
    return num.shown(f"probs[{len(read) - 1},{step.token}]", text)
