"""The cases C1 to C4, on images drawn here."""

import numpy as np
import pytest

from adarl.locate.changes import Case, case_of, locate, looks
from adarl.types import AdarlError

N = 400


def seen(kind: str, seed: int = 0):
    """A bright bar on a dark ground. What `kind` names changes with the domain; the reward follows the action."""
    rng = np.random.default_rng(seed)
    k, a = np.arange(N) % 4, rng.integers(0, 2, N)
    level = k / 3
    moved = lambda name: level * (kind == name)  # noqa: E731
    y, x = np.mgrid[-1:1:16j, -1:1:16j]
    at, turn = rng.uniform(-0.3, 0.3, (N, 1, 1)), 1.2 * moved("rotation")[:, None, None]
    along, off = (x - at) * np.cos(turn) + y * np.sin(turn), -(x - at) * np.sin(turn) + y * np.cos(turn)
    size = 1 - 0.5 * moved("size")[:, None, None]
    bar = (np.abs(along) < 0.7 * size) & (np.abs(off) < 0.25 * size)
    images = 0.2 + 0.6 * np.repeat(bar[..., None], 3, axis=-1)
    images = images * (1 - 0.5 * moved("colour")[:, None, None, None] * np.array([1.0, 0.0, 0.0]))
    images = images + (0.02 + 0.1 * moved("noise"))[:, None, None, None] * rng.normal(size=images.shape)
    r = (2 * a - 1) * (1 - 2 * moved("reward")) + 0.5 * rng.normal(size=N)
    return images, a, r, k, np.arange(N)


@pytest.mark.parametrize(
    ("kind", "case", "theta"),
    [
        ("noise", "C4", ("theta_o", "theta_s")),
        ("colour", "C4", ("theta_o", "theta_s")),
        ("size", "C4", ("theta_o", "theta_s")),
        ("rotation", "C4", ("theta_o", "theta_s")),
        ("reward", "C2", ("theta_r",)),
        ("nothing", "C3", ()),
    ],
)
def test_cases(kind: str, case: Case, theta: tuple[str, ...]):
    found = locate(*seen(kind))
    assert (found.case, found.theta) == (case, theta)
    assert found.p_action is not None and found.words


def test_a_constant_reward_makes_one_test_vacuous_and_that_is_said():
    images, a, r, k, trial = seen("nothing")
    found = locate(images, a, np.ones_like(r), k, trial)
    assert found.case == "C1" and found.p_action is None and found.theta == ("theta_s", "theta_r")
    assert "the reward is constant" in found.words
    moved = locate(seen("noise")[0], a, np.ones_like(r), k, trial)
    assert moved.case == "C4" and "vacuous" in moved.words and "the reward did not" not in moved.words


def test_answers_make_cases():
    assert [case_of(*answers) for answers in ((False, True), (False, False), (True, False), (True, True))] == [
        "C2",
        "C3",
        "C4",
        "other",
    ]


def test_actions_may_be_numbers():
    images, a, r, k, trial = seen("reward")
    assert locate(images, 1.0 * a[:, None] + np.zeros((1, 2)), r, k, trial).case == "C2"


def test_vectors_are_looked_at_one_by_one():
    rng = np.random.default_rng(0)
    k, a = np.arange(N) % 2, rng.integers(0, 2, N)
    o = rng.normal(size=(N, 3)) + np.outer(k, [0, 1, 0])
    found = locate(o, a, rng.normal(size=N), k, np.arange(N))
    assert list(found.p_observation) == ["o_1", "o_2", "o_3"] and found.p_observation["o_2"] < 1e-6
    assert found.case == "C4"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: locate(*seen("noise")[:3], np.zeros(N, int), np.arange(N)), "one domain"),
        (lambda: locate(np.zeros((N, 4, 4, 1)), *seen("noise")[1:]), "All observations are the same"),
        (lambda: looks(np.zeros((3, 4, 4))), "have the shape"),
    ],
)
def test_bad_input_is_said(call, said: str):
    with pytest.raises(AdarlError, match=said):
        call()
