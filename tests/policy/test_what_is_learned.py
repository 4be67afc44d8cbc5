"""What the loop learns of problems whose every value is known, of imagined domains and of steps elsewhere."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from probes import BANDIT, CONFIG, DOORS, ENDLESS, OPPOSITE, TWO_STEPS, Dream, Probe, sources, told, train, values

from adarl.policy.double_dqn import DoubleDQN
from adarl.types import Step, Theta


@pytest.mark.parametrize(
    ("probe", "q"),
    [
        pytest.param(BANDIT, {0: [0, 1]}, id="the reward depends on the action"),
        pytest.param(ENDLESS, {0: [4, 5], 1: [4, 5]}, id="a horizon is no end"),  # 1 / (1 - 0.8) = 5, 0.8 * 5 = 4
        pytest.param(TWO_STEPS, {0: [0.8, 0.8], 1: [1, 1]}, id="the discount"),
        pytest.param(DOORS, {0: [0.2, 0.8], 1: [0, 1], 2: [0.25, 0.25]}, id="an action pays later"),
    ],
)
def test_values_of_probes(probe: Probe, q: dict[int, list[float]]):
    got = train(sources(probe))
    last, _ = got.states[-1]
    for network in (got.chosen, last.learner.q, last.learner.q_average):
        for state, expected in q.items():
            for theta_s in (-1.0, 1.0):
                learned = values(network, state, theta_s)
                np.testing.assert_allclose(learned, [expected] * 2, atol=0.1)
                if expected[0] != expected[1]:
                    assert (learned.argmax(1) == 1).all()


def test_values_of_many_steps_at_once():
    """What is earned on the way counts, discounted, and nothing after an end."""
    algorithm = DoubleDQN(replace(CONFIG.learner, n_step=3), told().theta)
    got = train(sources(TWO_STEPS), algorithm=algorithm)
    np.testing.assert_allclose(values(got.chosen, 0, 1.0), 0.8, atol=0.1)
    np.testing.assert_allclose(values(got.chosen, 1, 1.0), 1.0, atol=0.1)


def test_theta_decides_which_action_pays():
    got = train(sources(BANDIT, OPPOSITE))
    np.testing.assert_allclose(values(got.chosen, 0, -1.0), [[0, 1]] * 2, atol=0.1)
    np.testing.assert_allclose(values(got.chosen, 0, 1.0), [[1, 0]] * 2, atol=0.1)
    np.testing.assert_array_equal(got.curve[:, -1], 1.0)


def test_without_theta_no_policy_solves_both():
    """A theta that is the same everywhere is none, and needs no other compiled program."""
    got = train(sources(BANDIT, OPPOSITE), algorithm=told(0.0, 0.0))
    np.testing.assert_array_equal(got.curve, 0.5)
    np.testing.assert_allclose(values(got.chosen, 0, 0.0), 0.5, atol=0.2)  # an action pays in one domain of two


def test_imagination_teaches_thetas_that_reality_never_showed():
    """Both real domains have theta_s = -1."""
    got = train(sources(BANDIT, imagined=Dream()), algorithm=told(-1.0, -1.0))
    np.testing.assert_allclose(values(got.chosen, 0, -1.0), [[0, 1]] * 2, atol=0.15)
    np.testing.assert_allclose(values(got.chosen, 0, 0.8), [[1, 0]] * 2, atol=0.15)
    last, _ = got.states[-1]
    assert last.ring.r_t.shape == (2, 4000 // 32 * 32)  # real and imagined steps side by side
    assert last.imagined is not None and last.real is not None
    assert (last.imagined.theta.theta_s > 0).any() and (last.learner.told.theta_s == -1).all()


class Mirrored(eqx.Module):
    """Elsewhere the other action would have been paid: where theta_s is above zero."""

    def draw_theta(self, key) -> Theta:
        return Theta(jr.uniform(key, (1,), minval=-1.0), jnp.zeros(1))

    def step(self, s_tm1, a_tm1, here: Step, theta: Theta, there: Theta) -> Step:
        return here._replace(r=jnp.where(there.theta_s[0] < 0, here.r, 1.0 - here.r))


def test_steps_as_they_would_have_been_elsewhere_teach_thetas_that_reality_never_showed():
    got = train(sources(BANDIT, elsewhere=Mirrored()), algorithm=told(-1.0, -1.0))
    np.testing.assert_allclose(values(got.chosen, 0, -1.0), [[0, 1]] * 2, atol=0.15)
    np.testing.assert_allclose(values(got.chosen, 0, 0.8), [[1, 0]] * 2, atol=0.15)
    last, _ = got.states[-1]
    assert last.ring.r_t.shape == (2, 4000 // 32 * 32) and last.imagined is None
    there = np.asarray(last.ring.x_t[..., -1]).reshape(2, -1, 2, 16)  # blocks of steps as they were, and elsewhere
    assert (there[:, :, 0] == -1).all() and (there[:, :, 1] > 0).any()
