"""GPT-2 once more, in a page of plain PyTorch that knows nothing of this project: notebooks carry it as it stands here.

Sites and parameters have the names and axes that addresses use: `run.value("logits")[14, 812]` is `logits[14,812]`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

Tensors = dict[str, Tensor]
Changes = list[tuple[str, tuple[int | slice, ...], float, bool]]  # name, place, value, whether it is added

STORED = {
    "W_E": "wte.weight", "W_pos": "wpe.weight", "ln_final.w": "ln_f.weight", "ln_final.b": "ln_f.bias",
    "ln1.w": "ln_1.weight", "ln1.b": "ln_1.bias", "ln2.w": "ln_2.weight", "ln2.b": "ln_2.bias",
    "mlp.W_in": "mlp.c_fc.weight", "mlp.b_in": "mlp.c_fc.bias",
    "mlp.W_out": "mlp.c_proj.weight", "mlp.b_out": "mlp.c_proj.bias",
    "attn.W_O": "attn.c_proj.weight", "attn.b_O": "attn.c_proj.bias",
}  # fmt: skip


def read(directory: str | Path, dtype: torch.dtype = torch.float64) -> tuple[dict[str, float | str], Tensors]:
    """A checkpoint's config, and its weights under their stored names (the tied head and the masks left out)."""
    config = json.loads((Path(directory) / "config.json").read_text("utf-8"))
    stored = load_file(Path(directory) / "model.safetensors")
    left_out = (".attn.bias", ".attn.masked_bias", "lm_head.weight")
    return config, {
        name.removeprefix("transformer."): weight.to(dtype)
        for name, weight in stored.items()
        if not name.endswith(left_out)
    }


