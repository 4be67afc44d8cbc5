"""Numbers and names as a reader wants them: what the page, the figures and the terminal share.

In: values of a summary. Out: short text, not escaped.
"""

from collections.abc import Sequence
from math import floor, inf, isfinite, log10
from typing import Any

METHODS = {
    "adarl": "AdaRL",
    "adarl_plus": "AdaRL+",
    "adarl_star": "AdaRL*",
    "non_t": "Non-t",
    "cavia": "CAVIA",
    "pearl": "PEARL",
    "pnn": "PNN",
    "psm": "PSM",
    "mql": "MQL",
    "oracle": "Oracle",
}
TRAJECTORY = 40
"""Steps of a trajectory, at most, unless a run chose otherwise."""


def method_name(method: str) -> str:
    """How a method is written for a reader."""
    return METHODS.get(method, method.replace("_", " "))


def samples_name(samples: Any) -> str:
    """`50steps` is written `50 steps`, `10000` is written `10,000 trajectories`."""
    text = "" if samples is None else str(samples)
    unit = text.lstrip("0123456789")
    return f"{int(text.removesuffix(unit)):,} {unit.strip() or 'trajectories'}" if unit != text else text


def amount(samples: Any) -> float:
    """Samples in steps, to put them in order: a trajectory counts as the most it can have. Infinite if unknown."""
    text = "" if samples is None else str(samples)
    count = text.removesuffix("steps")
    if not count.isascii() or not count.isdigit():
        return inf
    return float(count) * (1 if count != text else TRAJECTORY)


def number(value: float | None, cap: float | None = None) -> str:
    """Three digits, or all before the point. What lies below the cap is never rounded up to it."""
    if value is None or not isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    if cap is not None and value < cap and text == number(cap):
        scale = 10.0 ** max(0, 2 - floor(log10(abs(value))))
        return number(floor(value * scale) / scale)
    return text.replace("-", "−")


def place(factors: dict[str, float]) -> str:
    """`gravity 15 with mass 1`."""
    return " with ".join(f"{name} {number(value)}" for name, value in factors.items())


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
