"""Formulas as native MathML: the rule in symbols, then with this number's values put in, then the sum made.

`math_core` turns LaTeX into MathML and raises on a command it does not know. Its own environments carry inline styles,
which the content security policy forbids, so the lines of one formula are set in a table made here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup
from math_core import LatexToMathML

from app.render import numbers
from model.address.trees import Address, Binary, Call, Negative, Node, Number, Partial
from model.ops.base import EXP, bracketed

if TYPE_CHECKING:
    from model.explain.explanation import Explanation
    from model.explain.terms import Factor, Term

CONVERTER = LatexToMathML(fancy_error=False)
FRONT, BACK = '<math display="block">', "</math>"
DOTS = r"\cdots"
WIDEST = 36  # signs of a line of values that fit the panel, the left side counted
FEW = 3  # sums of up to this many terms are written out, of longer ones the first two


# -- LaTeX to MathML


@lru_cache(maxsize=4096)
def _inside(latex: str) -> str:
    """The MathML of a piece of LaTeX without its <math> element."""
    return CONVERTER.convert_with_local_state(latex, displaystyle=True).removeprefix(FRONT).removesuffix(BACK)


def mathml(latex: str) -> Markup:
    """A formula inside a line of text."""
    return Markup(f"<math>{_inside(latex)}</math>")


def table(lines: Sequence[tuple[str, str]]) -> Markup:
    """Lines of one formula, each a left side (it may be empty) and a right side, aligned where they meet."""
    rows = (
        f'<mtr><mtd class="lhs">{_inside(left) if left else ""}</mtd><mtd class="rhs">{_inside(right)}</mtd></mtr>'
        for left, right in lines
    )
    return Markup(f'<math display="block"><mtable displaystyle="true">{"".join(rows)}</mtable></math>')


def width(latex: str) -> int:
    """About how many signs wide a formula is set: a command counts as one, braces and what stands below as none."""
    latex = re.sub(r"\\underset\{\\text\{[^}]*\}\}", "", latex)
    latex = latex.replace(r"\times", "xx")
    return len(re.sub(r"[{}\s_^]|\\,", "", re.sub(r"\\[a-z]+", "x", latex)))


def sides(latex: str) -> list[str]:
    """A formula cut at its equals signs, those inside braces left alone."""
    return _cut(latex, " = ")


def _cut(latex: str, sign: str) -> list[str]:
    """LaTeX cut at a sign of three characters, not inside braces or brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(latex):
        depth += (character in "{(") - (character in "})")
        if depth == 0 and latex.startswith(sign, at):
            parts.append(latex[start:at])
            start = at + len(sign)
    return [*parts, latex[start:]]


# -- numbers


def number(x: float, digits: int = 3) -> str:
    """A number of `digits` significant figures as LaTeX: -1.27, 50257, 3.1\\times 10^{-7}."""
    odd = {"NaN": r"\mathrm{NaN}", "∞": r"\infty", numbers.MINUS + "∞": r"-\infty"}.get(numbers.special(x) or "")
    if odd:
        return odd
    if float(x).is_integer() and abs(x) < 1e6:
        return str(int(x))
    mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 <= power < 6:
        return f"{x:.{max(digits - 1 - power, 0)}f}"
    front = mantissa.rstrip("0").rstrip(".")
    return rf"10^{{{power}}}" if front == "1" else rf"{front}\times 10^{{{power}}}"


def result(x: float) -> str:
    """The number a formula ends in: enough figures to recognise it by."""
    return number(x, 5)


# -- the lines of one explanation


def lines(e: Explanation, expression: Node | None = None) -> list[tuple[str, str]]:
    """In symbols, with values, and the result. `expression` is the tree of a `calc(…)`, which has no symbols."""
    if expression is not None:
        found = [("", expression_latex(expression))]
    else:
        left, *rights = sides(e.formula)
        if not rights:
            return [(left, f"= {result(e.total)}")]
        found = symbolic(left, rights)
    right, room = found[-1][1].removeprefix("= "), WIDEST - 0.7 * width(found[0][0])
    if not math.isfinite(e.total) and number(e.total) in right:
        return found
    return found + [("", f"= {line}") for line in _with_values(e, room) if line != right]