class PlainRun:
    """One text through the network, before and after k learning steps: its numbers by name, as NumPy arrays.

    `target` is scored at the last position, or with `is_sequence` the text's own next tokens at all others.
    `changes` are numbers set on the way; without `adds` blocks hand on f(x) instead of x + f(x). A step goes down the
    loss's slope: θ − η·∂loss/∂θ, or AdamW's way.
    """

    def __init__(
        self,
        directory: str | Path,
        tokens: list[int],
        target: int,
        is_sequence: bool = False,
        changes: Changes | None = None,
        eta: float = 0.0,
        is_adamw: bool = False,
        adds: bool = True,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.config, self.weights = read(directory, dtype)
        self.tokens, self.target, self.is_sequence, self.changes = tokens, target, is_sequence, changes or []
        self.eta, self.is_adamw, self.adds = eta, is_adamw, adds
        self._runs: dict[int, tuple[Tensors, dict[str, Tensors], Tensors]] = {}

    # -- the network

    def forward(self, w: Tensors) -> Tensors:
        """Every number on the way from token ids to the loss."""
        return Pass(self, w).sites

    def parameter(self, w: Tensors, name: str) -> Tensor:
        """A parameter by its name here, from `w`: the stored weights, or anything of their shapes (their slopes)."""
        if name == "W_U":
            return w["wte.weight"].T
        if not name.startswith("blocks."):
            return w[STORED[name]]
        _, n, part = name.split(".", 2)
        heads = (int(self.config["n_head"]), -1)
        if part[-1] not in "QKV":
            stored = w[f"h.{n}.{STORED[part]}"]
            return stored.unflatten(0, heads) if part == "attn.W_O" else stored
        third, is_bias = "QKV".index(part[-1]), "b_" in part  # queries, keys and values lie side by side
        own: Tensor = w[f"h.{n}.attn.c_attn.{'bias' if is_bias else 'weight'}"].chunk(3, -1)[third].unflatten(-1, heads)
        return own if is_bias else own.transpose(0, 1)

    def changed(self, name: str, value: Tensor) -> Tensor:
        """A site or a parameter with what is set in it."""
        for site, place, x, is_added in self.changes:
            if site == name:
                value = value.clone()
                value[place] = value[place] + x if is_added else x
        return value

    # -- learning steps

    def after(self, k: int) -> tuple[Tensors, dict[str, Tensors], Tensors]:
        """Weights, AdamW's averages for each, and all sites after k steps; computed once."""
        if k not in self._runs:
            w = {name: weight.clone().requires_grad_() for name, weight in self.weights.items()}
            stepper = self._stepper(list(w.values()))
            for _ in range(k):
                stepper.zero_grad()
                self.forward(w)["loss"].backward()
                stepper.step()
            averages = {name: stepper.state[weight] for name, weight in w.items()}
            self._runs[k] = w, averages, self.forward(w)
        return self._runs[k]

    def _stepper(self, w: list[Tensor]) -> torch.optim.Optimizer:
        if not self.is_adamw:
            return torch.optim.SGD(w, lr=self.eta)
        return torch.optim.AdamW(w, lr=self.eta, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)

    # -- numbers

    def value(self, name: str, k: int = 0) -> np.ndarray:
        """A site or a parameter after k steps."""
        w, _, sites = self.after(k)
        found = sites[name] if name in sites else self.changed(name, self.parameter(w, name))
        return found.detach().numpy()

    def slope(self, name: str, k: int = 0) -> np.ndarray:
        """∂loss/∂name after k steps, by autograd; 0 where the loss does not depend on it."""
        w, _, sites = self.after(k)
        inputs = {name: sites[name]} if name in sites else w
        found = torch.autograd.grad(sites["loss"], list(inputs.values()), retain_graph=True, allow_unused=True)
        slopes = {
            key: torch.zeros_like(x) if g is None else g for (key, x), g in zip(inputs.items(), found, strict=True)
        }
        return (slopes[name] if name in sites else self.parameter(slopes, name)).numpy()

    def moment(self, which: str, name: str, k: int) -> np.ndarray:
        """AdamW's running average of the slope ("m") or of its square ("v") after k steps."""
        stored = {"m": "exp_avg", "v": "exp_avg_sq"}[which]
        return self.parameter({key: state[stored] for key, state in self.after(k)[1].items()}, name).numpy()


class Pass:
    """One forward pass of a run with the weights `w`: it leaves every number on the way in `sites`."""

    def __init__(self, run: PlainRun, w: Tensors) -> None:
        self.run, self.w, self.sites = run, w, {"tokens": torch.tensor(run.tokens)}
        x = self.keep("embed", self.p("W_E")[run.tokens]) + self.keep("pos_embed", self.p("W_pos")[: len(run.tokens)])
        for n in range(int(run.config["n_layer"])):
            b = f"blocks.{n}"
            x = self.keep(f"{b}.resid_pre", x)
            found = self.attention(f"{b}.attn", self.norm(f"{b}.ln1", x))
            x = self.keep(f"{b}.resid_mid", found + x * run.adds)
            found = self.feed_forward(f"{b}.mlp", self.norm(f"{b}.ln2", x))
            x = self.keep(f"{b}.resid_post", found + x * run.adds)
        self.score(self.keep("logits", self.norm("ln_final", x) @ self.p("W_E").T))

    def p(self, name: str) -> Tensor:
        """A parameter, with what is set in it."""
        return self.run.changed(name, self.run.parameter(self.w, name))

    def keep(self, name: str, value: Tensor) -> Tensor:
        """A site, with what is set in it, kept by its name."""
        self.sites[name] = self.run.changed(name, value)
        return self.sites[name]

    def norm(self, ln: str, x: Tensor) -> Tensor:
        """LayerNorm over each row."""
        mean = self.keep(f"{ln}.mean", x.mean(-1))
        centred = x - mean[:, None]
        var = self.keep(f"{ln}.var", (centred * centred).mean(-1))
        scale = self.keep(f"{ln}.scale", (var + float(self.run.config["layer_norm_epsilon"])).sqrt())
        normalized = self.keep(f"{ln}.normalized", centred / scale[:, None])
        return self.keep(f"{ln}.out", normalized * self.p(f"{ln}.w") + self.p(f"{ln}.b"))

    def attention(self, a: str, y: Tensor) -> Tensor:
        """What all heads write into the stream."""
        for x in "QKV":
            self.keep(f"{a}.{x.lower()}", torch.einsum("ti,hic->thc", y, self.p(f"{a}.W_{x}")) + self.p(f"{a}.b_{x}"))
        q, k, v = (self.sites[f"{a}.{x}"] for x in "qkv")
        qk = self.keep(f"{a}.qk", torch.einsum("qhc,khc->hqk", q, k))
        future = torch.ones(len(y), len(y), dtype=torch.bool).triu(1)
        scores = self.keep(f"{a}.scores", (qk / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf))
        exp = self.keep(f"{a}.exp", (scores - scores.detach().amax(-1, keepdim=True)).exp())
        pattern = self.keep(f"{a}.pattern", exp / exp.sum(-1, keepdim=True))
        z = self.keep(f"{a}.z", torch.einsum("hqk,khc->qhc", pattern, v))
        result = self.keep(f"{a}.result", torch.einsum("qhc,hcm->qhm", z, self.p(f"{a}.W_O")))
        return self.keep(f"{a}_out", result.sum(1) + self.p(f"{a}.b_O"))

    def feed_forward(self, m: str, y: Tensor) -> Tensor:
        """What all neurons write into the stream."""
        pre = self.keep(f"{m}.pre", y @ self.p(f"{m}.W_in") + self.p(f"{m}.b_in"))
        is_relu = self.run.config["activation_function"] == "relu"
        post = torch.relu(pre) if is_relu else torch.nn.functional.gelu(pre, approximate="tanh")
        return self.keep(f"{m}_out", self.keep(f"{m}.post", post) @ self.p(f"{m}.W_out") + self.p(f"{m}.b_out"))

    def score(self, logits: Tensor) -> None:
        """From logits to the loss."""
        probs, log_probs = self.keep("probs", logits.softmax(-1)), self.keep("log_probs", logits.log_softmax(-1))
        scored_on = (torch.arange(len(logits)), torch.tensor([*self.run.tokens[1:], self.run.target]))
        tiny = probs[scored_on] < torch.finfo(torch.float32).tiny  # there p has lost its digits
        each = -torch.where(tiny, log_probs[scored_on], probs[scored_on].clamp_min(1e-300).log())
        self.keep("loss_per_token", each)
        self.keep("loss", each[:-1].mean() if self.run.is_sequence else each[-1])
