"""Is x independent of y, given z? Kernel tests (KCI; Zhang et al., 2011) with a null that holds on trajectories.

In: variables, rows along the first axis. Out: p-values. What z says of x and of y is taken away by ridge regression in the
space of a kernel, and the sum over rows of the products of what is left is compared with what chance would make of it. Rows
of one trajectory count as one term of that sum, so they may be correlated.

`p_value` has a cost linear in the number of rows: kernels are products of explicit features, Nystroem's for single columns
and random Fourier ones for all of them together. `exact` holds kernel matrices, for few rows.

Departs from KCI: its Gaussian kernel of z sees little when z is wide, so kernels here are sums of a linear one, one of each
column, one of products of two columns, and the Gaussian one; the ridge is chosen by leaving one out; and x is looked at
alone, times columns of z, and against how far y strays, each look with a p-value of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float, Int

from adarl.types import AdarlError

Rows = Float[np.ndarray, "row column"]

BUMPS = 6  # Nystroem's points of a column
FOURIER = 60  # random features of all columns together
ROUNDS = 3  # in which a regression looks at what it said before
RIDGES = 10.0 ** np.arange(-1, 5)
SCALES = {"constant": 100.0, "linear": 3.0, "own": 1.0, "products": 0.6, "joint": 0.5}
"""Of a feature of z, by its kind: what a function is likely to be made of."""
LEAST = 30
"""Rows, or trajectories, below which there is no test."""
NOTHING = 1e-3
"""Share of a column's spread: what is left of it after z, if no more than this, is the ridge's."""


@dataclass(frozen=True)
class Variable:
    """Columns that are tested as one."""

    values: Rows
    """Of unit variance; a constant column is zero."""
    bends: bool
    """Whether a function of it can bend: a continuous variable, not a label."""

    @property
    def is_constant(self) -> bool:
        """It says nothing."""
        return not self.values.any()


def continuous(values: np.ndarray) -> Variable:
    """A number or a vector a row. Ordered labels, such as gravities in their order, are numbers."""
    values = np.asarray(values, float)
    if not np.isfinite(values).all():
        raise AdarlError("Values to be tested contain NaN or infinity; only finite numbers are accepted.")
    return Variable(standardised(values.reshape(len(values), -1)), bends=True)


def discrete(labels: np.ndarray) -> Variable:
    """A label a row, whose order means nothing."""
    _, index = np.unique(labels, return_inverse=True)
    return Variable(standardised(np.eye(index.max() + 1)[index.ravel()]), bends=False)


def measured(values: np.ndarray) -> Variable:
    """Labels where values are single integers, numbers elsewhere: an action of either kind."""
    return discrete(values) if values.ndim == 1 and np.issubdtype(values.dtype, np.integer) else continuous(values)


def standardised(columns: Rows) -> Rows:
    """Mean 0 and variance 1; a constant column becomes 0."""
    centred = columns - columns.mean(0)
    spread = centred.std(0)
    moves = spread > 1e-9 * (1 + np.abs(columns).max(0))
    return np.where(moves, centred / np.where(moves, spread, 1.0), 0.0)


def p_value(
    x: Variable, y: Variable, z: Sequence[Variable] = (), *, seed: int = 0, trial: np.ndarray | None = None
) -> float:
    """One test by `features`."""
    return float(p_values(x, [y], z, seed=seed, trial=trial)[0])


def p_values(
    x: Variable,
    ys: Sequence[Variable],
    z: Sequence[Variable] = (),
    *,
    seed: int = 0,
    trial: np.ndarray | None = None,
    sharp: bool = False,
) -> Float[np.ndarray, " y"]:
    """x against each y, given z: one regression on z for all of them. 1 where x or y is constant or known from z.

    `sharp` asks for a regression that can follow the edges of the ys, such as that of a failure, at a higher cost.
    """
    group = groups_of(len(x.values), trial)
    of_z = features(z, len(x.values), seed)
    of_z = sharpened(of_z, ys) if sharp else of_z
    of_x, times_z = own(x), products(x.values, *(one.values for one in z))
    whole = np.concatenate([of_x, times_z, *(y.values for y in ys)], axis=1)
    left = without(of_z, whole)
    at = np.cumsum([of_x.shape[1], times_z.shape[1], *(y.values.shape[1] for y in ys)])
    left_x, left_times_z, *left_ys = np.split(left, at[:-1], axis=1)
    left_times_z = standardised(left_times_z)
    squares = [standardised(left_y**2) for left_y in left_ys]
    strays = np.split(without(of_z, np.concatenate(squares, axis=1)), at[2:-1] - at[1], axis=1)

    def look(left_y: Rows, stray: Rows) -> float:
        looks = [(left_x, left_y), (left_times_z, left_y), (left_x, stray)]
        found = [dependence(a, b, group) for a, b in looks if a.shape[1]]
        return min(1.0, len(found) * min(found))

    return np.array([look(left_y, stray) for left_y, stray in zip(left_ys, strays, strict=True)])


def groups_of(n: int, trial: np.ndarray | None) -> Int[np.ndarray, " row"]:
    """The trajectory of every row, counted from 0; each row is its own unless told otherwise."""
    group = np.arange(n) if trial is None else np.unique(trial, return_inverse=True)[1].ravel()
    if group.max() + 1 < LEAST:
        what = "rows" if trial is None else "trajectories"
        raise AdarlError(f"There are {group.max() + 1} {what}; a test of independence needs at least {LEAST}.")
    return group


def features(z: Sequence[Variable], n: int, seed: int) -> Rows:
    """Explicit features of the kernel of z."""
    parts = [np.full((n, 1), SCALES["constant"])]
    if z:
        linear = np.concatenate([one.values for one in z], axis=1)
        parts.append(SCALES["linear"] * linear)
        parts.append(SCALES["own"] * np.concatenate([_bent(one) for one in z], axis=1))
        pairs = [products(one.values, *(two.values for two in z[i + 1 :])) for i, one in enumerate(z)]
        parts.append(SCALES["products"] * standardised(np.concatenate(pairs, axis=1)))
        parts.append(SCALES["joint"] * fourier(linear, seed))
    return np.concatenate(parts, axis=1)


def sharpened(of_z: Rows, ys: Sequence[Variable]) -> Rows:
    """Features of z, and what they say of the ys, bent. Smooth functions round off an edge; those of what they say do not.

    Where an edge is rounded off, what is left tells on which side of it a row lies, and with that its domain: everything
    would look changed.
    """
    values = np.concatenate([y.values for y in ys], axis=1)
    for _ in range(ROUNDS):
        said = continuous(values - without(of_z, values))
        of_z = np.concatenate([of_z, SCALES["linear"] * said.values, SCALES["own"] * _bent(said)], axis=1)
    return of_z


def own(x: Variable) -> Rows:
    """Features of one variable: itself, and how it bends."""
    return np.concatenate([x.values, 0.5 * _bent(x)], axis=1)


def _bent(x: Variable) -> Rows:
    """Nystroem's features of each column that bends."""
    bumps = [np.zeros((len(x.values), 0))]
    for column in x.values.T if x.bends else ():
        points = np.quantile(column, (np.arange(BUMPS) + 0.5) / BUMPS)
        width = max(0.4, 1.2 * float(np.median(np.diff(points))))
        bumps.append(np.exp(-0.5 * ((column[:, None] - points) / width) ** 2))
    return standardised(np.concatenate(bumps, axis=1))


