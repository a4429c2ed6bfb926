"""What the networks of all architectures share: hook points, the block around the residual stream, the backward pass.

The modules are named so that a hook point's path is its site name: `blocks.0.attn.q`, `ln_final.scale`, … A hook
on such a point sees that site of a run, with a batch axis in front of the axes that `model.arch.graph` gives.

Beside each `forward` stands its `backward`: from ∂loss/∂output to ∂loss/∂input, keeping the gradient of every hook
point in between. It reads the values that a run captured, so it needs neither a tape nor a second forward pass, and it
leaves the parameters' gradients alone: these follow from two sites each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from model.arch.base import Config


class HookPoint(nn.Module):
    """Passes its input on; a place to hang a forward hook."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


class BackwardPass:
    """One run's backward pass through a module: captured values in, slopes out, under the module's own names.

    `values` finds a captured site by its full name, without the batch axis; `slopes` collects ∂loss/∂site likewise.
    """

    def __init__(self, values: Callable[[str], Tensor], slopes: dict[str, Tensor], module: str = "") -> None:
        self.values, self.slopes, self.module = values, slopes, module

    def into(self, module: str) -> BackwardPass:
        return BackwardPass(self.values, self.slopes, f"{self.module}{module}.")

    def __getitem__(self, site: str) -> Tensor:
        return self.values(self.module + site)

    def keep(self, site: str, slope: Tensor) -> Tensor:
        self.slopes[self.module + site] = slope
        return slope


class Norm(nn.Module):
    """Brings each row of the stream to one size before a branch reads it."""

    def backward(self, x: Tensor, out: Tensor, at: BackwardPass) -> Tensor:
        """The slope along x, the stream that it read, from the slope along what it put out."""
        raise NotImplementedError


class Branch(nn.Module):
    """Attention or a feed-forward network: reads a normalised stream, puts out what is added to the stream."""

    def backward(self, out: Tensor, at: BackwardPass) -> Tensor:
        """The slope along what it read, from the slope along what it put out."""
        raise NotImplementedError


