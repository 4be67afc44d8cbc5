"""L_rec and L_pred by hand, and a film that is always the same."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from dot import Dot

from adarl.collect import collect, random_policy
from adarl.model import masks as gates
from adarl.model.eye import Film, perceive
from adarl.model.fit import Bounds, fit, known, start
from adarl.model.observation import SHARPEST, ObservationHead
from adarl.model.plan import MissVAEConfig
from adarl.model.rows import measure, pack, unscaled
from adarl.model.sight import Shown, draw_trials, foretold, look, observed, some_frames, worth_to_o
from adarl.model.world import mean_step
from adarl.types import Theta

CAMERA = Dot()
CONFIG = MissVAEConfig(
    theta_s=1, theta_r=1, theta_o=1, latents=3, features=8, memory=6, open_steps=0, search_steps=100, binary_steps=0, batch=4
)
BINARY = replace(CONFIG, search_steps=0, binary_steps=200, theta_r=0, learning_rate=0.02)
"""With all or no edges, by bounds: two fits by one program."""
FACTORS = {"noise": jnp.array([0.1, 1.0])}


def film(trials: int = 3, steps: int = 5) -> Film:
    episodes = collect(CAMERA, FACTORS, random_policy(2), jr.key(0), trials=trials, steps=steps, wide=0.5)
    return Film.of(episodes, FACTORS, CAMERA, jr.key(1))


STATE = start(3, 2, 2, CONFIG, jr.key(2), CAMERA.image)
EYE = STATE.parameters.eye
FRAMES = eqx.filter_jit(Film.frames)
DRAW = eqx.filter_jit(draw_trials)
LOOK, OBSERVED, WORTH = eqx.filter_jit(look), eqx.filter_jit(observed), eqx.filter_jit(worth_to_o)
THETA = Theta(jnp.array([[0.1], [0.2]]), jnp.array([[0.3], [0.4]]), jnp.array([[-1.0], [1.0]]))
EVERY = gates.every_edge(3, 1, 1, 1.0, 1)


def test_a_frame_looks_the_same_whenever_it_is_looked_at():
    one = film()
    frames = FRAMES(one, jnp.int32(1), jnp.int32(2))
    assert frames.shape == (6, 8, 8, 1)
    np.testing.assert_array_equal(frames, FRAMES(one, jnp.int32(1), jnp.int32(2)))
    assert (frames[0] != frames[1]).any()
    drawn = DRAW(one, 4, jr.key(3))
    assert drawn.o.shape == (2, 4, 6, 8, 8, 1) and drawn.a.shape == (2, 4, 5)
    every = [FRAMES(one, jnp.int32(1), jnp.int32(i)) for i in range(3)]
    assert all(any(np.array_equal(o, e) for e in every) for o in drawn.o[1])


def test_pixels_are_gaussians_whose_width_follows_theta_o():
    head = ObservationHead(2, 1, (4, 4, 1), key=jr.key(0))
    head = eqx.tree_at(lambda h: (h.log_width, h.slope), head, (jnp.log(0.4), jnp.array([0.5])))
    width = SHARPEST + 0.4 * np.exp(0.5 * 2.0)
    np.testing.assert_allclose(head.width(jnp.array([2.0])), width, rtol=1e-5)
    x, o = jnp.ones(2), jnp.zeros((4, 4, 1))
    z = np.asarray(head.draw(x)) / width
    pairs = np.array([[z[i : i + 2, j : j + 2].sum() / 2 for j in (0, 2)] for i in (0, 2)])
    squares = (z**2).sum() + (pairs**2).sum() + (z.sum() / 4) ** 2  # also patches of two and of four pixels to a side
    by_hand = -0.5 * squares * 16 / (16 + 4 + 1) - 16 * (np.log(width) + 0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(head.log_p(x, jnp.array([2.0]), o), by_hand, rtol=1e-4)


def test_steps_that_never_happened_count_for_nothing():
    assert EYE is not None
    one = film()
    scale = unscaled(3, measure(pack(one.episodes)))
    trials = DRAW(one, 3, jr.key(3))
    cut = trials._replace(valid=trials.valid.at[:, :, 2:].set(False))
    other = cut._replace(o=cut.o.at[:, :, 3:].add(1.0), r=cut.r.at[:, :, 2:].add(1.0))
    seen = [LOOK(EYE, EVERY, THETA, t, scale, 4, jr.key(4)) for t in (cut, other)]
    for name, term in seen[0].terms.items():
        np.testing.assert_allclose(term, seen[1].terms[name], rtol=1e-5)
    rows = seen[0].rows
    assert rows.weight is not None and rows.weight.sum() == 12 and rows.steps.s_t.shape == (2, 15, 3)
    s_tm1, s_t = (s.reshape(2, 3, 5, 3) for s in (rows.steps.s_tm1, rows.steps.s_t))
    np.testing.assert_array_equal(s_tm1[:, :, 1:], s_t[:, :, :-1])


def shown_all(s) -> Shown:
    """Every frame of two trials of each domain once."""
    trials = DRAW(film(), 2, jr.key(3))
    ones = jnp.ones(s.shape[:3])
    return Shown(trials.o, s, jnp.roll(s, 1, axis=2), ones, ones.at[:, :, 0].set(0.0))


def test_some_frames_stand_for_all():
    """A frame comes with its state and the one before; weights add up to the frames that there are, on average."""
    trials = DRAW(film(), 2, jr.key(3))
    trials = trials._replace(valid=trials.valid.at[:, 0, 2:].set(False))
    s = jnp.arange(2 * 2 * 6.0).reshape(2, 2, 6, 1)
    many = [some_frames(trials, s, 3, jr.key(i)) for i in range(200)]
    for shown in many[:5]:
        at = np.asarray(shown.s[..., 0], int) % 6
        for k, i, n in np.ndindex(at.shape):
            np.testing.assert_array_equal(shown.o[k, i, n], trials.o[k, i, at[k, i, n]])
            assert shown.before[k, i, n, 0] == s[k, i, max(at[k, i, n] - 1, 0), 0]
        assert (np.asarray(shown.weight_before)[at == 0] == 0).all()
    total = np.mean([shown.weight.sum(2) for shown in many], axis=0)
    np.testing.assert_allclose(total, [[3, 6], [3, 6]], atol=0.5)
    assert (np.ptp([np.asarray(shown.weight)[:, 1] for shown in many]) == 0) and many[0].weight[0, 1, 0] == 2.0


def test_images_are_foretold_by_one_step_after_the_other():
    """Trials that are shorter than what is looked ahead are foretold from their first state to their last image."""
    assert EYE is not None
    trials = DRAW(film(), 2, jr.key(3))
    scale = unscaled(3, measure(pack(film().episodes)))
    seen = LOOK(EYE, EVERY, THETA, trials, scale, 4, jr.key(4))
    heads = STATE.parameters.heads
    found = eqx.filter_jit(foretold)(heads, EYE, EVERY, THETA, trials, seen, scale, 1.0, jr.key(5))
    step = eqx.filter_jit(lambda s, a, t: mean_step(heads, gates.into_states(EVERY), scale, 2, s, a, t))
    last = np.array(seen.s[:, :, 0])
    for k, i in np.ndindex(2, 2):
        for t in range(5):
            last[k, i] = step(last[k, i], trials.a[k, i, t], THETA.theta_s[k])
    there = trials.valid[:, :, -1:].astype(jnp.float32) * trials.valid.sum() / trials.valid[:, :, -1].sum()
    state = jnp.asarray(last)[:, :, None]
    by_hand = -OBSERVED(EYE, EVERY, THETA, Shown(trials.o[:, :, -1:], state, state, there, there)) / trials.valid.sum()
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)


def test_masks_hide_states_and_theta_from_the_observation():
    assert EYE is not None
    s = jr.normal(jr.key(5), (2, 2, 6, 3))
    none = gates.every_edge(3, 1, 1, 0.0, 1)
    hidden = OBSERVED(EYE, none, THETA, shown_all(s))
    other = OBSERVED(EYE, none, jax.tree.map(jnp.zeros_like, THETA), shown_all(9 * s))
    np.testing.assert_allclose(hidden, other, rtol=1e-6)
    assert OBSERVED(EYE, EVERY, THETA, shown_all(s)) != hidden


def test_an_edge_to_o_is_worth_what_is_lost_without_it():
    assert EYE is not None
    s = jr.normal(jr.key(5), (2, 2, 6, 3))
    deaf = eqx.tree_at(lambda e: e.observation.draw.ridges.weight, EYE, replace_fn=lambda w: w.at[:, 1].set(0.0))
    to_s, to_theta = WORTH(deaf, EVERY, THETA, shown_all(s))
    assert to_s.shape == (3,) and to_theta.shape == (1,)
    assert to_s[1] == 0.0 and to_s[0] != 0.0


def test_perceived_trials_are_what_the_encoder_expects():
    assert EYE is not None
    one = film(trials=4)
    seen = perceive(EYE, EVERY, one, THETA, jnp.float32(0.5), jnp.float32(2.0))
    assert seen.s.shape == (2, 4, 6, 3)
    np.testing.assert_array_equal(seen.a, one.episodes.a)
    k, i = jnp.int32(1), jnp.int32(3)
    theta = jax.tree.map(lambda t: t[1], THETA)
    r = (one.episodes.r[1, 3] - 0.5) / 2.0
    q = eqx.filter_jit(EYE.trial)(FRAMES(one, k, i), one.episodes.a[1, 3], r, theta, EVERY)
    by_hand = (jax.nn.softmax(q.logits) * q.mean).sum(-1)
    np.testing.assert_allclose(seen.s[1, 3], by_hand, rtol=1e-4, atol=1e-5)


def test_a_fit_tells_noise_from_less_of_it():
    """In theta_o and in nothing else: the width of a pixel is what changes."""
    every, seen = gates.every_edge(3, 1, 0, 1.0, 1), []
    each = lambda state, terms: seen.append(terms)  # noqa: E731
    model = fit(film(trials=8), 2, BINARY, jr.key(6), bounds=Bounds(every, every), each=each)
    assert model.eye is not None and len(seen) == 2
    assert all(seen[1][name] < seen[0][name] for name in ("observation", "prediction"))
    width = model.eye.observation.width(model.raw(model.theta).theta_o)
    assert 0.25 < width[0] < 0.7 < 0.9 < width[1] < 1.3  # 0.32 and 1, as far as the picture is known by now
    np.testing.assert_allclose(model.theta_mean.theta_o, 0.0, atol=1e-5)  # what is the same everywhere is no change
    assert all(set(np.unique(mask)) <= {0.0, 1.0} for mask in jax.tree.leaves(model.masks))


def test_an_encoder_reads_no_theta_that_no_function_reads():
    """Once masks are binary nothing moves such a theta: what is told of a target is then zero, as it was in the fit."""
    none, after = gates.every_edge(3, 1, 0, 0.0, 1), []
    before = Theta(jnp.array([[-0.5], [0.5]]), jnp.zeros((2, 0)), jnp.array([[-0.5], [0.5]]))
    state = eqx.tree_at(lambda s: s.parameters.theta, start(3, 2, 2, BINARY, jr.key(2), CAMERA.image), before)
    each = lambda state, terms: after.append(state.parameters.theta)  # noqa: E731
    model = fit(film(trials=8), 2, BINARY, jr.key(6), bounds=Bounds(none, none), state=state, each=each)
    jax.tree.map(np.testing.assert_array_equal, after[0], before)
    assert all((theta == 0).all() for theta in jax.tree.leaves((model.theta, model.theta_mean)))


def test_a_fit_that_goes_on_starts_from_the_model_as_it_is():
    no_steps = replace(CONFIG, search_steps=0)
    begun = eqx.tree_at(lambda s: s.parameters.theta, start(3, 2, 2, no_steps, jr.key(2), CAMERA.image), THETA)
    model = fit(film(), 2, no_steps, jr.key(6), state=begun)
    kept = gates.every_edge(3, 1, 1, 0.0, 1)
    model = replace(model, masks=replace(model.masks, c_a_to_s=kept.c_a_to_s))
    after = fit(film(), 2, no_steps, jr.key(7), state=known(model, no_steps), bounds=Bounds(model.masks, model.masks))
    pick = lambda m: (m.heads, m.eye, m.masks, m.theta, m.raw(m.theta))  # noqa: E731
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), pick(model), pick(after))
