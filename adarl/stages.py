"""The stages of Algorithm 1, one function each: what `experiment.run` keeps in a run directory.

In: a family, the results of earlier stages, the configuration, a key. Out: arrays that a checkpoint can hold.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.adapt.states import Estimate, first_steps
from adarl.collect import collect, random_policy
from adarl.config import WITH_MODEL, Config, n_samples
from adarl.domains.family import Family, Point
from adarl.domains.functional import Camera
from adarl.domains.host import Host
from adarl.evaluate.returns import returns_over_seeds
from adarl.locate import changes, structure
from adarl.locate.changes import Changes
from adarl.locate.structure import Structure
from adarl.methods.adarl import AdaRL
from adarl.methods.adarl_plus import AdaRLPlus
from adarl.methods.adarl_star import without_masks
from adarl.methods.cavia import CAVIA
from adarl.methods.method import Lesson, Method, Policy, Resume
from adarl.methods.mql import MQL
from adarl.methods.non_t import NonT
from adarl.methods.oracle import Oracle
from adarl.methods.pearl import PEARL
from adarl.methods.pnn import PNN
from adarl.methods.psm import PSM
from adarl.model import fit
from adarl.model.eye import Film
from adarl.model.patches import Shape
from adarl.model.plan import MissVAEConfig, ModelConfig
from adarl.model.sight import believe
from adarl.model.world import WorldModel
from adarl.policy import host as host_policy
from adarl.policy.perceived import Perceived
from adarl.policy.view import View
from adarl.progress import Progress
from adarl.types import AdarlError, Episodes


def record(family: Family, points: tuple[Point, ...], config: Config, key, progress: Progress) -> Episodes:
    """Algorithm 1, line 2, first half: rollouts of the random policy in every source."""
    bar = progress.stage("collect", 1)
    domain, plan = family.domain, config.collect
    if isinstance(domain, Host):
        seed = int(jr.randint(key, (), 0, 2**31 - 1))
        behave = lambda rng, s: rng.integers(domain.n_actions, size=len(s))  # noqa: E731
        episodes = domain.record(points, behave, seed, plan.trials, plan.steps, plan.persist)
    else:
        behave = random_policy(domain.n_actions)
        shape = {"trials": plan.trials, "steps": plan.steps, "wide": plan.wide, "persist": plan.persist}
        episodes = collect(domain, family.stack(points), behave, key, **shape)
    bar(1)
    return episodes


class Unkept:
    """A training that is done again from its start if it is interrupted."""

    def load(self, like: Any) -> None:
        """Nothing was kept."""

    def save(self, tree: Any, *, force: bool = False) -> bool:
        """Nothing is kept."""
        return False

    def part(self, name: str) -> "Unkept":
        """Nor of a part."""
        return self


def film_of(family: Family, points: Sequence[Point], episodes: Episodes, key) -> Film:
    """Recordings as a camera shows them."""
    assert isinstance(family.domain, Camera)
    return Film.of(episodes, family.stack(points), family.domain, key)


def locate(family: Family, seen: Episodes | Film, config: Config, progress: Progress) -> dict[str, Any]:
    """Where the sources differ, and which edges there are, by tests alone; or why they cannot say."""
    bar = progress.stage("locate", 1)
    if isinstance(seen, Film):
        found = changes.locate(*one_look_a_trial(seen, config.seed), seed=config.seed)
        bar(1)
        return dataclasses.asdict(found)
    try:
        found = structure.find(structure.steps_of(seen), config.tests, config.seed)
    except AdarlError as error:  # too little data to test may be enough to learn from
        if config.structure != "learned":
            raise
        return {"why_not": str(error)}
    bar(1)
    return {name: value.tolist() for name, value in vars(found).items()}


LOOKED_AT = 1000
"""Trials of which one image each is tested."""


def one_look_a_trial(film: Film, seed: int) -> tuple[np.ndarray, ...]:
    """o_t, a_t, r_{t+1}, the domain and the trial, at one moment of as many trials of every domain."""
    rng = np.random.default_rng(seed)
    valid = np.asarray(film.episodes.valid)
    n_domains, n_trials = valid.shape[:2]
    kept = np.sort(rng.permutation(n_trials)[: LOOKED_AT // n_domains])
    k, trial = (part.ravel() for part in np.meshgrid(np.arange(n_domains), kept, indexing="ij"))
    time = rng.integers(0, valid[k, trial].sum(1))
    image = jax.jit(lambda k, i, t: film.frames(k, i)[t])
    o = np.asarray(jax.lax.map(lambda at: image(*at), tuple(map(jnp.asarray, (k, trial, time))), batch_size=50))
    a, r = (np.asarray(x)[k, trial, time] for x in (film.episodes.a, film.episodes.r))
    return o, a, r, k, np.arange(len(k))


def sized(plan: ModelConfig, family: Family, found: Structure | Changes | None) -> ModelConfig:
    """Dimensions of theta where the user left them open. Tests that see no change at all may lack power: as without them."""
    sizes = {"theta_s": len(family.factors), "theta_r": 1}
    if isinstance(plan, MissVAEConfig):
        sizes["theta_o"] = 1
    if isinstance(found, Changes) and found.theta:
        sizes = {name: size * (name in found.theta) for name, size in sizes.items()}
    if isinstance(found, Structure) and found.changes.any():
        sizes = {"theta_s": sizes["theta_s"] * bool(found.changes[:-1].any()), "theta_r": int(found.changes[-1])}
    return dataclasses.replace(plan, **{name: n for name, n in sizes.items() if getattr(plan, name) < 0})


def bounds_of(found: Structure | Changes | None, plan: ModelConfig, whose: str) -> fit.Bounds | None:
    """What tests say of the edges of a model, where they are asked. A state always carries itself on."""
    if not isinstance(found, Structure) or whose == "learned":
        return None
    edges = found.found.astype(float)
    edges[:-1, : len(edges) - 1] = np.maximum(edges[:-1, : len(edges) - 1], np.eye(len(edges) - 1))
    most = found.masks(plan.theta_s, plan.theta_r, edges)
    return fit.Bounds(most if whose == "tests" else jax.tree.map(jnp.zeros_like, most), most)


def estimate_model(
    family: Family,
    seen: Episodes | Film,
    plan: ModelConfig,
    bounds: fit.Bounds | None,
    key,
    resume: Resume,
    progress: Progress,
    begin: Callable[[], fit.FitState] | None = None,
) -> WorldModel:
    """Algorithm 1, line 2, second half: Eq. 1 from the recordings. `begin` gives a state to go on from."""
    bar = progress.stage("model", plan.steps)
    state = resume.load(begin or (lambda: fit.start(*sizes_of(family, plan), plan, jr.key(0), image_of(family))))
    state = begin() if state is None and begin is not None else state

    def each(state: fit.FitState, terms) -> None:
        resume.save(state)
        bar(int(state.step))

    return fit.fit(seen, family.domain.n_actions, plan, key, bounds=bounds, state=state, each=each)


def sizes_of(family: Family, plan: ModelConfig) -> tuple[int, int, int]:
    """States, actions and sources of a model."""
    n_state = plan.latents if isinstance(plan, MissVAEConfig) else len(family.domain.state_names)
    return n_state, family.domain.n_actions, len(family.sources)


def image_of(family: Family) -> Shape | None:
    """The shape of what is seen, where states are not."""
    return family.domain.image if isinstance(family.domain, Camera) else None


def model_like(family: Family, plan: ModelConfig) -> WorldModel:
    """The shape of a model, for loading."""
    return eqx.filter_eval_shape(lambda: fit.blank(*sizes_of(family, plan), plan, image_of(family)))


def models_of(config: Config, plan: ModelConfig) -> dict[str, ModelConfig]:
    """The models that the methods need, with their plans."""
    star = without_masks(plan)
    plans = {"model": plan, "model_star": star, AT_TARGETS: star}
    if isinstance(plan, MissVAEConfig):
        plans["model_plain"] = dataclasses.replace(star, theta_o=0, theta_s=0, theta_r=0)
    needed = {model_name(method, images=isinstance(plan, MissVAEConfig)) for method in config.methods}
    return {name: plan for name, plan in plans.items() if name in needed}


AT_TARGETS = "model_targets"
"""The oracle's model: of the targets themselves, told apart by theta."""