class AttentionBranch(Branch):
    """Attention, the one branch in which positions read one another."""

    def read_on(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of new rows [new, d_model] over every row up to their own.

        `keys` and `values` [kv_head, pos, d_head] hold those of the rows before; the new rows' own go at their end.
        """
        raise NotImplementedError


class Block(nn.Module):
    """x + attention(norm(x)), then the same with the feed-forward network. Without `adds` there is no x +."""

    def __init__(self, adds: bool, ln1: Norm, attn: AttentionBranch, ln2: Norm, mlp: Branch) -> None:
        super().__init__()
        self.adds = adds
        self.ln1, self.attn = ln1, attn
        self.ln2, self.mlp = ln2, mlp
        self.resid_pre, self.attn_out, self.resid_mid = HookPoint(), HookPoint(), HookPoint()
        self.mlp_out, self.resid_post = HookPoint(), HookPoint()

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """With a `cache`, keys and values as `read_on` takes them, x is the new rows alone."""
        x = self.resid_pre(x)
        read = self.ln1(x)
        update = self.attn(read) if cache is None else self.attn.read_on(read, *cache)
        x = self.resid_mid(self.joined(x, self.attn_out(update)))
        return self.resid_post(self.joined(x, self.mlp_out(self.mlp(self.ln2(x)))))

    def joined(self, x: Tensor, update: Tensor) -> Tensor:
        """The stream after an update."""
        return x + update if self.adds else update

    def backward(self, out: Tensor, at: BackwardPass) -> Tensor:
        """The slope along the stream before: it comes straight on past both branches, if they add, and through each."""
        at.keep("resid_post", out)
        read = self.mlp.backward(at.keep("mlp_out", out), at.into("mlp"))
        mid = at.keep("resid_mid", self.joined_backward(self.ln2.backward(at["resid_mid"], read, at.into("ln2")), out))
        read = self.attn.backward(at.keep("attn_out", mid), at.into("attn"))
        return at.keep("resid_pre", self.joined_backward(self.ln1.backward(at["resid_pre"], read, at.into("ln1")), mid))

    def joined_backward(self, through: Tensor, past: Tensor) -> Tensor:
        """The slope along the stream: what came through a branch, and what came straight on past it."""
        return through.add_(past) if self.adds else through


class Network(nn.Module):
    """Token ids [batch, pos] in, logits [batch, pos, d_vocab] out."""

    def __init__(self, config: Config, blocks: list[Block], ln_final: Norm) -> None:
        super().__init__()
        self.config = config
        self.W_E = nn.Parameter(torch.empty(config.d_vocab, config.d_model))
        self.embed = HookPoint()
        self.blocks = nn.ModuleList(blocks)
        self.ln_final = ln_final
        self.logits = HookPoint()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.unembed(self.ln_final(self.stream(tokens)))

    def stream(self, tokens: Tensor) -> Tensor:
        """The residual stream that leaves the last block."""
        x = self.enter(tokens)
        for block in self.blocks:
            x = block(x)
        return x

    def enter(self, tokens: Tensor, start: int = 0) -> Tensor:
        """The stream [batch, pos, d_model] that enters block 0, the first token standing at position `start`."""
        return self.embed(self.W_E[tokens])

    @property
    def unembedding(self) -> Tensor:
        """[d_vocab, d_model]: a row for each token, matched with the final norm's output. Here it is W_E (tied)."""
        return self.W_E

    def unembed(self, out: Tensor) -> Tensor:
        """From the final norm's output to the logits."""
        return self.logits(by_rows_of(self.unembedding, out))

    def backward(self, out: Tensor, at: BackwardPass) -> Tensor:
        """From the slope along the final norm's output down to the embeddings, for one text's captured sites."""
        last = len(self.blocks) - 1
        x = self.ln_final.backward(at[f"blocks.{last}.resid_post"], out, at.into("ln_final"))
        for n in range(last, -1, -1):
            x = self.block(n).backward(x, at.into(f"blocks.{n}"))
        return at.keep("embed", x)

    def block(self, n: int) -> Block:
        """Block n, by its type."""
        block = self.blocks[n]
        assert isinstance(block, Block)
        return block

    def with_weights(self, weights: Mapping[str, Tensor] | None = None) -> Self:
        """A second network on the same weights, not copied, but for those given under this network's names.

        Hooks on it meet no run that another thread is making, and other weights in it change no such run.
        """
        return self.as_config(self.config, weights)

    def as_config(self, config: Config, weights: Mapping[str, Tensor] | None = None) -> Self:
        """Such a network whose config differs in what changes no weight's shape."""
        with torch.device("meta"):
            other = type(self)(config)  # type: ignore[call-arg]
        other.load_state_dict(self.state_dict() | dict(weights or {}), assign=True)
        return other.requires_grad_(False).eval()

    def on(self, device: torch.device) -> Self:
        """This network, or a copy of it on another device."""
        if device == self.W_E.device:
            return self
        return self.with_weights({name: p.to(device) for name, p in self.named_parameters()})


def by_rows_of(table: Tensor, x: Tensor, rows: int = 1024) -> Tensor:
    """x @ tableᵀ for a table of many rows, some at a time: these stay in a processor's cache, a third faster in all."""
    if torch.is_grad_enabled() or x.device.type != "cpu":
        return x @ table.T
    flat = x.reshape(-1, x.shape[-1])
    out = flat.new_empty(len(flat), len(table))
    for part, some in zip(out.split(rows, 1), table.split(rows), strict=True):
        torch.mm(flat, some.T, out=part)
    return out.view(*x.shape[:-1], -1)


def causal(qk: Tensor, d_head: int) -> Tensor:
    """qk / √d_head, and −∞ where the key comes after the query."""
    ahead = qk.new_full(qk.shape[-2:], -math.inf).triu(1)
    if bool(torch.isfinite(qk.sum())):  # adding −∞ to finite numbers masks them, in the one pass that divides
        return torch.add(ahead, qk, alpha=1 / math.sqrt(d_head))
    return (qk / math.sqrt(d_head)).masked_fill(ahead < 0, -math.inf)
