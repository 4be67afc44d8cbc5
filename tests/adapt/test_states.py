import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.adapt.factor import implied_factor
from adarl.adapt.search import evenly
from adarl.adapt.states import MOST, adapt, estimate, first_steps
from adarl.model.fit import finish, start
from adarl.model.plan import ModelConfig
from adarl.model.world import Scale, WorldModel
from adarl.types import AdarlError, Episodes, Masks, Theta, Transition

SOURCES = jnp.asarray([-1.5, -0.5, 0.5, 1.5])


def world(ambiguous: bool = False) -> WorldModel:
    """Written down by hand: ds_0 = +-1 + theta_0, ds_1 = theta_0 / 2 (noise 0.1, 0.3); r = s_0 / 2 + theta_r.

    theta_1 has no edge. In the ambiguous world ds_0 = +-theta_0, either sign equally likely, with noise 0.01.
    """
    mixture = 2
    config = ModelConfig(theta_s=2, theta_r=1, hidden=2, mixture=mixture, floor=1e-4, reward_floor=1e-4)
    one = jnp.ones(())
    scale = Scale(jnp.zeros(2), jnp.ones(2), jnp.ones(2), 0 * one, one)
    model = finish(start(2, 2, 4, config, jr.key(0)), scale, 2, config)
    masks = Masks(
        c_s_to_s=jnp.eye(2),
        c_a_to_s=jnp.asarray([0.0 if ambiguous else 1.0, 0.0]),
        c_theta_to_s=jnp.asarray([[1.0, 0.0], [1.0, 0.0]]),
        c_s_to_r=jnp.asarray([1.0, 0.0]),
        c_a_to_r=jnp.zeros(()),
        c_theta_to_r=jnp.ones(1),
    )

    def scale_bias(sd: float) -> list[float]:  # the inverse of `mixture.from_raw`
        return [float(np.log(np.expm1(sd - 1e-4)) + 3.0)] * mixture

    sign = -1.0 if ambiguous else 1.0
    deviations = (0.01, 0.3) if ambiguous else (0.1, 0.3)
    head = jax.tree.map(jnp.zeros_like, model.heads.transition)
    head = eqx.tree_at(
        lambda h: (h.linear.weight, h.slope.bias, h.out.bias),
        head,
        (
            head.linear.weight.at[0, :, 2:].set(jnp.asarray([-0.5, 0.5])),  # action 1 adds 1, 0 takes 1
            jnp.asarray([[1.0, 9.0, sign, 9.0], [0.5, 9.0, 0.5, 9.0]]),
            jnp.asarray([[0.0] * 4 + scale_bias(sd) for sd in deviations]),
        ),
    )

    # relu(x) - relu(-x) = x, whether the episode ended or not; theta_r is a bonus.
    first = jnp.asarray([0.5, 0.0, 0.0, 0.0])
    pay = jnp.zeros((6, 2)).at[2:4].set(jnp.asarray([1.0, -1.0]))
    bias = jnp.asarray([0.0] * 4 + scale_bias(0.2))
    reward = jax.tree.map(jnp.zeros_like, model.heads.reward)
    reward = eqx.tree_at(
        lambda h: (*(layer.weight for layer in h.pay.layers), h.pay.layers[2].bias, h.bonus),
        reward,
        (jnp.stack([first, -first]), jnp.eye(2), jnp.tile(pay, (2, 1)), jnp.tile(bias, 2), jnp.ones(1)),
    )
    heads = eqx.tree_at(lambda h: (h.transition, h.reward), model.heads, (head, reward))
    theta = Theta(jnp.stack([SOURCES, 0 * SOURCES], 1), SOURCES[:, None])
    return eqx.tree_at(lambda m: (m.heads, m.masks, m.masks_prob, m.theta), model, (heads, masks, masks, theta))


def sample(n: int, theta_s: float, theta_r: float, seed: int = 0, ambiguous: bool = False) -> Transition:
    rng = np.random.default_rng(seed)
    s, a = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    if ambiguous:
        ds_0 = theta_s * rng.choice([-1, 1], n) + 0.01 * rng.normal(size=n)
    else:
        ds_0 = 2.0 * (a - 0.5) + theta_s + 0.1 * rng.normal(size=n)
    ds_1 = 0.5 * theta_s + 0.3 * rng.normal(size=n)
    r = 0.5 * s[:, 0] + theta_r + 0.2 * rng.normal(size=n)
    f32 = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
    ended = jnp.asarray(rng.integers(0, 2, n), bool)
    return Transition(f32(s), jnp.asarray(a), f32(r), f32(s + np.stack([ds_0, ds_1], 1)), ended)


