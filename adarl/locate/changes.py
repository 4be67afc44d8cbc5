"""Where the change is when states are not seen: the cases C1 to C4 of the appendix's proposition on locating changes.

In: observations (images or vectors), actions and rewards with their domain. Out: which case holds, and which of theta_o,
theta_s and theta_r the model must carry. Two tests decide: whether o_t tells the domain, and whether a_t tells it once
r_{t+1} is known, for a reward is where an action and a changed domain meet.

Images are looked at through a few numbers each, chosen to move with noise, colour, size and orientation, which a compressed
image would lose.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from adarl.locate.corrections import holm
from adarl.locate.independence import continuous, discrete, measured, p_values
from adarl.types import AdarlError

Case = Literal["C1", "C2", "C3", "C4", "other"]
RATE = 0.01
"""Of wrongly calling either test's variables dependent."""
PIXELS = 8  # to a side of the small grey picture whose principal components are looked at
COMPONENTS = 6

THETA: dict[Case, tuple[str, ...]] = {
    "C1": ("theta_s", "theta_r"),
    "C2": ("theta_r",),
    "C3": (),
    "C4": ("theta_o", "theta_s"),
    "other": ("theta_o", "theta_s", "theta_r"),
}
WORDS: dict[Case, str] = {
    "C1": "Observations do not tell the domain: neither the observation function nor the dynamics of what is seen changed.",
    "C2": "Only the reward changed: observations do not tell the domain, but actions do once the reward is known.",
    "C3": "Nothing that was tested changed: neither observations nor, given the reward, actions tell the domain.",
    "C4": "The observation function changed, or the dynamics of a state that no reward depends on; the reward did not.",
    "other": "Observations tell the domain, and so do actions once the reward is known: anything may have changed.",
}

SEEN = "The observation function changed, or the dynamics of what is seen."
"""All that C4 may say where the test of actions is vacuous."""


@dataclass(frozen=True)
class Changes:
    """The verdict."""

    case: Case
    theta: tuple[str, ...]
    """What the model must carry."""
    p_observation: dict[str, float]
    """o_t against k, by feature."""
    p_action: float | None
    """a_t against k given r_{t+1}; None where it cannot be asked."""
    words: str


def locate(
    o: np.ndarray,
    a: np.ndarray,
    r: Float[np.ndarray, " row"],
    k: Int[np.ndarray, " row"],
    trial: Int[np.ndarray, " row"],
    *,
    rate: float = RATE,
    seed: int = 0,
) -> Changes:
    """o_t, a_t and r_{t+1} of every row, its domain and its trajectory."""
    if len(np.unique(k)) < 2:
        raise AdarlError("All rows are of one domain; what changed between domains takes at least 2.")
    seen = looks(o)
    names = [name for name, column in seen.items() if column.std() > 1e-12]
    if not names:
        raise AdarlError("All observations are the same; a camera that shows nothing cannot tell what changed.")
    of_k = discrete(k)
    p = p_values(of_k, [continuous(seen[name]) for name in names], seed=seed, trial=trial)
    moved = bool((holm(p) <= rate).any())
    vacuous = np.ptp(r) < 1e-9 or len(np.unique(a)) < 2
    p_action = None if vacuous else float(p_values(measured(a), [of_k], [continuous(r)], seed=seed, trial=trial)[0])
    case = case_of(moved, None if p_action is None else p_action <= rate)
    words = WORDS[case]
    if vacuous:
        what = "the reward is constant" if np.ptp(r) < 1e-9 else "there is only one action"
        words = f"{SEEN if moved else words} Of the reward nothing can be said: {what}, so the test of actions is vacuous."
    return Changes(case, THETA[case], dict(zip(names, map(float, p), strict=True)), p_action, words)


def case_of(o_tells: bool, a_tells: bool | None) -> Case:
    """The case of two answers; the second may be missing."""
    if not o_tells:
        return "C1" if a_tells is None else "C2" if a_tells else "C3"
    return "other" if a_tells else "C4"


def looks(o: np.ndarray) -> dict[str, Float[np.ndarray, " row"]]:
    """What is looked at, by name: the components of vectors, or a few numbers of images (row, height, width, channel)."""
    if o.ndim == 2:
        return {f"o_{i + 1}": column for i, column in enumerate(np.asarray(o, float).T)}
    if o.ndim != 4:
        raise AdarlError(
            f"Observations have the shape {o.shape}; rows of vectors or of images (height, width, channel) fit."
        )
    o = np.asarray(o, float)
    grey = o.mean(-1)
    found = {f"mean of channel {c + 1}": o[..., c].mean((1, 2)) for c in range(o.shape[-1])}
    found |= {f"spread of channel {c + 1}": o[..., c].std((1, 2)) for c in range(o.shape[-1])}
    found["roughness"] = np.log(laplacian(grey).std((1, 2)) + 1e-6)
    found["edges"] = np.abs(np.diff(grey, axis=1)).mean((1, 2)) + np.abs(np.diff(grey, axis=2)).mean((1, 2))
    found |= shape(grey)
    for i, column in enumerate(principal(small(grey)).T):
        found[f"component {i + 1}"] = column
    return found


def laplacian(grey: Float[np.ndarray, "row height width"]) -> Float[np.ndarray, "row height_2 width_2"]:
    """How much a pixel differs from its four neighbours: noise, mostly."""
    middle = grey[:, 1:-1, 1:-1]
    return grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:] - 4 * middle


def shape(grey: Float[np.ndarray, "row height width"]) -> dict[str, Float[np.ndarray, " row"]]:
    """Area and second moments of what is not background."""
    off = np.abs(grey - np.median(grey, axis=(1, 2), keepdims=True))
    off = np.where(off > 0.25 * off.max((1, 2), keepdims=True), off, 0.0)
    weight = off / (off.sum((1, 2), keepdims=True) + 1e-12)
    y, x = np.mgrid[-1 : 1 : grey.shape[1] * 1j, -1 : 1 : grey.shape[2] * 1j]
    mean_x, mean_y = ((weight * axis).sum((1, 2), keepdims=True) for axis in (x, y))
    dx, dy = x - mean_x, y - mean_y
    return {
        "area": (off > 0).mean((1, 2)),
        "width": np.sqrt((weight * dx**2).sum((1, 2))),
        "height": np.sqrt((weight * dy**2).sum((1, 2))),
        "tilt": (weight * dx * dy).sum((1, 2)),
    }


def small(grey: Float[np.ndarray, "row height width"]) -> Float[np.ndarray, "row pixel"]:
    """A picture of a few pixels, by averaging."""
    n, height, width = grey.shape
    side = min(PIXELS, height, width)
    rows, columns = (np.array_split(np.arange(size), side) for size in (height, width))
    return np.stack([grey[:, r][:, :, c].mean((1, 2)) for r in rows for c in columns], axis=1).reshape(n, -1)


def principal(columns: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row component"]:
    """The first principal components."""
    centred = columns - columns.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return centred @ directions[:, ::-1][:, :COMPONENTS]
