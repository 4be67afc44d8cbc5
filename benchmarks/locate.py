"""Where did it change: error rates, power, cost, CartPole and images, beside causal-learn's KCI.

    python benchmarks/locate.py [PART ...]        after pip install adarl[bench], for causal-learn

Writes results/locate/summary.json and results/locate/power.csv. Systems, data and tests are drawn anew from the seeds given
here; nothing is kept from run to run but finished parts.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import jax.random as jr
import numpy as np
from identification import graph_errors

from adarl import Config, family, stages
from adarl.collect import collect, random_policy
from adarl.config import resolve
from adarl.locate import changes
from adarl.locate.independence import continuous, p_value
from adarl.locate.structure import LocateConfig, Steps, find, steps_of
from adarl.model.fit import fit
from adarl.progress import Progress

OUT = Path("results/locate")
ROWS = 1000
SYSTEMS, NULLS = 200, 500
STRONG = 0.05
"""Share of its target's variance that an edge must explain for a miss to count."""
BENDS: tuple[Callable, ...] = (np.tanh, lambda v: np.sin(1.5 * v), lambda v: v**2 / 1.5 - 0.6, np.abs)


class System:
    """A random system: 3 to 8 states, 2 to 7 domains, linear or not; a change shifts a target or scales one of its terms."""

    def __init__(self, rng: np.random.Generator, changes: bool | None = None):
        self.d, self.n_domains = int(rng.integers(3, 9)), int(rng.integers(2, 8))
        d = self.d
        changed = rng.random() < 0.7 if changes is None else changes
        self.edges = rng.random((d + 1, d + 2)) < np.r_[np.full(d, 0.35), 0.4, 0.4 * changed]
        self.edges[np.arange(d), np.arange(d)] = rng.random(d) < 0.7
        self.bend = rng.integers(0, 4, (d + 1, d)) if rng.random() < 0.5 else None
        self.weight = rng.uniform(0.3, 0.8, (d + 1, d + 1)) * rng.choice([-1, 1], (d + 1, d + 1))
        self.scales_a_term = rng.random(d + 1) < 0.5
        self.amount = rng.uniform(0.5, 1.2, d + 1)
        self.levels = np.stack([rng.permutation(np.linspace(-1, 1, self.n_domains)) for _ in range(d + 1)])
        self.noise = rng.uniform(0.4, 0.8, d + 1)

    def mean(self, s: np.ndarray, a: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Of s_t and r_t."""
        out = np.zeros((len(s), self.d + 1))
        for i, edges in enumerate(self.edges):
            terms = [
                self.weight[i, j] * (s[:, j] if self.bend is None else BENDS[self.bend[i, j]](s[:, j]))
                for j in np.flatnonzero(edges[: self.d])
            ]
            level = self.amount[i] * self.levels[i][k] * edges[-1]
            scaled = bool(terms) and self.scales_a_term[i]
            out[:, i] = sum(terms) + edges[-2] * self.weight[i, -1] * (2 * a - 1)
            out[:, i] += level * terms[0] / (terms[0].std() + 1e-9) if scaled else level
        return out

    def steps(self, rng: np.random.Generator, n: int, length: int = 1, warm: int = 6) -> Steps:
        """`n` rows in trajectories of `length` rows, after some steps that nobody saw."""
        n_trials = n // length
        k, trial = np.arange(n_trials) % self.n_domains, np.arange(n_trials)
        s, seen = rng.normal(size=(n_trials, self.d)), []
        for t in range(warm + length):
            a = rng.integers(0, 2, n_trials)
            after = self.mean(s, a, k) + self.noise * rng.normal(size=(n_trials, self.d + 1))
            if t >= warm:
                seen.append((s, a, after[:, -1], after[:, :-1], k, trial))
            s = np.clip(after[:, :-1], -4, 4)
        return Steps(*(np.concatenate(part) for part in zip(*seen, strict=True)))

    def shares(self, rng: np.random.Generator, steps: Steps) -> np.ndarray:
        """How much of each target's variance goes when a source is drawn anew, whatever the others are (Jansen)."""
        variance = np.column_stack([steps.s_t, steps.r_t]).var(0)
        as_is = self.mean(steps.s_tm1, steps.a_tm1, steps.k)
        shares = np.zeros(self.edges.shape)
        for j in range(self.d + 2):
            s, a, k, other = steps.s_tm1.copy(), steps.a_tm1, steps.k, rng.permutation(len(steps.k))
            if j < self.d:
                s[:, j] = s[other, j]
            a, k = (a[other] if j == self.d else a), (k[other] if j == self.d + 1 else k)
            shares[:, j] = 0.5 * ((as_is - self.mean(s, a, k)) ** 2).mean(0) / variance
        return shares


def searched(
    seed: int, rows: int, length: int = 1, changes: bool | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random system's edges, those found, and their shares."""
    rng = np.random.default_rng(seed)
    system = System(rng, changes)
    steps = system.steps(rng, rows, length)
    found = find(steps, LocateConfig(halves=0), seed).found
    return system.edges, found, system.shares(rng, steps)


def rates(systems: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """False-discovery rate, and true-positive rate of strong edges."""
    wrong = [float((found & ~edges).sum() / max(found.sum(), 1)) for edges, found, _ in systems]
    strong = [(edges & (shares >= STRONG), found) for edges, found, shares in systems]
    return float(np.mean(wrong)), sum((s & f).sum() for s, f in strong) / sum(s.sum() for s, _ in strong)


def systems() -> dict:
    fdr, tpr = rates([searched(seed, ROWS) for seed in range(SYSTEMS)])
    return {"systems": SYSTEMS, "rows": ROWS, "fdr": round(fdr, 4), "tpr": round(tpr, 4)}


def power() -> dict:
    lines = ["rows,systems,fdr,tpr"]
    for rows in (250, 500, 1000, 2000, 4000):
        fdr, tpr = rates([searched(10_000 + seed, rows) for seed in range(50)])
        lines.append(f"{rows},50,{fdr:.4f},{tpr:.4f}")
    (OUT / "power.csv").write_text("\n".join(lines) + "\n")
    return {"power": "power.csv"}


def nulls() -> dict:
    rate = lambda length: float(  # noqa: E731
        np.mean([searched(20_000 + i, ROWS, length, changes=False)[1][:, -1].any() for i in range(NULLS)])
    )
    return {"null_systems": NULLS, "null_rate_rows": rate(1), "null_rate_trajectories": rate(20)}


def cartpole(seeds: int = 20) -> dict:
    """How often each family's k has an edge to each state and to the reward."""
    counts = {}
    for name in ("gravity", "mass", "motor", "target"):
        chosen = family(f"cartpole-{name}")
        targets = [*chosen.domain.state_names, "reward"]
        hits = np.zeros(len(targets), int)
        for seed in range(seeds):
            kinds = {"trials": 400, "steps": 40, "wide": 0.8}
            episodes = collect(chosen.domain, chosen.stack(chosen.sources), random_policy(2), jr.key(seed), **kinds)  # pyright: ignore
            hits += find(steps_of(episodes), LocateConfig(halves=0), seed).changes
        counts[name] = dict(zip(targets, hits.tolist(), strict=True))
    return {"cartpole_seeds": seeds, "cartpole_rows": LocateConfig().rows, "cartpole": counts}


def triple(rng: np.random.Generator, n: int, dependent: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and z of one to three columns on which both depend."""
    bends = (*BENDS, lambda v: v)
    z = rng.normal(size=(n, rng.integers(1, 4)))
    of_z = lambda: sum(rng.uniform(0.4, 1) * bends[rng.integers(5)](column) for column in z.T)  # noqa: E731
    x = of_z() + 0.8 * rng.normal(size=n)
    y = of_z() + 0.8 * rng.normal(size=n)
    return x, y + dependent * rng.uniform(0.4, 0.8) * bends[rng.integers(5)](x), z


def against_kci(n: int, tests: int) -> dict[str, np.ndarray]:
    """p-values and seconds of both, on the same data; every second triple is dependent."""
    from causallearn.utils.cit import CIT  # pyright: ignore[reportMissingImports]

    found: dict[str, list] = {"kci": [], "ours": [], "kci_seconds": [], "seconds": []}
    for i in range(tests):
        x, y, z = triple(np.random.default_rng(30_000 + i), n, i % 2 == 1)
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kci = CIT(np.column_stack([x, y, z]), "kci", est_width="median")
            found["kci"].append(kci(0, 1, list(range(2, 2 + z.shape[1]))))
        between = time.perf_counter()
        found["ours"].append(p_value(continuous(x), continuous(y), [continuous(column) for column in z.T], seed=i))
        found["kci_seconds"].append(between - begun)
        found["seconds"].append(time.perf_counter() - between)
    return {name: np.array(values) for name, values in found.items()}


def kci() -> dict:
    at, big = against_kci(1000, 100), against_kci(2000, 6)
    dependent = np.arange(100) % 2 == 1
    reject = {name: at[name] <= 0.05 for name in ("kci", "ours")}
    share = lambda name, which: float(reject[name][which].mean())  # noqa: E731
    return {
        "agreement_kci_1000": float((reject["kci"] == reject["ours"]).mean()),
        "power_1000": {name: share(name, dependent) for name in reject},
        "type_one_1000": {name: share(name, ~dependent) for name in reject},
        "speedup_kci_2000": round(float(np.median(big["kci_seconds"][1:] / big["seconds"][1:])), 1),
    }


def cost() -> dict:
    sizes, seconds = (3000, 10_000, 30_000, 100_000), []
    for n in sizes:
        x, y, z = triple(np.random.default_rng(0), n, True)
        variables = continuous(x), continuous(y), [continuous(column) for column in z.T]
        times = []
        for _ in range(8):
            begun = time.perf_counter()
            p_value(*variables)
            times.append(time.perf_counter() - begun)
        seconds.append(np.median(times[1:]))
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    return {"cost_rows": list(sizes), "cost_ratios": np.round(np.array(seconds) / seconds[0], 2).tolist()} | {
        "cost_exponent": round(float(exponent), 3)
    }


def drawn(x: np.ndarray, angle: np.ndarray, size: np.ndarray, turn: np.ndarray, side: int = 32) -> np.ndarray:
    """A cart with its pole, as images in [0, 1]."""
    rows, columns = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    wide = lambda v: v[:, None, None]  # noqa: E731
    across = (columns * wide(np.cos(turn)) + rows * wide(np.sin(turn))) / wide(size) - wide(x)
    down = (-columns * wide(np.sin(turn)) + rows * wide(np.cos(turn))) / wide(size)
    cart = (np.abs(across) < 0.2) & (np.abs(down - 0.3) < 0.08)
    along = across * wide(np.sin(angle)) - (down - 0.25) * wide(np.cos(angle))
    off = np.abs(across * wide(np.cos(angle)) + (down - 0.25) * wide(np.sin(angle)))
    pole = (off < 0.06) & (along > 0) & (along < 0.7)
    picture = 0.9 - 0.8 * cart[..., None] - 0.6 * pole[..., None] * np.array([0.2, 0.6, 0.9])
    return np.clip(picture, 0, 1)


def image_domains(kind: str, rng: np.random.Generator, n: int = 600, n_domains: int = 5):
    """One row a trajectory. What `kind` names changes from domain to domain, nothing else."""
    k = np.arange(n) % n_domains
    level = np.linspace(0, 1, n_domains)[k]
    moved = lambda name: level * (kind == name)  # noqa: E731
    x, angle, a = rng.uniform(-0.5, 0.5, n), rng.normal(0, 0.3, n), rng.integers(0, 2, n)
    image = drawn(x, angle, 0.9 - 0.4 * moved("size"), np.pi / 2 * moved("rotation"))
    image = image * (1 - 0.5 * moved("colour")[:, None, None, None] * np.array([1.0, 0.0, -0.2]))
    image = image + (0.02 + 0.2 * moved("noise"))[:, None, None, None] * rng.normal(size=image.shape)
    r = 0.3 * np.cos(2 * angle) + 0.5 * (2 * a - 1) * (1 - 2 * moved("reward")) + 0.3 * rng.normal(size=n)
    return image, a, r, k, np.arange(n)


def images(seeds: int = 20) -> dict:
    right = {"noise": "C4", "colour": "C4", "size": "C4", "rotation": "C4", "reward": "C2"}
    cases = {
        kind: [changes.locate(*image_domains(kind, np.random.default_rng(seed)), seed=seed).case for seed in range(seeds)]
        for kind in right
    }
    return {"image_seeds": seeds, "images": {kind: cases[kind].count(case) for kind, case in right.items()}}


def structure(seeds: int = 2) -> dict:
    """The edges that a model has if it learns them, takes those of the tests, or learns within those of the tests."""
    found: dict = {}
    for name in ("cartpole-gravity", "cartpole-mass"):
        chosen = family(name)
        for seed in range(seeds):
            config = resolve(chosen, Config(seed=seed))
            key_collect, key_model, *_ = jr.split(jr.key(seed), 5)
            episodes = stages.record(chosen, chosen.sources, config, key_collect, Progress(quiet=True))
            tested = find(steps_of(episodes), config.tests, seed)
            for whose in ("learned", "tests", "both"):
                plan = stages.sized(config.model, chosen, tested)
                model = fit(episodes, 2, plan, key_model, bounds=stages.bounds_of(tested, plan, whose))
                row = graph_errors(chosen, model) | {"theta": np.asarray(model.theta.theta_s)[:, 0].round(3).tolist()}
                found.setdefault(name, {}).setdefault(whose, []).append(row)
    return {"structure": found}


PARTS = {f.__name__: f for f in (systems, power, nulls, cartpole, images, cost, kci, structure)}


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "summary.json"
    summary = json.loads(path.read_text()) if path.exists() else {"command": "python benchmarks/locate.py"}
    for name in sys.argv[1:] or PARTS:
        summary |= PARTS[name]()
        path.write_text(json.dumps(summary, indent=1) + "\n")
        print(name, {key: summary[key] for key in list(summary)[-4:]}, flush=True)


if __name__ == "__main__":
    main()
