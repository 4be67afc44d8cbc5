"""A family: environments that differ in a few factors, some to learn from, some to adapt to.

In: a name, or a domain with its sources and targets. Out: `Family`, the first noun of the data path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from adarl.domains.cartpole import CartPole, CartPoleImages
from adarl.domains.functional import Functional
from adarl.domains.host import Host, Point
from adarl.types import AdarlError


@dataclass(frozen=True)
class Family:
    """Domains with one shape and different factors."""

    name: str
    domain: Functional | Host
    factors: tuple[str, ...]
    """The factors that change between the domains. The learner never sees their values."""
    sources: tuple[Point, ...]
    targets: Mapping[str, Point]
    """Named targets. What stands before the first `_` is the row of a table: `in_neg` and `in_pos` share `in`."""
    discount: float = 0.99
    """Gamma: how far ahead an action matters."""
    score: str = "return"
    """What the return of an episode means."""

    def __post_init__(self):
        check(self.name, self.factors, self.sources, self.targets)
        if isinstance(self.domain, Functional):
            for factor in self.factors:
                if factor not in self.domain.defaults:
                    raise AdarlError(unknown("factor", factor, self.domain.defaults))

    def stack(self, points: Sequence[Point]) -> dict[str, Float[Array, " domain"]]:
        """Every factor of a functional domain as one array over `points`, defaults filled in."""
        assert isinstance(self.domain, Functional)
        return {
            name: jnp.asarray([point.get(name, default) for point in points], jnp.float32)
            for name, default in self.domain.defaults.items()
        }

    def target(self, name: str) -> Point:
        """The factors of a named target."""
        if name not in self.targets:
            raise AdarlError(unknown("target", name, self.targets))
        return self.targets[name]

    @classmethod
    def from_gymnasium(
        cls,
        make: Callable[..., gym.Env],
        factors: str | Sequence[str],
        sources: Sequence[float | Sequence[float] | Point],
        targets: Mapping[str, float | Sequence[float] | Point],
        name: str = "own",
        discount: float = 0.99,
    ) -> "Family":
        """A family of the user's own: `make(**factors)` returns a Gymnasium environment.

        With one factor a domain is a number; with several it is a tuple in the order of `factors`, or a mapping.
        """
        names = (factors,) if isinstance(factors, str) else tuple(factors)

        def point(value: float | Sequence[float] | Point) -> Point:
            if isinstance(value, Mapping):
                return dict(value)
            values = tuple(value) if isinstance(value, Sequence) else (value,)
            if len(values) != len(names):
                raise AdarlError(f"The domain {value!r} has {len(values)} values; the factors are {list(names)}.")
            return {n: float(v) for n, v in zip(names, values, strict=True)}

        points = tuple(point(value) for value in sources)
        named = {key: point(value) for key, value in targets.items()}
        check(name, names, points, named)
        return cls(name, Host.of(make, (*points, *named.values())), names, points, named, discount)


def check(name: str, factors: Sequence[str], sources: Sequence[Point], targets: Mapping[str, Point]) -> None:
    """Refuse a family that nothing can be learned from."""
    if len(sources) < 2:
        raise AdarlError(
            f"Family {name!r} has {len(sources)} source domain(s); what changes can only be learned from at least 2."
        )
    if all(dict(point) == dict(sources[0]) for point in sources):
        raise AdarlError(
            f"All {len(sources)} sources of family {name!r} are {dict(sources[0])}; what changes can only be learned where"
            " at least 2 of them differ."
        )
    for point in (*sources, *targets.values()):
        for factor, value in point.items():
            if factor not in factors:
                raise AdarlError(unknown("factor", factor, factors))
            if not np.isfinite(value):
                raise AdarlError(f"Factor {factor!r} is {value}; it must be a finite number.")
        for factor in factors:
            if factor not in point:
                raise AdarlError(f"The domain {dict(point)} lacks a value for the factor {factor!r}.")


def unknown(kind: str, given: str, accepted: Sequence[str] | Mapping[str, object]) -> str:
    """The sentence for a name that is not in a list, with the closest one that is."""
    close = get_close_matches(given, list(accepted), n=1, cutoff=0.4)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown {kind} {given!r}.{hint} Accepted: {', '.join(accepted)}."


def _one(
    name: str, factor: str, sources: Sequence[float], targets: Mapping[str, float], domain: CartPole | None = None
) -> Family:
    points = tuple({factor: value} for value in sources)
    named = {key: {factor: value} for key, value in targets.items()}
    return Family(name, domain or CartPole(), (factor,), points, named, score=STEPS)


GRAVITIES = (5.0, 10.0, 20.0, 30.0, 40.0)
MASSES = (0.5, 1.5, 2.5, 3.5, 4.5)
STEPS = "steps survived"


def _families() -> list[Family]:
    target = _one("cartpole-target", "target", (-1.2, -0.6, 0.0, 0.6, 1.2), {"in": 0.3, "out": 1.6})
    return [
        _one("cartpole-gravity", "gravity", GRAVITIES, {"in": 15.0, "out": 55.0}),
        _one("cartpole-mass", "mass", MASSES, {"in": 1.0, "out": 5.5}),
        Family(
            "cartpole-gravity-mass",
            CartPole(),
            ("gravity", "mass"),
            tuple({"gravity": g, "mass": m} for g, m in product(GRAVITIES, MASSES)),
            {"in": {"gravity": 15.0, "mass": 1.0}, "out": {"gravity": 55.0, "mass": 5.5}},
            score=STEPS,
        ),
        _one(
            "cartpole-motor",
            "motor",
            (-1.5, -1.0, -0.5, 0.5, 1.0, 1.5),
            {"in_neg": -0.75, "in_pos": 0.75, "out_neg": -2.0, "out_pos": 2.0},
        ),
        # Every step counts here, not only the last: looking less far ahead is learned sooner.
        replace(target, domain=CartPole(follow=True), discount=0.97, score="return"),
        _distracted("cartpole-distracted", 4),
        _distracted("cartpole-distracted-16", 16),
        _filmed("gravity", GRAVITIES, {"in": 15.0, "out": 55.0}),
        _filmed("mass", MASSES, {"in": 1.0, "out": 5.5}),
        _filmed("noise", (0.25, 0.75, 1.25, 1.75, 2.25), {"in": 0.5, "out": 2.75}),
    ]


def _filmed(factor: str, sources: Sequence[float], targets: Mapping[str, float]) -> Family:
    """One factor changes, and only images are seen."""
    noisy = factor == "noise"
    name = "cartpole-noise" if noisy else f"cartpole-{factor}-images"
    return _one(name, factor, sources, targets, CartPoleImages(noisy=noisy))


def _distracted(name: str, n: int) -> Family:
    """Gravity changes, and something that moves only `n` dimensions that nothing reads."""
    points = tuple({"gravity": g, "drift": d} for g, d in product(GRAVITIES, (-2.0, 0.0, 2.0)))
    targets = {"in": {"gravity": 15.0, "drift": 1.0}, "out": {"gravity": 55.0, "drift": 3.0}}
    return Family(name, CartPole(distractors=n), ("gravity", "drift"), points, targets, score=STEPS)


def families() -> dict[str, Family]:
    """The families that come with adarl, by name."""
    return {family.name: family for family in _families()}


def family(name: str) -> Family:
    """The family of this name."""
    known = families()
    if name not in known:
        raise AdarlError(unknown("family", name, known))
    return known[name]
