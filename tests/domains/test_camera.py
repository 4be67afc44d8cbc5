"""Images that cannot be learned from are refused in one sentence, before anything is recorded."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from dot import Dot

from adarl import AdarlError, Config, Family, experiment
from adarl.domains.camera import check_images

RNG = np.random.default_rng(0)
GOOD = RNG.uniform(-1, 1, (5, 8, 8, 1)).astype(np.float32)


@pytest.mark.parametrize("images", [GOOD, (127.5 * (GOOD + 1)).astype(np.uint8), GOOD + RNG.normal(0, 1.6, GOOD.shape)])
def test_images_in_their_units_pass(images: np.ndarray):
    check_images(images, (8, 8, 1), "here")


@pytest.mark.parametrize(
    ("images", "word"),
    [
        (GOOD[:, :4], r"shape \(4, 8, 1\); \(8, 8, 1\) is expected"),
        (GOOD.astype(np.int32), "type int32"),
        (np.where(GOOD > 0.9, np.nan, GOOD), "NaN or infinity"),
        (127.5 * (GOOD + 1), "floats in about"),
        (np.full_like(GOOD, -1.0), "Every pixel here is -1: nothing is seen"),
        (np.zeros(GOOD.shape, np.uint8), "Every pixel here is 0: nothing is seen"),
        (np.repeat(GOOD[:1], 5, axis=0), "All 5 images here are the same"),
    ],
)
def test_what_is_wrong_is_said(images: np.ndarray, word: str):
    with pytest.raises(AdarlError, match=word):
        check_images(images, (8, 8, 1), "here")


@dataclasses.dataclass(frozen=True)
class Dim(Dot):
    """Where noise is zero, the lens cap is on; where it is one, images come in the units of bytes."""

    wrong: str = "black"

    def observe(self, key, s, factors):
        o = super().observe(key, s, {"noise": 0.0})
        if self.wrong == "size":
            return o[:4]
        return jnp.where(factors["noise"] == 0.5, -1.0 if self.wrong == "black" else 127.5 * (o + 1), o)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [("black", "where noise=0.5 is -1: nothing"), ("range", "where noise=0.5 hold floats"), ("size", r"\(4, 8, 1\)")],
)
def test_a_camera_is_tried_in_every_domain_before_anything_else(wrong: str, word: str, tmp_path):
    sources = ({"noise": 0.1}, {"noise": 0.2})
    family = Family("dim", Dim(wrong=wrong), ("noise",), sources, {"in": {"noise": 0.5}})
    with pytest.raises(AdarlError, match=word):
        experiment.run(family, Config(), tmp_path / "run")
    assert not list((tmp_path / "run").glob("collect*"))


def test_sources_that_are_all_alike_teach_nothing():
    with pytest.raises(AdarlError, match="All 2 sources of family 'same'"):
        Family("same", Dot(), ("noise",), ({"noise": 0.1}, {"noise": 0.1}), {})
