"""What each site is, written a second time: small PyTorch formulas in float64 over the sites that it reads.

Nothing here calls an op. From these follow, by forward-mode derivatives, how much each entry of a site moves with one
entry of what it reads: the terms of every gradient, one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

import model
from model.runtime.language_model import LanguageModel
from tests.model.models import SHAPES, byte_tokenizer, random_model, random_network

# In each text a token comes twice, one after another or not, and one comes once.
TEXTS = {"toy": "the cat sat on on cat", "embedded": "Mary and John went to John"}
NAMES = ["toy", "embedded", *SHAPES]
TINY = "tiny probability"  # a model whose target's probability rounds to 0 in float32

Sources = dict[str, Tensor]
Local = Callable[[Sources], Tensor]


@dataclass(frozen=True)
class Case:
    """A run, and what the test knows of it by itself."""

    run: Any = field(repr=False)
    is_sequence: bool
    tokens: tuple[int, ...]
    goals: tuple[int, ...]  # what each position is scored on
    scored: range  # the positions that the loss reads
    reads_log_p: tuple[bool, ...]  # by position: whether p is smaller than float32's smallest normal number

    @property
    def n(self) -> int:
        return len(self.tokens)

    @cached_property
    def ahead(self) -> Tensor:
        """[query, key]: where the key comes after the query."""
        return torch.from_numpy(np.triu(np.ones((self.n, self.n), bool), 1))

    def node(self, name: str) -> Any:
        return self.run.model.graph[name]

    def exact(self, site: str) -> Tensor:
        """A whole site or parameter, or with `.grad` its gradient, in float64."""
        return torch.from_numpy(self.run[site]).double()


@cache
def model_of(name: str) -> LanguageModel:
    if name in TEXTS:
        return model.load(name)
    if name != TINY:
        return random_model(name)
    config, scale = SHAPES["small"]
    net = random_network(config, scale)
    bent = LanguageModel(name, net, byte_tokenizer(config.d_vocab))
    with torch.no_grad():  # the row of token 7 points away from where the text ends
        net.W_E[7] = -200 * torch.from_numpy(bent.run("toot")["ln_final.out"][-1])
    return bent


@cache
def case_of(name: str, target: str | None = None) -> Case:
    read = model_of(name).run
    run = read(TEXTS.get(name, "toot to"), target) if name != TINY else read("toot", "id:7")
    tokens = tuple(int(token) for token in run["tokens"])
    is_sequence = target == "sequence"
    last = 7 if name == TINY else int(run["logits"][-1].argmax())
    scored = range(len(tokens) - 1) if is_sequence else range(len(tokens) - 1, len(tokens))
    goals = (*tokens[1:], last)
    reads_log_p = tuple(float(run[f"probs[{t},{goal}]"]) < 2.0**-126 for t, goal in enumerate(goals))
    return Case(run, is_sequence, tokens, goals, scored, reads_log_p)


CASES = [(name, target) for name in NAMES for target in (None, "sequence")] + [(TINY, None)]


def key_of(node: Any, source: str) -> str:
    """What a formula below calls a source: its short name, but `x` for the stream that a norm reads."""
    inside = source.rpartition(".")[0] == node.name.rpartition(".")[0]
    is_norm = node.name.split(".")[-2:-1] in (["ln1"], ["ln2"], ["ln_final"])
    return "x" if is_norm and not inside else source.rpartition(".")[2]


def sources_of(case: Case, node: Any, *more: str) -> Sources:
    """Everything that a node reads, and `more`, in float64."""
    names = dict.fromkeys((*node.op.reads, *more))
    return {key_of(node, name): case.exact(name) for name in names if name != "tokens"}


def gelu(x: Tensor) -> Tensor:
    return x * gelu_gate(x)


def gelu_gate(x: Tensor) -> Tensor:
    return torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def local_of(case: Case, node: Any) -> Local:
    """The node's value as a function of its sources."""
    c, short = case.run.model.config, node.short
    if short in ("resid_pre", "resid_mid", "resid_post"):
        return lambda s: sum(s.values(), torch.zeros(case.n, c.d_model).double())
    if short in ("q", "k", "v"):
        big = short.upper()
        return lambda s: torch.einsum("ti,hic->thc", s["out"], s[f"W_{big}"]) + s[f"b_{big}"]
    formulas: dict[str, Local] = {
        "W_U": lambda s: s["W_E"].T,
        "embed": lambda s: s["W_E"][list(case.tokens)],
        "pos_embed": lambda s: s["W_pos"][: case.n],
        "mean": lambda s: s["x"].mean(-1),
        "var": lambda s: (s["x"] - s["mean"][:, None]).square().mean(-1),
        "scale": lambda s: (s["var"] + c.eps).sqrt(),
        "normalized": lambda s: (s["x"] - s["mean"][:, None]) / s["scale"][:, None],
        "out": lambda s: s["normalized"] * s["w"] + s["b"],
        "qk": lambda s: torch.einsum("qhc,khc->hqk", s["q"], s["k"]),
        "scores": lambda s: (s["qk"] / math.sqrt(c.d_model // c.n_head)).masked_fill(case.ahead, -math.inf),
        "exp": lambda s: (s["scores"] - s["scores"].amax(-1, keepdim=True)).exp(),
        "pattern": lambda s: s["exp"] / s["exp"].sum(-1, keepdim=True),
        "z": lambda s: torch.einsum("hqk,khc->qhc", s["pattern"], s["v"]),
        "result": lambda s: torch.einsum("thc,hcm->thm", s["z"], s["W_O"]),
        "attn_out": lambda s: torch.einsum("thc,hcm->tm", s["z"], s["W_O"]) + s["b_O"],
        "pre": lambda s: s["out"] @ s["W_in"] + s["b_in"],
        "post": lambda s: s["pre"].relu() if c.act == "relu" else gelu(s["pre"]),
        "mlp_out": lambda s: s["post"] @ s["W_out"] + s["b_out"],
        "logits": lambda s: s["out"] @ s["W_E"].T,
        "probs": lambda s: s["logits"].softmax(-1),
        "log_probs": lambda s: s["logits"].log_softmax(-1),
        "loss_per_token": lambda s: torch.stack([token_loss(case, s, t) for t in range(case.n)]),
        "loss": lambda s: s["loss_per_token"][list(case.scored)].mean(),
    }
    return formulas[short]


def token_loss(case: Case, s: Sources, t: int) -> Tensor:
    return -s["log_probs"][t, case.goals[t]] if case.reads_log_p[t] else -s["probs"][t, case.goals[t]].log()


def parts_of(case: Case, node: Any, source: str, s: Sources) -> dict[str, Local]:
    """Label -> a function whose derivative along `source` is the local derivative of the terms of that label.

    Most ops have one kind of term. Where a product rule makes several, all but one of the places at which the source
    stands are held at their values (`s`). A function may have one more axis than the site: that which a term runs over.
    """
    short, key = node.short, key_of(node, source)
    d = case.run.model.config.d_model
    if (short, key) == ("var", "mean"):
        return {"": lambda r: (s["x"] - r["mean"][:, None]).square() / d}
    if (short, key) == ("post", "pre") and case.run.model.config.act != "relu":
        return {
            "what is let through": lambda r: r["pre"] * gelu_gate(s["pre"]),
            "letting through more": lambda r: s["pre"] * gelu_gate(r["pre"]),
        }
    if (short, key) == ("pattern", "scores"):
        a = s["scores"].softmax(-1)
        return {
            "its own slope": lambda r: a * r["scores"].masked_fill(a == 0, 0),
            "minus the row's average": lambda r: r["scores"].softmax(-1) - a * r["scores"].masked_fill(a == 0, 0),
        }
    if (short, key) == ("pattern", "exp"):
        return {
            "its own slope": lambda r: r["exp"] / s["exp"].sum(-1, keepdim=True),
            "minus the row's average": lambda r: s["exp"] / r["exp"].sum(-1, keepdim=True),
        }
    if (short, key) == ("probs", "logits"):
        p = s["logits"].softmax(-1)
        return {
            "p, its probability": lambda r: r["logits"].softmax(-1) - p * r["logits"],
            "−1, the right answer": lambda r: p * r["logits"],
        }
    if (short, key) == ("log_probs", "logits"):
        return {
            "p, its probability": lambda r: (
                -r["logits"].logsumexp(-1, keepdim=True).expand(case.n, -1) + 0 * r["logits"]
            ),
            "−1, the right answer": lambda r: r["logits"],
        }
    if (short, key) == ("attn_out", "result"):
        return {"": lambda r: r["result"].sum(1) + s["b_O"]}
    return {"": local_of(case, node)}


Key = tuple[str, tuple[int, ...]]  # a label, and a place of the site (and on the axis that a term runs over)


def expected_terms(case: Case, node: Any, source: str, at: tuple[int, ...]) -> dict[Key, float]:
    """∂loss/∂source[at] through one node by terms: the slope along the node × its local derivative, zeros left out."""
    s = sources_of(case, node, source)
    key = key_of(node, source)
    upstream = case.exact(f"{node.name}.grad")
    found: dict[Key, float] = {}
    for label, local in parts_of(case, node, source, s).items():
        moves = moves_with(local, s, key, at)
        g = upstream.reshape(upstream.shape + (1,) * (moves.ndim - upstream.ndim))
        terms = torch.where(moves == 0, 0.0, moves * g)
        for place in map(tuple, terms.nonzero().tolist()):
            found[label, place] = float(terms[place])
    return found


def moves_with(local: Local, s: Sources, key: str, at: tuple[int, ...]) -> Tensor:
    """∂(every entry)/∂source[at]: one column of the Jacobian."""
    tangent = torch.zeros_like(s[key])
    tangent[at] = 1
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(local(s | {key: forward_ad.make_dual(s[key], tangent)}))
    return torch.zeros_like(moved.primal) if moved.tangent is None else moved.tangent.nan_to_num(0.0)


def contribution(case: Case, node: Any, source: str, **moved: float) -> Tensor:
    """∂loss/∂source through one node, the whole tensor: what all its terms come to at every place.

    `moved` adds to a source by its short name first: where terms cancel at the real values they do not elsewhere.
    """
    s = sources_of(case, node, source)
    s |= {name: s[name] + by for name, by in moved.items()}
    key = key_of(node, source)
    x = s[key].clone().requires_grad_()
    upstream = case.exact(f"{node.name}.grad")
    total = torch.zeros_like(x)
    for local in parts_of(case, node, source, s).values():
        made = local(s | {key: x})
        g = upstream.reshape(upstream.shape + (1,) * (made.ndim - upstream.ndim)).expand_as(made)
        if made.requires_grad:
            total = total + torch.autograd.grad(made, x, g)[0]
    return total.nan_to_num(0.0)


def read_by(case: Case, node: Any, at: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The sites and places that node[at] moves with."""
    s = sources_of(case, node)
    names = {key_of(node, name): name for name in node.op.reads if name != "tokens"}
    picked = partial(lambda keys, values: local_of(case, node)(dict(zip(keys, values, strict=True)))[at], list(s))
    slopes = torch.autograd.functional.jacobian(lambda *values: picked(values), tuple(s.values()))
    for key, slope in zip(s, slopes, strict=True):
        for place in map(tuple, slope.nan_to_num(0.0).nonzero().tolist()):
            yield names[key], place


def address_of(site: str, at: tuple[int, ...], quantity: str = "") -> str:
    """`blocks.0.attn.q` at (0, 1, 2), and perhaps `grad`, as an address."""
    index = f"[{','.join(map(str, at))}]" if at else ""
    return site + index + (f".{quantity}" if quantity else "")


PLACE = re.compile(r"([A-Za-z_][\w.]*)(?:\[([\d,]+)\])?")


def place_in(address: str) -> tuple[str, tuple[int, ...]]:
    """`blocks.0.attn.q[0,1,2].grad` as its site and place."""
    match = PLACE.match(address)
    assert match, address
    site = match[1].removesuffix(".grad") if match[2] is None else match[1]
    return site, tuple(map(int, match[2].split(","))) if match[2] else ()
