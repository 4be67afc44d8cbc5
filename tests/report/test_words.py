"""Numbers and names for a reader."""

from math import inf

import numpy as np

from adarl.report import words

NUMBERS = [(9999.7, 10000, "9,999"), (1e4, 10000, "10,000"), (9999.7, None, "10,000"), (0.9999, 1, "0.999")]
NUMBERS += [(0.9, 1, "0.9"), (-3.14159, None, "−3.14"), (0.0, None, "0"), (None, 1, "–"), (np.nan, 1, "–")]


def test_number_is_short_and_never_rounded_up_to_the_cap():
    assert [words.number(value, cap) for value, cap, _ in NUMBERS] == [text for _, _, text in NUMBERS]


def test_samples_are_named_and_put_in_order():
    names = [words.samples_name(samples) for samples in ("50steps", "10000", "many", None)]
    assert names == ["50 steps", "10,000 trajectories", "many", ""]
    assert [words.amount(samples) for samples in ("0", "50steps", "20", "many", None)] == [0.0, 50.0, 800.0, inf, inf]


def test_lists_and_places_read_as_text():
    assert [words.listed(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert words.place({"gravity": 15.0, "mass": 5.5}) == "gravity 15 with mass 5.5"
