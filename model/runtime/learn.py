"""Learning from one sentence: k real steps of full-parameter gradient descent, each step a run of its own.

No copy of the weights is kept per step: a step keeps its captured sites and their slopes, from which every weight's
slope follows, and so every weight after any number of steps. The scratch copy that takes the steps is dropped when
they are done.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from model.address.trees import Index
from model.arch.graph import Graph
from model.arch.network import Network
from model.arch.registry import architecture_of
from model.errors import ReaderError
from model.ops.embedding import Lookup, PositionRow
from model.ops.linear import SumProduct
from model.ops.update import Optimizer, Rate, Stepper
from model.ops.values import Values
from model.runtime.backward import loss_on, on_demand, site_gradients
from model.runtime.capture import Capture, parameter_views
from model.runtime.loaded import LoadedModel

MOST_STEPS = 50
# The share of the loss that a first step should take away if the loss fell as straight as its slope says.
FIRST_STEP = 0.25
PUBLISHED = {"gpt2": 2e-5}
OnStep = Callable[[int], None]


class RateError(ReaderError):
    """A learning rate or number of steps that cannot be used."""

    code, part = "bad_rate", "eta"


class Learner(Values, Protocol):
    """A run to learn from.

    keep_slopes  takes the gradients that a step found on its way; `has_slopes` says that there are some
    stepped      the run of the same prompt on the weights after some steps, from what was captured on them
    """

    model: LoadedModel

    @property
    def has_slopes(self) -> bool: ...

    def keep_slopes(self, slopes: dict[str, Tensor]) -> None: ...

    def stepped(self, learning: Learning[Self], step: int, captured: dict[str, Tensor]) -> Self: ...


R = TypeVar("R", bound=Learner)


class Learning(Generic[R]):
    """Steps from `run` at one rate. `runs[j]` is the run on the weights after j steps; `runs[0]` is `run` itself."""

    def __init__(self, run: R, rate: Rate) -> None:
        if not 0 <= rate.eta <= 1e6:  # also refuses NaN
            raise RateError(f"η is {rate.eta:g}, but must be a number from 0 up.", "As in eta=0.01.")
        self.start, self.rate = run, rate
        self.runs: list[R] = [run]
        self._lock = threading.RLock()

    def take(self, k: int, on_step: OnStep | None = None, *, with_slopes: bool = False) -> None:
        """Take steps until k are taken; `with_slopes` also goes back through the last run. Repeats nothing kept.

        `on_step(j)` is called as step j begins; an error it raises ends the work and leaves what was there before.
        """
        if not 0 <= k <= MOST_STEPS:
            raise RateError(f"{k} steps; the limit is {MOST_STEPS}.", "As in .step(10).")
        with self._lock:
            if k >= len(self.runs) or (with_slopes and not self.runs[k].has_slopes):
                self.runs = self._walk(k, on_step, with_slopes)

    @torch.no_grad()
    def _walk(self, k: int, on_step: OnStep | None, with_slopes: bool) -> list[R]:
        model = self.start.model
        scratch = scratch_capture(model)
        stepper, weights = Stepper(self.rate), parameter_views(scratch.net)
        runs: list[R] = []
        for j in range(k + 1):
            if on_step is not None:
                on_step(j)
            run = self.runs[j] if j < len(self.runs) else self._captured(j, scratch)
            runs.append(run)
            if (j < k or with_slopes) and not run.has_slopes:
                run.keep_slopes(site_gradients(run, scratch.net))
            if j < k:
                self._step(run, scratch.net, weights, stepper)
        return runs

    def _captured(self, step: int, scratch: Capture) -> R:
        captured = {site: output[0].cpu() for site, output in scratch(self.start.tokens).items()}
        weights = {p.untyped_storage().data_ptr() for p in scratch.net.parameters()}
        for site, tensor in captured.items():  # a view of a weight, such as the positions' rows, would change with it
            if tensor.untyped_storage().data_ptr() in weights:
                captured[site] = tensor.clone()
        return self.start.stepped(self, step, captured)

    def _step(self, run: R, net: Network, weights: dict[str, Tensor], stepper: Stepper) -> None:
        """Move every weight against its slope.

        SGD moves a matrix without ever making its slope (see `descend`); AdamW needs slopes, one parameter at a time.

        Slopes along biases and norms are kept: AdamW divides by a slope's own size, and b_K's is rounding alone
        (moving all keys alike changes no softmax), so in another order of adding it would be another step.
        """
        by_outer = self.rate.optimizer == "sgd"
        if by_outer:
            descend(run, net, self.rate.eta)
        stepper.taken += 1
        for name, weight in weights.items():
            is_vector = name.rsplit(".", 1)[-1].startswith("b") or weight.ndim == 1
            if is_vector or not by_outer:
                slope = on_demand(run.model.graph, run, name, (slice(None),) * weight.ndim)
                if is_vector:
                    run.keep_slopes({name: slope})
                stepper.move(name, weight, slope.to(weight.device))

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
        total = torch.zeros_like(self.start.tensor(name)[index])
        for j in range(k):
            g = self.runs[j].gradient_at(name, index)
            total = total + self.rate.share(moment, k, j) * (g if moment == "m" else g * g)
        return total


def scratch_capture(model: LoadedModel) -> Capture:
    """A network of its own on a copy of the model's weights, to be changed."""
    return model.capture.on({name: p.detach().clone() for name, p in model.capture.net.named_parameters()})


