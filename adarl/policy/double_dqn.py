"""Double DQN (van Hasselt, Guez and Silver, 2016) on (s_min, theta_min), as pure functions.

In: experience. Out: an action-value network Q(x, a) with x = (s_min, theta_min). `DoubleDQN` is the algorithm as the loop of
`learn.py` calls it; methods that learn more than Q stand beside it in `methods/`.

Departs from the paper: Algorithm 1 prints the plain maximum; the text says Double DQN, which is what stands here. The target
network follows slowly instead of being copied, and the acting network is an average of the last iterates. Where beliefs are
uncertain, rewards of several steps are counted before Q is asked (`n_step`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.network import Network
from adarl.policy import replay
from adarl.policy.replay import Experience
from adarl.types import Theta


@dataclass(frozen=True)
class DoubleDQNConfig:
    """The learner, the same for every method."""

    hidden: int = 64
    """Width of the two layers of Q."""
    discount: float = 0.0
    """Gamma; 0 takes that of the family. The target network follows at the rate 1 - gamma per update."""
    learning_rate: float = 1e-3
    """Of Adam; decays to 5%."""
    batch: int = 256
    """Transitions in an update."""
    n_step: int = 1
    """Steps whose rewards are counted before Q is asked what follows. With more of them less of what Q errs is handed on,
    and more of what was done since for the sake of exploring."""
    average_rate: float = 0.001
    """How fast the acting network follows, per update."""
    updates: int = 15_000
    """Updates of Q, one after each step of all environments."""


class Learner(eqx.Module):
    """Everything an update changes."""

    q: Any
    """A network, or a module that acts like one and holds more that is learned."""
    q_target: Any
    q_average: Any
    optimiser: Any
    told: Theta
    """What the policy is told of every source."""
    given: dict[str, Any] = field(default_factory=dict)
    """What else updates look at, by name: steps of a target, what experts do."""


def optimiser(config: DoubleDQNConfig) -> optax.GradientTransformation:
    """Adam with a decaying rate."""
    return optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.updates, alpha=0.05))


class DoubleDQN(eqx.Module):
    """The algorithm of AdaRL: theta is given, Q alone is learned."""

    config: DoubleDQNConfig = eqx.field(static=True)
    theta: Theta
    """One row a source."""

    def start(self, n_inputs: int, n_actions: int, key: PRNGKeyArray) -> Learner:
        """A fresh learner."""
        return fresh(network(n_inputs, n_actions, self.config, key), self.theta, self.config)

    def update(self, learner: Learner, ring: Experience, count: Int[Array, ""], block: int, key: PRNGKeyArray) -> Learner:
        """One update from a ring into which `count` blocks were written."""
        batch = self.batch(learner, ring, count, block, key)
        return step(learner, lambda q: (self.loss(q, learner, batch, jr.fold_in(key, 1)), self.theta), self.config)

    def batch(self, learner: Learner, ring: Experience, count: Int[Array, ""], block: int, key: PRNGKeyArray) -> Experience:
        """What an update looks at."""
        return replay.sample(key, ring, count, block, self.config.batch, self.config.n_step)

    def loss(self, q: Any, learner: Learner, batch: Experience, key: PRNGKeyArray) -> Float[Array, ""]:
        """What an update lowers."""
        return loss(q, learner.q_target, batch)

    def told(self, q: Network, key: PRNGKeyArray) -> Theta:
        """What this network is told of every source."""
        return self.theta


def network(n_inputs: int, n_actions: int, config: DoubleDQNConfig, key: PRNGKeyArray) -> Network:
    """Q, the same for every method."""
    return Network((n_inputs, config.hidden, config.hidden, n_actions), "relu", key=key)


def fresh(q: Any, told: Theta, config: DoubleDQNConfig) -> Learner:
    """A learner that has learned nothing yet."""
    return Learner(q, q, q, optimiser(config).init(q), told)


def shaped(r: Float[Array, ""], ended: Bool[Array, ""], best: Float[Array, ""], discount: float) -> Float[Array, ""]:
    """The reward as the learner sees it: the same problem in units in which values lie near [-1, 0].

    Every reward is counted from the best one, and nothing is earned after an end. A constant shift and scale of all values
    leaves the optimal policy as it is, but a network need not spend its precision on a constant.
    """
    after_end = -discount * best
    return (1 - discount) * (r - best) + jnp.where(ended, after_end, 0.0)


def double_target(
    q_t: Float[Array, "*batch action"],
    q_target_t: Float[Array, "*batch action"],
    r_t: Float[Array, "*batch"],
    left: Float[Array, "*batch"],
) -> Float[Array, "*batch"]:
    """r + gamma Q'(x_t, argmax_a Q(x_t, a)); what is `left` of gamma is nothing after an end."""
    return r_t + left * chosen(q_target_t, jnp.argmax(q_t, axis=-1))


def chosen(q: Float[Array, "*batch action"], a: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Q of the actions taken."""
    return jnp.take_along_axis(q, a[..., None], axis=-1)[..., 0]


def errors(q: Any, q_target: Any, batch: Experience, told: Experience | None = None) -> Float[Array, "*batch"]:
    """Huber losses of the temporal differences, step by step. `told` is the batch as the target sees it, if not as Q."""
    told = batch if told is None else told
    target = double_target(q(batch.x_t), q_target(told.x_t), batch.r_t, batch.left)
    return optax.losses.huber_loss(chosen(q(batch.x_tm1), batch.a_tm1), jax.lax.stop_gradient(target))


def loss(q: Any, q_target: Any, batch: Experience) -> Float[Array, ""]:
    """Mean of `errors`."""
    return errors(q, q_target, batch).mean()


def step(learner: Learner, loss_of: Callable[[Any], tuple[Array, Theta]], config: DoubleDQNConfig) -> Learner:
    """One step of Adam down the loss; the target and the average follow. With the loss comes what is told of the sources."""
    old: Any = learner
    gradient, told = jax.grad(loss_of, has_aux=True)(old.q)
    change, memory = optimiser(config).update(gradient, old.optimiser, old.q)
    q: Any = optax.apply_updates(old.q, change)
    follow: Any = optax.incremental_update
    average = follow(q, old.q_average, config.average_rate)
    return Learner(q, follow(q, old.q_target, 1 - config.discount), average, memory, told, learner.given)


def act(key: PRNGKeyArray, q: Network, x: Float[Array, " input"], epsilon: Float[Array, ""]) -> Int[Array, ""]:
    """Greedy, or at random with probability epsilon."""
    key_random, key_action = jr.split(key)
    values = q(x)
    explore = jr.bernoulli(key_random, epsilon)
    return jnp.where(explore, jr.randint(key_action, (), 0, values.shape[0]), jnp.argmax(values))