def products(first: Rows, *others: Rows) -> Rows:
    """Every column of the first times every column of the others."""
    n = len(first)
    return np.concatenate([np.zeros((n, 0)), *((first[:, :, None] * o[:, None]).reshape(n, -1) for o in others)], axis=1)


def fourier(columns: Rows, seed: int) -> Rows:
    """Random features of a Gaussian kernel whose width is the median distance of standardised rows."""
    rng = np.random.default_rng(seed)
    n_columns = columns.shape[1]
    frequency = rng.normal(size=(n_columns, FOURIER)) / np.sqrt(2 * n_columns)
    return np.sqrt(2) * np.cos(columns @ frequency + rng.uniform(0, 2 * np.pi, FOURIER))


def without(of_z: Rows, columns: Rows) -> Rows:
    """What is left of each column when z has said what it can: errors of ridge regression, each row's without itself."""
    eigenvalues, directions = np.linalg.eigh(of_z.T @ of_z)
    turned = of_z @ directions
    matched, squared = turned.T @ columns, turned**2
    least, left = np.full(columns.shape[1], np.inf), np.zeros_like(columns)
    for ridge in RIDGES:
        inverse = 1 / (np.maximum(eigenvalues, 0) + ridge)
        errors = (columns - turned @ (inverse[:, None] * matched)) / (1 - squared @ inverse)[:, None]
        error = (errors**2).mean(0)
        better = error < least
        left[:, better], least[better] = errors[:, better], error[better]
    return np.where(least > NOTHING**2 * (columns**2).mean(0), left, 0.0)


