r"""Every op's LaTeX, worked out with the run's own numbers: what a formula says is what the number is.

The symbols are declared here a second time, each with the site it stands for and its indices; `tests.model.latex`
calculates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.model.latex import Env, Named, number, sides, value
from tests.model.op_oracle import CASES, TINY, Case, address_of, case_of, contribution, gelu
from tests.model.test_op_terms import ALL, places_of

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero")

SMALL = [case for case in CASES if case[0] != "wide"]
Symbols = dict[str, tuple[str, str]]  # symbol -> the site it stands for and a letter for each of its axes


def symbols_of(node: Any) -> Symbols:
    """What each symbol in the formula and the slopes of this node's op stands for."""
    at = "" if node.block is None else f"blocks.{node.block}."
    before = f"blocks.{node.block - 1}.resid_post" if node.block else ""
    if node.name.split(".")[-2:-1] in (["ln1"], ["ln2"], ["ln_final"]):
        return norm_symbols(node, node.name.rpartition(".")[0])
    a, mlp = f"{at}attn.", f"{at}mlp."
    tables: dict[str, Symbols] = {
        "tokens": {"token": ("tokens", "t")},
        "embed": {"e": ("embed", "tm"), "W_E": ("W_E", "vm"), "token": ("tokens", "t")},
        "pos_embed": {"pos": ("pos_embed", "tm"), "W_pos": ("W_pos", "tm")},
        "resid_pre": {"x": (f"{at}resid_pre", "tm"), "e": ("embed", "tm"), "pos": ("pos_embed", "tm")},
        "resid_mid": {"x'": (f"{at}resid_mid", "tm"), "x": (f"{at}resid_pre", "tm"), "attn": (f"{at}attn_out", "tm")},
        "resid_post": {"x''": (node.name, "tm"), "x'": (f"{at}resid_mid", "tm"), "mlp": (f"{at}mlp_out", "tm")},
        "qk": {"q": (f"{a}q", "qhc"), "k": (f"{a}k", "khc"), "q·k": (f"{a}qk", "hqk")},
        "scores": {"s": (f"{a}scores", "hqk"), "q·k": (f"{a}qk", "hqk")},
        "exp": {"exp": (f"{a}exp", "hqk"), "s": (f"{a}scores", "hqk")},
        "pattern": {"a": (f"{a}pattern", "hqk"), "exp": (f"{a}exp", "hqk"), "s": (f"{a}scores", "hqk")},
        "z": {"z": (f"{a}z", "qhc"), "a": (f"{a}pattern", "hqk"), "v": (f"{a}v", "khc")},
        "result": {"r": (f"{a}result", "thm"), "z": (f"{a}z", "thc"), "W_O": (f"{a}W_O", "hcm")},
        "attn_out": {"attn": (node.name, "tm"), "z": (f"{a}z", "thc"), "W_O": (f"{a}W_O", "hcm"),
                     "b_O": (f"{a}b_O", "m"), "r": (f"{a}result", "thm")},
        "pre": {"u": (f"{mlp}pre", "tn"), "y": (f"{at}ln2.out", "ti"), "W_in": (f"{mlp}W_in", "in"),
                "b_in": (f"{mlp}b_in", "n")},
        "post": {"g": (f"{mlp}post", "tn"), "u": (f"{mlp}pre", "tn")},
        "mlp_out": {"mlp": (node.name, "tm"), "g": (f"{mlp}post", "tn"), "W_out": (f"{mlp}W_out", "nm"),
                    "b_out": (f"{mlp}b_out", "m")},
        "logits": {"logit": ("logits", "tv"), "y": ("ln_final.out", "ti"), "W_E": ("W_E", "vi")},
        "probs": {"p": ("probs", "tv"), "logit": ("logits", "tv")},
        "log_probs": {"log p": ("log_probs", "tv"), "p": ("probs", "tv"), "logit": ("logits", "tv")},
        "loss_per_token": {"L": ("loss_per_token", "t"), "p": ("probs", "tv"), "log p": ("log_probs", "tv")},
        "loss": {"L": ("loss_per_token", "t")},
        "W_U": {"W_U": ("W_U", "iv"), "W_E": ("W_E", "vi")},
    }  # fmt: skip
    for letter in "qkv":
        big = letter.upper()
        tables[letter] = {letter: (f"{a}{letter}", "thc"), "y": (f"{at}ln1.out", "ti"),
                          f"W_{big}": (f"{a}W_{big}", "hic"), f"b_{big}": (f"{a}b_{big}", "hc")}  # fmt: skip
    if before and node.short == "resid_pre":
        return {"x": (node.name, "tm"), "x''": (before, "tm")}
    return tables.get(node.short, {node.short: (node.name, "abc"[: len(node.axes)])})  # a parameter: itself


