"""How numbers look: a true minus sign, figures that line up, no more digits than are known."""

from __future__ import annotations

import math
from collections.abc import Iterable

MINUS = "−"


def _signed(text: str) -> str:
    return text.replace("-", MINUS)


def special(x: float) -> str | None:
    """−∞, ∞ and NaN by their signs; None for an ordinary number."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "∞" if x > 0 else MINUS + "∞"
    return None


def fixed(x: float, decimals: int) -> str:
    """Fixed decimals, no negative zero: −3.10."""
    odd = special(x)
    if odd:
        return odd
    text = f"{x:,.{decimals}f}"
    return _signed(text[1:] if text.startswith("-") and not text.strip("-0.,") else text)


def value(x: float, digits: int = 4) -> str:
    """A number on its own: `digits` decimals, or powers of ten where those would say nothing: 4.0444, 3.1×10⁻⁷."""
    odd = special(x)
    if odd:
        return odd
    if x == 0 or 10.0**-digits * 5 <= abs(x) < 1e6:
        if float(x).is_integer() and abs(x) < 1e6:
            return _signed(f"{int(x):,}")
        return fixed(x, digits)
    return scientific(x)


def exact(x: float) -> str:
    """A number on its own: four decimals, of a small one four figures: 4.0444, 0.03876, 0.0007309, 3.1×10⁻⁷."""
    return _figures(x, 4) if 1e-4 <= abs(x) < 0.1 else value(x)


def short(x: float) -> str:
    """A number beside its name: 4.044, 0.0388, 0.00073."""
    return _figures(x, 3) if 1e-4 <= abs(x) < 0.1 else value(x, 3)


def _figures(x: float, figures: int) -> str:
    return fixed(x, len(f"{x:.{figures}g}".partition(".")[2]))


def four_figures(x: float) -> str:
    """Four figures, the last ones kept though they be 0, so that before and after compare: 0.02500, 1.300."""
    if x == 0 or not 1e-4 <= abs(x) < 1e4:
        return value(x)
    return fixed(x, max(0, 3 - math.floor(math.log10(abs(x)))))


def rough(x: float) -> str:
    """A number in three figures or so: −72.1, 0.02, 3×10⁻⁷."""
    if x == 0:
        return "0"
    if abs(x) < 0.001 or abs(x) >= 1e6:
        return scientific(x, 0)
    return fixed(x, 3 if abs(x) < 0.1 else decimals_for(abs(x)))


def compact(weight: float, *, is_narrow: bool) -> str:
    """A share in little room: .84, or 84 (percent) in less."""
    if is_narrow:
        return fixed(100 * weight, 0)
    text = fixed(weight, 2)
    return text.removeprefix("0") if text.startswith("0.") else text


def scientific(x: float, digits: int = 2) -> str:
    """2.8×10⁻²⁴."""
    odd = special(x)
    if odd:
        return odd
    mantissa, exponent = f"{x:.{digits}e}".split("e")
    return f"{_signed(mantissa)}×10{superscript(int(exponent))}"


def superscript(n: int) -> str:
    """−24 as ⁻²⁴."""
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] if c.isdigit() else "⁻" for c in str(n))


def full(x: float, digits: int = 9) -> str:
    """Every digit a float32 has: nine significant figures."""
    odd = special(x)
    if odd:
        return odd
    text = f"{x:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{_signed(mantissa)}×10{superscript(int(exponent))}"
    return _signed(text)


def percent(p: float) -> str:
    """A probability in percent: 85.8 %, 0.03 %, 1.2×10⁻⁷ %."""
    odd = special(p)
    if odd:
        return odd
    x = 100 * p
    if x == 0 or x >= 9.995e-3:
        return f"{fixed(x, 1 if x >= 0.995 or x == 0 else 2)} %"
    return f"{scientific(x, 1)} %"


def points(x: float) -> str:
    """A change of probability in percentage points, with a plus where it is one: +3.10, −0.02."""
    text = fixed(100 * x, 2)
    return f"+{text}" if x > 0 and text.strip("0.") else text


def decimals_for(largest: float, width: int = 4) -> int:
    """Decimals so that numbers up to `largest` take about `width` figures in a cell: 85.3, 4.04, 0.153."""
    if not math.isfinite(largest) or largest <= 0:
        return 2
    whole = max(0, math.floor(math.log10(largest))) + 1
    return min(max(width - 1 - whole, 0), 3)


def tick_text(x: float) -> str:
    """A tick's label, no more figures than it needs: 0.25, 1200, 1×10⁻⁵."""
    if x == 0:
        return "0"
    if 1e-4 <= abs(x) < 1e5:
        return _signed(f"{x:.5f}".rstrip("0").rstrip("."))
    return scientific(x, 1).replace(".0×", "×")


def brief(x: float) -> str:
    """A number in three figures: 4.04, 0.0388, 1200."""
    if x == 0 or 1e-3 <= abs(x) < 1e5:
        return _signed(f"{float(f'{x:.3g}'):.6g}")
    return tick_text(x)


def power_of_ten(power: int) -> str:
    """10⁻³, and 1 and 10 as they are."""
    return {0: "1", 1: "10"}.get(power, f"10{superscript(power)}")


def power_as_share(power: int) -> str:
    """A power of ten as a share: 100 %, 0.1 %, 10⁻⁵ %; from 1000 % on as times."""
    if power > 1:
        return f"{tick_text(10.0**power)} ×"
    percent = power + 2
    return f"{10.0**percent:.{max(-percent, 0)}f} %" if percent >= -3 else f"10{superscript(percent)} %"


def largest(values: Iterable[float]) -> float:
    """The largest size among finite numbers, 0 where there is none."""
    return max((abs(x) for x in values if math.isfinite(x)), default=0.0)


def count(n: int) -> str:
    """A whole number with thousands set apart: 50,257."""
    return _signed(f"{n:,}")


def formatted(x: float, form: str = "3") -> str:
    """A number in one of the forms: "0"…"6" decimals, with "+" in front signed; "percent", "sci", "count",
    "brief" (three figures), "auto"."""
    if special(x):
        return special(x) or ""
    if form == "percent":
        return ("−" if x < 0 else "") + percent(abs(x))
    if form == "sci":
        return scientific(x)
    if form == "count":
        return count(round(x))
    if form == "brief":
        return brief(x) if abs(x) < 1000 else count(round(x)) if abs(x) < 1e6 else scientific(x)
    if form == "auto":
        return value(float(round(x)) if abs(x - round(x)) < 1e-9 else x, 3)
    sign = "+" if form.startswith("+") and x > 0 else ""
    digits = int(form.lstrip("+"))
    if x and abs(x) < 0.5 * 10.0**-digits:
        return sign + scientific(x, 1)
    return sign + fixed(x, digits)
