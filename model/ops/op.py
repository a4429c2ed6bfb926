"""What an op is: one site's formula, forward rule and backward rule, side by side."""

from __future__ import annotations

from torch import Tensor

from model.address.trees import Index
from model.ops.base import Function, Group, Place, Rule
from model.ops.values import Values


class Op:
    """One site's producer. `out` is the site it makes, `reads` the sites and parameters it reads."""

    name = ""
    out = ""
    reads: tuple[str, ...] = ()
    passes_on: tuple[str, ...] | None = None  # where its slope goes, if not to all it reads
    function: Function | None = None  # what makes its numbers of the sum of their terms, but for exceptions
    says = ""  # its rule in a sentence: {0}, {1}, … its place, {token} and {entry} what stands there, sizes of axes
    backward_latex = ""  # its backward rule, indices left out, where it reads one site alone

    @property
    def picture(self) -> str:
        """What is drawn to see one of its numbers: curve, row, norm, tokens …; "" where the terms say it all."""
        return "curve" if self.function and self.function.curve else ""

    @property
    def grad_reads(self) -> tuple[str, ...]:
        """The sites and parameters that this op hands a slope back to."""
        return self.reads if self.passes_on is None else self.passes_on

    def derive(self, run: Values) -> Tensor:
        """The whole site in float32 by PyTorch from the sites it reads, for those that no hook captures."""
        raise NotImplementedError(f"{self.out} is captured, not derived")

    def formula(self, run: Values, at: Place) -> str:
        """LaTeX of the rule with this place's indices."""
        raise NotImplementedError

    def plain(self, run: Values, at: Place) -> str:
        """The same in a sentence. `{t3}` stands for the token at position 3, `{v17}` for vocabulary entry 17."""
        sizes = {axis: run.size(axis) for axis in ("d_model", "d_vocab")}
        return self.says.format(*at, token=f"{{t{at[0]}}}", entry=f"{{v{at[-1]}}}", **sizes)

    def forward(self, run: Values, at: Place) -> Rule:
        """The rule of the number at `at`."""
        raise NotImplementedError

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        """∂loss/∂source[at] as far as it comes through this op: upstream slope × local derivative, as terms."""
        raise NotImplementedError

    def slope(self, source: str) -> str:
        """LaTeX of the backward rule, indices left out."""
        if not self.backward_latex:
            raise NotImplementedError
        return self.backward_latex

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        """∂loss/∂source[index] through this op, for parameters and sites that no tape reaches, summed in float64."""
        raise NotImplementedError

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        """Places of `out` that read `source` at `at`, as indices with slices."""
        return [at]