def model_name(method: str, *, images: bool) -> str:
    """Which model a method is built on; empty if on none. Where images are seen, all need one, if without theta."""
    with_theta = {"adarl_star": "model_star", "adarl": "model", "adarl_plus": "model"}
    only_eyes = {"oracle": AT_TARGETS}.get(method, "model_plain") if images else ""
    return with_theta.get(method, only_eyes)


def at_targets(family: Family) -> Family:
    """The family as the oracle knows it."""
    return dataclasses.replace(family, sources=tuple(family.targets.values()))


def lesson_of(family: Family, seen: Episodes | Film, config: Config, model: WorldModel | None = None) -> Lesson:
    """What every method is given; where images are seen, by the eye of a model."""
    n_wide = 0 if isinstance(family.domain, Host) else round(config.collect.wide * config.collect.trials)
    rest = (n_wide, config.policy, config.collect.persist)
    if isinstance(seen, Episodes):
        return Lesson(family, seen, *rest)
    assert model is not None and isinstance(family.domain, Camera)
    through_it = dataclasses.replace(family, domain=Perceived.by(model, family.domain))
    return Lesson(through_it, believe(model, seen, model.theta), *rest, seen_by=model)


def method_of(name: str, lesson: Lesson, model: WorldModel | None, config: Config) -> Method:
    """A method by its name; the model is that of `estimate_model`."""
    if model is not None and name in WITH_MODEL:
        if name == "adarl_plus" and model.eye is None:
            return AdaRLPlus(lesson, model)
        return AdaRL(lesson, model, imagined=name == "adarl_plus")
    plain = {"oracle": Oracle, "non_t": NonT}
    if name in plain:
        return plain[name](lesson)
    kinds: dict[str, Any] = {"cavia": CAVIA, "pearl": PEARL, "pnn": PNN, "psm": PSM, "mql": MQL}
    return kinds[name](lesson, getattr(config, name))


