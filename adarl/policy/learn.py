"""Algorithm 1, lines 4 to 19: Double DQN over all sources at once, one scan, seeds on a vmapped axis.

In: the sources, the algorithm, what the policy sees, and for AdaRL+ the learned model. Out: one Q a seed, chosen by its
score on the sources, and the learning curves. Every method goes through this loop: the same environments, exploration,
replay, number of updates and choice.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.network import Council
from adarl.policy import double_dqn, replay
from adarl.policy.double_dqn import DoubleDQNConfig, Learner
from adarl.policy.foresee import episode
from adarl.policy.imagine import Imagined
from adarl.policy.perceived import THETA
from adarl.policy.replay import Experience
from adarl.policy.sources import Sources, with_starts
from adarl.policy.view import View
from adarl.types import Step, Theta


@dataclass(frozen=True)
class PolicyConfig:
    """How the policy is learned."""

    learner: DoubleDQNConfig = field(default_factory=DoubleDQNConfig)
    """Double DQN."""
    environments: int = 40
    """Environments stepped at once, shared out among the sources; as many imagined ones stand beside them in AdaRL+."""
    horizon: int = 500
    """Steps after which a training episode starts anew."""
    wide: float = 0.5
    """Share of the training episodes that start anywhere reachable, where the simulator can do that."""
    capacity: int = 100_000
    """Transitions remembered."""
    explore: float = 0.2
    """Share of the updates over which random actions fall from all to `epsilon`."""
    epsilon: float = 0.05
    """Share of random actions in the end."""
    beyond: float = 0.8
    """How far past the outermost source imagination goes, relative to its distance from the median source."""
    wander: float = 0.0
    """Probability that an imagined domain becomes another in mid-episode, a step; 0 lets it change with the episode only."""
    council: float = 0.0
    """Share of the networks that training passed through, the last of them, that act together by the mean of their Q. With 0
    the one that did best on the sources acts alone."""
    evaluate_every: int = 1000
    """Updates between two evaluations on the sources."""
    evaluate_steps: int = 2000
    """Steps of such an evaluation, at most: a cart may drift for long before it leaves the track."""


EVALUATIONS = 20  # episodes a network is judged by in the sources
DREAMS = 60  # and in imagination, which is wider


class Algorithm(Protocol):
    """How a batch changes what is learned, and what the policy is told of each source."""

    def start(self, n_inputs: int, n_actions: int, key: PRNGKeyArray) -> Learner:
        """A fresh learner."""
        ...

    def update(self, learner: Learner, ring: Experience, count: Int[Array, ""], block: int, key: PRNGKeyArray) -> Learner:
        """One update from a ring into which `count` blocks of experience were written."""
        ...

    def told(self, q: Any, key: PRNGKeyArray) -> Theta:
        """What `q` is told of every source when it is evaluated."""
        ...


class Worlds(eqx.Module):
    """Environments under way, each with its state and its age."""

    s: Float[Array, "env state"]
    age: Int[Array, " env"]
    theta: Theta | None
    """Of imagined ones. What is told of a source may change with the learner."""


class LearnState(eqx.Module):
    """The loop's memory for one seed: what a checkpoint holds."""

    learner: Learner
    ring: Experience
    real: Worlds | None
    imagined: Worlds | None
    evaluated: Any
    """The acting networks at all evaluations."""
    merit: Float[Array, " evaluation"]
    """What they are chosen by; minus infinity where none has been yet."""
    curve: Float[Array, " evaluation"]
    """What they scored on the sources."""


