"""The small faults: each operator looks at one node of a syntax tree and offers other nodes to stand in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass


@dataclass(frozen=True)
class Spot:
    """A node with what surrounds it: `chain` leads from the module down to its parent."""

    node: ast.AST
    chain: tuple[ast.AST, ...]

    @property
    def parent(self) -> ast.AST:
        return self.chain[-1]

    @property
    def function(self) -> str:
        """The innermost named function around it, "" for what a module or class holds."""
        return next((n.name for n in reversed(self.chain) if isinstance(n, ast.FunctionDef)), "")

    @property
    def qualified(self) -> str:
        """`Lookup.backward`: the names of the classes and functions around it."""
        return ".".join(n.name for n in self.chain if isinstance(n, (ast.ClassDef, ast.FunctionDef)))

    @property
    def is_words(self) -> bool:
        """True in what a reader reads as a sentence: `plain`, notes, `says`."""
        named = [n.arg for n in self.chain if isinstance(n, ast.keyword)]
        about = any(isinstance(n, ast.FunctionDef) and n.name in WORDY for n in self.chain)
        assigned = [t.id for n in self.chain if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
        return about or bool({"notes", "says"} & {*named, *assigned})


WORDY = {"plain", "_why_none", "_why_zero"}
Operator = Callable[[Spot], Iterator[ast.AST]]
OPERATORS: dict[str, Operator] = {}


def operator(kind: str) -> Callable[[Operator], Operator]:
    def register(f: Operator) -> Operator:
        OPERATORS[kind] = f
        return f

    return register


def changed(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of the node with these fields replaced."""
    other = deepcopy(node)
    for name, value in fields.items():
        setattr(other, name, deepcopy(value))
    return other


