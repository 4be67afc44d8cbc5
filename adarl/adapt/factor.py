"""Which factor a theta stands for, by a calibration on the sources. Only to judge: the learner never sees a factor."""

from collections.abc import Callable

import numpy as np
from jaxtyping import ArrayLike

from adarl.types import AdarlError


def implied_factor(
    theta_sources: ArrayLike,
    factor_values: ArrayLike,
    theta_target: ArrayLike,
) -> float:
    """The value of the factor that a one-dimensional theta stands for, by a calibration on the sources.

    Of a few curves from theta to the factor, the one that best tells each source from the others is taken.
    Only to judge an estimate: the learner never sees a factor.
    """
    theta = np.asarray(theta_sources, np.float64)
    values = np.asarray(factor_values, np.float64)
    target = np.asarray(theta_target, np.float64).item()
    if theta.shape != values.shape or theta.ndim != 1 or theta.size < 2:
        raise AdarlError(
            f"theta has the shape {theta.shape} and the factor {values.shape}; both need one number for"
            " each of at least 2 sources."
        )
    curves = [_line(lambda f: f, lambda y: y)]
    if (values > 0).all():
        curves.append(_line(np.log, np.exp))
    if (values > 0).all() or (values < 0).all():
        curves.append(_line(np.reciprocal, np.reciprocal))
    if theta.size >= 5:
        curves += [_quadratic, _mobius]

    def left_out(curve: Curve) -> float:
        rest = ~np.eye(theta.size, dtype=bool)
        error = [curve(theta[r], values[r], t) - f for r, t, f in zip(rest, theta, values, strict=True)]
        return float(np.square(error).sum())

    with np.errstate(all="ignore"):  # a curve with a pole at a source has an infinite error and is not taken
        errors = [left_out(curve) if theta.size > 2 else 0.0 for curve in curves]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        return float(curves[best](theta, values, target))


Curve = Callable[[np.ndarray, np.ndarray, float], float]
"""(theta of the sources, their factors, another theta) -> its factor."""


def _line(link: Callable[[np.ndarray], np.ndarray], back: Callable[[np.ndarray], np.ndarray]) -> Curve:
    """link(factor) = a + b theta."""
    return lambda theta, values, t: back(np.polyval(np.polyfit(theta, link(values), 1), t)).item()


def _quadratic(theta: np.ndarray, values: np.ndarray, t: float) -> float:
    """The curve factor = a + b theta + c theta^2."""
    return np.polyval(np.polyfit(theta, values, 2), t).item()


def _mobius(theta: np.ndarray, values: np.ndarray, t: float) -> float:
    """The curve factor = (a + b theta) / (1 + c theta): theta is linear in 1 / (factor + d)."""
    a, b, c = np.linalg.lstsq(np.stack([np.ones_like(theta), theta, -theta * values], 1), values)[0]
    return ((a + b * t) / (1 + c * t)).item()
