"""Episodes of all sources -> WorldModel: masks, functions and theta estimated together (paper, Sec. 3.1).

Three phases of one loop of Adam: `open`, with every edge, until theta has taken shape; `search`, until the functions are
accurate enough for a weak edge to show, while the worth of every edge is measured; `binary`, with the edges that are worth
their price in L_reg. In the first two, what a function reads for nothing is shrunk away.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Int, PRNGKeyArray

from adarl.model import losses
from adarl.model import masks as gates
from adarl.model.align import align
from adarl.model.heads import RewardHead
from adarl.model.losses import Sparsity
from adarl.model.transition import stack_heads
from adarl.model.world import Heads, Scale, WorldModel
from adarl.types import Episodes, Masks, Theta, Transition


@dataclass(frozen=True)
class ModelConfig:
    """How the world model is estimated."""

    theta_s: int = -1
    """Dimensions of the change factor of the transition. -1 gives it one for every factor that the family declares, and none
    where tests find that only the reward changed."""
    theta_r: int = -1
    """Dimensions of the change factor of the reward. -1 gives it one, and none where tests find that it did not change."""
    hidden: int = 48
    """Width of the networks."""
    mixture: int = 2
    """Gaussians in a mixture."""
    floor: float = 2e-3
    """Smallest standard deviation, in units of the standardised increment: effects far below it are not edges."""
    reward_floor: float = 0.02
    """The same for the reward, in units of the standardised reward: networks round off the edge of a failure."""
    open_steps: int = 1500
    """Steps of Adam with all edges open, until theta has taken shape."""
    search_steps: int = 3000
    """Steps in which the worth of every edge is measured."""
    binary_steps: int = 1500
    """Steps with the binary masks."""
    batch: int = 640
    """Transitions in a batch, over all domains."""
    learning_rate: float = 3e-3
    """Of functions and theta; decays to 2% before the masks are decided, and once more from 30% after."""
    theta_speed: float = 5.0
    """How much faster theta learns than the functions."""
    shrink: float = 0.3
    """How fast the weights by which a function reads its inputs shrink, relative to the learning rate."""
    threshold: float = 0.5
    """Probability above which an edge stays."""
    sparsity: Sparsity = field(default_factory=Sparsity)
    """L_reg's weights."""

    @property
    def steps(self) -> int:
        """All three phases."""
        return self.open_steps + self.search_steps + self.binary_steps


class Parameters(eqx.Module):
    """All that Adam moves."""

    heads: Heads
    theta: Theta


class FitState(eqx.Module):
    """The loop's memory: what a checkpoint holds."""

    parameters: Parameters
    optimiser: Any
    worth: Masks
    """Of every edge, averaged over the last steps of the search."""
    step: Int[Array, ""]


class Bounds(eqx.Module):
    """What is known of the masks before: edges that must be there and edges that may be."""

    least: Masks
    most: Masks


class Rows(eqx.Module):
    """The valid steps of every domain, first rows first; the rest of the axis is never drawn."""

    transition: Transition
    count: Int[Array, " domain"]


CHUNK = 500
WAIT = 0.15  # share of the open phase in which theta rests; in as much again it comes to speed
LOOK = 10  # steps between two looks at the worth of the edges
MEMORY = 0.9  # of an edge's worth, from look to look
Phase = Literal["open", "search", "binary"]


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
    key_transition, key_reward = jr.split(key)
    shape = (config.hidden, config.mixture)
    heads = Heads(
        stack_heads(n_state, n_actions, config.theta_s, *shape, config.floor, key=key_transition),
        RewardHead(n_state, n_actions, config.theta_r, *shape, config.reward_floor, key=key_reward),
    )
    # From zero, each theta first moves the way its own domain's residuals point: near domains stay near.
    theta = Theta(jnp.zeros((n_domains, config.theta_s)), jnp.zeros((n_domains, config.theta_r)))
    parameters: Any = Parameters(heads, theta)
    worth = gates.every_edge(n_state, config.theta_s, config.theta_r, 2 * gates.STRONG)
    return FitState(parameters, _optimiser(config).init(parameters), worth, jnp.int32(0))


def _rate(config: ModelConfig) -> optax.Schedule:
    """Slow when the masks are decided, for a restless function makes every edge look worthwhile; then once more."""
    undecided = config.open_steps + config.search_steps
    before = optax.cosine_decay_schedule(config.learning_rate, max(undecided, 1), alpha=0.02)
    after = optax.cosine_decay_schedule(0.3 * config.learning_rate, max(config.binary_steps, 1), alpha=0.05)
    return optax.join_schedules([before, after], [undecided])


def _optimiser(config: ModelConfig) -> optax.GradientTransformation:
    rate = _rate(config)
    # theta waits until the functions fit the average domain: only then do residuals point the way.
    wait = max(WAIT * config.open_steps, 1.0)
    swift = optax.chain(
        optax.adam(lambda step: rate(step) * jnp.clip(step / wait - 1, 0.0, 1.0)), optax.scale(config.theta_speed)
    )
    labels = lambda p: Parameters(  # noqa: E731
        jax.tree.map(lambda _: "heads", p.heads), jax.tree.map(lambda _: "theta", p.theta)
    )
    return optax.chain(
        optax.clip_by_global_norm(10.0),
        optax.multi_transform({"heads": optax.adam(rate), "theta": swift}, labels),
    )


