"""Formulas: every one of every model is valid MathML without styles, and its numbers are the explanation's."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from bs4 import BeautifulSoup
from lxml import etree

from app.panels.why import steps as why_steps
from app.render import formulas
from model import Explanation, load
from model.address.parser import Address, parse
from model.ops.update import Rate
from model.runtime.run import Run
from tests.model.models import SHAPES, random_model

MODELS = ["toy", "embedded", *SHAPES]
EXPRESSIONS = [
    "calc(logits[1,5]-logits[1,6])",
    "calc(-logits[1,5]*(2+probs[0,1])/sqrt(3))",
    "calc(log(sum(exp(logits[0,:]-max(logits[0,:])))))",
    "calc(partial(logits[1,5],0:3))",
    "calc(W_E[5,0:2]*W_E[6,0:2])",
    "calc(0.0000001*1e20)",
]


@cache
def run_of(name: str) -> Run:
    if name == "toy":
        return load("toy").run("the cat sat")
    return (load(name) if name == "embedded" else random_model(name)).run("Two words")


def corners(run: Run, site: str) -> list[tuple[int, ...]]:
    shape = run.shape(site)
    first, last = tuple(0 for _ in shape), tuple(size - 1 for size in shape)
    masked = [(0, 0, shape[2] - 1)] if site.endswith((".scores", ".pattern", ".exp")) else []
    return list(dict.fromkeys([first, last, *masked]))


def check_markup(mathml: str) -> None:
    """Well-formed, nothing that the content security policy forbids, no links, no source left over."""
    etree.fromstring(mathml.replace("&ApplyFunction;", ""))
    assert " style=" not in mathml and "<a" not in mathml
    assert "\\" not in mathml and "{" not in mathml


@pytest.mark.parametrize("name", MODELS)
def test_every_formula_converts(name: str):
    run = run_of(name)
    for node in run.model.graph:
        for place in corners(run, node.name):
            for order in ("size", "index"):
                check_explanation(run.explain(str(Address(node.name, place)), limit=10, order=order))  # type: ignore[arg-type]
            if node.name != "tokens":
                check_explanation(run.explain(str(Address(node.name, place, "grad")), limit=10))


@pytest.mark.parametrize("name", ["toy", "embedded"])
def test_every_quantity_converts(name: str):
    """Slopes and values after steps, weights' updates by either rule, AdamW's averages."""
    run = run_of(name)
    careful = run.at_rate(Rate(1e-3, "adamw"))
    for node in run.model.graph:
        if node.name == "tokens":
            continue
        place = corners(run, node.name)[-1]
        for quantity in ("grad(0)", "grad(2)", "step(0)", "step", "step(3)"):
            check_explanation(run.explain(str(Address(node.name, place, quantity)), limit=10))
        for quantity in ("step(0)", "step", "step(3)", "m(2)", "v(2)") if node.is_parameter else ():
            address = Address(node.name, place, quantity)
            e = careful.explain(str(address), limit=10)
            check_explanation(replace(e, formula=why_steps.formula(e, address, careful.rate)))


def check_explanation(e: Explanation) -> None:
    check_markup(formulas.table(formulas.lines(e)))
    for step in e.steps:
        check_markup(formulas.mathml(step.latex))
    for factor in {factor.constant for term in e.terms for factor in term.factors if factor.constant}:
        check_markup(formulas.mathml(factor))


@pytest.mark.parametrize("at", EXPRESSIONS)
def test_every_expression_converts(at: str):
    check_markup(formulas.table([("", formulas.expression_latex(parse(at).tree))]))  # type: ignore[union-attr]


def test_a_line_ends_in_the_total():
    run = run_of("embedded")
    for node in run.model.graph.sites:
        if node.name == "tokens":
            continue
        place = corners(run, node.name)[-2 if node.short in ("scores", "pattern", "exp") else -1]
        e = run.explain(str(Address(node.name, place)), limit=10, order="size")
        last = formulas.lines(e)[-1][1]
        shown = float(re.sub(r"(\d)\\times 10\^\{(-?\d+)\}", r"\1e\2", last.rpartition("= ")[2]))
        assert shown == pytest.approx(e.total, rel=1e-4), node.name


def test_the_written_sum_is_the_sum():
    """Line three: its first two products and the rest make the total shown."""
    run = run_of("embedded")
    e = run.explain("blocks.1.attn.qk[1,2,1]", limit=10, order="size")
    symbols, values, products = [right for _, right in formulas.lines(e)]
    assert symbols.startswith(r"= \sum")
    a, b = (term.product for term in e.terms[:2])
    assert values.count(r"\times") in (1, 2)
    parts = (
        re.sub(r"\\underset\{\\text\{30 more\}\}\{([^}]*)\}", r"\1", products).replace(" ", "").lstrip("=").split("=")
    )
    assert eval(parts[0]) == pytest.approx(e.total, abs=0.02 * (abs(a) + abs(b)))


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"a = b", ["a", "b"]),
        (r"\sum_{i = 0}^{3} a = b = c", [r"\sum_{i = 0}^{3} a", "b", "c"]),
        ("a", ["a"]),
    ],
)
def test_sides(latex: str, parts: list[str]):
    assert formulas.sides(latex) == parts


@pytest.mark.parametrize(
    ("x", "latex"),
    [
        (2.6478, "2.65"),
        (-1.2738, "-1.27"),
        (0.0031299, "0.00313"),
        (3.0, "3"),
        (-0.0, "0"),
        (3.1e-7, r"3.1\times 10^{-7}"),
        (1e-5, "10^{-5}"),
        (50257.0, "50257"),
        (2.5e8, r"2.5\times 10^{8}"),
        (float("nan"), r"\mathrm{NaN}"),
        (float("-inf"), r"-\infty"),
    ],
)
def test_number(x: float, latex: str):
    assert formulas.number(x) == latex


def test_sums_carry_signs():
    assert formulas.added(["1", "-2", r"\cdots"]) == r"1 - 2 + \cdots"


def test_no_token_is_markup():
    """A formula is made of numbers and names of this project; an address in it keeps its underscores."""
    found = BeautifulSoup(formulas.table([("", formulas.address_latex("blocks.0.attn.W_Q[0,1,2]"))]), "lxml")
    assert found.code.string == "blocks.0.attn.W_Q[0,1,2]"
