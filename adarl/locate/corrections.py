"""Many tests at once: p-values corrected for their number, each as a pure function of all of them."""

import numpy as np
from jaxtyping import Float


def holm(p: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """The smallest times n, the next times n - 1, never falling: below a level, any is wrong with at most that chance."""
    order = np.argsort(p)
    stepped = np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def benjamini_hochberg(p: Float[np.ndarray, "*test"]) -> Float[np.ndarray, "*test"]:
    """Times n over the rank, never falling: of those below a level at most that share is wrong on average."""
    flat = np.ravel(p)
    order = np.argsort(flat)[::-1]
    stepped = np.minimum.accumulate(flat[order] * len(flat) / np.arange(len(flat), 0, -1))
    corrected = np.empty(len(flat))
    corrected[order] = stepped
    return corrected.reshape(np.shape(p))
