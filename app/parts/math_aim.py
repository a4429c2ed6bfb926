"""What the parts of the second lesson look at: the prediction that the loss scores, and one pair of query and key."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from app.features.lessons.transformer import strongest_look
from app.parts.base import Numbers, Scene
from app.parts.mask import check_head
from app.render import numbers
from model import Run
from model.errors import SettingError


@dataclass(frozen=True)
class Aim:
    """The prediction after position `t`, and its right answer `token`. The loss is a mean over `n` predictions."""

    t: int
    token: int
    n: int

    @property
    def logit(self) -> str:
        return f"logits[{self.t},{self.token}]"

    @property
    def probability(self) -> str:
        return f"probs[{self.t},{self.token}]"

    @property
    def slopes(self) -> str:
        """∂loss/∂ every logit of this prediction."""
        return f"logits[{self.t},:].grad"


def aim(run: Run) -> Aim:
    """The last prediction that the loss counts: of the target, or of the sentence's own last token."""
    t = run.scored[-1]
    return Aim(t, run.next_token(t), len(run.scored))


def cost(run: Run, t: int, token: int) -> str:
    """−log p of a token as an expression, also where p is too small for float32."""
    tiny = float(run.tensor("probs")[t, token]) < 1e-37
    return f"0-log_probs[{t},{token}]" if tiny else f"-log(probs[{t},{token}])"


@dataclass(frozen=True)
class Pair:
    """The query of the last position `q` and the key of position `k`, in one head."""

    block: int
    head: int
    q: int
    k: int

    def site(self, name: str) -> str:
        return f"blocks.{self.block}.attn.{name}"

    @property
    def query(self) -> str:
        return f"{self.site('q')}[{self.q},{self.head},:]"

    @property
    def key(self) -> str:
        return f"{self.site('k')}[{self.k},{self.head},:]"

    @property
    def dot(self) -> str:
        return self.at("qk", self.k)

    @property
    def row(self) -> str:
        """The raw scores of this query with every key up to its own."""
        return f"{self.site('qk')}[{self.head},{self.q},0:{self.q + 1}]"

    def at(self, name: str, k: int) -> str:
        """A number of the head's matrices (`qk`, `scores`, `pattern`) for another key."""
        return f"{self.site(name)}[{self.head},{self.q},{k}]"


def pair(scene: Scene, block: int | None = None, head: int | None = None, key: int | None = None) -> Pair:
    """The pair asked for. Left out: the head, and the earlier token that is not the start, with the largest weight."""
    last = scene.last
    if key is not None and key > last:
        raise SettingError("key", f"There is no position {key}: the last is {last}.", "Write key=0.")
    if block is None and head is None:
        look = strongest_look(scene.run, has_start=scene.state.bos)
        block, head = (look.block, look.head) if look else (0, 0)
    block, head = block or 0, head or 0
    check_head(scene, block, head)
    first = int(scene.state.bos)
    if key is None:
        weights = scene.run.tensor(f"blocks.{block}.attn.pattern")[head, last]
        key = first + int(weights[first:last].argmax()) if last > first else last
    return Pair(block, head, last, key)


def share(num: Numbers, expression: str, css: str = "num") -> Markup:
    """A share as a link; of one near 1 as many digits as it takes to see what is missing: 99.9967 %."""
    x = num.value(f"calc({expression})")
    text = numbers.percent(x)
    if 0.9995 <= x < 1 - 1e-12:
        text = f"{numbers.fixed(100 * x, min(math.ceil(-math.log10(100 * (1 - x))) + 1, 9))} %"
    return num.shown(f"calc({expression})", text, css=css)


def without_root(row: str, at: str) -> str:
    """Softmax of raw dot products, not divided by √d, as an expression."""
    return f"exp({at}-max({row}))/sum(exp({row}-max({row})))"