def called(node: ast.AST) -> str:
    """The name of what a call calls, "" for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


# -- arithmetic


@operator("sign")
def sign(spot: Spot) -> Iterator[ast.AST]:
    """−x for x, and a sum for a difference."""
    node = spot.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not is_axis(spot):
        yield node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and not is_text(node):
        yield changed(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
    if isinstance(node, ast.Name) and node.id == "MINUS" and isinstance(node.ctx, ast.Load):
        yield ast.parse('Constant("-1", 1.0)', mode="eval").body


def is_axis(spot: Spot) -> bool:
    """True for the −1 of x.sum(−1) and x.shape[−1]: of a matrix, axis 1 is the same."""
    operand = getattr(spot.node, "operand", None)
    is_whole = isinstance(operand, ast.Constant) and type(operand.value) is int
    named = isinstance(spot.parent, ast.keyword) and spot.parent.arg in ("axis", "dim")
    return is_whole and (named or isinstance(spot.parent, (ast.Call, ast.Subscript)))


def is_text(node: ast.BinOp) -> bool:
    """True where + joins texts or tuples, as far as one can see."""
    texts = (ast.JoinedStr, ast.Tuple, ast.List)
    sides = (node.left, node.right)
    return any(isinstance(s, texts) or (isinstance(s, ast.Constant) and isinstance(s.value, str)) for s in sides)


@operator("operator")
def arithmetic(spot: Spot) -> Iterator[ast.AST]:
    """× for ÷, < for ≤, = for ≠, and for or."""
    node = spot.node
    if isinstance(node, ast.BinOp):
        swap = {ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mod, ast.Pow: ast.Mult}
        if type(node.op) in swap:
            yield changed(node, op=swap[type(node.op)]())
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swaps: dict[type[ast.cmpop], type[ast.cmpop]] = {
            ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
            ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
        }  # fmt: skip
        if type(node.ops[0]) in swaps:
            yield changed(node, ops=[swaps[type(node.ops[0])]()])
    if isinstance(node, ast.BoolOp):
        yield changed(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


@operator("constant factor")
def constant_factor(spot: Spot) -> Iterator[ast.AST]:
    """Twice a factor, or half of it."""
    node = spot.node
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and abs(node.value) >= 1e-2:
        yield changed(node, value=node.value * 2)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_number(node.left):
        yield changed(node, left=ast.Constant(2 * node.left.value))  # type: ignore[attr-defined]


@operator("tolerance")
def tolerance(spot: Spot) -> Iterator[ast.AST]:
    """A small number a hundred times larger."""
    node = spot.node
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < 1e-2:
        yield changed(node, value=node.value * 100)


@operator("off by one")
def off_by_one(spot: Spot) -> Iterator[ast.AST]:
    """n + 1 for a whole number; n for n ± 1."""
    node = spot.node
    if is_number(node) and isinstance(node.value, int) and not is_power(spot):  # type: ignore[attr-defined]
        yield changed(node, value=node.value + 1)  # type: ignore[attr-defined]
    is_step = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and is_number(node.right)
    if is_step and node.right.value == 1:  # type: ignore[attr-defined]
        yield node.left  # type: ignore[attr-defined]


def is_power(spot: Spot) -> bool:
    return isinstance(spot.parent, ast.BinOp) and isinstance(spot.parent.op, ast.Pow)


# -- places


LETTERED = {"Operand": 1, "SumProduct": 2, "PartialSums": 2}  # which argument says the letters of the axes
PLACES = {"t", "m", "h", "q", "k", "j", "i", "c", "v", "u", "row", "rows", "keys", "at"}
PLACED = {"Ref", "grad", "subscript", "Address", "numbers"}


@operator("index swap")
def index_swap(spot: Spot) -> Iterator[ast.AST]:
    """(t, m) as (m, t) in an index, an einsum's letters in another order, one axis for another."""
    node = spot.node
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and 2 <= len(node.elts) <= 3:
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        around = called(spot.parent) in PLACED or isinstance(spot.parent, ast.Subscript)
        if names & PLACES and around:
            yield changed(node, elts=[*node.elts[:-2], node.elts[-1], node.elts[-2]])
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and called(spot.parent) in LETTERED:
        letters = spot.parent.args[LETTERED[called(spot.parent)]]  # type: ignore[attr-defined]
        if node is letters and len(node.value) >= 2:
            yield changed(node, value=node.value[:-2] + node.value[-1] + node.value[-2])
    if isinstance(node, ast.Call) and called(node) == "transpose" and len(node.args) == 2:
        yield node.func.value  # type: ignore[attr-defined]
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value


@operator("wrong place")
def wrong_place(spot: Spot) -> Iterator[ast.AST]:
    """Another place of the same site: at[0] for at[1], the first for the last, places in the opposite order."""
    node = spot.node
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "at":
        if is_number(node.slice):
            yield changed(node, slice=ast.Constant(1 - node.slice.value))  # type: ignore[attr-defined]
        elif isinstance(node.slice, ast.Slice):
            yield node.value
    if called(node) in ("arange", "flatnonzero"):
        yield ast.parse(f"{ast.unparse(node)}[::-1]", mode="eval").body
    if called(node) in ("argmax", "argmin"):
        swapped = ast.unparse(node).replace("argmax", "ARG").replace("argmin", "argmax").replace("ARG", "argmin")
        yield ast.parse(swapped, mode="eval").body


@operator("only the first")
def only_the_first(spot: Spot) -> Iterator[ast.AST]:
    """One of several: the first round of a loop, the first place of many, the first of a sum."""
    node = spot.node
    if isinstance(node, ast.comprehension):
        yield changed(node, iter=first_of(node.iter))
    if isinstance(node, ast.For) and not isinstance(node.iter, ast.Constant):
        yield changed(node, iter=first_of(node.iter))
    if called(node) == "flatnonzero":
        yield ast.parse(f"{ast.unparse(node)}[:1]", mode="eval").body
    if called(node) == "len" and called(spot.parent) == "Group":
        yield ast.Constant(1)
    if called(node) == "sum" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        yield ast.parse(f"{ast.unparse(node.func.value)}.ravel()[0]", mode="eval").body


