"""What is read out of beliefs and foretold by a model, where the answer is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from dot import Dot

from adarl.collect import collect, random_policy
from adarl.evaluate import insight
from adarl.model.eye import Film
from adarl.model.fit import finish, start
from adarl.model.plan import MissVAEConfig
from adarl.model.rows import measure, pack, unscaled
from adarl.model.world import WorldModel

CONFIG = MissVAEConfig(theta_s=1, theta_r=0, theta_o=1, latents=3, features=8, memory=6)
FACTORS = {"noise": jnp.array([0.1])}
EPISODES = collect(Dot(), FACTORS, random_policy(2), jr.key(0), trials=6, steps=12, wide=0.5)
FILM = Film.of(EPISODES, FACTORS, Dot(), jr.key(1))


def model() -> WorldModel:
    state = start(3, 2, 1, CONFIG, jr.key(2), Dot().image)
    return finish(state, unscaled(3, measure(pack(EPISODES))), 2, CONFIG)


def test_a_line_is_read_out_and_judged_on_other_rows():
    rng = np.random.default_rng(0)
    s = rng.normal(size=(400, 3))
    hidden = np.stack([2 * s[:, 0] - s[:, 2] + 1, rng.normal(size=400)], axis=1)
    found = insight.readout(s, hidden, rng)
    np.testing.assert_allclose(found.weights[:, 0], [2, 0, -1, 1], atol=1e-9)
    np.testing.assert_allclose(found.explained[0], 1.0)
    assert found.explained[1] < 0.05
    np.testing.assert_allclose(found(s[:5])[:, 0], hidden[:5, 0])


def test_what_is_foretold_is_the_mean_step_by_step():
    one = model()
    theta = jax.tree.map(lambda t: t[0], one.theta)
    s, a = jr.normal(jr.key(3), (2, 3)), jnp.array([[0, 1, 1], [1, 0, 0]])
    found = insight.foretold(one, s, a, theta)
    now = s[1]
    many = jax.jit(lambda keys, now, a: jax.vmap(lambda k: one.draw(k, now, a, theta).s)(keys))
    expect = jax.jit(lambda now, a: one.expected(now, a, theta))
    for t in range(3):
        drawn = many(jr.split(jr.key(t), 4000), now, a[1, t])
        now = expect(now, a[1, t])
        np.testing.assert_allclose(drawn.mean(0), now, atol=0.03)
        np.testing.assert_allclose(found[1, t], now, rtol=1e-4, atol=1e-5)


def test_trials_are_foretold_from_their_first_looks():
    one = model()
    short = eqx.tree_at(lambda f: f.episodes.valid, FILM, FILM.episodes.valid.at[0, 2, 6:].set(False))
    found = insight.ahead(one, short, jax.tree.map(lambda t: t[0], one.theta), 5)
    assert found.foretold.shape == found.believed.shape == (5, 6, 3)  # the trial that ends too soon is left out
    np.testing.assert_array_equal(found.hidden[2], EPISODES.s[0, 3, insight.LOOKS : insight.LOOKS + 6])
    np.testing.assert_array_equal(found.foretold[:, 0], found.believed[:, 0])
    frames = eqx.filter_jit(Film.frames)(FILM, jnp.int32(0), jnp.int32(3))
    np.testing.assert_allclose(found.seen[2], frames[insight.LOOKS : insight.LOOKS + 6], rtol=1e-5, atol=1e-5)


def test_pairs_of_believed_and_hidden_states_are_of_the_same_moment():
    one = model()
    believed, hidden = insight.seen_rows(one, FILM, one.theta)
    assert len(believed) == len(hidden) == 6 * (12 - insight.LOOKS + 1)
    np.testing.assert_array_equal(hidden[0], EPISODES.s[0, 0, insight.LOOKS])


def test_a_trial_is_shown_as_far_as_it_goes(monkeypatch):
    one = model()
    theta = jax.tree.map(lambda t: t[0], one.theta)
    shown = insight.pictures(one, FILM, theta)
    assert shown["steps"] == [0, 5] and np.shape(shown["foretold"]) == (2, 8, 8, 1)  # 12 steps, five of them looks
    assert shown["believed"][0] == shown["foretold"][0] and 0 <= np.min(shown["seen"]) < np.max(shown["seen"]) <= 255
    monkeypatch.setattr(insight, "HORIZONS", (1, 3))
    found = insight.judged(one, FILM, one.theta, ("x",), np.random.default_rng(0))
    assert found["explained"]["x"] <= 1 and set(found["ahead"]) == {"1", "3"} and found["ahead"]["3"]["x"] > 0


def test_nothing_is_said_of_what_lies_ahead_where_no_trial_is_long_enough():
    one = model()
    found = insight.judged(one, FILM, one.theta, ("x",), np.random.default_rng(0))  # 12 steps, where 25 are needed
    assert found["explained"]["x"] <= 1 and found["ahead"] == {}


def test_a_state_is_drawn_as_the_observation_shows_it():
    one = model()
    theta = jax.tree.map(lambda t: t[0], one.theta)
    assert insight.drawn(one, jnp.zeros((4, 3)), theta).shape == (4, 8, 8, 1)
