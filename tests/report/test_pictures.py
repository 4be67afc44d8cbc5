"""Pictures inside a page are what they say they are."""

import base64
import io

import made
import matplotlib.image
import numpy as np
import pytest

from adarl.report import page, pictures

SHOWN = {
    "target": "in",
    "steps": [0, 5],
    **{name: np.arange(2 * 4 * 6).reshape(2, 4, 6, 1).tolist() for name in ("seen", "believed", "foretold")},
}
INSIGHT = {
    "explained": {"x": 0.991, "angle": 0.5},
    "anywhere": {"x": 0.8},
    "ahead": {"1": {"x": 0.01}, "20": {"x": 0.25}},
    "pictures": SHOWN,
}


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_survives_its_address(channels: int):
    o = np.random.default_rng(0).integers(0, 256, (5, 7, channels))
    data = base64.b64decode(pictures.address(o).removeprefix("data:image/png;base64,"))
    back = matplotlib.image.imread(io.BytesIO(data), format="png")
    np.testing.assert_array_equal(np.round(255 * back).reshape(5, 7, -1)[..., :channels], o)


def test_strips_show_the_same_moments_and_words_the_last_horizon():
    summary = {**made.small(), "insight": INSIGHT}
    strips = pictures.strips(summary)
    assert [len(strip.pictures) for strip in strips] == [2, 2, 2]
    said = pictures.said(summary)
    assert "x 0.991 and angle 0.500" in said[0] and "x 0.800" in said[1] and "20 steps" in said[2] and "x 0.250" in said[2]
    text = page.render(summary)
    assert text.count('<img src="data:image/png') == 6 and "What it sees" in text and "+5" in text


def test_a_page_of_states_says_nothing_of_pictures():
    assert pictures.strips(made.small()) == [] and "What it sees" not in page.render({**made.small(), "insight": {}})