def phase(step: int, config: ModelConfig) -> Phase:
    """What the masks do at this step."""
    if step < config.open_steps:
        return "open"
    return "search" if step < config.open_steps + config.search_steps else "binary"


def _decided(worth: Masks, config: ModelConfig, bounds: Bounds | None) -> tuple[Masks, Masks]:
    """The probability of every edge, and whether it stays."""
    sizes = (worth.c_s_to_s.shape[0], config.theta_s, config.theta_r)
    prob = gates.probabilities(worth, losses.price(*sizes, config.sparsity))
    hard = gates.harden(prob, config.threshold)
    return prob, hard if bounds is None else jax.tree.map(jnp.clip, hard, bounds.least, bounds.most)


@eqx.filter_jit
def advance(
    state: FitState,
    rows: Rows,
    scale: Scale,
    n_actions: int,
    config: ModelConfig,
    now: Phase,
    key: PRNGKeyArray,
    bounds: Bounds | None = None,
) -> tuple[FitState, dict[str, Array]]:
    """`CHUNK` steps of Adam in one phase, and the mean of every term over them."""
    optimiser = _optimiser(config)
    n_domains = rows.count.shape[0]
    per_domain = max(8, config.batch // n_domains)

    sizes = (state.worth.c_s_to_s.shape[0], config.theta_s, config.theta_r)
    _, hard = _decided(state.worth, config, bounds)

    valid = jnp.arange(rows.transition.ended.shape[1]) < rows.count[:, None]
    p_ended = (rows.transition.ended & valid).sum() / rows.count.sum()

    def masks(key: PRNGKeyArray, worth: Masks) -> Masks:
        if now == "open":
            return gates.draw_open(key, sizes)
        return gates.draw(key, worth) if now == "search" else hard

    def objective(parameters: Parameters, masks: Masks, batch: Transition):
        # One mode at first: two modes could pass a theta that flips the action's effect off as chance.
        apart = 0.0 if now == "open" else 1.0
        terms = losses.terms(parameters.heads, masks, parameters.theta, scale, n_actions, batch, config.sparsity, apart)
        return sum(terms.values()), terms

    def move(state: FitState, _):
        key_rows, key_masks = jr.split(jr.fold_in(key, state.step))
        index = jr.randint(key_rows, (n_domains, per_domain), 0, rows.count[:, None])
        batch = jax.tree.map(lambda x: jax.vmap(lambda y, i: y[i])(x, index), rows.transition)
        parameters: Any = state.parameters
        worth = state.worth
        gradient, terms = jax.grad(objective, has_aux=True)(parameters, masks(key_masks, worth), batch)
        if now == "search":
            few = jax.tree.map(lambda x: x[:, : max(4, per_domain // 2)], batch)

            def look(worth: Masks) -> Masks:
                fresh = losses.worth(parameters.heads, scale, n_actions, few, parameters.theta, p_ended)
                return jax.tree.map(lambda old, new: MEMORY * old + (1 - MEMORY) * new, worth, fresh)

            worth = jax.lax.cond(state.step % LOOK == 0, look, lambda worth: worth, worth)
        update, memory = optimiser.update(gradient, state.optimiser, parameters)
        moved: Any = optax.apply_updates(parameters, update)
        if now != "binary":
            amount = jnp.asarray(config.shrink * _rate(config)(state.step))
            moved = eqx.tree_at(lambda p: p.heads, moved, losses.shrink(moved.heads, amount))
        return FitState(moved, memory, worth, state.step + 1), terms

    state, terms = jax.lax.scan(move, state, None, length=CHUNK)
    return state, jax.tree.map(jnp.mean, terms)


def finish(state: FitState, scale: Scale, n_actions: int, config: ModelConfig, bounds: Bounds | None = None) -> WorldModel:
    """Binary masks, and theta standardised over the sources: it is identified up to scale and sign only."""
    prob, hard = _decided(state.worth, config, bounds)
    heads, theta = state.parameters.heads, state.parameters.theta
    used_s = (hard.c_theta_to_s > 0).any(0)
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
    bounds: Bounds | None = None,
    state: FitState | None = None,
    each: Callable[[FitState, dict[str, Array]], None] = lambda state, terms: None,
) -> WorldModel:
    """Estimate the model, masks within `bounds`. `each` is called after every chunk; a `state` it was given continues."""
    rows = pack(episodes)
    scale = measure(rows)
    key_start, key_steps, key_align = jr.split(key, 3)
    state = start(episodes.s.shape[-1], n_actions, rows.count.shape[0], config, key_start) if state is None else state
    while state.step < config.steps:
        if config.theta_s and config.open_steps <= state.step < config.open_steps + CHUNK:  # once: the open phase is over
            heads, theta = state.parameters.heads, state.parameters.theta
            heads, theta = align(heads, theta, rows, scale, n_actions, key_align)
            state = FitState(Parameters(heads, theta), state.optimiser, state.worth, state.step)
        now = phase(int(state.step), config)
        state, terms = advance(state, rows, scale, n_actions, config, now, key_steps, bounds)
        each(state, terms)
    return finish(state, scale, n_actions, config, bounds)
