import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.stats import norm

from adarl.model.encoder import FURTHEST, Encoder, draw_posterior, joined
from adarl.model.mixture import Mixture, mean_of
from adarl.model.patches import cut
from adarl.types import Theta

IMAGE = (8, 8, 1)
ENCODER = Encoder(IMAGE, 3, 2, 3, features=8, memory=5, mixture=2, floor=0.01, key=jr.key(0))
THETA = Theta(jnp.array([0.3]), jnp.array([-1.0]), jnp.array([2.0]))
SLOPES = jr.normal(jr.key(7), (64, 3))


def expect(s):
    """A picture that is linear in the state, of one patch."""
    return (SLOPES @ s)[None]


def looking(encoder: Encoder):
    return eqx.filter_jit(lambda o, a, r, theta: encoder.trial(o, a, r, theta, expect))


TRIAL, UPDATE = looking(ENCODER), eqx.filter_jit(lambda *known: ENCODER.update(*known, expect))


def trial(n: int = 6):
    o = jr.normal(jr.key(1), (n + 1, *IMAGE))
    return o, jnp.arange(n) % 2, jr.normal(jr.key(2), (n,))


def test_a_trial_is_one_update_after_the_other():
    o, a, r = trial()
    q = TRIAL(o, a, r, THETA)
    assert q.mean.shape == (7, 3, 2) and bool((q.scale > 0.01).all())
    memory = ENCODER.blank
    for t in range(7):
        before = jnp.zeros(3) if t == 0 else ENCODER.before(a[t - 1], r[t - 1])
        memory, now = UPDATE(memory, o[t], before, joined(THETA))
        np.testing.assert_allclose(now.mean, q.mean[t], rtol=1e-4, atol=1e-5)


def test_nothing_is_believed_for_what_comes_later():
    o, a, r = trial()
    q = TRIAL(o, a, r, THETA)
    later = TRIAL(o.at[4:].add(1.0), a.at[3:].set(0), r.at[3:].add(1.0), THETA)
    np.testing.assert_array_equal(q.mean[:4], later.mean[:4])
    assert (q.mean[4] != later.mean[4]).all()


def test_what_moved_is_read_enlarged_but_not_at_the_first_look():
    o, a, r = trial()
    swift = eqx.tree_at(lambda e: e.swiftness, ENCODER, jnp.float32(50.0))
    q, enlarged = TRIAL(o, a, r, THETA), looking(swift)(o, a, r, THETA)
    np.testing.assert_array_equal(q.mean[0], enlarged.mean[0])
    assert (q.mean[1] != enlarged.mean[1]).all()
    still = jnp.broadcast_to(o[:1], o.shape)
    np.testing.assert_array_equal(TRIAL(still, a, r, THETA).mean, looking(swift)(still, a, r, THETA).mean)


def test_a_second_look_follows_what_the_drawing_lacks():
    """By hand: the belief before it, plus trust times the slopes of the picture times what the picture lacks."""
    o, a, r = trial(1)
    blind = eqx.tree_at(lambda e: e.second.weight, ENCODER, replace_fn=jnp.zeros_like)
    trust = jnp.array([0.5, 0.0, -1.0])
    sure = eqx.tree_at(lambda e: e.trust.bias, ENCODER, trust)
    before = mean_of(looking(blind)(o, a, r, THETA))[0]
    pull = SLOPES.T @ (o[0].ravel() - SLOPES @ before) / 8.0
    by_hand = before + ENCODER.second.weight @ (jnp.exp(trust) * pull)
    np.testing.assert_allclose(mean_of(looking(sure)(o, a, r, THETA))[0], by_hand, rtol=1e-4, atol=1e-5)


def test_a_second_look_at_what_was_believed_changes_nothing():
    o, a, r = trial(1)
    blind = eqx.tree_at(lambda e: e.second.weight, ENCODER, replace_fn=jnp.zeros_like)
    believed = mean_of(looking(blind)(o, a, r, THETA))[0]
    as_it_is = lambda s: cut(o[0]) + expect(s - believed)  # noqa: E731
    seen = eqx.filter_jit(lambda: ENCODER.trial(o, a, r, THETA, as_it_is))()
    np.testing.assert_allclose(mean_of(seen)[0], believed, rtol=1e-5, atol=1e-6)
    brighter = eqx.filter_jit(lambda: ENCODER.trial(o, a, r, THETA, lambda s: as_it_is(s) - 1.0))()
    assert (jnp.abs(mean_of(brighter)[0] - believed) > 1e-3).any()


def test_second_looks_that_go_too_far_do_not_run_away():
    """Trusted so much each overshoots the last: unlimited, forty of them would leave what a float holds."""
    o, a, r = trial(40)
    rash = eqx.tree_at(lambda e: e.trust.bias, ENCODER, jnp.full(3, 8.0))
    believed = mean_of(looking(rash)(o, a, r, THETA))
    by_image = jnp.abs(mean_of(TRIAL(o, a, r, THETA))).max()
    assert FURTHEST < jnp.abs(believed).max() < 2 * FURTHEST + 2 * by_image


def test_image_action_reward_and_theta_are_read():
    o, a, r = trial()
    q = TRIAL(o, a, r, THETA).mean[3]
    more = lambda name: eqx.tree_at(lambda theta: getattr(theta, name), THETA, replace_fn=lambda x: x + 1.0)  # noqa: E731
    changes = [
        (o.at[0].add(1.0), a, r, THETA),
        (o, a.at[2].set(1 - a[2]), r, THETA),
        (o, a, r.at[2].add(1.0), THETA),
        *((o, a, r, more(name)) for name in ("theta_s", "theta_r", "theta_o")),
    ]
    assert all((TRIAL(*changed).mean[3] != q).any() for changed in changes)


def test_samples_and_their_density():
    q = Mixture(jnp.log(jnp.array([[0.25, 0.75]])), jnp.array([[-2.0, 1.0]]), jnp.array([[0.5, 0.1]]))
    s, log_q = jax.jit(jax.vmap(lambda k: draw_posterior(k, q)))(jr.split(jr.key(0), 4000))
    by_hand = np.log(0.25 * norm.pdf(s, -2, 0.5) + 0.75 * norm.pdf(s, 1, 0.1))
    np.testing.assert_allclose(log_q, by_hand, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose((np.asarray(s) < -0.5).mean(), 0.25, atol=0.03)
    np.testing.assert_allclose(mean_of(q), [0.25 * -2 + 0.75 * 1], rtol=1e-6)
    assert abs(float(s.mean()) - 0.25) < 0.05