def symbolic(left: str, rights: Sequence[str]) -> list[tuple[str, str]]:
    """A formula in symbols: a line for each equals sign, a sum too long for one line broken at its plus signs."""
    found = []
    for right in rights:
        line, *more = broken(right, WIDEST - 0.7 * width(left))
        found += [("", f"= {line}"), *(("", rf"\quad + {part}") for part in more)]
    return [(left, found[0][1]), *found[1:]]


def broken(latex: str, room: float) -> list[str]:
    """A sum as lines that fit: cut at plus signs outside of braces, as few times as possible."""
    parts = _cut(latex, " + ")
    found = parts[:1]
    for part in parts[1:]:
        longer = f"{found[-1]} + {part}"
        if width(longer) <= room:
            found[-1] = longer
        else:
            found.append(part)
    return found


def _with_values(e: Explanation, room: float) -> list[str]:
    if e.combine == "given":
        return []
    if not e.terms:
        return [result(e.total)]
    if e.combine == "quotient":
        return _quotient(e)
    if e.combine == "function" and e.function is not None:
        return _function(e)
    return _sum(e, room)


def _sum(e: Explanation, room: float) -> list[str]:
    """Factors multiplied, then products added; of a long sum the first two terms, or one where two do not fit."""
    if e.is_p_minus_y:
        return _p_minus_y(e)
    if e.n_terms == 1:
        written, made = written_term(e.terms[0]), number(e.terms[0].product)
        return [result(e.total)] if written == made else [written, result(e.total)]
    most = e.n_terms if e.n_terms <= FEW else 2
    written = _among(e, [written_term(term) for term in e.terms[:most]])
    if width(written) > room:
        written = _among(e, [written_term(e.terms[0])])
    products = [_products(e, n) for n in range(most, 0, -1)]
    made = next((line for line in products if width(line) <= room), products[-1])
    is_plain = all(written_term(term) == number(term.product) for term in e.terms[:most])
    return [made] if is_plain else [written, made]


def _p_minus_y(e: Explanation) -> list[str]:
    """The probability less 1 or 0 (each shared among the positions that count)."""
    terms = sorted(e.terms, key=lambda term: term.index)
    tail = [] if len(terms) > 1 else ["-0"]
    return [added([*(number(term.product) for term in terms), *tail]) + f" = {result(e.total)}"]


def _products(e: Explanation, n: int) -> str:
    """The first n products listed, the sum of all others, and the total they make."""
    shown = [term.product for term in e.terms[:n]]
    others = e.n_terms - len(shown)
    tail = [_rest(float(e.products.sum()) - sum(shown), others)] if others else []
    return added([*map(number, shown), *tail]) + f" = {result(e.total)}"


def _among(e: Explanation, written: list[str]) -> str:
    """Terms with dots where others come before or after them."""
    before, after = e.offset > 0, e.offset + len(written) < e.n_terms
    return added([DOTS] * before + written + [DOTS] * after)


def _rest(x: float, others: int) -> str:
    """The sum of the terms not written out, with their number under it."""
    sign = "-" if x < 0 else ""
    return rf"{sign}\underset{{\text{{{others:,} more}}}}{{{number(abs(x))}}}"


def _function(e: Explanation) -> list[str]:
    assert e.function is not None
    shown = e.terms[: e.n_terms if e.n_terms <= FEW else 2]
    written, made = [written_term(term) for term in shown], [number(term.product) for term in shown]

    def filled(terms: list[str], join: str = "") -> str:
        if e.function is not None and e.function.of_terms:
            inside = r",\ ".join(terms + [DOTS] * (len(shown) < e.n_terms))
        else:
            inside = _among(e, terms)
        return e.function.latex.format(inside) if e.function is not None else inside

    values = [filled(written)] if written == made else [filled(written), filled(made)]
    if e.function is EXP and len(made) > 1:
        values = [filled(written), e.function.latex.format(number(float(e.products.sum())))]
    last = f"{values[-1]} = {result(e.total)}"
    return [*values[:-1], last if values[-1] != result(e.total) else result(e.total)]


