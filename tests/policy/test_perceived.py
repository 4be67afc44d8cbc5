"""A camera's domain as an environment of beliefs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from dot import Dot

from adarl.domains.functional import Functional
from adarl.model import masks as gates
from adarl.model.encoder import Encoder, joined
from adarl.model.eye import Eye
from adarl.model.mixture import mean_of
from adarl.model.observation import ObservationHead, Predictions
from adarl.policy.perceived import THETA, Perceived
from adarl.policy.view import View
from adarl.types import Theta

CAMERA = Dot()
ENCODER = Encoder(CAMERA.image, 3, 2, 2, features=8, memory=5, mixture=2, floor=0.01, key=jr.key(0))
EYE = Eye(
    ENCODER,
    ObservationHead(3, 0, CAMERA.image, key=jr.key(1)),
    Predictions(3, 2, 0, 1, 1, CAMERA.image, key=jr.key(2)),
)
MASKS = gates.every_edge(3, 1, 1, 1.0, 0)
WORLD = Perceived(CAMERA, EYE, MASKS, jnp.float32(0.5), jnp.float32(2.0))
THETA_HERE = Theta(jnp.array([0.3]), jnp.array([-0.7]), jnp.zeros(0))
FACTORS = {"noise": jnp.float32(0.0), THETA: joined(THETA_HERE)}


@eqx.filter_jit
def walk(actions):
    start = WORLD.reset(jr.key(1), FACTORS, jnp.bool_(False))
    move = lambda s, a: (lambda step: (step.s, step))(WORLD.step(jr.key(2), s, a, FACTORS))  # noqa: E731
    return start, jax.lax.scan(move, start, actions)[1]


def test_it_is_a_domain():
    assert isinstance(WORLD, Functional)
    assert WORLD.state_names == ("s_1", "s_2", "s_3") and WORLD.n_actions == 2


def test_beliefs_are_those_of_the_whole_trial():
    actions = jnp.array([1, 1, 0, 1, 0])
    start, steps = walk(actions)
    states = jnp.concatenate([start[None], steps.s])
    hidden = WORLD.hidden(states)
    np.testing.assert_allclose(hidden[1:] - hidden[:-1], 0.3 * (2 * actions - 1)[:, None], rtol=1e-5)
    images = jax.vmap(lambda s: CAMERA.observe(jr.key(0), s, FACTORS))(hidden)
    q = eqx.filter_jit(EYE.trial)(images, actions, (steps.r - 0.5) / 2.0, THETA_HERE, MASKS)
    np.testing.assert_allclose(states[:, :3], mean_of(q), rtol=1e-4, atol=1e-5)


def test_the_policy_sees_the_belief_alone():
    _, steps = walk(jnp.array([1, 0]))
    view = View(jnp.zeros(3), jnp.ones(3), (0, 2), (0,), ())
    x = view(steps.s[0], THETA_HERE)
    np.testing.assert_allclose(x, [*np.asarray(steps.s[0])[[0, 2]], 0.3])
    np.testing.assert_array_equal(x, view(steps.s[0].at[3:].add(1.0), THETA_HERE))


def test_ends_and_limits_are_the_cameras():
    _, steps = walk(jnp.ones(14, int))
    assert not bool(steps.ended[0]) and bool(steps.ended[-1])
    assert bool(WORLD.recordable(steps.s[-1]))
