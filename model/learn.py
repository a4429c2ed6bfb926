"""Learning from one sentence: k real steps of full-parameter gradient descent, each step a run of its own.

No copy of the weights is kept per step: a step keeps its captured sites and their slopes, from which every weight's
slope follows, and so every weight after any number of steps. The scratch copy that takes the steps is dropped when
they are done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.address import Address, Index, map_addresses, parse
from model.backward import on_demand, slopes_of, tape_loss
from model.capture import all_views
from model.errors import ReaderError
from model.ops.update import Rate, Stepper
from model.run import MOST_STEPS, Run

if TYPE_CHECKING:
    from model.language_model import LanguageModel

OnStep = Callable[[int], None]


class RateError(ReaderError):
    """A learning rate or number of steps that cannot be used."""

    code, part = "bad_rate", "eta"


class Learning:
    """Steps from `run` at one rate. `runs[j]` is the run on the weights after j steps; `runs[0]` is `run` itself."""

    def __init__(self, run: Run, rate: Rate) -> None:
        if not 0 <= rate.eta <= 1e6:  # also refuses NaN
            raise RateError(f"η is {rate.eta:g}, but must be a number from 0 up.", "As in eta=0.01.")
        self.start, self.rate = run, rate
        self.runs: list[Run] = [run]
        self.sizes: list[dict[str, float]] = []
        self._lock = threading.RLock()

    def take(self, k: int, on_step: OnStep | None = None, *, with_slopes: bool = False) -> None:
        """Take steps until k are taken; `with_slopes` also goes back through the last run. Repeats nothing kept.

        `on_step(j)` is called as step j begins; an error it raises ends the work and leaves what was there before.
        """
        if not 0 <= k <= MOST_STEPS:
            raise RateError(f"{k} steps; the limit is {MOST_STEPS}.", "As in .step(10).")
        with self._lock:
            if k >= len(self.runs) or (with_slopes and not self.runs[k].has_slopes):
                self.runs, self.sizes = self._walk(k, on_step, with_slopes)

    def _walk(self, k: int, on_step: OnStep | None, with_slopes: bool) -> tuple[list[Run], list[dict[str, float]]]:
        scratch, stepper = scratch_weights(self.start.model), Stepper(self.rate)
        weights = all_views(scratch, self.start.model.config)
        runs: list[Run] = []
        sizes: list[dict[str, float]] = []
        for j in range(k + 1):
            if on_step is not None:
                on_step(j)
            last = j == k
            with torch.set_grad_enabled(not last or with_slopes):
                taped = tape_loss(self.start, scratch)
            captured = {site: taped[site][0].detach() for site in self.start.model.capture.sites}
            captured["pos_embed"] = captured["pos_embed"].clone()  # a view of W_pos, which the next step changes
            run = self.start if j == 0 else StepRun(self, j, captured)
            if not last or with_slopes:
                run.keep_slopes(slopes_of(taped))
            del taped
            runs.append(run)
            if not last:
                lengths = self._step(run, weights, stepper)
                sizes += [lengths] if j == 0 else []
        return runs, sizes

    def _step(self, run: Run, weights: dict[str, Tensor], stepper: Stepper) -> dict[str, float]:
        """Move every weight against its slope, one parameter at a time. Returns the first step's slopes' lengths.

        Slopes along biases and norms are kept: AdamW divides by a slope's own size, and b_K's is rounding alone
        (moving all keys alike changes no softmax), so in another order of adding it would be another step.
        """
        sizes = {}
        stepper.taken += 1
        for name, weight in weights.items():
            whole = tuple(slice(None, None) for _ in weight.shape)
            slope = on_demand(run, name, whole)
            if name.rsplit(".", 1)[-1].startswith("b") or slope.ndim == 1:
                run.keep_slopes({name: slope})
            stepper.move(name, weight, slope)
            if stepper.taken == 1:  # another pass over all slopes: not for every step
                sizes[name] = float(slope.norm())
        return sizes

    # -- weights after steps

    def parameter(self, name: str, k: int, index: tuple[Index, ...]) -> Tensor:
        """The part `index` of a parameter after k steps, from the start's weights and the steps' slopes, float32."""
        weight = self.start.tensor(name)[index].clone()
        stepper = Stepper(self.rate)
        self.take(k)
        for j in range(k):
            stepper.taken += 1
            stepper.move(name, weight, self.runs[j].gradient_at(name, index))
        return weight

    def moment(self, moment: str, name: str, k: int, index: tuple[Index, ...]) -> Tensor:
        """AdamW's m or v for a parameter's part after k steps."""
        self.take(k)
        slopes = [self.runs[j].gradient_at(name, index) for j in range(k)]
        total = torch.zeros_like(self.start.tensor(name)[index])
        for j, g in enumerate(slopes):
            total = total + self.rate.share(moment, k, j) * (g if moment == "m" else g * g)
        return total


class StepRun(Run):
    """The run on the weights after `step` steps: captured sites of its own, weights computed when asked for."""

    def __init__(self, learning: Learning, step: int, captured: dict[str, Tensor]) -> None:
        start = learning.start
        self.learning_from, self.step = learning, step
        super().__init__(
            start.model,
            start.text,
            start.tokens,
            captured,
            bos=start.bos,
            target=start.target,
            is_sequence=start.is_sequence,
        )

    def stored(self, name: str) -> Tensor:
        return self.learning_from.parameter(name, self.step, tuple(slice(None, None) for _ in self.shape(name)))

    def weights(self, name: str, index: tuple[Index, ...]) -> Tensor:
        if name == "W_U":
            found = self.weights("W_E", index[::-1])
            return found.T if found.ndim == 2 else found
        return self.learning_from.parameter(name, self.step, index)


def scratch_weights(model: LanguageModel) -> dict[str, Tensor]:
    """A copy of the network's weights under its own names, to be changed."""
    return {name: p.detach().clone() for name, p in model.net.named_parameters()}


def after_steps(address: str, k: int) -> str:
    """An address of step k's run, as the start's run names it: `q[0,0,0]` is `q[0,0,0].step(k)` there."""

    def suffixed(found: Address) -> Address:
        if found.site == "tokens":
            return found
        return Address(found.site, found.index, f"grad({k})" if found.quantity == "grad" else f"step({k})")

    return str(map_addresses(parse(address), suffixed))
