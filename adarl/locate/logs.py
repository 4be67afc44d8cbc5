"""Logged data from files: transitions of several domains in one npz file, or Minari datasets, one a domain.

In: paths or Minari identifiers. Out: `Log`, checked. The layout of the npz file, one row a step:

    observations       (row, ...)   what was seen before the action: vectors, or images (height, width, channel)
    actions            (row,) labels, or (row, action) numbers
    rewards            (row,)       what the action earned
    next_observations  (row, ...)   what was seen after it; images need none
    domain             (row,)       which environment, any labels
    trial              (row,)       which trajectory; without it rows count as independent
    names              (state,)     what the components of an observation are called; optional
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from adarl.domains.family import unknown
from adarl.locate.independence import standardised
from adarl.locate.structure import Steps
from adarl.types import AdarlError

NEEDED = ("observations", "actions", "rewards", "domain")
KNOWN = (*NEEDED, "next_observations", "trial", "names")


@dataclass(frozen=True)
class Log:
    """Steps of several domains as they were written down."""

    o: np.ndarray
    a: np.ndarray
    r: np.ndarray
    o_next: np.ndarray | None
    k: np.ndarray
    trial: np.ndarray
    names: tuple[str, ...]
    domains: tuple[str, ...]
    """What k counts."""

    @property
    def is_seen_as_images(self) -> bool:
        """Whether states have to be guessed."""
        return self.o.ndim == 4

    def notes(self) -> list[str]:
        """What a reader of the verdict should know of the data."""
        counts = np.bincount(self.k)
        said = []
        if counts.min() < counts.max():
            fewest = self.domains[int(counts.argmin())]
            said.append(f"Domains have {counts.min():,} to {counts.max():,} rows; what changed in {fewest!r} is seen least.")
        if not self.is_seen_as_images:
            still = [name for name, column in zip(self.names, self.o.T, strict=True) if np.ptp(column) == 0]
            said += [f"{name} is constant: nothing can be said of its edges." for name in still]
        return said

    def steps(self) -> Steps:
        """As the tests of `structure` take them."""
        if self.o_next is None:
            raise AdarlError("The data have no next_observations; without them no dynamics can be tested.")
        _distinct(self.o, self.names)
        return Steps(self.o, self.a, self.r, self.o_next, self.k, self.trial)


def read(sources: Sequence[str | Path]) -> Log:
    """One npz file, or Minari datasets: each of those is a domain."""
    paths = [Path(source) for source in sources]
    if len(paths) == 1 and paths[0].suffix == ".npz":
        return from_arrays(_loaded(paths[0]))
    if any(path.suffix == ".npz" for path in paths):
        raise AdarlError(f"{len(paths)} files were given; one npz file holds all domains, told apart by its array `domain`.")
    if len(paths) < 2:
        raise AdarlError(f"{sources[0]} is one dataset without domain labels; give one Minari dataset a domain, at least 2.")
    return from_minari([str(source) for source in sources])


def _loaded(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        raise AdarlError(f"There is no file {path}.") from None
    except (ValueError, BadZipFile, OSError) as error:
        raise AdarlError(f"{path} is not an npz file of plain arrays: {error}.") from error


def from_arrays(arrays: dict[str, np.ndarray]) -> Log:
    """Arrays by the names of the layout."""
    for name in arrays:
        if name not in KNOWN:
            raise AdarlError(unknown("array", name, KNOWN))
    for name in NEEDED:
        if name not in arrays:
            what = "domain labels" if name == "domain" else f"the array {name!r}"
            raise AdarlError(f"The data lack {what}; {', '.join(NEEDED)} are needed.")
    o, n = np.asarray(arrays["observations"]), len(arrays["observations"])
    rows = {name: len(value) for name, value in arrays.items() if name != "names"}
    if set(rows.values()) != {n}:
        raise AdarlError(f"Arrays of different lengths: {rows}; one row a step is expected.")
    for name in ("observations", "actions", "rewards", "next_observations"):
        if name in arrays and not np.isfinite(np.asarray(arrays[name], float)).all():
            raise AdarlError(f"{name} contain NaN or infinity; only finite numbers are accepted.")
    o = o[:, None] if o.ndim == 1 else o
    if o.ndim not in (2, 4):
        raise AdarlError(
            f"Observations have the shape {o.shape}; rows of vectors or of images (height, width, channel) fit."
        )
    domains, k = np.unique(arrays["domain"], return_inverse=True)
    if len(domains) < 2:
        raise AdarlError(f"There is {len(domains)} domain in the data; what changed between domains takes at least 2.")
    names = tuple(map(str, arrays["names"])) if "names" in arrays else tuple(f"s_{i + 1}" for i in range(o.shape[1]))
    if o.ndim == 2 and len(names) != o.shape[1]:
        raise AdarlError(f"There are {len(names)} names for {o.shape[1]} components of an observation.")
    trial = np.unique(arrays["trial"], return_inverse=True)[1] if "trial" in arrays else np.arange(n)
    after = arrays.get("next_observations")
    after = None if after is None else np.asarray(after).reshape(o.shape)
    told = tuple(map(str, domains))
    return Log(o, np.asarray(arrays["actions"]), np.asarray(arrays["rewards"], float), after, k, trial, names, told)


def from_minari(identifiers: Sequence[str]) -> Log:
    """Minari datasets (the Farama standard), each one a domain; they must be on this machine."""
    try:
        import minari  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise AdarlError("Minari datasets take the package minari: `pip install adarl[minari]`.") from None
    parts: dict[str, list[Any]] = {name: [] for name in (*NEEDED, "next_observations", "trial")}
    for identifier in identifiers:
        try:
            dataset = minari.load_dataset(identifier)
        except Exception as error:
            raise AdarlError(f"The Minari dataset {identifier!r} cannot be read: {error}") from error
        for episode in dataset.iterate_episodes():
            seen, n = np.asarray(episode.observations), len(episode.rewards)
            parts["observations"].append(seen[:n])
            parts["next_observations"].append(seen[1 : n + 1])
            parts["actions"].append(np.asarray(episode.actions)[:n])
            parts["rewards"].append(np.asarray(episode.rewards))
            parts["domain"].append(np.full(n, identifier))
            parts["trial"].append(np.full(n, len(parts["trial"])))
    return from_arrays({name: np.concatenate(part) for name, part in parts.items()})


def _distinct(columns: np.ndarray, names: Sequence[str]) -> None:
    same = standardised(np.asarray(columns, float))
    for i, one in enumerate(same.T):
        for j in range(i):
            if one.any() and np.abs(np.abs(one @ same[:, j]) / len(one) - 1) < 1e-9:
                raise AdarlError(
                    f"{names[j]} and {names[i]} are the same up to units: which of them acts cannot be told. Leave one out."
                )
