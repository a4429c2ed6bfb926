"""Attention on GPT-2 small's published weights, at the scale of its real inputs, against transformers.

Random weights hide what real ones show: a transposed block, a lost ÷ √d_head or ε, sums that cancel. The weights are
the position table, the final norm, and of blocks 0, 5 and 9 the norms, attention and biases; GPT-2 has no more than
that here, so the embedding table and the feed-forward weights are random, at the size that GPT-2's own have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import GPT2Config as HFConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

from model.address.parser import Address
from model.arch.gpt2.architecture import hf_names
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2, GPT2Block
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run
from tests.model.models import byte_tokenizer, twin
from tests.model.test_explain import check, places

FILE = "gpt2_attention_blocks_0_5_9.safetensors"
BLOCKS = (0, 5, 9)  # of GPT-2; here they are blocks 0, 1 and 2
CONFIG = GPT2Config(n_layer=3, n_head=12, d_model=768, d_mlp=3072, d_vocab=300, n_ctx=1024)
N_POS = 64
TEXT = "When Mary and John went to the store, John gave a drink to"

EMBEDDING_SIZE = 0.14  # of an entry of GPT-2's embedding table
WEIGHT_SIZE = 0.13  # of an entry of its feed-forward weights

# float32 keeps 24 bits. Over sums of 768 terms both libraries stay within this of the largest number.
CLOSE = 5e-6


@pytest.fixture(scope="module")
def stored(shared: Path) -> dict[str, Tensor]:
    path = shared / "data" / FILE
    if not path.exists():
        pytest.skip(f"GPT-2's published attention weights are not here: ../shared/data/{FILE}")
    return load_file(path)


@pytest.fixture(scope="module")
def net(stored: dict[str, Tensor]) -> GPT2:
    """Three of GPT-2's blocks one after the other; what is not stored is random."""
    net, generator = GPT2(CONFIG), torch.Generator().manual_seed(0)
    published = {f"h.{own}.": f"h.{n}." for n, own in enumerate(BLOCKS)}
    tensors = {}
    for name, tensor in stored.items():
        own = next((own for own in published if name.startswith(own)), "")
        tensors[published.get(own, "") + name.removeprefix(own)] = tensor
    state = {ours: tensors.pop(theirs) for theirs, ours in hf_names(CONFIG).items() if theirs in tensors}
    assert not tensors, "a stored tensor has no place"
    for name, parameter in net.named_parameters():
        if name not in state:
            size = EMBEDDING_SIZE if name == "W_E" else WEIGHT_SIZE
            state[name] = torch.randn(parameter.shape, generator=generator) * size
    net.load_state_dict(state)
    return net.eval()


@pytest.fixture(scope="module")
def run(net: GPT2) -> Run:
    return LanguageModel("three blocks", net, byte_tokenizer(CONFIG.d_vocab)).run(TEXT)


# -- one sub-layer at a time


def position_rows(stored: dict[str, Tensor]) -> Tensor:
    return stored["wpe.weight"][:N_POS].clone()


def first_stream(stored: dict[str, Tensor]) -> Tensor:
    """What block 0 reads: a row for the token and one for the position."""
    return position_rows(stored) + EMBEDDING_SIZE * torch.randn(N_POS, CONFIG.d_model)


def deep_stream(stored: dict[str, Tensor]) -> Tensor:
    """As rows grow in GPT-2's later blocks: entries of about 3, and at the first position three of thousands."""
    x = first_stream(stored) + 3 * torch.randn(N_POS, CONFIG.d_model)
    x[0, [138, 378, 447]] = torch.tensor([500.0, -300.0, 2900.0])
    return x


INPUTS: dict[str, Callable[[dict[str, Tensor]], Tensor]] = {
    "position rows": position_rows,
    "positions and tokens": first_stream,
    "a deep stream": deep_stream,
}


