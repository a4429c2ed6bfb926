"""The neurons of one block that fired most at one position, each with the row of numbers that it adds."""

from __future__ import annotations

import numpy as np

from app.parts.base import Block, Position, Scene, Settings, View, live_part
from app.parts.expressions import length
from app.render import heat

TOP = 8
TOKENS = 3


@live_part("The neurons that fired most", home="transformer#feed-forward", rem=32)
class Neurons(Settings):
    """The most active neurons at a position of your sentence, each with the row of numbers that it adds."""

    block: Block = 0
    t: Position | None = None

    def view(self, scene: Scene) -> View:
        """Of each neuron: `row` is what it adds, as a picture, `size` its length, an expression, and `toward` are the
        tokens whose rows of the table agree most with it.
        """
        t, mlp = scene.last if self.t is None else self.t, f"blocks.{self.block}.mlp"
        post = scene.run.tensor(f"{mlp}.post")[t].numpy()
        order = np.argsort(-post, kind="stable")[:TOP]
        added = scene.run.tensor(f"{mlp}.W_out").numpy()[order] * post[order, None]
        scale = heat.Scale(float(np.abs(added).max()))
        agree = added @ scene.run.tensor("W_E").numpy()[: scene.model.tokenizer.n_vocab].T
        neurons = [
            View(
                n=n,
                size=f"{mlp}.post[{t},{n}]*{length(f'{mlp}.W_out[{n},:]')}",
                row=heat.picture(scale.steps(added[i : i + 1]), name=f"neuron-{n}"),
                toward=np.argsort(-agree[i], kind="stable")[:TOKENS].tolist() if post[n] > 0 else [],
            )
            for i, n in enumerate(order.tolist())
        ]
        return View(t=t, mlp=mlp, neurons=neurons, active=f"sum(positive({mlp}.post[{t},:]))")
