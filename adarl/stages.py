"""The stages of Algorithm 1, one function each: what `experiment.run` keeps in a run directory.

In: a family, the results of earlier stages, the configuration, a key. Out: arrays that a checkpoint can hold.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.adapt.states import Estimate, first_steps
from adarl.agent import Agent
from adarl.collect import collect, random_policy
from adarl.config import Config, n_samples
from adarl.domains.cartpole import CartPole
from adarl.domains.family import Family, Point
from adarl.domains.host import Host
from adarl.evaluate import bound
from adarl.evaluate.returns import returns_over_seeds, trajectory
from adarl.locate import structure
from adarl.locate.structure import Structure
from adarl.methods.adarl import AdaRL
from adarl.methods.adarl_plus import AdaRLPlus
from adarl.methods.adarl_star import without_masks
from adarl.methods.cavia import CAVIA
from adarl.methods.method import Lesson, Method, Policy, Resume
from adarl.methods.non_t import NonT
from adarl.methods.oracle import Oracle
from adarl.methods.pearl import PEARL
from adarl.model import fit
from adarl.model.plan import ModelConfig
from adarl.model.world import WorldModel
from adarl.network import Network
from adarl.policy import host as host_policy
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


GUESSES = 0.3
"""Share of random actions when a policy records."""


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


def record_again(family: Family, episodes: Episodes, config: Config, key, progress: Progress) -> Episodes:
    """The recordings, and as many more by the policy that Algorithm 1 makes of them."""
    host = family.domain
    assert isinstance(host, Host)
    key_model, key_policy, key_record = jr.split(key, 3)
    plan, unkept = sized(config.model, family, None), Unkept()
    model = estimate_model(family, episodes, plan, None, key_model, unkept, progress)
    method = AdaRL(lesson_of(family, episodes, config), model)
    bar = progress.stage("policy (to record)", config.policy.learner.updates)
    trained = method.train(key_policy[None], unkept, bar)
    q, n = jax.tree.map(lambda x: x[0], trained.q), len(family.sources)

    def behave(rng: np.random.Generator, s: np.ndarray) -> np.ndarray:
        theta = jax.tree.map(lambda t: t[np.arange(len(s)) % n], model.theta)  # domains take turns
        greedy = host_policy.act(q, method.view, jnp.asarray(s), theta, jnp.float32(0.0), jr.key(0))
        return np.where(rng.random(len(s)) < GUESSES, rng.integers(host.n_actions, size=len(s)), greedy)

    seed, plan = int(jr.randint(key_record, (), 0, 2**31 - 1)), config.collect
    more = host.record(family.sources, behave, seed, plan.trials, plan.steps)
    return jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), episodes, more)


def locate(family: Family, episodes: Episodes, config: Config, progress: Progress) -> dict[str, Any]:
    """Where the sources differ, and which edges there are, by tests alone; or why they cannot say."""
    bar = progress.stage("locate", 1)
    try:
        found = structure.find(structure.steps_of(episodes), config.tests, config.seed)
    except AdarlError as error:  # too little data to test may be enough to learn from
        if config.structure != "learned":
            raise
        return {"why_not": str(error)}
    bar(1)
    return {name: value.tolist() for name, value in vars(found).items()}


def sized(plan: ModelConfig, family: Family, found: Structure | None) -> ModelConfig:
    """Dimensions of theta where the user left them open. Tests that see no change at all may lack power: as without them."""
    theta_s, theta_r = len(family.factors), 1
    if found is not None and found.changes.any():
        theta_s, theta_r = theta_s * bool(found.changes[:-1].any()), int(found.changes[-1])
    return dataclasses.replace(
        plan,
        theta_s=theta_s if plan.theta_s < 0 else plan.theta_s,
        theta_r=theta_r if plan.theta_r < 0 else plan.theta_r,
    )


def bounds_of(found: Structure | None, plan: ModelConfig, whose: str) -> fit.Bounds | None:
    """What tests say of the edges of a model, where they are asked. A state always carries itself on."""
    if found is None or whose == "learned":
        return None
    edges = found.found.astype(float)
    edges[:-1, : len(edges) - 1] = np.maximum(edges[:-1, : len(edges) - 1], np.eye(len(edges) - 1))
    most = found.masks(plan.theta_s, plan.theta_r, edges)
    return fit.Bounds(most if whose == "tests" else jax.tree.map(jnp.zeros_like, most), most)


def estimate_model(
    family: Family,
    episodes: Episodes,
    plan: ModelConfig,
    bounds: fit.Bounds | None,
    key,
    resume: Resume,
    progress: Progress,
) -> WorldModel:
    """Algorithm 1, line 2, second half: Eq. 1 from the recordings."""
    bar = progress.stage("model", plan.steps)
    sizes = (len(family.domain.state_names), family.domain.n_actions, len(family.sources), plan)
    state = resume.load(lambda: fit.start(*sizes, jr.key(0)))

    def each(state: fit.FitState, terms) -> None:
        resume.save(state)
        bar(int(state.step))

    return fit.fit(episodes, family.domain.n_actions, plan, key, bounds=bounds, state=state, each=each)


def models_of(config: Config, plan: ModelConfig) -> dict[str, ModelConfig]:
    """The models that the methods need, with their plans."""
    plans = {"model": plan, "model_star": without_masks(plan)}
    needed = {model_name(method) for method in config.methods}
    return {name: plan for name, plan in plans.items() if name in needed}


def model_name(method: str) -> str:
    """Which model a method is built on; empty if on none."""
    return {"adarl_star": "model_star", "adarl": "model", "adarl_plus": "model"}.get(method, "")


def lesson_of(family: Family, episodes: Episodes, config: Config) -> Lesson:
    """What every method is given."""
    n_wide = 0 if isinstance(family.domain, Host) else round(config.collect.wide * config.collect.trials)
    return Lesson(family, episodes, n_wide, config.policy, config.collect.persist)


def method_of(name: str, lesson: Lesson, model: WorldModel | None, config: Config) -> Method:
    """A method by its name; the model is that of `estimate_model`."""
    if model is not None:
        return AdaRLPlus(lesson, model) if name == "adarl_plus" else AdaRL(lesson, model)
    plain = {"oracle": Oracle, "non_t": NonT}
    if name in plain:
        return plain[name](lesson)
    return CAVIA(lesson, config.cavia) if name == "cavia" else PEARL(lesson, config.pearl)


def train(name: str, method: Method, config: Config, key, resume: Resume, progress: Progress) -> Any:
    """Algorithm 1, lines 4 to 19, or what stands there in another method, for every seed."""
    bar = progress.stage(f"policy ({name})", config.policy.learner.updates)
    trained = method.train(jr.split(key, config.seeds), resume, bar)
    bar(config.policy.learner.updates)
    return trained


def adapt(method: Method, trained: Any, target: str, samples: str, config: Config, key, key_policy) -> Policy:
    """Algorithm 1, lines 20 and 21: what acts in a target. Every seed has its own samples, the same in every method."""
    family = method.lesson.family
    point, at = family.targets[target], list(family.targets).index(target)
    each = [jr.fold_in(jr.fold_in(key, at), i) for i in range(config.seeds)]
    seen = [target_samples(family, point, samples, config, one) for one in each]
    return method.adapt(trained, target, seen, jr.split(key_policy, config.seeds))


def target_samples(family: Family, point: Point, samples: str, config: Config, key) -> Episodes:
    """What a target gives: trajectories of the random policy from usual starts, or the first single steps of them."""
    number, single = n_samples(samples)
    plan = dataclasses.replace(config.collect, trials=number, wide=0.0)
    quiet = Progress(quiet=True)
    episodes = record(family, (point,), dataclasses.replace(config, collect=plan), key, quiet)
    return first_steps(episodes, number) if single else episodes


def evaluate(method: Method, policy: Policy, target: str, samples: str, config: Config, key) -> dict[str, Any]:
    """The score of every seed in a target, from the same starts in every method and after any number of samples."""
    family = method.lesson.family
    at = list(family.targets).index(target)
    scores = score(family, family.targets[target], policy, method.view, config, jr.fold_in(key, at))
    return {"target": target, "factors": dict(family.targets[target]), "samples": samples, "scores": scores.tolist()}


def score(family: Family, point: Point, policy: Policy, view: View, config: Config, key) -> np.ndarray:
    """Mean return a seed."""
    q, theta = policy.q, policy.told
    domain = family.domain
    if not isinstance(domain, Host):
        factors = {name: value[0] for name, value in family.stack((point,)).items()}
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


CLIP = 300
"""Steps of an episode that are kept to be watched."""


def animate(
    family: Family,
    agent: Agent,
    known: dict[str, Estimate],
    config: Config,
    key,
    oracle: Mapping[str, tuple[Network, View]] | None = None,
) -> list[dict[str, Any]]:
    """Episodes to watch: in every target from one start, told the theta that was estimated and the mean one of the sources.

    The estimate is the first seed's, from the fewest samples. `oracle` has for a target a policy trained there, which needs
    no theta. Only CartPole can be drawn.
    """
    domain = family.domain
    if isinstance(domain, Host) or domain.state_names[:4] != CartPole().state_names:
        return []
    number, single = zip(*map(n_samples, config.samples), strict=True)
    sizes = [n * (1 if one else config.collect.steps) for n, one in zip(number, single, strict=True)]
    samples = config.samples[int(np.argmin(sizes))]
    mean = jax.tree.map(lambda x: x.mean(0), agent.model.theta)
    found = []
    for t, (target, point) in enumerate(family.targets.items()):
        theta = jax.tree.map(lambda x: x[0], known[f"{target}/{samples}"].theta)
        q, told = agent.suited(theta)
        actors = {"adapted": (q, agent.view, told), "not adapted": (q, agent.view, mean)}
        if oracle is not None:
            actors["oracle"] = (*oracle[target], jax.tree.map(jnp.zeros_like, mean))
        factors = {name: value[0] for name, value in family.stack((point,)).items()}
        agents = []
        for name, (q, view, told) in actors.items():
            s, over = trajectory(domain, factors, q, view, told, jr.fold_in(key, t), steps=config.steps)
            ended_at = int(np.argmax(over)) + 1 if bool(over.any()) else None
            shown = np.asarray(s)[: min(CLIP, ended_at or CLIP) + 1, :4]
            agents.append({"name": name, "states": shown.astype(float).round(4).tolist(), "ended_at": ended_at})
        found.append({"target": target, "samples": samples, "steps": config.steps, "agents": agents})
    return found


def promise(family: Family, agent: Agent, lesson: Lesson, config: Config, key) -> str:
    """Theorem 2 for the agent in its sources, in words; or why it says nothing of them."""
    if isinstance(family.domain, Host):
        return ""
    about = {"best": float(lesson.best), "discount": config.policy.learner.discount, "episodes": 100}
    try:
        factors = family.stack(family.sources)
        return bound.words(bound.of_agent(agent, family.domain, factors, agent.model.theta, key, **about))
    except AdarlError as error:
        return f"Theorem 2 does not apply: {error}"


def episodes_like(family: Family, config: Config, rounds: int = 1) -> Episodes:
    """The shape of `record`'s answer, or of that of `record_again`."""
    shape = (len(family.sources), rounds * config.collect.trials, config.collect.steps)
    s = jnp.zeros((*shape[:2], shape[2] + 1, len(family.domain.state_names)))
    return Episodes(s, jnp.zeros(shape, jnp.int32), jnp.zeros(shape), jnp.zeros(shape, bool), jnp.zeros(shape, bool))
