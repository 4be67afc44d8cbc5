"""A whole experiment in one place: what is decided before any work is done.

In: a family and the user's choices. Out: `Config`, complete and checked.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args

from adarl.collect import CollectConfig
from adarl.domains.family import Family, families, unknown
from adarl.domains.functional import Camera
from adarl.domains.host import Host
from adarl.locate.structure import LocateConfig
from adarl.methods.cavia import CaviaConfig
from adarl.methods.mql import MqlConfig
from adarl.methods.pearl import PearlConfig
from adarl.methods.pnn import PnnConfig
from adarl.methods.psm import PsmConfig
from adarl.model.eye import Hears
from adarl.model.plan import MissVAEConfig, ModelConfig
from adarl.policy.learn import PolicyConfig
from adarl.types import AdarlError

Method = Literal["oracle", "non_t", "cavia", "pearl", "pnn", "psm", "mql", "adarl_star", "adarl", "adarl_plus"]
METHODS: tuple[Method, ...] = get_args(Method)
WITH_MODEL = ("adarl_star", "adarl", "adarl_plus")
ON_HOSTS = WITH_MODEL
"""What can learn from Gymnasium environments; the others step a simulator in the middle of an update."""


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    seed: int = 0
    """Of everything random: data, model, policies, target samples."""
    seeds: int = 4
    """Policies learned beside each other, each with its own target samples."""
    methods: tuple[Method, ...] = ("adarl_plus",)
    """adarl_plus trains in imagined domains too; adarl is Algorithm 1 as printed; the others are for comparison."""
    samples: tuple[str, ...] = ("50steps",)
    """What each target gives: `50steps` single steps, or `20`, `50`, `10000` trajectories of up to 40 steps."""
    episodes: int = 5
    """Episodes a policy is evaluated by in each target."""
    steps: int = 10_000
    """Steps at which an evaluation episode is cut."""
    collect: CollectConfig = field(default_factory=CollectConfig)
    """Recordings of the sources."""
    locate: Literal["on", "off"] = "on"
    """Whether tests of independence say, before the model is estimated, what changed; theta is sized by that."""
    structure: Literal["learned", "tests", "both"] = "learned"
    """Whose edges the model has: those it learns, those of the tests, or of the latter those it finds worth their price."""
    tests: LocateConfig = field(default_factory=LocateConfig)
    """Tests of independence."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The world model, where states are seen."""
    vae: MissVAEConfig = field(default_factory=MissVAEConfig)
    """The world model, where images are."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    """The policy."""
    cavia: CaviaConfig = field(default_factory=CaviaConfig)
    """CAVIA's context."""
    pearl: PearlConfig = field(default_factory=PearlConfig)
    """PEARL's encoder."""
    pnn: PnnConfig = field(default_factory=PnnConfig)
    """PNN's second column."""
    psm: PsmConfig = field(default_factory=PsmConfig)
    """PSM's loss on features."""
    mql: MqlConfig = field(default_factory=MqlConfig)
    """MQL's context."""


def n_samples(samples: str) -> tuple[int, bool]:
    """How many, and whether they are single steps: `50steps` -> (50, True), `20` -> (20, False)."""
    number = samples.removesuffix("steps")
    if not number.isdigit() or int(number) == 0:
        raise AdarlError(
            f"Samples are {samples!r}; a positive number of trajectories (`20`) or of steps (`50steps`) is expected."
        )
    return int(number), samples.endswith("steps")


def resolve(family: Family, config: Config) -> Config:
    """The configuration with all that follows from the family filled in, checked before any work is done."""
    for samples in config.samples:
        n_samples(samples)
    for method in config.methods:
        if method not in METHODS:
            raise AdarlError(unknown("method", method, METHODS))
        if isinstance(family.domain, Host) and method not in ON_HOSTS:
            raise AdarlError(f"{method!r} needs a simulator and cannot learn in {family.name!r}; {', '.join(ON_HOSTS)} can.")
    counts = {"seeds": config.seeds, "episodes": config.episodes, "trials": config.collect.trials}
    for name, value in {**counts, "n_step": config.policy.learner.n_step}.items():
        if value < 1:
            raise AdarlError(f"{name} is {value}; at least 1 is needed.")
    if config.vae.hears not in get_args(Hears):
        raise AdarlError(unknown("vae.hears", config.vae.hears, get_args(Hears)))
    if not 0 <= config.policy.council <= 1:
        raise AdarlError(f"policy.council is {config.policy.council}; a share of the networks, from 0 to 1, is expected.")
    if config.policy.capacity < 2 * max(config.policy.environments, len(family.sources)):
        raise AdarlError(f"capacity is {config.policy.capacity}; room for two transitions an environment is needed.")
    if config.policy.learner.updates % config.policy.evaluate_every:
        every = config.policy.evaluate_every
        raise AdarlError(f"updates is {config.policy.learner.updates}; a multiple of evaluate_every ({every}) is expected.")
    if config.structure != "learned" and isinstance(family.domain, Camera):
        raise AdarlError(f"structure is {config.structure!r}; edges of states that are not seen can only be 'learned'.")
    if config.structure != "learned" and config.locate == "off":
        raise AdarlError(f"structure is {config.structure!r}, but locate is 'off': there are no tests to take edges from.")
    if config.policy.learner.discount == 0:
        learner = replace(config.policy.learner, discount=family.discount)
        config = replace(config, policy=replace(config.policy, learner=learner))
    return config


def command(family: Family, config: Config) -> str:
    """What to type for the same run: every choice that differs from the default. Empty for a family not of adarl."""
    if family != families().get(family.name):
        return ""
    return shlex.join(["adarl", "run", family.name, *_options(config, resolve(family, Config()))])


def _options(config: Any, default: Any, prefix: str = "--") -> Iterator[str]:
    for entry in fields(config):
        value, usual = getattr(config, entry.name), getattr(default, entry.name)
        name = entry.name.replace("_", "-")
        if is_dataclass(value):
            yield from _options(value, usual, f"{prefix}{name}.")
        elif value != usual and isinstance(value, bool):
            yield f"{prefix}{'' if value else 'no-'}{name}"
        elif value != usual:
            yield from (f"{prefix}{name}", *(map(str, value) if isinstance(value, tuple) else [str(value)]))
