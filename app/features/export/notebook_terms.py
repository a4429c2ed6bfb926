"""A number's terms as Python: the inputs that were captured, and the arithmetic that makes the number of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.features.export.notebook_code import floats

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.explain.terms import Term

MOST_WRITTEN = 4_000  # terms; more are asked of the project
MOST_NAMED = 400  # terms with the addresses of their factors beside them


@dataclass(frozen=True)
class Project:
    """Python that makes the run by this project's own hand, with `load` imported, and what else it imports."""

    imports: tuple[str, ...]
    run: str


def terms_code(run: Run, at: str, project: Project) -> Iterator[str]:
    """Lines that compute `total`."""
    e = run.explain(at, limit=MOST_WRITTEN)
    if e.combine == "given":
        yield f"total = CAPTURED  # {e.address} is not computed"
    elif not e.n_terms:
        yield f"total = 0.0  # nothing adds to {e.address}"
    else:
        yield from _factors(e, project)
        yield f"products = {_products(e)}"
        yield f"total = float({_combined(e)})"
    yield 'print(f"from its terms {total:.9g}, captured {CAPTURED:.9g}, difference {total - CAPTURED:.2g}")'


def _factors(e: Explanation, project: Project) -> Iterator[str]:
    if e.n_terms > MOST_WRITTEN:
        yield f"# {e.n_terms:,} terms, too many to write down here: the project gives them."
        yield from ("from model import load", *project.imports, "")
        yield f"found = {project.run}.explain({e.address!r}, limit={e.n_terms})"
        yield "rows = [[factor.value for factor in term.factors] for term in found.terms]"
    else:
        yield "rows = ["
        yield from (f"    [{', '.join(floats(f.value) for f in term.factors)}],{_named(e, term)}" for term in e.terms)
        yield "]"
    yield "width = max(map(len, rows))"
    yield "factors = torch.tensor([row + [1.0] * (width - len(row)) for row in rows], dtype=torch.float64)"


def _named(e: Explanation, term: Term) -> str:
    if e.n_terms > MOST_NAMED:
        return ""
    names = " × ".join(factor.address or f"{factor.constant}" for factor in term.factors)
    return f"  # {term.label + ': ' if term.label else ''}{names}"


def _products(e: Explanation) -> str:
    return e.terms[0].how.torch if e.terms[0].how else "factors.prod(1)"


def _combined(e: Explanation) -> str:
    if e.combine == "quotient":
        return "products[0] / products[1:].sum()"
    if e.combine == "sum" or e.function is None:
        return "products.sum()"
    return e.function.torch.format("products")
