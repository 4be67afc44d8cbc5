"""PEARL (Rakelly et al., 2019) on Double DQN: an encoder turns steps of a domain into a posterior over a context z.

In: random steps of every source, to encode as in a target. Out: Q(s, z) and the encoder, trained together by the
temporal-difference loss and a price on what z says; in a target nothing is trained, its samples are encoded.

Departs from its paper: Double DQN instead of SAC, so exploration is that of all methods; steps to encode come from the
random policy, in training as in a target. A step's vote counts the same however many there are: posteriors of equal
numbers of steps are averaged, because the product of ten thousand votes would be unlike any that training saw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from adarl.adapt.states import Estimate
from adarl.methods.context import RECORDED, as_theta, drawn, tasks, tell, told_anew
from adarl.methods.method import Lesson, OneQ, Policy, Sample, Trained, rows, stack, usual
from adarl.network import Network
from adarl.policy import double_dqn, replay
from adarl.policy.double_dqn import DoubleDQNConfig, Learner
from adarl.policy.replay import Experience
from adarl.types import Theta, Transition


@dataclass(frozen=True)
class PearlConfig:
    """The encoder."""

    context: int = 2
    """Dimensions of z."""
    batch: int = 32
    """Steps that are encoded together."""
    price: float = 1e-4
    """Of the divergence from the prior; rewards are in units in which values lie in [-1, 0]."""


GROUPS = 32  # groups of `batch` steps of a target that are encoded, at most


class QWithEncoder(eqx.Module):
    """Acts like a network; the encoder is learned beside it."""

    q: Network
    encoder: Network

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch action"]:
        """Q(s, z)."""
        return self.q(x)

    def posterior(self, steps: Float[Array, "step feature"]) -> tuple[Array, Array]:
        """Mean and variance of z: the product of the prior and one Gaussian a step."""
        mean, raw = jnp.split(self.encoder(steps), 2, axis=-1)
        precision = jax.nn.softplus(raw)
        variance = 1 / (1 + precision.sum(0))
        return variance * (precision * mean).sum(0), variance


class Pearl(eqx.Module):
    """The algorithm: an update of Q and of the encoder."""

    learner: DoubleDQNConfig = eqx.field(static=True)
    config: PearlConfig = eqx.field(static=True)
    recorded: Float[Array, "domain row feature"]

    @property
    def n_domains(self) -> int:
        """Sources."""
        return self.recorded.shape[0]

    def start(self, n_inputs: int, n_actions: int, key: PRNGKeyArray) -> Learner:
        """A fresh learner."""
        key_q, key_encoder = jr.split(key)
        hidden, n = self.learner.hidden, self.config.context
        encoder = Network((self.recorded.shape[-1], hidden, hidden, 2 * n), "relu", key=key_encoder)
        q = QWithEncoder(double_dqn.network(n_inputs, n_actions, self.learner, key_q), encoder)
        return double_dqn.fresh(q, as_theta(jnp.zeros((self.n_domains, n))), self.learner)

    def update(self, learner: Learner, ring: Experience, count: Int[Array, ""], block: int, key: PRNGKeyArray) -> Learner:
        """Down the mean loss over some sources, each with a z drawn from its posterior, and the price of those."""
        key_tasks, key_ring, key_rows, key_z = jr.split(key, 4)
        domains = tasks(key_tasks, self.n_domains)
        each = max(1, self.learner.batch // domains.shape[0])
        batch = replay.sample_by_domain(key_ring, ring, count, block, self.n_domains, domains, each, self.learner.n_step)
        steps = drawn(key_rows, self.recorded, domains, self.config.batch)
        noise = jr.normal(key_z, (domains.shape[0], self.config.context))

        def loss_of(q: Any) -> tuple[Array, Theta]:
            mean, variance = jax.vmap(q.posterior)(steps)
            z = mean + jnp.sqrt(variance) * noise
            one = lambda e, z: double_dqn.loss(q, learner.q_target, tell(e, z))  # noqa: E731
            price = self.config.price * divergence(mean, variance).mean()
            return jax.vmap(one)(batch, z).mean() + price, told_anew(learner.told, domains, z)

        return double_dqn.step(learner, loss_of, self.learner)

    def told(self, q: Any, key: PRNGKeyArray) -> Theta:
        """The mean of z in every source."""
        return as_theta(jax.vmap(lambda steps: self.encode(q, steps)[0])(self.recorded))

    def encode(self, q: Any, steps: Float[Array, "step feature"]) -> tuple[Array, Array]:
        """Mean and variance of z, averaged over groups of steps."""
        size = min(self.config.batch, steps.shape[0])
        n_groups = min(GROUPS, steps.shape[0] // size)
        groups = steps[: n_groups * size].reshape(n_groups, size, -1)
        mean, variance = jax.vmap(q.posterior)(groups)
        return mean.mean(0), variance.mean(0)


def divergence(mean: Float[Array, "*batch z"], variance: Float[Array, "*batch z"]) -> Float[Array, "*batch"]:
    """KL(N(mean, variance) || N(0, 1))."""
    return 0.5 * (variance + mean**2 - 1 - jnp.log(variance)).sum(-1)


class PEARL(OneQ):
    """z instead of theta."""

    def __init__(self, lesson: Lesson, config: PearlConfig):
        self.lesson, self.config = lesson, config
        self.view = lesson.view(config.context)
        self.sources = lesson.sources()
        self.algorithm = Pearl(lesson.policy.learner, config, self._features(usual(lesson, RECORDED)))

    def _features(self, steps: Transition) -> Float[Array, "*batch feature"]:
        """A step as the encoder sees it, in the units of the recordings."""
        scale, n_actions = self.lesson.scale, self.lesson.functional.n_actions
        state = (steps.s_tm1 - scale.s_mean) / scale.s_scale
        change = (steps.s_t - steps.s_tm1) / scale.increment_scale
        reward = (steps.r_t[..., None] - scale.r_mean) / scale.r_scale
        return jnp.concatenate([state, jax.nn.one_hot(steps.a_tm1, n_actions), reward, change, steps.ended[..., None]], -1)

    def adapt(self, trained: Trained, target: str, samples: Sequence[Sample], keys: PRNGKeyArray) -> Policy:
        """The posterior of z, from every seed's own samples."""
        n = self.config.batch * GROUPS
        seen = stack([self._features(rows(self.lesson.believed(seen), n)) for seen in samples])
        encode = eqx.filter_jit(eqx.filter_vmap(self.algorithm.encode))
        mean, variance = encode(trained.q, seen)
        z = Estimate(as_theta(mean), as_theta(jnp.sqrt(variance)))
        return Policy(trained.q, z, z.theta)
