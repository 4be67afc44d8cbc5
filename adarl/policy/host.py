"""The loop of `learn.py` around Gymnasium environments: the same act, the same rehearsal, only the stepping differs.

In: a host, its sources, their thetas. Out: one Q, chosen by its score, and its learning curve.

The environments start anew before every evaluation, with a seed that follows from the number of updates: what an
environment remembers cannot be checkpointed, so a continued run would differ without it.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from adarl.domains.host import Host, Point, Vector
from adarl.network import Network
from adarl.policy import double_dqn
from adarl.policy.double_dqn import DoubleDQN
from adarl.policy.learn import (
    EVALUATIONS,
    LearnState,
    PolicyConfig,
    assign,
    epsilon,
    experienced,
    note,
    rehearse,
    score_in_dreams,
    start,
)
from adarl.policy.sources import Sources
from adarl.policy.view import View
from adarl.types import Step, Theta


@eqx.filter_jit
def act(q: Network, view: View, s: Float[Array, "env state"], theta: Theta, eps: Array, key: PRNGKeyArray) -> Array:
    """An action for every environment."""
    keys = jr.split(key, s.shape[0])
    return jax.vmap(lambda k, s, t: double_dqn.act(k, q, view(s, t), eps))(keys, s, theta)


@eqx.filter_jit
def act_on(
    q: Network, view: View, s: Float[Array, "env state"], theta: Theta, eps: Array, persist: float, last, key
) -> Array:
    """The same, where an action that would be random may be the last one."""
    key_act, key_again = jr.split(key)
    again = jr.bernoulli(key_again, eps * persist, last.shape)
    return jnp.where(again, last, act(q, view, s, theta, eps, key_act))


@eqx.filter_jit
def absorb(
    state: LearnState, s, a, answer: Step, goes_on, theta: Theta, step, sources: Sources, algorithm, view, config, key
) -> LearnState:
    """What `learn.practise` does after the environments have answered."""
    one = lambda s, a, r, t, on: experienced(view, s, a, r, t, sources.best, config, on)  # noqa: E731
    return rehearse(state, jax.vmap(one)(s, a, answer, theta, goes_on), step, sources, algorithm, view, config, key)


def returns(
    host: Host, points: Sequence[Point], q: Network, view: View, theta: Theta, *, copies: int, steps: int, seed: int
) -> Float[np.ndarray, " env"]:
    """Undiscounted return of one greedy episode in every environment; theta has one row a point."""
    each = jax.tree.map(lambda t: jnp.repeat(t, copies, axis=0), theta)
    total = np.zeros(len(points) * copies, np.float32)
    running = np.ones(len(total), bool)
    with host.open(points, copies) as vector:
        s = vector.reset(seed)
        for _ in range(steps):
            answer = vector.step(np.asarray(act(q, view, jnp.asarray(s), each, jnp.float32(0.0), jr.key(0))))
            total += np.where(running, answer.r, 0.0)
            running &= ~(answer.ended | answer.truncated)
            s = answer.start
            if not running.any():
                break
    return total


def learn(
    host: Host,
    points: Sequence[Point],
    sources: Sources,
    algorithm: DoubleDQN,
    view: View,
    config: PolicyConfig,
    key: PRNGKeyArray,
    *,
    persist: float = 0.0,
    resumed: tuple[LearnState, int] | None = None,
    each: Callable[[LearnState, int], None] = lambda state, updates: None,
) -> LearnState:
    """One policy. `each` is called after every evaluation; what it was given continues the work.

    `persist` is the chance that a random action is repeated.
    """
    key_start, key_steps, key_score = jr.split(key, 3)
    seed = int(jr.randint(jr.fold_in(key, 0), (), 0, 2**31 - 1))
    state, updates = resumed or (start(sources, algorithm, view, host.n_actions, config, key_start), 0)
    domains = assign(sources, config)
    theta = jax.tree.map(lambda t: t[domains], algorithm.theta)
    with host.open(points, len(domains) // len(points)) as vector:
        while updates < config.learner.updates:
            shared = (theta, sources, algorithm, view, config, persist, key_steps)
            state = _chunk(vector, seed + updates, state, updates, *shared)
            scores = _score(host, points, state.learner.q_average, sources, algorithm, view, config, key_score, seed)
            at = jnp.int32(updates // config.evaluate_every)
            state = note(state, state.learner.q_average, *scores, at)
            updates += config.evaluate_every
            each(state, updates)
    return state


def _chunk(
    vector: Vector, seed, state, first, theta, sources, algorithm, view, config: PolicyConfig, persist: float, key
) -> LearnState:
    s = vector.reset(seed)
    a = jnp.zeros(len(s), int)
    for step in range(first, first + config.evaluate_every):
        key_act, key_rehearse = jr.split(jr.fold_in(key, step))
        now = jnp.int32(step)
        a = act_on(state.learner.q, view, jnp.asarray(s), theta, epsilon(now, config), persist, a, key_act)
        answer = vector.step(np.asarray(a))
        step_ = Step(jnp.asarray(answer.s), jnp.asarray(answer.r), jnp.asarray(answer.ended))
        goes_on = jnp.asarray(~(answer.ended | answer.truncated)) & (step + 1 < first + config.evaluate_every)
        state = absorb(state, jnp.asarray(s), a, step_, goes_on, theta, now, sources, algorithm, view, config, key_rehearse)
        s = answer.start
    return state


def _score(host, points, q, sources: Sources, algorithm: DoubleDQN, view, config: PolicyConfig, key, seed) -> tuple:
    copies = max(1, EVALUATIONS // len(points))
    steps = config.evaluate_steps
    on_sources = jnp.float32(returns(host, points, q, view, algorithm.theta, copies=copies, steps=steps, seed=seed).mean())
    if sources.imagined is None:
        return on_sources, on_sources
    return (on_sources + eqx.filter_jit(score_in_dreams)(q, sources, view, config, key)) / 2, on_sources