def first_of(iterated: ast.expr) -> ast.expr:
    return ast.parse(f"list({ast.unparse(iterated)})[:1]", mode="eval").body


# -- terms and labels


@operator("dropped factor")
def dropped_factor(spot: Spot) -> Iterator[ast.AST]:
    """One factor or one group of terms left out; a product or a sum without its second part."""
    node, parent = spot.node, spot.parent
    holds = called(parent) in ("Group", "Rule") or isinstance(parent, (ast.Return, ast.Assign, ast.AnnAssign))
    unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
    holds = holds and not unpacked  # that would only fail to unpack
    columns = isinstance(node, ast.Tuple) and all(isinstance(e, (ast.Call, ast.Name, ast.Starred)) for e in node.elts)
    if columns and holds and len(node.elts) > 1 and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
        for n in range(len(node.elts)):  # type: ignore[attr-defined]
            yield changed(node, elts=[e for k, e in enumerate(node.elts) if k != n])  # type: ignore[attr-defined]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.Add, ast.Sub)) and not is_text(node):
        yield node.left
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()


@operator("other branch")
def other_branch(spot: Spot) -> Iterator[ast.AST]:
    """a if … else b the other way about; an early return never or always taken."""
    node = spot.node
    if isinstance(node, ast.IfExp):
        yield changed(node, body=node.orelse, orelse=node.body)
    if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
        yield changed(node, test=ast.Constant(False))
        if not isinstance(node.body[0], ast.Raise):
            yield changed(node, test=ast.Constant(True))


LABELS = {"score": "largest", "largest": "score", "stretched": "bias", "bias": "stretched"}


@operator("swapped label")
def swapped_label(spot: Spot) -> Iterator[ast.AST]:
    """A term under another's label, a running axis under another's name, a place under another quantity."""
    node, parent = spot.node, spot.parent
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or isinstance(parent, ast.Expr):
        return
    if isinstance(parent, ast.keyword) and parent.arg == "label" and node.value:
        yield changed(node, value=LABELS.get(node.value, node.value + " of all"))
    axes = {"d_model": "pos", "pos": "d_model", "key": "query", "query": "key", "head": "d_head", "d_vocab": "d_model"}
    if any(isinstance(n, ast.keyword) and n.arg == "axes" for n in spot.chain) and node.value in axes:
        yield changed(node, value=axes[node.value])
    if node.value == "grad" and called(parent) in ("Ref", "Address"):
        yield changed(node, value="")
    if any(isinstance(n, ast.Dict) for n in spot.chain[-1:]) and node.value.startswith("as "):
        yield changed(node, value="as another")


# -- what a reader reads


LATEX = [
    (r"\frac{1}", r"\frac{2}"),
    (r"\frac{2}", r"\frac{1}"),
    (r"\frac{{2}}", r"\frac{{1}}"),
    (r"\tfrac{1}{2}", r"\tfrac{1}{4}"),
    (r"\frac{{1}}", r"\frac{{2}}"),
    (" - ", " + "),
    (" + ", " - "),
    ("(-", "("),
    (r"\left(-", r"\left("),
    ("^2", ""),
    ("^3", "^2"),
    (r"\sqrt{{", r"{{"),
    (r"\sqrt{d}", "d"),
    (r"\sum_i ", ""),
    (r"\sum_t ", ""),
    (r"\sum_j ", ""),
    (r"\sum_u ", ""),
    ("-\\log", "\\log"),
    (r"\log ", ""),
    ("_k", "_j"),
    ("_v", "_u"),
    ("=0}}", "=1}}"),
    (r"\sigma", r"\mu"),
    (r"\mathrm{scale}", r"\hat{x}"),
    ("w", "b"),
    (r"\max(0", r"\min(0"),
    ("2/\\pi", "\\pi/2"),
    ("0.044715", "0.44715"),
    ("-", ""),
    (r"\,", " + "),
    ("e^", "2^"),
    ("u > 0", "u < 0"),
    (r"\eta\lambda", r"\eta"),
    (r"\hat{m}", "m"),
    (r"\beta_1", r"\beta_2"),
]


