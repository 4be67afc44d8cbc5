"""What the encoder is told of a domain."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.model import masks as gates
from adarl.model.encoder import Encoder, joined
from adarl.model.eye import Eye
from adarl.model.mixture import mean_of
from adarl.model.observation import ObservationHead, Predictions
from adarl.types import Masks, Theta

IMAGE = (8, 8, 1)
EYE = Eye(
    Encoder(IMAGE, 3, 2, 2, features=8, memory=5, mixture=2, floor=0.01, key=jr.key(0)),
    ObservationHead(4, 1, IMAGE, key=jr.key(1)),
    Predictions(3, 2, 1, 1, 0, IMAGE, key=jr.key(2)),
)
DEAF = Eye(EYE.encoder, EYE.observation, EYE.predictions, "dynamics")
EVERY = gates.every_edge(3, 1, 0, 1.0, 1)
NOT_DRAWN = Masks(**{**vars(EVERY), "c_theta_to_o": jnp.zeros(1)})
THETA = Theta(jnp.array([0.4]), jnp.zeros(0), jnp.array([1.5]))
IMAGES, A, R = jr.normal(jr.key(3), (5, *IMAGE)), jnp.array([0, 1, 1, 0]), jr.normal(jr.key(4), (4,))


@eqx.filter_jit
def by_trial(eye: Eye, theta: Theta, masks: Masks):
    return mean_of(eye.trial(IMAGES, A, R, theta, masks))


@eqx.filter_jit
def by_updates(eye: Eye, theta: Theta, masks: Masks):
    memory, found = eye.encoder.blank, []
    for t in range(len(IMAGES)):
        before = jnp.zeros(3) if t == 0 else eye.encoder.before(A[t - 1], R[t - 1])
        memory, q = eye.update(memory, IMAGES[t], before, joined(theta), masks)
        found.append(mean_of(q))
    return jnp.stack(found)


@pytest.mark.parametrize("believed", [by_trial, by_updates])
def test_one_that_hears_of_dynamics_only_knows_nothing_of_theta_o(believed):
    told = replace(THETA, theta_o=jnp.array([-1.5]))
    assert (believed(EYE, THETA, NOT_DRAWN) != believed(EYE, told, NOT_DRAWN)).any()
    np.testing.assert_array_equal(believed(DEAF, THETA, NOT_DRAWN), believed(DEAF, told, NOT_DRAWN))
    faster = replace(THETA, theta_s=jnp.array([-1.0]))
    assert (believed(DEAF, THETA, NOT_DRAWN) != believed(DEAF, faster, NOT_DRAWN)).any()


def test_theta_o_is_drawn_all_the_same():
    told = replace(THETA, theta_o=jnp.array([-1.5]))
    assert (by_trial(DEAF, THETA, EVERY) != by_trial(DEAF, told, EVERY)).any()
    np.testing.assert_allclose(by_trial(DEAF, THETA, EVERY), by_updates(DEAF, THETA, EVERY), rtol=1e-4, atol=1e-5)
    silent = jax.tree.map(jnp.zeros_like, THETA)
    np.testing.assert_array_equal(by_trial(DEAF, silent, EVERY), by_trial(EYE, silent, EVERY))