def descend(run: Learner, net: Network, eta: float) -> None:
    """θ ← θ − η·∂L/∂θ for every matrix of `net`, which made the run.

    A matrix's slope is inputᵀ·∂L/∂output: multiplied and added in one go, it is never held itself.
    """
    stored, device = dict(net.named_parameters()), net.W_E.device

    for (name, read, is_transposed), made in products(run.model.graph, parameter_views(net)).items():
        rows = slice(run.scored.start, run.scored.stop) if made == ["logits"] else slice(None)
        along_made = torch.cat([run.gradient(site).to(device)[rows].flatten(1) for site in made], 1)
        factors = run.tensor(read).to(device)[rows].flatten(1).T, along_made
        stored[name].addmm_(*((f.T for f in reversed(factors)) if is_transposed else factors), alpha=-eta)
    for node in reversed(run.model.graph.sites):
        if isinstance(node.op, Lookup):
            slope = run.gradient(node.name).to(device)
            stored["W_E"].index_add_(0, run.tensor("tokens").to(device), slope, alpha=-eta)
        elif isinstance(node.op, PositionRow):
            stored["W_pos"][: run.n_pos].sub_(run.gradient(node.name).to(device), alpha=eta)


def products(graph: Graph, weights: Mapping[str, Tensor]) -> dict[tuple[str, str, bool], list[str]]:
    """The stored matrices, each with the site that it multiplies and whether its rows are what that makes: sites made.

    `weights` are a network's parameters under the graph's names.
    """
    found: dict[tuple[str, str, bool], list[str]] = {}
    stored_under = architecture_of(graph.config).stored_under
    for node in graph.sites:
        if not isinstance(node.op, SumProduct) or node.is_view:
            continue
        for weight, read in (node.op.factors, node.op.factors[::-1]):
            if graph[weight.site].is_parameter:
                strides = dict(zip(weight.letters, weights[weight.site].stride(), strict=True))
                is_transposed = min(strides, key=strides.__getitem__) in node.op.summed
                found.setdefault((stored_under(weight.site), read.site, is_transposed), []).append(node.name)
    return found


# -- the loss along the slope, and a learning rate that is seen to lower it


@torch.no_grad()
def losses_along_slope(
    run: Learner, etas: Sequence[float], on_point: Callable[[int], None] | None = None
) -> list[float]:
    """The loss at θ − η·∂L/∂θ, all weights at once, for each η (negative ones climb). One scratch copy of weights."""
    starts = parameter_views(run.model.capture.net)
    slopes = {name: run.gradient_at(name, (slice(None),) * p.ndim).to(p.device) for name, p in starts.items()}
    scratch = scratch_capture(run.model)
    weights = parameter_views(scratch.net)
    found = []
    for n, eta in enumerate(etas):
        if on_point is not None:
            on_point(n)
        for name, p in weights.items():
            p.copy_(starts[name]).add_(slopes[name], alpha=-eta)
        found.append(loss_on(scratch, run))
    return found


def suggested_rate(run: Learner, optimizer: Optimizer = "sgd") -> Rate:
    """An η of one significant digit, found by measuring: halved until a real first step lowers the loss.

    Where the loss falls as straight as its slope says, SGD's first step lowers it by η·Σ slope², AdamW's, which moves
    every weight by η against the sign of its slope, by η·Σ|slope|.
    """
    if optimizer == "sgd" and run.model.name in PUBLISHED:
        return Rate(PUBLISHED[run.model.name])
    steep, loss = steepness(run, optimizer), float(run.tensor("loss"))
    if not (math.isfinite(steep) and steep > 0 and loss > 0):
        return Rate(1e-3 if optimizer == "sgd" else 1e-4, optimizer)
    eta = round_down(min(FIRST_STEP * loss / steep, 1.0))
    for _ in range(8):
        learning = Learning(run, Rate(eta, optimizer))
        learning.take(1)
        if float(learning.runs[1].tensor("loss")) < loss:
            break
        eta = round_down(eta / 2)
    return Rate(eta, optimizer)


def steepness(run: Learner, optimizer: Optimizer) -> float:
    """How fast the loss falls at the start, by η: Σ slope² over all weights for SGD, Σ|slope| for AdamW."""
    weights = parameter_views(run.model.net)
    slopes = (run.gradient_at(name, (slice(None),) * p.ndim) for name, p in weights.items())
    return sum(float((slope.square() if optimizer == "sgd" else slope.abs()).sum()) for slope in slopes)


def round_down(x: float) -> float:
    """To one significant digit, towards zero: 0.0387 to 0.03."""
    power = math.floor(math.log10(x))
    return float(f"{math.floor(x / 10.0**power)}e{power}")