def everything(n: int):
    return jnp.ones(n, bool)


def exact_theta_s(rows: Transition) -> tuple[float, float]:
    """The posterior of the unambiguous world is Gaussian: mean and deviation by hand."""
    ds = np.asarray(rows.s_t - rows.s_tm1, np.float64)
    ds[:, 0] -= 2.0 * (np.asarray(rows.a_tm1) - 0.5)
    slope, precision = np.asarray([1.0, 0.5]), np.asarray([0.1, 0.3]) ** -2
    width = 1 / (len(ds) * (slope**2 * precision).sum() + 1 / 9)
    return width * (ds * slope * precision).sum(), np.sqrt(width)


MODEL = world()


@pytest.mark.parametrize(("theta_s", "theta_r"), [(0.3, -0.7), (-4.0, 4.5)])
def test_recovers_theta_between_and_beyond_the_sources(theta_s: float, theta_r: float):
    rows = sample(50, theta_s, theta_r)
    got = estimate(MODEL, rows, everything(50))
    mean, deviation = exact_theta_s(rows)
    np.testing.assert_allclose(got.theta.theta_s[0], mean, atol=2e-4)
    assert deviation * 0.99 < got.sd.theta_s[0] < deviation * 1.5  # the sandwich may only widen it
    assert abs(got.theta.theta_s[0] - theta_s) < 4 * got.sd.theta_s[0]
    assert abs(got.theta.theta_r[0] - theta_r) < 4 * got.sd.theta_r[0]
    np.testing.assert_allclose(got.sd.theta_r[0], 0.2 / np.sqrt(50), rtol=0.4)


def test_closed_dimensions_stay_zero():
    got = estimate(MODEL, sample(50, 0.3, 0.0), everything(50))
    assert got.theta.theta_s.shape == got.sd.theta_s.shape == (2,)
    assert got.theta.theta_s[1] == 0 and got.sd.theta_s[1] == 0
    shut = eqx.tree_at(lambda m: m.masks.c_theta_to_r, MODEL, jnp.zeros(1))
    got = estimate(shut, sample(50, 0.3, 1.0), everything(50))
    assert got.theta.theta_r[0] == 0 and got.sd.theta_r[0] == 0


def test_states_say_nothing_of_theta_r_and_rewards_nothing_of_theta_s():
    rows = sample(50, 0.3, -0.7)
    got = estimate(MODEL, rows, everything(50))
    other = estimate(MODEL, rows._replace(r_t=rows.r_t + 1), everything(50))
    np.testing.assert_array_equal(got.theta.theta_s, other.theta.theta_s)
    np.testing.assert_allclose(other.theta.theta_r, got.theta.theta_r + 1, atol=1e-2)


def test_deviations_shrink_like_the_root_of_n():
    few, many = (estimate(MODEL, sample(n, 0.3, -0.7), everything(n)).sd for n in (50, 5000))
    np.testing.assert_allclose(few.theta_s[0] / many.theta_s[0], 10.0, rtol=0.3)
    np.testing.assert_allclose(few.theta_r[0] / many.theta_r[0], 10.0, rtol=0.3)


def test_one_sample_is_enough_to_start():
    got = estimate(MODEL, sample(1, 1.0, 1.0), everything(1))
    assert abs(got.theta.theta_s[0] - 1.0) < 0.5 and abs(got.theta.theta_r[0] - 1.0) < 0.8


def test_is_deterministic_and_blind_to_padding_and_invalid_rows():
    rows = sample(60, 0.3, -0.7)
    first, again = estimate(MODEL, rows, everything(60)), estimate(MODEL, rows, everything(60))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    holes = jax.tree.map(lambda x: jnp.zeros((180, *x.shape[1:]), x.dtype).at[::3].set(x), rows)
    holes = holes._replace(s_t=holes.s_t.at[1::3].set(1e6), r_t=holes.r_t.at[2::3].set(jnp.nan))
    spread = estimate(MODEL, holes, jnp.arange(180) % 3 == 0)
    jax.tree.map(np.testing.assert_array_equal, first, spread)
    longer = jax.tree.map(lambda x: jnp.concatenate([x, x]), rows)
    padded = estimate(MODEL, longer, jnp.arange(120) < 60)
    jax.tree.map(np.testing.assert_array_equal, first, padded)