def _quotient(e: Explanation) -> list[str]:
    top = e.terms[0] if e.offset == 0 else None
    bottom = [term for term in e.terms if term.index > 0]
    shown = bottom[: e.n_terms - 1 if e.n_terms <= FEW else 2]
    under = added([DOTS] * (e.offset > 0) + [written_term(term) for term in shown])
    if len(shown) + 1 < e.n_terms:
        under = added([under, DOTS]) if under else DOTS
    above = written_term(top) if top is not None else number(float(e.products[0]))
    first = rf"\frac{{{above}}}{{{under}}}"
    second = rf"\frac{{{number(float(e.products[0]))}}}{{{number(float(e.products[1:].sum()))}}}"
    ends = f" = {result(e.total)}"
    return [second + ends] if first == second else [first, second + ends]


def added(terms: Sequence[str]) -> str:
    """Terms as a sum, a minus in front of one taking the place of its plus."""
    text = ""
    for term in terms:
        text += term if not text else f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return text


# -- one term


def written_term(term: Term) -> str:
    """A term's factors multiplied, as far as that is how it is made."""
    return term.how.latex([_factor(factor) for factor in term.factors]) if term.how else multiplied(term.factors)


def multiplied(factors: Sequence[Factor]) -> str:
    """a × b, a², −a: powers where the same number comes twice, a constant −1 as a sign."""
    minus = any(factor.constant == "-1" for factor in factors)
    powers: dict[tuple[str | None, str | None], list[Factor]] = {}
    for factor in factors:
        if factor.constant != "-1":
            powers.setdefault((factor.address, factor.constant), []).append(factor)
    parts = []
    for same in powers.values():
        one = _factor(same[0])
        alone = len(powers) == 1 and len(same) == 1 and not minus
        one = one if alone else bracketed(one)
        if len(same) > 1:
            one = f"{rf'({one})' if '^' in one and not one.startswith('(') else one}^{{{len(same)}}}"
        parts.append(one)
    return ("-" if minus else "") + (r" \times ".join(parts) or "1")


def _factor(factor: Factor) -> str:
    """A factor's value; of a constant its name, unless that is a letter whose value the reader chose."""
    if factor.constant is None or r"\eta" in factor.constant or r"\beta" in factor.constant:
        return number(factor.value)
    return factor.constant


# -- calc(…)


TIMES = {"@": r"\cdot", "*": r"\times"}


def expression_latex(node: Node) -> str:
    """An expression as it would be written by hand, its addresses in the typewriter face."""
    match node:
        case Address():
            return address_latex(str(node))
        case Number():
            return number(node.value, 6)
        case Negative():
            return f"-{_operand(node.operand)}"
        case Call(name="sqrt"):
            return rf"\sqrt{{{expression_latex(node.operand)}}}"
        case Call():
            return rf"\mathrm{{{node.name}}}\left({expression_latex(node.operand)}\right)"
        case Partial():
            sums = rf"\sum_{{n={node.start}}}^{{{node.stop - 1}}}"
            return rf"{sums} \mathrm{{term}}_n\left({address_latex(str(node.of))}\right)"
        case Binary(op="/"):
            return rf"\frac{{{expression_latex(node.left)}}}{{{expression_latex(node.right)}}}"
        case Binary(op="*" | "@"):
            return rf"{_operand(node.left)} {TIMES[node.op]} {_operand(node.right)}"
        case Binary(op="-"):
            return f"{expression_latex(node.left)} - {_operand(node.right)}"
        case Binary():
            return f"{expression_latex(node.left)} {node.op} {expression_latex(node.right)}"


def _operand(node: Node) -> str:
    loose = isinstance(node, Negative) or (isinstance(node, Binary) and node.op in "+-")
    return rf"\left({expression_latex(node)}\right)" if loose else expression_latex(node)


def address_latex(address: str) -> str:
    return rf"\texttt{{{address.replace('_', chr(92) + '_')}}}"
