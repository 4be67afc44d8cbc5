"""Double DQN (van Hasselt, Guez and Silver, 2016) on (s_min, theta_min), as pure functions.

In: experience. Out: an action-value network Q(x, a) with x = (s_min, theta_min).

Departs from the paper: Algorithm 1 prints the plain maximum; the text says Double DQN, which is what stands here. The target
network follows slowly instead of being copied, and the acting network is an average of the last iterates.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.network import Network
from adarl.policy.replay import Experience


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
    average_rate: float = 0.001
    """How fast the acting network follows, per update."""
    updates: int = 15_000
    """Updates of Q, one after each step of all environments."""


class Learner(eqx.Module):
    """Everything an update changes."""

    q: Network
    q_target: Network
    q_average: Network
    optimiser: Any


def optimiser(config: DoubleDQNConfig) -> optax.GradientTransformation:
    """Adam with a decaying rate."""
    return optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.updates, alpha=0.05))


def start(n_inputs: int, n_actions: int, config: DoubleDQNConfig, key: PRNGKeyArray) -> Learner:
    """A fresh learner."""
    q: Any = Network((n_inputs, config.hidden, config.hidden, n_actions), "relu", key=key)
    return Learner(q, q, q, optimiser(config).init(q))


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
    ended: Bool[Array, "*batch"],
    discount: float,
) -> Float[Array, "*batch"]:
    """r + gamma Q'(x_t, argmax_a Q(x_t, a)), without the second term after an end."""
    return r_t + jnp.where(ended, 0.0, discount * chosen(q_target_t, jnp.argmax(q_t, axis=-1)))


def chosen(q: Float[Array, "*batch action"], a: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Q of the actions taken."""
    return jnp.take_along_axis(q, a[..., None], axis=-1)[..., 0]


def loss(q: Network, q_target: Network, batch: Experience, discount: float) -> Float[Array, ""]:
    """Mean Huber loss of the temporal differences."""
    target = double_target(q(batch.x_t), q_target(batch.x_t), batch.r_t, batch.ended, discount)
    return optax.losses.huber_loss(chosen(q(batch.x_tm1), batch.a_tm1), jax.lax.stop_gradient(target)).mean()


def update(learner: Learner, batch: Experience, config: DoubleDQNConfig) -> Learner:
    """One step of Adam; the target and the average follow."""
    old: Any = learner
    gradient = jax.grad(loss)(old.q, old.q_target, batch, config.discount)
    change, memory = optimiser(config).update(gradient, old.optimiser, old.q)
    q: Any = optax.apply_updates(old.q, change)
    follow: Any = optax.incremental_update
    return Learner(q, follow(q, old.q_target, 1 - config.discount), follow(q, old.q_average, config.average_rate), memory)


def act(key: PRNGKeyArray, q: Network, x: Float[Array, " input"], epsilon: Float[Array, ""]) -> Int[Array, ""]:
    """Greedy, or at random with probability epsilon."""
    key_random, key_action = jr.split(key)
    values = q(x)
    explore = jr.bernoulli(key_random, epsilon)
    return jnp.where(explore, jr.randint(key_action, (), 0, values.shape[0]), jnp.argmax(values))