def dependence(left_x: Rows, left_y: Rows, group: Int[np.ndarray, " row"]) -> float:
    """The p-value of the sum over trajectories of left_x times left_y."""
    terms = products(left_x, left_y)
    if group.max() + 1 < len(group):
        order = np.argsort(group, kind="stable")
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        terms = np.add.reduceat(terms[order], first, axis=0)
    terms = terms[:, terms.any(0)]
    if not terms.size:
        return 1.0
    covariance = terms.T @ terms if terms.shape[1] <= terms.shape[0] else terms @ terms.T
    return above(float((terms.sum(0) ** 2).sum()), np.linalg.eigvalsh(covariance))


def above(value: float, weights: Float[np.ndarray, " weight"]) -> float:
    """P(sum of weights times chi-squares > value), by four moments (Liu, Tang and Zhang, 2009)."""
    weights = weights[weights > 1e-8 * weights.max()]
    one, two, three, four = (float((weights**power).sum()) for power in (1, 2, 3, 4))
    skew, tail = three / two**1.5, four / two**2
    if skew**2 > tail:
        a = 1 / (skew - np.sqrt(skew**2 - tail))
        shift = skew * a**3 - a**2
    else:
        a, shift = 1 / skew, 0.0
    freedom = a**2 - 2 * shift
    at = (value - one) / np.sqrt(2 * two) * np.sqrt(2) * a + freedom + shift
    return float(scipy.stats.ncx2.sf(at, freedom, shift) if shift > 1e-9 else scipy.stats.chi2.sf(at, freedom))


MOST = 2000
"""Rows of `exact`: its matrices have that many columns."""
RIDGE = 1e-3


def exact(x: Variable, y: Variable, z: Sequence[Variable] = (), *, trial: np.ndarray | None = None) -> float:
    """The same question to kernel matrices, as in KCI: Gaussian kernels of median width, and (x, z) against y."""
    n = len(x.values)
    if n > MOST:
        raise AdarlError(f"There are {n} rows; kernel matrices are for {MOST} at most, `p_value` for any number.")
    group = groups_of(n, trial)
    if x.is_constant or y.is_constant:
        return 1.0
    k_x, k_y = gaussian(x.values), gaussian(y.values)
    if z:
        of_z = np.concatenate([one.values for one in z], axis=1)
        k_z = gaussian(of_z)
        left = RIDGE * np.linalg.inv(centred(k_z) + RIDGE * np.eye(n))
        k_x, k_y = left @ centred(k_x * k_z) @ left, left @ centred(k_y) @ left
    else:
        k_x, k_y = centred(k_x), centred(k_y)
    terms = k_x * k_y
    of_group = np.eye(group.max() + 1)[group]
    terms = of_group.T @ terms @ of_group if of_group.shape[1] < n else terms
    return above(float(terms.sum()), np.linalg.eigvalsh(terms))


def gaussian(columns: Rows) -> Float[np.ndarray, "row row"]:
    """A Gaussian kernel as wide as the median distance."""
    squares = (columns**2).sum(1)
    distance = np.maximum(squares[:, None] + squares - 2 * columns @ columns.T, 0.0)
    usual = np.median(distance[np.triu_indices(len(columns), 1)])
    return np.exp(-distance / max(float(usual), 1e-12))


def centred(kernel: Float[np.ndarray, "row row"]) -> Float[np.ndarray, "row row"]:
    """The kernel of features with mean 0."""
    return kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean()