def assign(sources: Sources, config: PolicyConfig) -> Int[np.ndarray, " env"]:
    """The source domain of every real environment."""
    n_domains = sources.n_domains
    return np.repeat(np.arange(n_domains), n_environments(n_domains, config) // n_domains)


def n_environments(n_domains: int, config: PolicyConfig) -> int:
    """As many for every source, and at least what was asked for."""
    return -(-config.environments // n_domains) * n_domains


def start(
    sources: Sources, algorithm: Algorithm, view: View, n_actions: int, config: PolicyConfig, key: PRNGKeyArray
) -> LearnState:
    """The first state of the loop for one seed."""
    key_learner, key_real, key_imagined = jr.split(key, 3)
    learner = algorithm.start(view.size, n_actions, key_learner)
    domains = assign(sources, config)
    real = None if sources.domain is None else _begin(sources, domains, key_real)
    imagined = None if sources.imagined is None else _dream(sources.imagined, key_imagined, len(domains))
    block = len(domains) * (1 if imagined is None and sources.elsewhere is None else 2)
    ring = replay.empty(config.capacity // block * block, view.size)
    n_evaluations = config.learner.updates // config.evaluate_every
    evaluated = jax.tree.map(lambda x: jnp.repeat(x[None], n_evaluations, axis=0), learner.q)
    none_yet = jnp.full(n_evaluations, -jnp.inf)
    return LearnState(learner, ring, real, imagined, evaluated, none_yet, none_yet)


def _begin(sources: Sources, domains: Int[np.ndarray, " env"], key: PRNGKeyArray) -> Worlds:
    domain = sources.domain
    assert domain is not None
    factors = jax.tree.map(lambda f: f[domains], sources.factors)
    keys = jr.split(key, len(domains))
    s = jax.vmap(lambda k, f: domain.reset(k, f, jnp.bool_(False)))(keys, factors)
    return Worlds(s, jnp.zeros(len(domains), jnp.int32), None)


def _dream(world: Imagined, key: PRNGKeyArray, n: int) -> Worlds:
    def one(key):
        key_theta, key_start = jr.split(key)
        theta = world.draw_theta(key_theta)
        return world.reset(key_start, theta, jnp.bool_(False)), theta

    s, theta = jax.vmap(one)(jr.split(key, n))
    return Worlds(s, jnp.zeros(n, jnp.int32), theta)


def epsilon(step: Int[Array, ""], config: PolicyConfig) -> Float[Array, ""]:
    """From one to `config.epsilon`, linearly."""
    done = step.astype(jnp.float32) / (config.explore * config.learner.updates)
    return jnp.maximum(1.0 - done * (1.0 - config.epsilon), config.epsilon)


def practise(
    state: LearnState,
    step: Int[Array, ""],
    sources: Sources,
    algorithm: Algorithm,
    view: View,
    config: PolicyConfig,
    key: PRNGKeyArray,
) -> LearnState:
    """One step in every source environment, then a rehearsal."""
    key_real, key_rehearse = jr.split(jr.fold_in(key, step))
    eps = epsilon(step, config)
    domain, real = sources.domain, state.real
    assert domain is not None and real is not None

    def one(key, s, age, theta, k):
        factors = jax.tree.map(lambda f: f[k], sources.factors)
        key_act, key_step, key_wide, key_reset = jr.split(key, 4)
        a = double_dqn.act(key_act, state.learner.q, view(s, theta), eps)
        answer = domain.step(key_step, s, a, factors)
        start = sources.start(key_reset, k, jr.bernoulli(key_wide, config.wide))
        settled = _settle(s, a, answer, age, start, theta, sources, view, config)
        if sources.elsewhere is None:
            return *settled, None
        there = sources.elsewhere.draw_theta(jr.fold_in(key_step, 1))
        moved = sources.elsewhere.step(s, a, answer, theta, there)
        return *settled, experienced(view, s, a, moved, there, sources.best, config)

    domains = assign(sources, config)
    told = jax.tree.map(lambda x: x[domains], state.learner.told)
    keys = jr.split(key_real, real.age.shape[0])
    new, s, age, other = jax.vmap(one)(keys, real.s, real.age, told, jnp.asarray(domains))
    new = new if other is None else jax.tree.map(lambda x, y: jnp.concatenate([x, y]), new, other)
    state = eqx.tree_at(lambda s: s.real, state, Worlds(s, age, None))
    return rehearse(state, new, step, sources, algorithm, view, config, key_rehearse)


def rehearse(
    state: LearnState,
    new: Experience,
    step: Int[Array, ""],
    sources: Sources,
    algorithm: Algorithm,
    view: View,
    config: PolicyConfig,
    key: PRNGKeyArray,
) -> LearnState:
    """Remember what was lived through, and for AdaRL+ a step in every imagined domain; then one update."""
    key_imagined, key_batch = jr.split(key)
    imagined = state.imagined
    if imagined is not None:
        dreamt, imagined = _dream_on(state.learner.q, imagined, step, sources, view, config, key_imagined)
        new = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), new, dreamt)
    ring = replay.add(state.ring, new, step)
    learner = algorithm.update(state.learner, ring, step + 1, new.r_t.shape[0], key_batch)
    return LearnState(learner, ring, state.real, imagined, state.evaluated, state.merit, state.curve)


def _dream_on(q, imagined: Worlds, step, sources: Sources, view: View, config: PolicyConfig, key):
    world = sources.imagined
    assert world is not None
    eps = epsilon(step, config)

    def one(key, s, age, theta):
        key_act, key_step, key_theta, key_wide, key_reset, key_move = jr.split(key, 6)
        a = double_dqn.act(key_act, q, view(s, theta), eps)
        answer = world.step(key_step, s, a, theta)
        start = world.reset(key_reset, theta, jr.bernoulli(key_wide, config.wide))
        experience, s, age = _settle(s, a, answer, age, start, theta, sources, view, config)
        # Where some domains end at once and others never, most steps would be spent in the latter: then thetas change by the
        # step, and states reached in an easy domain are met in a hard one.
        moves_on = jr.bernoulli(key_move, config.wander) if config.wander else age == 0
        pick = lambda new, old: jnp.where(moves_on, new, old)  # noqa: E731
        experience = replace(experience, goes_on=experience.goes_on & ~moves_on)
        return experience, Worlds(s, age, jax.tree.map(pick, world.draw_theta(key_theta), theta))

    keys = jr.split(key, imagined.age.shape[0])
    return jax.vmap(one)(keys, imagined.s, imagined.age, imagined.theta)


def _settle(s_tm1, a, answer, age, start, theta, sources: Sources, view: View, config: PolicyConfig):
    """What one step leaves behind: the experience, and the state and age of a world that goes on or starts anew."""
    over = answer.ended | (age + 1 >= config.horizon)
    experience = experienced(view, s_tm1, a, answer, theta, sources.best, config, goes_on=~over)
    pick = lambda new, old: jnp.where(over, new, old)  # noqa: E731
    return experience, pick(start, answer.s), pick(0, age + 1)


def experienced(
    view: View, s_tm1, a_tm1, answer: Step, theta: Theta, best, config: PolicyConfig, goes_on: Array | bool = False
) -> Experience:
    """One step as the learner sees it. Unless it `goes_on`, what came after it is not known."""
    discount = config.learner.discount
    r, left = double_dqn.shaped(answer.r, answer.ended, best, discount), jnp.where(answer.ended, 0.0, discount)
    return Experience(view(s_tm1, theta), a_tm1, r, view(answer.s, theta), left, jnp.asarray(goes_on))


def score(
    q: Any, sources: Sources, algorithm: Algorithm, view: View, config: PolicyConfig, key: PRNGKeyArray
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What a network is chosen by, its return on the sources and, for AdaRL+, in imagined domains; and the former alone."""
    key_sources, key_dreams, key_told = jr.split(key, 3)
    on_sources = score_on_sources(q, algorithm.told(q, key_told), sources, view, config, key_sources)
    if sources.imagined is None:
        return on_sources, on_sources
    return (on_sources + score_in_dreams(q, sources, view, config, key_dreams)) / 2, on_sources


def score_on_sources(q: Any, told: Theta, sources: Sources, view: View, config: PolicyConfig, key: PRNGKeyArray) -> Array:
    """Mean return of the greedy policy over the sources, half of the starts wide."""
    domain = sources.domain
    assert domain is not None
    copies = max(2, -(-EVALUATIONS // sources.n_domains))
    domains = np.repeat(np.arange(sources.n_domains), copies)

    def one(key, theta, factors, wide):
        key_reset, key_steps = jr.split(key)
        step = lambda k, s, a: domain.step(k, s, a, factors)  # noqa: E731
        return episode(q, view, theta, domain.reset(key_reset, factors, wide), step, config.evaluate_steps, key_steps)

    theta, factors = jax.tree.map(lambda x: x[domains], (told, sources.factors))
    wide = jnp.arange(len(domains)) % copies < copies // 2
    return jax.vmap(one)(jr.split(key, len(domains)), theta, factors, wide).mean()


def score_in_dreams(q: Any, sources: Sources, view: View, config: PolicyConfig, key: PRNGKeyArray) -> Array:
    """Mean return of the greedy policy in the outermost imagined domains, half of the starts wide."""
    world = sources.imagined
    assert world is not None
    outermost, n_steps = world.outermost, config.evaluate_steps
    copies = max(2, -(-DREAMS // outermost.theta_s.shape[0]))

    def one(key, theta, wide):
        key_reset, key_steps = jr.split(key)
        step = lambda k, s, a: world.step(k, s, a, theta)  # noqa: E731
        return episode(q, view, theta, world.reset(key_reset, theta, wide), step, n_steps, key_steps)

    thetas = jax.tree.map(lambda t: jnp.repeat(t, copies, axis=0), outermost)
    n = thetas.theta_s.shape[0]
    return jax.vmap(one)(jr.split(key, n), thetas, jnp.arange(n) % copies < copies // 2).mean()


def with_given(state: LearnState, given: dict[str, Any] | None) -> LearnState:
    """A loop whose updates look at more than experience."""
    return state if given is None else replace(state, learner=replace(state.learner, given=given))


@eqx.filter_jit(donate="all-except-first")
def advance(
    known: tuple[Int[Array, ""], PRNGKeyArray, Sources, Algorithm, View, PolicyConfig], states: LearnState
) -> LearnState:
    """`evaluate_every` updates of every seed, then an evaluation. `known` begins with how many updates there were.

    What was remembered goes on where it is, for a second copy may not fit: `states` cannot be used again.
    """
    first, keys, sources, algorithm, view, config = known
    steps = first + jnp.arange(config.evaluate_every)

    def one_seed(state: LearnState, key: PRNGKeyArray) -> LearnState:
        key_practise, key_evaluate = jr.split(key)
        move = lambda s, step: (practise(s, step, sources, algorithm, view, config, key_practise), None)  # noqa: E731
        state, _ = jax.lax.scan(move, state, steps)
        # The same starts at every evaluation, so that one network is not chosen for its luck.
        candidate = state.learner.q_average
        scores = score(candidate, sources, algorithm, view, config, key_evaluate)
        return note(state, candidate, *scores, first // config.evaluate_every)

    shares = shared_out(len(keys))
    each = jax.shard_map(jax.vmap(one_seed), mesh=shares.mesh, in_specs=shares.spec, out_specs=shares.spec, check_vma=False)
    return each(states, keys)


def shared_out(n_seeds: int) -> NamedSharding:
    """As many seeds on every device: two cores with 15 seeds each do more than two cores that share the work of 30."""
    n_devices = max(n for n in range(1, jax.device_count() + 1) if n_seeds % n == 0)
    return NamedSharding(Mesh(jax.devices()[:n_devices], ("seed",)), PartitionSpec("seed"))


def note(state: LearnState, candidate: Any, merit: Array, on_sources: Array, at: Int[Array, ""]) -> LearnState:
    """Keep what was evaluated, with its scores."""
    kept = lambda s: (s.evaluated, s.merit, s.curve)  # noqa: E731
    added = jax.tree.map(lambda all, one: all.at[at].set(one), kept(state), (candidate, merit, on_sources))
    return eqx.tree_at(kept, state, added)


def chosen(state: LearnState, council: float = 0.0) -> Any:
    """The network of one seed with the most merit, the latest of equals; or a council of the last ones."""
    if council:
        first = state.merit.shape[0] - max(1, round(council * state.merit.shape[0]))
        return Council(jax.tree.map(lambda x: x[first:], state.evaluated))
    best = state.merit.shape[0] - 1 - jnp.argmax(state.merit[::-1])
    return jax.tree.map(lambda x: x[best], state.evaluated)


def learn(
    sources: Sources,
    algorithm: Algorithm,
    view: View,
    n_actions: int,
    config: PolicyConfig,
    keys: PRNGKeyArray,
    *,
    resumed: tuple[LearnState, int] | None = None,
    until: int | None = None,
    given: dict[str, Any] | None = None,
    each: Callable[[LearnState, int], None] = lambda states, updates: None,
) -> LearnState:
    """One policy a key: what was `evaluated`, its `merit` and its `curve`.

    `each` is called after every evaluation; what it was given continues the work, once, for it is used up. `until` stops
    after so many updates.
    `given` is for the updates of an algorithm that looks at more than experience, one row a key.
    """
    both = jax.vmap(lambda k: jr.split(k))(keys)
    if THETA in sources.factors:  # images are seen, and every start would be looked at, taken or not
        sources = with_starts(sources, jr.fold_in(keys[0], 1))
    if resumed is None:
        begin = eqx.filter_vmap(lambda k: start(sources, algorithm, view, n_actions, config, k))
        states = eqx.filter_jit(begin)(both[:, 0])
        states, updates = with_given(states, given), 0
    else:
        states, updates = resumed
    shares = shared_out(len(keys))
    states, keys = jax.device_put((states, both[:, 1]), shares)
    while updates < (config.learner.updates if until is None else until):
        states = advance((jnp.int32(updates), keys, sources, algorithm, view, config), states)
        states = jax.device_put(states, shares)  # what is empty comes back shared out otherwise: that is another program
        updates += config.evaluate_every
        each(states, updates)
    return jax.device_put(states, jax.devices()[0])
