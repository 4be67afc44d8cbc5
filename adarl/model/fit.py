"""Episodes of all sources -> WorldModel: masks, functions and theta estimated together (paper, Sec. 3.1).

Three phases in one loop of Adam: with all edges open, until the functions are accurate enough for a weak edge to
show; with sampled masks, while L_reg closes what does not pay; with the binary masks that remain.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Int, PRNGKeyArray

from adarl.model import losses
from adarl.model import masks as gates
from adarl.model.heads import RewardHead
from adarl.model.losses import Sparsity
from adarl.model.transition import stack_heads
from adarl.model.world import Heads, Scale, WorldModel
from adarl.types import Episodes, Masks, Theta, Transition


@dataclass(frozen=True)
class ModelConfig:
    """How the world model is estimated."""

    theta_s: int = 1
    """Dimensions of the change factor of the transition."""
    theta_r: int = 1
    """Dimensions of the change factor of the reward."""
    hidden: int = 48
    """Width of the networks."""
    mixture: int = 2
    """Gaussians in a mixture."""
    floor: float = 1e-3
    """Smallest standard deviation, in units of the standardised increment: effects far below it are not edges."""
    steps: int = 8000
    """Steps of Adam."""
    batch: int = 640
    """Transitions in a batch, over all domains."""
    learning_rate: float = 3e-3
    """Of functions and theta; decays to 2%."""
    gate_learning_rate: float = 3e-2
    """Of the masks; decays to 10%."""
    open_until: float = 0.25
    """Share of the steps with all edges open."""
    search_until: float = 0.75
    """Share of the steps after which masks are binary and fixed."""
    threshold: float = 0.5
    """Probability above which an edge stays."""
    sparsity: Sparsity = field(default_factory=Sparsity)
    """L_reg's weights."""


class Parameters(eqx.Module):
    """All that Adam moves."""

    heads: Heads
    logits: Masks
    theta: Theta


class FitState(eqx.Module):
    """The loop's memory: what a checkpoint holds."""

    parameters: Parameters
    optimiser: Any
    step: Int[Array, ""]


class Rows(eqx.Module):
    """The valid steps of every domain, first rows first; the rest of the axis is never drawn."""

    transition: Transition
    count: Int[Array, " domain"]


CHUNK = 500


def pack(episodes: Episodes) -> Rows:
    """Episodes -> Rows."""
    n_domains = episodes.valid.shape[0]
    flat = jax.tree.map(lambda x: x.reshape(n_domains, -1, *x.shape[3:]), episodes.transitions())
    valid = episodes.valid.reshape(n_domains, -1)
    order = jnp.argsort(~valid, axis=1, stable=True)
    take = jax.vmap(lambda x, i: x[i])
    return Rows(jax.tree.map(lambda x: take(x, order), flat), valid.sum(1))


def measure(rows: Rows) -> Scale:
    """Means and standard deviations over the valid rows of all domains, each domain with equal weight."""
    steps = rows.transition
    count = rows.count.astype(jnp.float32)[:, None]
    weight = (jnp.arange(steps.r_t.shape[1]) < rows.count[:, None]).astype(jnp.float32) / count / count.shape[0]

    def moments(x):
        w = weight.reshape(weight.shape + (1,) * (x.ndim - 2))
        mean = (w * x).sum((0, 1))
        deviation = jnp.sqrt((w * (x - mean) ** 2).sum((0, 1)))
        return mean, jnp.where(deviation > 1e-6, deviation, 1.0)  # a constant column keeps its unit

    s_mean, s_scale = moments(steps.s_tm1)
    r_mean, r_scale = moments(steps.r_t)
    return Scale(s_mean, s_scale, moments(steps.s_t - steps.s_tm1)[1], r_mean, r_scale)


def start(n_state: int, n_actions: int, n_domains: int, config: ModelConfig, key: PRNGKeyArray) -> FitState:
    """The first state of the loop."""
    key_transition, key_reward, key_theta = jr.split(key, 3)
    shape = (config.hidden, config.mixture, config.floor)
    n_in = n_state + n_actions
    heads = Heads(
        stack_heads(n_state, n_in, config.theta_s, *shape, key=key_transition),
        RewardHead(n_in, config.theta_r, *shape, key=key_reward),
    )
    key_s, key_r = jr.split(key_theta)
    theta = Theta(
        0.1 * jr.normal(key_s, (n_domains, config.theta_s)), 0.1 * jr.normal(key_r, (n_domains, config.theta_r))
    )
    parameters = Parameters(heads, gates.open_logits(n_state, config.theta_s, config.theta_r), theta)
    optimiser = _optimiser(config).init(eqx.filter(parameters, eqx.is_inexact_array))
    return FitState(parameters, optimiser, jnp.int32(0))