@dataclass(frozen=True)
class Sublayer:
    """transformers' norm and attention of one block, and what they make of a text."""

    norm: torch.nn.LayerNorm
    attention: GPT2Attention

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        future = torch.full((len(x), len(x)), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
        with torch.no_grad():
            normed = self.norm(x)
            q, k, v = self.attention.c_attn(normed).split(CONFIG.d_model, dim=-1)
            out, pattern = self.attention(normed[None], attention_mask=future[None, None])
        heads = {name: t.view(len(x), CONFIG.n_head, CONFIG.d_head) for name, t in zip("qkv", (q, k, v), strict=True)}
        return {"ln1.out": normed, **heads, "pattern": pattern[0], "attn_out": out[0]}

    def double(self) -> Sublayer:
        """The same in float64, in place."""
        return Sublayer(self.norm.double(), self.attention.double())


def theirs_of(stored: dict[str, Tensor], block: int) -> Sublayer:
    settings = {k: v for k, v in CONFIG.to_hf(0).items() if k not in ("architectures", "model_type")}
    attention = GPT2Attention(HFConfig(**settings, attn_implementation="eager"), layer_idx=0).eval()
    norm = torch.nn.LayerNorm(CONFIG.d_model, eps=CONFIG.eps)
    attention.load_state_dict(
        {name: stored[f"h.{block}.attn.{name}"] for name, _ in attention.named_parameters()}, strict=False
    )
    norm.load_state_dict({name: stored[f"h.{block}.ln_1.{name}"] for name in ("weight", "bias")})
    return Sublayer(norm, attention)


def ours_of(block: GPT2Block, x: Tensor) -> dict[str, Tensor]:
    """The same sites of our sub-layer."""
    seen: dict[str, Tensor] = {}
    points = {name: getattr(block.attn, name) for name in ("q", "k", "v", "pattern")}
    hooks = [
        point.register_forward_hook(lambda _module, _inputs, output, name=name: seen.update({name: output[0]}))
        for name, point in points.items()
    ]
    with torch.no_grad():
        seen["ln1.out"] = block.ln1(x)
        seen["attn_out"] = block.attn(seen["ln1.out"][None])[0]
    for hook in hooks:
        hook.remove()
    return seen


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((a.double() - b.double()).abs().max() / b.abs().max())


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("n", range(len(BLOCKS)))
def test_the_sublayer_equals_transformers(
    stored: dict[str, Tensor], net: GPT2, n: int, kind: str, record_property: Callable[[str, object], None]
) -> None:
    x = INPUTS[kind](stored)
    block, theirs = net.get_submodule(f"blocks.{n}"), theirs_of(stored, BLOCKS[n])
    assert isinstance(block, GPT2Block)
    ours, expected = ours_of(block, x), theirs(x)
    exact = theirs.double()(x.double())
    worst = [0.0, 0.0, 0.0]
    for site, values in expected.items():
        found = (apart(ours[site], values), apart(ours[site], exact[site]), apart(values, exact[site]))
        assert found[0] <= CLOSE, site
        assert found[1] <= CLOSE, site
        worst = [max(pair) for pair in zip(worst, found, strict=True)]
    between, own, other = (f"{x:.1e}" for x in worst)
    says = f"block {BLOCKS[n]} on {kind}: {between} between the two; from float64 ours {own}, transformers' {other}"
    record_property("float32", says)


def test_attention_looks_where_gpt2s_does(stored: dict[str, Tensor], net: GPT2) -> None:
    """GPT2Block 0 reads nearby positions from the position rows alone, and no head sees the future."""
    block = net.get_submodule("blocks.0")
    assert isinstance(block, GPT2Block)
    pattern = ours_of(block, position_rows(stored))["pattern"]
    assert torch.allclose(pattern.sum(-1), torch.ones(CONFIG.n_head, N_POS), atol=1e-5)
    assert not pattern.triu(1).any()
    on_itself_and_before = torch.stack([pattern[:, t, max(t - 5, 0) : t + 1].sum(-1) for t in range(16, N_POS)])
    assert float(on_itself_and_before.mean(0).max()) > 0.9


# -- the three blocks together


def test_the_whole_run_equals_transformers(net: GPT2, run: Run) -> None:
    with torch.no_grad():
        out = twin(net)(torch.tensor([run.tokens]), output_hidden_states=True, output_attentions=True)
    for n in range(CONFIG.n_layer):
        assert apart(torch.from_numpy(run[f"blocks.{n}.resid_pre"]), out.hidden_states[n][0]) <= CLOSE
        assert apart(torch.from_numpy(run[f"blocks.{n}.attn.pattern"]), out.attentions[n][0]) <= CLOSE
    assert apart(torch.from_numpy(run["ln_final.out"]), out.hidden_states[-1][0]) <= CLOSE
    assert apart(torch.from_numpy(run["logits"]), out.logits[0]) <= CLOSE


def test_every_kind_of_number_is_explained(run: Run) -> None:
    """Promise 2 where numbers are as GPT-2's are: values and slopes of every site and parameter."""
    n = 0
    for node in run.model.graph:
        spots = places(run.shape(node.name), node.axes[1:] == ("query", "key"), 6)
        for place in spots:
            check(run, str(Address(node.name, place)))
        for place in spots[:4]:
            if node.name != "tokens":
                check(run, str(Address(node.name, place, "grad")))
        n += len(spots)
    assert n > 500


def test_slopes_are_autograds(run: Run, net: GPT2) -> None:
    """Where the norms and attention are real, in float64: what autograd says of the three blocks' inputs."""
    exact = twin(net).double()
    embedded = exact.transformer.wte.weight[torch.tensor([run.tokens])].detach().requires_grad_()
    loss = exact(inputs_embeds=embedded).logits[0, -1].log_softmax(-1)[run.target].neg()
    loss.backward()
    assert embedded.grad is not None
    expected = embedded.grad[0].numpy()
    assert np.abs(run["embed.grad"] - expected).max() <= 1e-4 * np.abs(expected).max()