def norm_symbols(node: Any, ln: str) -> Symbols:
    if node.short in ("w", "b"):
        return {node.short: (node.name, "i")}
    return {
        "x": (node.op.x, "ti"), "mu": (f"{ln}.mean", "t"), "sigma_2": (f"{ln}.var", "t"),
        "scale": (f"{ln}.scale", "t"), "hat x": (f"{ln}.normalized", "ti"), "y": (f"{ln}.out", "ti"),
        "w": (f"{ln}.w", "i"), "b": (f"{ln}.b", "i"),
    }  # fmt: skip


def gelu_slope(u: Any) -> Any:
    x = torch.as_tensor(u).clone().requires_grad_()
    return torch.autograd.grad(gelu(x).sum(), x)[0].numpy()


def surroundings(case: Case, node: Any) -> Env:
    """All that the op's formulas may name: numbers, the loss's slopes along them, sizes and functions."""
    c = case.run.model.config
    env: Env = {"pi": math.pi, "infty": math.inf, "varepsilon": c.eps, "n": len(case.scored)}
    env["d"] = c.d_model // c.n_head if node.short in ("scores", "qk") else c.d_model
    env["GELU"] = lambda u: gelu(torch.as_tensor(u)).numpy()
    env["GELU'"] = gelu_slope
    for symbol, (site, letters) in symbols_of(node).items():
        env[symbol] = Named(case.exact(site).numpy(), letters)
        if site not in ("tokens", "W_U"):
            env[f"∂{symbol}"] = Named(case.exact(f"{site}.grad").numpy(), letters)
    env["where " + r"\mathrm{token}_t"] = Named(np.eye(c.d_vocab)[list(case.tokens)], "tv")
    return env


def at_place(case: Case, node: Any, at: tuple[int, ...], env: Env) -> Env:
    """What a formula names beside that depends on the place."""
    more: Env = {}
    if node.short in ("probs", "log_probs"):
        more["max"] = Named(np.max(env["logit"].data[at[0]]))
    if node.short == "scores":
        for letter in "qk":
            more[letter] = Named(case.exact(f"blocks.{node.block}.attn.{letter}")[:, at[0]].numpy(), "tc")
    return env | more


