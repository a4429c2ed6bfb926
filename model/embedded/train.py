"""Train the embedded model: `python -m model.embedded.train --stories PATH`.

The defaults are the settings of the shipped weights. Everything that training needs to go on is saved under `--work`
every few minutes and at Ctrl-C; the same command goes on from there. At the end the weights are written in
half precision to `--out`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.embedded import WEIGHTS
from model.embedded.corpus import Corpus, held_out_rows
from model.embedded.fused import fused_logits
from model.embedded.lookups import People, teaching
from model.embedded.skills import glance, loss_per_token
from model.weights.checkpoints import save_network
from model.weights.tokenizer import load_tokenizer

SAVE_MINUTES = 3.0


@dataclass(frozen=True)
class Settings:
    """What the trained weights depend on."""

    seed: int = 0
    steps: int = 14_500
    tokens: int = 2048  # predicted in one step
    n_layer: int = 4
    n_head: int = 4
    d_model: int = 128
    n_ctx: int = 256
    lr: float = 3e-3
    warmup: int = 300
    planned: int = 17_000  # the learning rate falls over the last half of these …
    decay: float = 0.5
    cooldown: int = 1100  # … and to zero over the last of the steps
    weight_decay: float = 0.05
    taught_from: int = 2500  # the step from which one head is taught to look at the receiver (`lookups.py`) …
    teach: float = 0.05  # … the weight of that in the loss …
    spare: float = 0.01  # … and of the other heads' looking at it
    precision: str = "bfloat16"  # of the matrix products; weights, softmax and updates are float32


def learning_rate(s: Settings, step: int) -> float:
    """Up over the warm-up, then level, then down in a straight line (Hägele et al. 2024), to zero over the cool-down.

    The line is drawn for `planned` steps; a training that has to end before that cools down faster.
    """
    falling = (s.planned - step) / max(1.0, s.decay * s.planned)
    cooling = (s.steps - step) / max(1, s.cooldown)
    return s.lr * min((step + 1) / s.warmup, 1.0, falling) * min(1.0, cooling)


@torch.no_grad()
def new_network(s: Settings, d_vocab: int) -> GPT2:
    """GPT-2's start, its spread 0.02 carried over from a width of 768: a narrower sum needs wider terms."""
    net = GPT2(GPT2Config(s.n_layer, s.n_head, s.d_model, 4 * s.d_model, d_vocab, s.n_ctx))
    net.init_weights(torch.Generator().manual_seed(s.seed))
    for p in net.parameters():
        if p.dim() > 1:
            p.mul_(math.sqrt(768 / s.d_model))
    return net


def new_optimizer(s: Settings, net: GPT2) -> torch.optim.AdamW:
    """AdamW, with decay on matrices only (not on gains and biases)."""
    matrices = [p for p in net.parameters() if p.dim() > 1]
    vectors = [p for p in net.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": s.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=s.lr, betas=(0.9, 0.98), fused=True)


def losses(net: GPT2, rows: Tensor, precision: str) -> tuple[Tensor, list[Tensor]]:
    """Mean −log p of each row's next tokens, and each block's attention; rows [batch, pos + 1]."""
    half = torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()
    with half:
        logits, patterns = fused_logits(net, rows[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten()), patterns


class Training:
    """A network on its way: can be saved after any step and goes on from there exactly."""

    def __init__(self, settings: Settings, corpus: Corpus) -> None:
        self.s, self.corpus, self.step = settings, corpus, 0
        self.net = new_network(settings, corpus.tokenizer.n_vocab)
        self.optimizer = new_optimizer(settings, self.net)
        self.people = People.of(corpus.tokenizer)

    def advance(self) -> float:
        """One step on the next batch; its loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.s, self.step)
        rows = self.corpus.batch(self.s.seed, self.step, self.s.tokens, self.s.n_ctx)
        loss, patterns = losses(self.net, rows, self.s.precision)
        self.optimizer.zero_grad()
        (loss + self.lesson(rows, patterns)).backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def lesson(self, rows: Tensor, patterns: list[Tensor]) -> Tensor | float:
        """What is added to the loss for where the heads look, from `taught_from` on."""
        taught = teaching(self.people, rows, patterns) if self.step >= self.s.taught_from else None
        return self.s.teach * taught[0] + self.s.spare * taught[1] if taught else 0.0

    def save(self, path: Path) -> None:
        """Write the state beside `path` first, so that an interruption never leaves half a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"step": self.step, "net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state | {"settings": asdict(self.s)}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def resume(self, path: Path) -> None:
        """Go on from a saved state. Only the number of steps and the cool-down may have changed."""
        state = torch.load(path, weights_only=True)
        now = asdict(self.s)
        changed = [name for name in now if name not in ("steps", "cooldown") and now[name] != state["settings"][name]]
        if changed:
            raise SystemExit(f"{path} was trained with other settings ({', '.join(changed)}); --fresh starts again.")
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]


def train(training: Training, work: Path, every: int = 1000, stopped: Event | None = None) -> None:
    """All steps that are left, with a progress bar; held-out loss and skills every `every` steps.

    The state is saved every few minutes, and between two steps once `stopped` is set.
    """
    checkpoint = work / "training.pt"
    held_out = held_out_rows(training.corpus, training.s.n_ctx)
    saved, mean = time.monotonic(), 0.0
    with tqdm(total=training.s.steps, initial=training.step, unit="step", mininterval=5.0) as bar:
        while training.step < training.s.steps and not (stopped and stopped.is_set()):
            loss = training.advance()
            mean = loss if mean == 0.0 else 0.99 * mean + 0.01 * loss
            bar.update()
            bar.set_postfix(loss=f"{mean:.3f}", refresh=False)
            if training.step % every == 0 or training.step == training.s.steps:
                skills = glance(training.net, training.corpus.tokenizer)
                held = loss_per_token(training.net, held_out)
                bar.write(f"step {training.step}: loss {mean:.3f}, held-out {held:.3f}; {skills}")
            if time.monotonic() - saved > 60 * SAVE_MINUTES:
                training.save(checkpoint)
                saved = time.monotonic()
    training.save(checkpoint)


def stop_on_signals() -> Event:
    """An event that Ctrl-C or a kill sets, so that training ends between two steps and not inside one."""
    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--stories", type=Path, help="directory of the TinyStories files; without it, generated text")
    parser.add_argument("--work", type=Path, default=Path("build/embedded"), help="where training keeps its state")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="checkpoint directory, which holds the vocabulary")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--every", type=int, default=1000, help="steps between held-out losses")
    parser.add_argument("--fresh", action="store_true", help="start again even if a saved state is there")
    for name, default in asdict(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    options = vars(parser.parse_args())
    settings = Settings(**{name: options[name] for name in asdict(Settings())})
    torch.set_num_threads(options["threads"])
    training = Training(settings, Corpus.load(load_tokenizer(options["out"]), options["stories"]))
    checkpoint = options["work"] / "training.pt"
    if checkpoint.exists() and not options["fresh"]:
        training.resume(checkpoint)
    train(training, options["work"], options["every"], stop_on_signals())
    if training.step < settings.steps:
        print(f"stopped after {training.step} steps; the same command goes on from there")
        return
    save_network(options["out"], training.net, training.corpus.tokenizer.start_id, torch.float16)
    print(f"weights after {training.step} steps in {options['out']}")


if __name__ == "__main__":
    main()