def alike(one: Method, other: Method) -> bool:
    """Whether two methods are the same here: AdaRL+, where no theta matters to a policy, is AdaRL."""
    if not (isinstance(one, AdaRL) and isinstance(other, AdaRL) and one.model is other.model):
        return False
    return all(method.sources.imagined is None and method.sources.elsewhere is None for method in (one, other))


def train(name: str, method: Method, config: Config, key, resume: Resume, progress: Progress) -> Any:
    """Algorithm 1, lines 4 to 19, or what stands there in another method, for every seed."""
    bar = progress.stage(f"policy ({name})", config.policy.learner.updates)
    trained = method.train(jr.split(key, config.seeds), resume, bar)
    bar(config.policy.learner.updates)
    return trained


def adapt(
    family: Family,
    method: Method,
    trained: Any,
    target: str,
    samples: str,
    config: Config,
    key,
    key_policy,
    known: Estimate | None = None,
) -> Policy:
    """Algorithm 1, lines 20 and 21: what acts in a target. Every seed has its own samples, the same in every method.

    `known` is what another method found by the same model and the same samples.
    """
    if known is not None and isinstance(method, AdaRL):
        return method.knowing(trained, known)
    point, at = family.targets[target], list(family.targets).index(target)
    each = [jr.fold_in(jr.fold_in(key, at), i) for i in range(config.seeds)]
    seen = [target_samples(family, point, samples, config, one) for one in each]
    return method.adapt(trained, target, seen, jr.split(key_policy, config.seeds))


def target_samples(family: Family, point: Point, samples: str, config: Config, key) -> Any:
    """What a target gives: trajectories of the random policy from usual starts, or the first single steps of them."""
    number, single = n_samples(samples)
    plan = dataclasses.replace(config.collect, trials=number, wide=0.0)
    quiet = Progress(quiet=True)
    episodes = record(family, (point,), dataclasses.replace(config, collect=plan), key, quiet)
    episodes = first_steps(episodes, number) if single else episodes
    return film_of(family, (point,), episodes, jr.fold_in(key, 1)) if isinstance(family.domain, Camera) else episodes


def evaluate(method: Method, policies: dict[tuple[str, str], Policy], config: Config, key) -> list[dict[str, Any]]:
    """The score of every seed by target and samples, from the same starts in every method and after any number of samples.

    An oracle, to which samples are of no use, is asked once in a target.
    """
    family = method.lesson.family
    found: dict[Any, list[float]] = {}
    rows = []
    for (target, samples), policy in policies.items():
        at = target if isinstance(method, Oracle) else (target, samples)
        if at not in found:
            here = jr.fold_in(key, list(family.targets).index(target))
            found[at] = score(method.lesson, family.targets[target], policy, method.view, config, here).tolist()
        factors = dict(family.targets[target])
        rows.append({"target": target, "factors": factors, "samples": samples, "scores": found[at]})
    return rows


def score(lesson: Lesson, point: Point, policy: Policy, view: View, config: Config, key) -> np.ndarray:
    """Mean return a seed."""
    q, theta = policy.q, policy.told
    domain = lesson.family.domain
    if not isinstance(domain, Host):
        factors = {name: value[0] for name, value in lesson.factors((point,)).items()}
        kinds: Any = {"episodes": config.episodes, "steps": config.steps, "seen_as": policy.seen_as}
        return np.asarray(returns_over_seeds(domain, factors, q, view, theta, key, **kinds).mean(1))
    seed = int(jr.randint(key, (), 0, 2**31 - 1))
    one = lambda i, tree: jax.tree.map(lambda x: x[i], tree)  # noqa: E731
    rows = []
    for i in range(config.seeds):
        told = jax.tree.map(lambda x: x[None], one(i, theta))
        kinds = {"copies": config.episodes, "steps": config.steps, "seed": seed + i}
        rows.append(host_policy.returns(domain, (point,), one(i, q), view, told, **kinds).mean())
    return np.asarray(rows)


def episodes_like(family: Family, config: Config, rounds: int = 1) -> Episodes:
    """The shape of `record`'s answer, or of that of `record_again`."""
    shape = (len(family.sources), rounds * config.collect.trials, config.collect.steps)
    s = jnp.zeros((*shape[:2], shape[2] + 1, len(family.domain.state_names)))
    return Episodes(s, jnp.zeros(shape, jnp.int32), jnp.zeros(shape), jnp.zeros(shape, bool), jnp.zeros(shape, bool))