@pytest.mark.parametrize("theta_s", [-1.2, 1.2])
def test_finds_the_higher_of_two_hills(theta_s: float):
    got = estimate(world(ambiguous=True), sample(50, theta_s, 0.0, ambiguous=True), everything(50))
    np.testing.assert_allclose(got.theta.theta_s[0], theta_s, atol=0.02)


def test_ten_thousand_trajectories_are_thinned_out_evenly_and_streamed():
    n = 400_000
    rows = sample(n, 0.3, -0.7)
    got = estimate(MODEL, rows, everything(n))
    seen = np.arange(MOST) * n // MOST
    mean, deviation = exact_theta_s(jax.tree.map(lambda x: x[seen], rows))
    assert abs(got.theta.theta_s[0] - mean) < 0.2 * deviation
    np.testing.assert_allclose(got.sd.theta_s[0], deviation, rtol=0.05)


def test_no_sample_is_an_error():
    with pytest.raises(AdarlError, match="0 samples were given; at least 1 is needed"):
        estimate(MODEL, sample(5, 0.0, 0.0), jnp.zeros(5, bool))


def episodes_of(rows: Transition, trials: int, steps: int) -> Episodes:
    """Single steps laid out as trials of which only the first step is valid."""
    s = jnp.repeat(rows.s_tm1[:trials, None], steps + 1, 1).at[:, 1:].set(rows.s_t[:trials, None])
    fill = lambda x: jnp.repeat(x[:trials, None], steps, 1)[None]  # noqa: E731
    valid = jnp.zeros((1, trials, steps), bool).at[:, :, 0].set(True)
    return Episodes(s[None], fill(rows.a_tm1), fill(rows.r_t), fill(rows.ended), valid)


def test_adapt_flattens_episodes():
    rows = sample(50, 0.3, -0.7)
    got = adapt(MODEL, episodes_of(rows, 50, 3))
    jax.tree.map(np.testing.assert_array_equal, got, estimate(MODEL, rows, everything(50)))


def test_first_steps_keeps_the_order_of_trials():
    valid = jnp.asarray([[[1, 1, 0], [1, 1, 1], [1, 0, 0]], [[1, 1, 1], [1, 1, 1], [1, 1, 1]]], bool)
    zeros = jnp.zeros((2, 3, 3))
    episodes = Episodes(jnp.zeros((2, 3, 4, 2)), zeros.astype(int), zeros, zeros.astype(bool), valid)
    got = first_steps(episodes, 3).valid
    np.testing.assert_array_equal(got[0], [[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(got[1], [[1, 1, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(first_steps(episodes, 100).valid, valid)


@pytest.mark.parametrize("n_theta", [1, 2, 3])
def test_candidates_leave_no_gap(n_theta: int):
    points = evenly(512, n_theta)
    probes = np.random.default_rng(0).random((200, n_theta))
    nearest = np.abs(points[None] - probes[:, None]).max(-1).min(-1)
    assert nearest.max() < 2 * 512 ** (-1 / n_theta)


def test_implied_factor_of_a_linear_theta():
    gravity = np.asarray([5.0, 10.0, 20.0, 30.0, 40.0])
    theta = (gravity - 21.0) / 13.0
    assert implied_factor(theta, gravity, (55.0 - 21.0) / 13.0) == pytest.approx(55.0)
    assert implied_factor(-theta, gravity, -(15.0 - 21.0) / 13.0) == pytest.approx(15.0)


def test_implied_factor_of_masses_that_add_up():
    mass = np.asarray([0.5, 1.5, 2.5, 3.5, 4.5])
    theta = lambda m: 2.0 - 3.0 / (m + 0.1)  # noqa: E731
    for target in (1.0, 5.5):
        assert implied_factor(theta(mass), mass, theta(target)) == pytest.approx(target, rel=1e-6)


def test_implied_factor_with_links_and_few_sources():
    values = np.asarray([1.0, 2.0, 4.0])
    assert implied_factor(np.log(values), values, np.log(8.0)) == pytest.approx(8.0)
    assert implied_factor(1 / values, values, 1 / 8.0) == pytest.approx(8.0)
    assert implied_factor(np.asarray([0.0, 1.0]), np.asarray([2.0, 4.0]), 2.0) == pytest.approx(6.0)
    with pytest.raises(AdarlError, match="at least 2 sources"):
        implied_factor(np.zeros(1), np.zeros(1), 0.0)
