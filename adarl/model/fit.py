"""Episodes of all sources -> WorldModel: masks, functions and theta estimated together (paper, Sec. 3.1).

Three phases of one loop of Adam: `open`, with every edge, until theta has taken shape; `search`, until the functions are
accurate enough for a weak edge to show, while the worth of every edge is measured; `binary`, with the edges that are worth
their price in L_reg. In the first two, what a function reads for nothing is shrunk away.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.model import losses
from adarl.model import masks as gates
from adarl.model.align import align
from adarl.model.encoder import Encoder
from adarl.model.eye import Eye, Film, Photos
from adarl.model.heads import RewardHead
from adarl.model.observation import ObservationHead, Predictions
from adarl.model.patches import Shape
from adarl.model.plan import MissVAEConfig, ModelConfig
from adarl.model.rows import Rows, measure, pack, unscaled
from adarl.model.sight import Trials, draw_trials, first_impression, foretold, look, worth_to_o
from adarl.model.transition import stack_heads
from adarl.model.world import Heads, Scale, WorldModel
from adarl.types import AdarlError, Episodes, Masks, Theta, Transition


class Parameters(eqx.Module):
    """All that Adam moves."""

    heads: Heads
    theta: Theta
    eye: Eye | None = None
    """Where images are seen."""


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


WAIT = 0.15  # share of the open phase in which theta rests; in as much again it comes to speed
LOOK = 10  # steps between two looks at the worth of the edges
MEMORY = 0.9  # of an edge's worth, from look to look


class Phase(NamedTuple):
    """Which of the three it is; as data, so that one program serves them all: to compile it takes a minute."""

    open: Bool[Array, ""]
    search: Bool[Array, ""]
    binary: Bool[Array, ""]


def start(
    n_state: int, n_actions: int, n_domains: int, config: ModelConfig, key: PRNGKeyArray, image: Shape | None = None
) -> FitState:
    """The first state of the loop; `image` is the shape of what is seen, where states are not."""
    key_transition, key_reward = jr.split(key)
    shape = (config.hidden, config.mixture)
    heads = Heads(
        stack_heads(n_state, n_actions, config.theta_s, *shape, config.floor, key=key_transition),
        RewardHead(n_state, n_actions, config.theta_r, *shape, config.reward_floor, key=key_reward),
    )
    # From zero, each theta first moves the way its own domain's residuals point: near domains stay near.
    theta = Theta(jnp.zeros((n_domains, config.theta_s)), jnp.zeros((n_domains, config.theta_r)))
    eye, theta_o = None, None
    if image is not None:
        assert isinstance(config, MissVAEConfig)
        theta_o = config.theta_o
        heads = _unsure(heads, config.mixture)
        theta = Theta(theta.theta_s, theta.theta_r, jnp.zeros((n_domains, theta_o)))
        eye = _open_eye(image, n_state, n_actions, config, jr.fold_in(key, 1))
    parameters: Any = Parameters(heads, theta, eye)
    worth = gates.every_edge(n_state, config.theta_s, config.theta_r, 2 * gates.STRONG, theta_o)
    return FitState(parameters, _optimiser(config).init(parameters), worth, jnp.int32(0))


def known(model: WorldModel, config: ModelConfig) -> FitState:
    """The state of a loop that goes on from a model."""
    parameters: Any = Parameters(model.heads, jax.vmap(model.raw)(model.theta), model.eye)
    return FitState(parameters, _optimiser(config).init(parameters), model.masks, jnp.int32(0))


def _unsure(heads: Heads, mixture: int) -> Heads:
    """Functions that expect states to stay about where they are, but not surely: a belief must be free to say something."""
    change = lambda h: (h.transition.linear.weight, h.transition.out.weight, h.transition.out.bias)  # noqa: E731
    linear, weight, bias = change(heads)
    return eqx.tree_at(change, heads, (0.1 * linear, 0.1 * weight, (0.0 * bias).at[:, 2 * mixture :].set(2.0)))


def _straight(heads: Heads, mixture: int) -> Heads:
    """Functions that are linear in (s, a), but for theta's part.

    Nobody says how states that are not seen are to be measured. Measured by anything but positions and velocities they move
    along curves: as long as only lines are foreseen, those are what pays.
    """
    weight = lambda h: h.transition.out.weight  # noqa: E731
    return eqx.tree_at(weight, heads, weight(heads).at[:, mixture : 2 * mixture].set(0.0))


def _open_eye(image: Shape, n_state: int, n_actions: int, config: MissVAEConfig, key: PRNGKeyArray) -> Eye:
    key_encoder, key_observation, key_predictions = jr.split(key, 3)
    thetas = (config.theta_o, config.theta_s, config.theta_r)
    widths = {"features": config.features, "memory": config.memory, "mixture": config.mixture, "floor": config.floor}
    return Eye(
        Encoder(image, n_state, n_actions, sum(thetas), **widths, key=key_encoder),
        ObservationHead(n_state + config.theta_o, config.theta_o, image, key=key_observation),
        Predictions(n_state, n_actions, *thetas, image, key=key_predictions),
        config.hears,
    )


def _after_a_look(state: FitState, film: Film | Photos, key: PRNGKeyArray) -> FitState:
    """Pixels as bright as the film's, and as wide as its noise: were they wider, a belief would say nothing at first.

    What moves is enlarged to about one.
    """
    eye: Any = state.parameters.eye
    brightness, noise, moved, look = first_impression(film, eye.encoder.look, key)
    log_width = jnp.log(noise + 1e-2)
    heads = lambda s: (s.parameters.eye.observation, s.parameters.eye.predictions.image)  # noqa: E731
    change = lambda h: (h.draw, h.log_width)  # noqa: E731
    new = [eqx.tree_at(change, head, (head.draw.as_bright_as(brightness), log_width)) for head in heads(state)]
    state = eqx.tree_at(heads, state, new)
    reads = lambda s: (s.parameters.eye.encoder.look, s.parameters.eye.encoder.swiftness)  # noqa: E731
    return eqx.tree_at(reads, state, (look, 1 / (moved + 1e-6)))


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
    named = lambda name, part: jax.tree.map(lambda _: name, part)  # noqa: E731
    labels = lambda p: Parameters(named("heads", p.heads), named("theta", p.theta), named("heads", p.eye))  # noqa: E731
    # The functions' many small arrays go as one: compiled sooner, and fewer steps of the machine a step.
    return optax.chain(
        optax.clip_by_global_norm(1000.0 if isinstance(config, MissVAEConfig) else 10.0),
        optax.multi_transform({"heads": optax.flatten(optax.adam(rate)), "theta": swift}, labels),
    )


def phase(step: Int[Array, ""], config: ModelConfig) -> Phase:
    """What the masks do at this step."""
    shaping, undecided = step < config.open_steps, step < config.open_steps + config.search_steps
    return Phase(shaping, undecided & ~shaping, ~undecided)


def _decided(worth: Masks, config: ModelConfig, bounds: Bounds | None) -> tuple[Masks, Masks]:
    """The probability of every edge, and whether it stays."""
    prob = gates.probabilities(worth, losses.price(worth, config.sparsity))
    hard = gates.harden(prob, config.threshold)
    return prob, hard if bounds is None else jax.tree.map(jnp.clip, hard, bounds.least, bounds.most)


@eqx.filter_jit
def advance(
    state: FitState,
    data: Rows | Film | Photos,
    scale: Scale,
    n_actions: int,
    config: ModelConfig,
    key: PRNGKeyArray,
    bounds: Bounds | None = None,
) -> tuple[FitState, dict[str, Array]]:
    """A chunk of steps of Adam in one phase, and the mean of every term over those in which it was finite."""
    optimiser, now = _optimiser(config), phase(state.step, config)
    _, hard = _decided(state.worth, config, bounds)
    p_ended = _share_of_ends(data)
    # One mode at first: two modes could pass a theta that flips the action's effect off as chance.
    apart = jnp.where(now.open, 0.0, 1.0)

    def masks(key: PRNGKeyArray, worth: Masks) -> Masks:
        either = jax.tree.map(partial(jnp.where, now.open), gates.draw_open(key, worth), gates.draw(key, worth))
        return jax.tree.map(partial(jnp.where, now.binary), hard, either)

    def seen(parameters: Parameters, masks: Masks, batch: Transition | Trials, key: PRNGKeyArray):
        if isinstance(batch, Transition):
            return losses.Believed(batch), {}, None
        assert parameters.eye is not None and isinstance(config, MissVAEConfig)
        what = look(parameters.eye, masks, parameters.theta, batch, scale, config.frames, key, apart)
        return what.rows, what.terms, what

    def objective(parameters: Parameters, masks: Masks, batch: Transition | Trials, key: PRNGKeyArray, dearness: Array):
        if parameters.eye is not None:  # an encoder would still read what no function does
            kept = jax.tree.map(lambda theta, read: theta * (read | ~now.binary), parameters.theta, _read(hard))
            parameters = replace(parameters, theta=kept)
        rows, of_images, what = seen(parameters, masks, batch, key)
        if what is not None:
            assert parameters.eye is not None and isinstance(batch, Trials)
            known = (parameters.heads, parameters.eye, masks, parameters.theta, batch, what, scale, apart)
            of_images = {**of_images, "foretold": foretold(*known, jr.fold_in(key, 1))}
        of_states = losses.terms(
            parameters.heads, masks, parameters.theta, scale, n_actions, rows, config.sparsity, apart, _free(config)
        )
        terms = of_states | of_images
        dear = {"transition": dearness, "first": dearness}
        return sum(dear.get(name, 1.0) * term for name, term in terms.items()), terms

    def worth_now(parameters: Parameters, batch: Transition | Trials, key: PRNGKeyArray) -> Masks:
        every = jax.tree.map(jnp.ones_like, hard)
        rows, _, what = seen(parameters, every, batch, key)
        fresh = losses.worth(parameters.heads, scale, n_actions, rows, parameters.theta, p_ended)
        if what is None:
            return fresh
        assert parameters.eye is not None
        to_o = worth_to_o(parameters.eye, every, parameters.theta, what.shown)
        return Masks(**{**vars(fresh), "c_s_to_o": to_o[0], "c_theta_to_o": to_o[1]})

    def move(state: FitState, _):
        key_rows, key_masks = jr.split(jr.fold_in(key, state.step))
        key_states = jr.fold_in(key_masks, 1)
        batch = _batch(data, config, key_rows)
        parameters: Any = state.parameters
        worth = state.worth
        gradient, terms = jax.grad(objective, has_aux=True)(
            parameters, masks(key_masks, worth), batch, key_states, _dearness(state.step, config)
        )
        gradient = if_finite(gradient)
        few: Any = jax.tree.map(lambda x: x[:, : max(FEWEST[type(batch)], x.shape[1] // 2)], batch)

        def look_again(worth: Masks) -> Masks:
            fresh = worth_now(parameters, few, key_states)
            mixed = lambda old, new: jnp.where(jnp.isfinite(new), MEMORY * old + (1 - MEMORY) * new, old)  # noqa: E731
            return jax.tree.map(mixed, worth, fresh)

        worth = jax.lax.cond(now.search & (state.step % LOOK == 0), look_again, lambda worth: worth, worth)
        update, memory = optimiser.update(gradient, state.optimiser, parameters)
        moved: Any = optax.apply_updates(parameters, update)
        amount = jnp.where(now.binary, 0.0, config.shrink * jnp.asarray(_rate(config)(state.step)))
        moved = eqx.tree_at(lambda p: p.heads, moved, losses.shrink(moved.heads, amount))
        if isinstance(config, MissVAEConfig):
            # An edge is worth what differs between domains: what theta is on average, the functions know by themselves.
            moved = eqx.tree_at(lambda p: p.theta, moved, jax.tree.map(lambda t: t - t.mean(0), moved.theta))
            straight = jax.tree.map(partial(jnp.where, now.open), _straight(moved.heads, config.mixture), moved.heads)
            moved = eqx.tree_at(lambda p: p.heads, moved, straight)
        return FitState(moved, memory, worth, state.step + 1), terms

    state, terms = jax.lax.scan(move, state, None, length=config.chunk)
    return state, jax.tree.map(lambda x: jnp.mean(x, where=jnp.isfinite(x)), terms)


def if_finite(gradient: Any) -> Any:
    """Nothing, where it is not finite: one batch that overflows is not to spoil all that was learned."""
    finite = jnp.isfinite(optax.global_norm(gradient))
    return jax.tree.map(lambda g: jnp.where(finite, g, 0.0), gradient)


FEWEST = {Transition: 4, Trials: 1}
"""Rows of a domain in which edges are looked at, at least."""


def _batch(data: Rows | Film | Photos, config: ModelConfig, key: PRNGKeyArray) -> Transition | Trials:
    """As much of every domain."""
    if not isinstance(data, Rows):
        return draw_trials(data, max(1, config.batch // data.episodes.a.shape[0]), key)
    n_domains = data.count.shape[0]
    index = jr.randint(key, (n_domains, max(8, config.batch // n_domains)), 0, data.count[:, None])
    return jax.tree.map(lambda x: jax.vmap(lambda y, i: y[i])(x, index), data.transition)


def _share_of_ends(data: Rows | Film | Photos) -> Float[Array, ""]:
    if not isinstance(data, Rows):
        return (data.episodes.ended & data.episodes.valid).sum() / data.episodes.valid.sum()
    valid = jnp.arange(data.transition.ended.shape[1]) < data.count[:, None]
    return (data.transition.ended & valid).sum() / data.count.sum()


def _free(config: ModelConfig) -> float:
    return config.free if isinstance(config, MissVAEConfig) else -jnp.inf


def _dearness(step: Int[Array, ""], config: ModelConfig) -> Float[Array, ""]:
    """How much more it costs to believe something that was not foreseen: at first so much that only the plainest is seen."""
    left = jnp.clip(1 - step / max(0.75 * config.open_steps, 1), 0.0, 1.0)
    return config.dear**left if isinstance(config, MissVAEConfig) else jnp.float32(1.0)


def finish(state: FitState, scale: Scale, n_actions: int, config: ModelConfig, bounds: Bounds | None = None) -> WorldModel:
    """Binary masks, and theta standardised over the sources: it is identified up to scale and sign only."""
    prob, hard = _decided(state.worth, config, bounds)
    parameters = state.parameters
    of, used = parameters.theta, _read(hard)
    pairs = ((of.theta_s, used.theta_s), (of.theta_r, used.theta_r), (of.theta_o, used.theta_o))
    theta, mean, deviation = (Theta(*part) for part in zip(*(_standardise(*pair) for pair in pairs), strict=True))
    return WorldModel(
        heads=parameters.heads,
        masks=hard,
        masks_prob=prob,
        theta=theta,
        theta_mean=mean,
        theta_scale=deviation,
        scale=scale,
        n_actions=n_actions,
        eye=parameters.eye,
    )


def blank(n_state: int, n_actions: int, n_domains: int, config: ModelConfig, image: Shape | None = None) -> WorldModel:
    """A model that knows nothing yet: what others have the shape of."""
    ones = jnp.ones(n_state)
    scale = Scale(ones, ones, ones, jnp.float32(0), jnp.float32(1))
    return finish(start(n_state, n_actions, n_domains, config, jr.key(0), image), scale, n_actions, config)


def _read(masks: Masks) -> Theta:
    """Which thetas any function reads."""
    return Theta((masks.c_theta_to_s > 0).any(0), masks.c_theta_to_r > 0, masks.c_theta_to_o > 0)


def _standardise(theta, used):
    mean = jnp.where(used, theta.mean(0), 0.0)
    deviation = jnp.where(used & (theta.std(0) > 1e-6), theta.std(0), 1.0)
    return jnp.where(used, (theta - mean) / deviation, 0.0), mean, deviation


def fit(
    episodes: Episodes | Film | Photos,
    n_actions: int,
    config: ModelConfig,
    key: PRNGKeyArray,
    *,
    bounds: Bounds | None = None,
    state: FitState | None = None,
    each: Callable[[FitState, dict[str, Array]], None] = lambda state, terms: None,
) -> WorldModel:
    """Estimate the model, masks within `bounds`. `each` is called after every chunk; a `state` it was given continues."""
    key_start, key_steps, key_align = jr.split(key, 3)
    if not isinstance(episodes, Episodes):
        assert isinstance(config, MissVAEConfig)
        data, n_state, image = episodes, config.latents, episodes.image
        scale = unscaled(n_state, measure(pack(episodes.episodes)))
        n_domains = episodes.episodes.a.shape[0]
    else:
        data, n_state, image = pack(episodes), episodes.s.shape[-1], None
        scale, n_domains = measure(data), data.count.shape[0]
    if state is None:
        state = start(n_state, n_actions, n_domains, config, key_start, image)
        state = state if isinstance(data, Rows) else _after_a_look(state, data, key_start)
    while state.step < config.steps:
        # once: the open phase is over
        if isinstance(data, Rows) and config.theta_s and config.open_steps <= state.step < config.open_steps + config.chunk:
            heads, theta = state.parameters.heads, state.parameters.theta
            heads, theta = align(heads, theta, data, scale, n_actions, key_align)
            state = FitState(Parameters(heads, theta), state.optimiser, state.worth, state.step)
        state, terms = advance(state, data, scale, n_actions, config, key_steps, bounds)
        if not all(map(jnp.isfinite, terms.values())):
            raise AdarlError(
                f"The model's losses are no longer finite after {int(state.step)} of {config.steps} steps; "
                f"a smaller learning_rate than {config.learning_rate:g} may help."
            )
        each(state, terms)
    return finish(state, scale, n_actions, config, bounds)
