"""theta from images, with a model whose answer is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from dot import Dot

from adarl.adapt.images import _valley, adapt, thinned
from adarl.adapt.states import first_steps
from adarl.collect import collect, random_policy
from adarl.model.eye import Film
from adarl.model.fit import finish, start
from adarl.model.observation import SHARPEST
from adarl.model.plan import MissVAEConfig
from adarl.model.rows import unscaled
from adarl.model.world import Scale
from adarl.types import AdarlError, Theta


class Dark(Dot):
    """Only noise is seen."""

    def observe(self, key, s, factors):
        return jnp.sqrt(factors["noise"]) * jr.normal(key, self.image)


CAMERA = Dark()
CONFIG = MissVAEConfig(theta_s=1, theta_r=0, theta_o=1, latents=2, features=4, memory=3, threshold=-1.0)


def film(noise: float, trials: int = 3) -> Film:
    factors = {"noise": jnp.array([noise])}
    episodes = collect(CAMERA, factors, random_policy(2), jr.key(0), trials=trials, steps=5, wide=0.0)
    return Film.of(episodes, factors, CAMERA, jr.key(1))


def model():
    """Pixels have the width SHARPEST + exp(-1 + theta_o) around nothing, and what is believed does not depend on theta."""
    ones = jnp.ones(2)
    scale = unscaled(2, Scale(ones, ones, ones, jnp.float32(0), jnp.float32(1)))
    made = finish(start(2, 2, 3, CONFIG, jr.key(2), CAMERA.image), scale, 2, CONFIG)
    eye = made.eye
    assert eye is not None
    nothing = lambda part: jax.tree.map(jnp.zeros_like, part)  # noqa: E731
    plain = lambda head: eqx.tree_at(  # noqa: E731
        lambda h: (h.draw, h.log_width, h.slope), head, (nothing(head.draw), jnp.float32(-1.0), jnp.ones(1))
    )
    sources = jnp.array([[-1.2], [0.0], [1.2]])
    return eqx.tree_at(
        lambda m: (m.eye.observation, m.eye.predictions.image, m.eye.encoder.extras, m.theta),
        made,
        (
            *(plain(eye.observation), plain(eye.predictions.image), nothing(eye.encoder.extras)),
            Theta(sources, jnp.zeros((3, 0)), sources),
        ),
    )


@pytest.mark.parametrize(("noise", "trials"), [(0.4, 3), (1.0, 20)])  # all of few trials, and few of many before all
def test_theta_o_is_read_off_the_pixels(noise: float, trials: int):
    known = adapt(model(), film(noise, trials))
    width = SHARPEST + np.exp(-1 + float(known.theta.theta_o[0]))
    assert width == pytest.approx(np.sqrt(noise), rel=0.1) and known.sd.theta_o[0] < 0.2


def test_samples_are_thinned_evenly_and_none_is_told():
    many = film(0.1, trials=10)
    assert thinned(many, 4).keys.shape == (1, 4)
    np.testing.assert_array_equal(thinned(many, 4).episodes.a, many.episodes.a[:, [0, 2, 5, 7]])
    cut = eqx.tree_at(lambda f: f.episodes, many, first_steps(many.episodes, 7))
    assert thinned(cut, 4).keys.shape == (1, 2)
    none = eqx.tree_at(lambda f: f.episodes.valid, many, jnp.zeros_like(many.episodes.valid))
    with pytest.raises(AdarlError, match="0 samples"):
        adapt(model(), none)


@pytest.mark.parametrize("lowest", [-0.9, 0.0, 0.37])
def test_a_valley_is_found_between_the_places_that_were_tried(lowest: float):
    x = jnp.linspace(-1.0, 1.0, 9)
    at, bend = jax.jit(_valley)(x, 3.0 * (x - lowest) ** 2 + 5.0)
    assert float(at) == pytest.approx(lowest, abs=1e-4) and float(bend) == pytest.approx(6.0, rel=1e-3)


def test_where_there_is_no_valley_the_lowest_place_is_taken():
    x = jnp.linspace(-1.0, 1.0, 9)
    assert float(_valley(x, -(x**2) - 0.1 * x)[0]) == 1.0
    assert float(_valley(x, 2.0 * x)[0]) == -1.0


def test_where_sources_do_not_differ_theta_is_theirs():
    x = jnp.full(9, 0.3)
    assert float(jax.jit(_valley)(x, jnp.full(9, 2.0))[0]) == pytest.approx(0.3)