def _optimiser(config: ModelConfig) -> optax.GradientTransformation:
    def label(parameters: Parameters) -> Parameters:
        labels = jax.tree.map(lambda _: "function", parameters)
        return eqx.tree_at(lambda p: p.logits, labels, jax.tree.map(lambda _: "gate", parameters.logits))

    function = optax.cosine_decay_schedule(config.learning_rate, config.steps, alpha=0.02)
    gate = optax.cosine_decay_schedule(config.gate_learning_rate, config.steps, alpha=0.1)
    return optax.multi_transform(
        {
            "function": optax.chain(optax.clip_by_global_norm(10.0), optax.adam(function)),
            "gate": optax.adam(gate),
        },
        label,
    )


@eqx.filter_jit
def advance(
    state: FitState, rows: Rows, scale: Scale, n_actions: int, config: ModelConfig, key: PRNGKeyArray
) -> tuple[FitState, dict[str, Array]]:
    """`CHUNK` steps of Adam, and the mean of every term over them."""
    optimiser = _optimiser(config)
    n_domains = rows.count.shape[0]
    per_domain = max(8, config.batch // n_domains)
    _, frozen = eqx.partition(state.parameters, eqx.is_inexact_array)

    def objective(parameters, key, batch, done):
        parameters = eqx.combine(parameters, frozen)
        prob = gates.probabilities(parameters.logits)
        phase = (done >= config.open_until).astype(int) + (done >= config.search_until).astype(int)
        drawn = jax.lax.switch(
            phase,
            [
                lambda: jax.tree.map(jnp.ones_like, prob),
                lambda: gates.sample(key, jax.lax.stop_gradient(prob)),
                lambda: gates.harden(jax.lax.stop_gradient(prob), config.threshold),
            ],
        )
        shared = (scale, n_actions)
        terms = losses.terms(
            parameters.heads, prob, drawn, parameters.theta, *shared, batch, config.sparsity
        )
        few = jax.tree.map(lambda x: x[:, : max(4, per_domain // 4)], batch)
        gain = jax.lax.cond(
            phase == 1,
            lambda: losses.evidence(parameters.heads, drawn, prob, *shared, few, parameters.theta),
            lambda: -terms["edges"],  # masks rest in the first and the last phase
        )
        return sum(terms.values()) + gain, terms

    def move(state: FitState, _):
        key_rows, key_masks = jr.split(jr.fold_in(key, state.step))
        index = jr.randint(key_rows, (n_domains, per_domain), 0, rows.count[:, None])
        batch = jax.tree.map(lambda x: jax.vmap(lambda y, i: y[i])(x, index), rows.transition)
        done = state.step.astype(jnp.float32) / config.steps
        moving = eqx.filter(state.parameters, eqx.is_inexact_array)
        gradient, terms = jax.grad(objective, has_aux=True)(moving, key_masks, batch, done)
        update, memory = optimiser.update(gradient, state.optimiser, moving)
        searching = (done >= config.open_until) & (done < config.search_until)
        still = jax.tree.map(lambda u: jnp.where(searching, u, 0.0), update.logits)
        update = eqx.tree_at(lambda p: p.logits, update, still)
        return FitState(eqx.apply_updates(state.parameters, update), memory, state.step + 1), terms

    state, terms = jax.lax.scan(move, state, None, length=CHUNK)
    return state, jax.tree.map(jnp.mean, terms)


def finish(state: FitState, scale: Scale, n_actions: int, config: ModelConfig) -> WorldModel:
    """Binary masks, and theta standardised over the sources: it is identified up to scale and sign only."""
    prob = gates.probabilities(state.parameters.logits)
    hard = gates.harden(prob, config.threshold)
    heads, theta = state.parameters.heads, state.parameters.theta
    used_s = hard.c_theta_to_s.max(0) > 0
    used_r = hard.c_theta_to_r > 0
    theta_s, mean_s, scale_s = _standardise(theta.theta_s, used_s)
    theta_r, mean_r, scale_r = _standardise(theta.theta_r, used_r)
    return WorldModel(
        heads=heads,
        masks=hard,
        masks_prob=prob,
        theta=Theta(theta_s, theta_r),
        theta_mean=Theta(mean_s, mean_r),
        theta_scale=Theta(scale_s, scale_r),
        scale=scale,
        n_actions=n_actions,
    )


def _standardise(theta, used):
    mean = jnp.where(used, theta.mean(0), 0.0)
    deviation = jnp.where(used & (theta.std(0) > 1e-6), theta.std(0), 1.0)
    return jnp.where(used, (theta - mean) / deviation, 0.0), mean, deviation


def fit(
    episodes: Episodes,
    n_actions: int,
    config: ModelConfig,
    key: PRNGKeyArray,
    *,
    state: FitState | None = None,
    each: Callable[[FitState, dict[str, Array]], None] = lambda state, terms: None,
) -> WorldModel:
    """Estimate the model. `each` is called after every chunk; a `state` it was given continues the work."""
    rows = pack(episodes)
    scale = measure(rows)
    key_start, key_steps = jr.split(key)
    state = start(episodes.s.shape[-1], n_actions, rows.count.shape[0], config, key_start) if state is None else state
    while state.step < config.steps:
        state, terms = advance(state, rows, scale, n_actions, config, key_steps)
        each(state, terms)
    return finish(state, scale, n_actions, config)