@pytest.mark.parametrize(("name", "target"), SMALL)
def test_a_formula_gives_the_value(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        env = surroundings(case, node)
        own = symbols_of(node) if node.name != "loss" else {}
        letters = next((letters for site, letters in own.values() if site == node.name), "")
        largest = float(np.abs(np.nan_to_num(case.run[node.name], neginf=0)).max())
        for at in places_of(case, node.name, 1):
            formula = case.run.explain(address_of(node.name, at)).formula
            real = float(case.run.values(address_of(node.name, at)))
            found = sides(formula, at_place(case, node, at, env))
            for n, side in enumerate(found[node.name == "loss" :]):  # the loss's own symbol is that of the tokens' too
                got = float(side.data[tuple(dict(zip(letters, at, strict=True))[x] for x in side.letters)])
                if not (name == TINY and node.name in ("log_probs", "loss_per_token")):  # there log p is −∞
                    assert got == pytest.approx(real, rel=1e-6, abs=4e-6 * largest), (
                        f"{node.name}{list(at)} is {real:.7g}, but side {n} of {formula} comes to {got:.7g}"
                    )


@pytest.mark.parametrize(("name", "target"), [*SMALL, ("wide", None)])
def test_a_slope_gives_what_its_terms_come_to(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        for source in node.op.grad_reads:
            reads_it = (source == "log_probs") == (name == TINY)  # the loss reads p, or log p where p is too small
            if node.name != "loss_per_token" or reads_it:
                check_slope(case, node, source)


def check_slope(case: Case, node: Any, source: str) -> None:
    env = surroundings(case, node) | slope_symbols(case, node, source)
    moved = {"mean": 0.25} if node.short == "var" else {}  # deviations from the mean itself add up to 0
    env |= {"mu": Named(env["mu"].data + 0.25, "t")} if moved else {}
    expected = contribution(case, node, source, **moved).numpy()
    letters = dict(symbols_of(node).values())[source]
    if node.name == "loss_per_token":  # the slope along the one number it reads, for each position
        expected, letters = expected[range(case.n), list(case.goals)], "t"
    used = {"pos_embed": slice(case.n), "loss": slice(case.scored.start, case.scored.stop)}.get(node.name, slice(None))
    expected = expected[used]  # the rows and positions that the run reads
    latex = node.op.slope(source)
    first, *equal = sides(latex, env)
    assert set(first.letters) <= set(letters), f"{latex} along {source} has the indices {first.letters}, not {letters}"
    found = first.lined_up(letters)
    off, largest = float(np.abs(found - expected).max()), float(np.abs(expected).max())
    assert off <= 2e-5 * max(largest, spread(case, node, source)) + 1e-12, (
        f"{source} through {node.name}: {latex} comes to {found.ravel()[:3]}…, the terms to {expected.ravel()[:3]}…"
    )
    if equal and not case.is_sequence and case.scored.start == case.n - 1 and not any(case.reads_log_p):
        assert np.allclose(equal[0].data[-1], expected[-1], atol=1e-6), latex  # p − y where one position is scored


def slope_symbols(case: Case, node: Any, source: str) -> Env:
    """What a slope names beside the op's own symbols."""
    if node.name == "probs":
        return {"y": Named(np.eye(case.run.model.config.d_vocab)[list(case.goals)], "tv")}
    if node.name == "loss_per_token":
        p = case.exact("probs").numpy()[range(case.n), list(case.goals)]
        return {"p": Named(np.where(p > 0, p, 1.0), "t")}
    return {"∂L": 1.0} if node.name == "loss" else {}


def spread(case: Case, node: Any, source: str) -> float:
    """How large the terms are where their total may cancel."""
    if source.endswith((".mean", ".scale")):
        return float(case.exact(f"{source.rpartition('.')[0]}.normalized.grad").abs().sum(-1).max())
    return 0.0


@pytest.mark.parametrize(("name", "target"), [("small", None), ("relu", "sequence"), ("toy", None), (TINY, None)])
def test_a_gradients_formula_lists_every_readers_slope(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        at = places_of(case, node.name, 0)[-1]
        if node.name in ("tokens", "loss"):
            continue
        symbol = case.run.explain(address_of(node.name, at)).formula.split(" = ")[0]
        symbol = rf"\left({symbol}\right)" if r"\cdot" in symbol else symbol
        slopes = [reader.op.slope(node.name) for reader in case.run.model.graph if node.name in reader.op.grad_reads]
        if node.is_view:  # the network does not read it: its slope is that of what it is a part or a name of
            assert not slopes
            whole = {"W_U": "W_E", "result": r"\mathrm{attn}"}[node.short]
            slopes = [rf"\frac{{\partial L}}{{\partial {whole}}}"]
        formula = case.run.explain(address_of(node.name, at, "grad")).formula
        assert formula == rf"\frac{{\partial L}}{{\partial {symbol}}} = " + (" + ".join(slopes) or "0")


@pytest.mark.parametrize(("name", "target"), SMALL)
def test_a_constants_name_is_its_value(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        for at in places_of(case, node.name, 0):
            for quantity in ("", "grad"):
                if quantity and node.name == "tokens":
                    continue
                e = case.run.explain(address_of(node.name, at, quantity), limit=30)
                for factor in (f for term in e.terms for f in term.factors if f.constant):
                    assert factor.constant != "1", f"{e.address}: a factor of 1 says nothing"
                    env: Env = {"varepsilon": case.run.model.config.eps, "position": at[0] if at else None}
                    if node.short == "pre":
                        env["u"] = e_value(case, node.name, at)
                    got = number(factor.constant, env)
                    assert got == pytest.approx(factor.value, rel=1e-12), f"{e.address}: {factor.constant} is {got}"


def e_value(case: Case, site: str, at: tuple[int, ...]) -> float:
    return float(case.run.values(address_of(site, at)))


@pytest.mark.parametrize("name", ["one head", "small", "embedded"])
def test_the_steps_of_a_formula(name: str) -> None:
    """GELU's w and its gate: written, valued and addressed alike, and together the value."""
    case = case_of(name)
    for at in places_of(case, "blocks.0.mlp.post", 6):
        e = case.run.explain(address_of("blocks.0.mlp.post", at))
        u = e_value(case, "blocks.0.mlp.pre", at)
        w, gate = (sides(step.latex, {"u": u, "w": e.steps[0].value, "pi": math.pi})[-1] for step in e.steps)
        for step, got in zip(e.steps, (w, gate), strict=True):
            assert step.value == pytest.approx(float(got.data), rel=1e-9, abs=1e-15), step.latex
            assert step.value == pytest.approx(float(case.run.values(step.address)), rel=1e-9, abs=1e-15), step.address
        assert e.value == pytest.approx(u * e.steps[1].value, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("name", ["small", "relu", TINY])
def test_a_functions_latex_is_what_it_does(name: str) -> None:
    case = case_of(name)
    for node in case.run.model.graph:
        for at in places_of(case, node.name, 1):
            e = case.run.explain(address_of(node.name, at), limit=ALL)
            if e.combine == "function":
                latex = e.function.latex.format("z")
                got = value(latex, {"z": float(e.products.sum()), "GELU": lambda u: gelu(torch.as_tensor(u)).numpy()})
                assert float(got.data) == pytest.approx(e.total, rel=1e-9, abs=1e-12), f"{e.address}: {latex}"


def test_latex_that_is_wrong_is_noticed() -> None:
    """The calculator is strict enough: a factor, a sign or an index more makes another number or none."""
    case = case_of("small")
    node = case.node("blocks.0.ln1.var")
    env = surroundings(case, node)
    right = node.op.slope("blocks.0.resid_pre")
    expected = contribution(case, node, "blocks.0.resid_pre").numpy()
    assert np.allclose(value(right, env).lined_up("ti"), expected, rtol=1e-5)
    for wrong in (right.replace("{2}", "{3}"), right.replace(" - ", " + "), right.replace("{d}", "{n}")):
        assert wrong != right and not np.allclose(value(wrong, env).lined_up("ti"), expected, rtol=1e-5)