@operator("LaTeX")
def latex(spot: Spot) -> Iterator[ast.AST]:
    r"""A factor, a sign, a bound or a symbol of a formula changed."""
    node = spot.node
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or isinstance(spot.parent, ast.Expr):
        return
    in_latex = spot.function in ("formula", "slope", "step_formula") or "\\" in node.value
    if not in_latex or spot.is_words:
        return
    for old, new in LATEX:
        if old in node.value:
            yield changed(node, value=node.value.replace(old, new, 1))


WORDS = [
    ("after", "before"),
    ("comes", "goes"),
    ("largest", "smallest"),
    ("row", "column"),
    ("mean", "sum"),
    ("variance", "mean"),
    ("square", "cube"),
    ("column", "row"),
    ("position", "place"),
    ("next", "last"),
    ("never", "always"),
    ("Added", "Removed"),
    ("no ", "some "),
    ("not ", ""),
    ("plus", "minus"),
    ("minus", "plus"),
    ("away", ""),
    ("average", "total"),
    ("query", "key"),
    ("one", "two"),
    ("before", "after"),
    ("every", "some"),
    ("block", "head"),
    ("entry", "number"),
    ("probability", "score"),
]


# In the sentences that are data: another place, another size, another token.
PLACEHOLDERS = [
    ("{0}", "{1}"),
    ("{1}", "{0}"),
    ("{token_q}", "{token_k}"),
    ("{token_k}", "{token_q}"),
    ("{token}", "{entry}"),
    ("{entry}", "{token}"),
    ("{c}", "{h}"),
    ("{h}", "{c}"),
    ("{m}", "{t}"),
    ("{n}", "{t}"),
    ("{n_i}", "{n_c}"),
    ("{n_c}", "{n_i}"),
    ("{n_n}", "{n_m}"),
    ("{d_model", "{d_vocab"),
    ("{d_vocab", "{d_model"),
]


@operator("words")
def words(spot: Spot) -> Iterator[ast.AST]:
    """Another word, another token or another number in a sentence."""
    node = spot.node
    if not spot.is_words or any(isinstance(n, ast.Raise) for n in spot.chain):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and not isinstance(spot.parent, ast.Expr):
        for old, new in WORDS:
            if re.search(rf"\b{old.strip()}\b", node.value):
                yield changed(node, value=node.value.replace(old, new, 1))
                break
        for old, new in PLACEHOLDERS:
            if old in node.value:
                yield changed(node, value=node.value.replace(old, new, 1))
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, (ast.Name, ast.Subscript)):
        if isinstance(node.value, ast.Name) and node.value.id not in PLACES | {"n", "d", "last"}:
            return
        yield changed(node, value=ast.parse(f"{ast.unparse(node.value)} + 1", mode="eval").body)


# -- calls


@operator("other function")
def other_function(spot: Spot) -> Iterator[ast.AST]:
    """The smallest for the largest, a sum for a mean, a logarithm for a square root, values for slopes."""
    swap = {
        "min": "max", "max": "min", "sum": "mean", "mean": "sum", "add": "subtract", "cumsum": "cumprod",
        "sqrt": "exp", "exp": "sqrt", "zeros": "ones", "gradient": "tensor",
        "consumers": "gradient_consumers", "gradient_consumers": "consumers",
    }  # fmt: skip
    node = spot.node
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in swap:
        yield changed(node, attr=swap[node.attr])
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in ("min", "max"):
        yield changed(node, id=swap[node.id])
    if called(node) == "reversed":
        yield node.args[0]  # type: ignore[attr-defined]
    if called(node) in ("clone", "abs", "flatnonzero"):
        yield node.func.value if called(node) == "clone" else node.args[0] if node.args else node.func.value  # type: ignore[attr-defined]
