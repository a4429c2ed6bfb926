"""An op that the project has never heard of, added at run time: the why panel draws it, a notebook computes it."""

from __future__ import annotations

from typing import Any

import pytest

from app.features.export.notebook_terms import Project, terms_code
from app.panels.why.view import why_view
from app.render.templating import Templates
from app.request.state import State
from model.ops.base import Curve, Function, Group, Place, Ref, Rule, of_sum
from model.ops.values import Values
from model.runtime.run import Run
from tests.model import test_new_op as new_op
from tests.model.test_new_op import run

__all__ = ["run"]  # the fixture


def squared(x: float) -> float:
    return max(0.0, x) ** 2


class DrawnRelu(new_op.SquaredRelu):
    """The squared ReLU as a function of its term, with its curve and how PyTorch writes it."""

    function = Function(
        "squared relu", r"\max(0,\ {})^2", of_sum(squared), "torch.relu({}.sum()) ** 2",
        curve=Curve("the squared ReLU", squared, -2.0, 2.0, "ReLU²({})"),
    )  # fmt: skip

    def forward(self, run: Values, at: Place) -> Rule:
        return Rule("function", (Group((Ref(self.pre, at),), label="u"),), function=self.function)


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_op, "SquaredRelu", DrawnRelu)


def strongest(run: Run) -> tuple[int, int]:
    """The place of the neuron that fires most at the last position, where the loss is read."""
    t = run.n_pos - 1
    return t, int(run.tensor("blocks.1.mlp.post")[t].argmax())


def test_the_panel_explains_and_draws_its_numbers(run: Run) -> None:
    t, n = strongest(run)
    at = f"blocks.1.mlp.post[{t},{n}]"
    why = why_view(run, state := State(model=run.model.name, text=run.text, at=at))
    assert why.check is not None and not why.check["fault"]
    assert why.picture is not None and "the squared ReLU" in why.picture.caption and "ReLU²(" in why.picture.chart
    html = Templates().render("why/_why.html", why=why, state=state, run=run)
    assert str(why.picture.chart) in html and str(why.formula) in html
    assert why.title == "Neurons, after the bend"


def test_the_panel_shows_the_slope_through_it(run: Run) -> None:
    t, n = strongest(run)
    why = why_view(run, State(model=run.model.name, text=run.text, at=f"blocks.1.mlp.pre[{t},{n}].grad"))
    assert why.check is not None and not why.check["fault"]
    assert "It works through the neuron’s output." in why.sentence


def test_a_notebook_computes_its_numbers(run: Run) -> None:
    t, n = strongest(run)
    at = f"blocks.1.mlp.post[{t},{n}]"
    e = run.explain(at)
    scope: dict[str, Any] = {"CAPTURED": e.value}
    exec("import torch\n" + "\n".join(terms_code(run, at, Project((), ""))), scope)
    assert scope["total"] == pytest.approx(e.total, rel=1e-12) and e.total > 0
