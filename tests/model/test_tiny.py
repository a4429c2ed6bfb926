"""The lesson's small GPT: its attention is PyTorch's, it sees no future, it learns, it writes what it learned."""

from __future__ import annotations

import inspect

import torch
from torch.nn import functional as F

from model import tiny
from model.tiny import Block, TinyGPT, generate, train_step

TEXT = b"the cat sat on the mat. the dog sat on the log. "


def test_attention_is_pytorchs() -> None:
    block, x = Block(16, 4), torch.randn(2, 7, 16)
    q, k, v = block.qkv(x).view(2, 7, 3, 4, 4).permute(2, 0, 3, 1, 4)
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(block.attend(x), block.join(z.transpose(1, 2).reshape(2, 7, 16)))


def test_no_position_sees_what_follows() -> None:
    model = TinyGPT(vocabulary=20, context=8).eval()
    ids = torch.randint(20, (1, 8))
    changed = ids.clone()
    changed[0, -1] = (changed[0, -1] + 1) % 20
    torch.testing.assert_close(model(ids)[:, :-1], model(changed)[:, :-1])
    assert not torch.allclose(model(ids)[:, -1], model(changed)[:, -1])


def test_it_learns_a_small_text_and_writes_it() -> None:
    ids = torch.tensor([list(TEXT)])
    model = TinyGPT(vocabulary=128, context=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = [train_step(model, optimizer, ids) for _ in range(80)]
    assert 4.5 < losses[0] < 5.2  # about ln 128: it knows nothing
    assert losses[-1] < 0.2
    made = generate(model, ids[:, :8], 16, temperature=0.1)
    assert bytes(made[0].tolist()) == TEXT[:24]


def test_a_text_longer_than_the_context_is_read_from_its_end() -> None:
    model = TinyGPT(vocabulary=10, context=4)
    assert generate(model, torch.zeros(2, 6, dtype=torch.long), 3).shape == (2, 9)


def test_it_is_as_short_as_the_lesson_says() -> None:
    code = [line for line in inspect.getsource(tiny).splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 65
