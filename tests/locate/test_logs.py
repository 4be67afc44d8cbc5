"""Logged data: what is accepted, and a clear sentence for what is not."""

import re
from pathlib import Path

import numpy as np
import pytest

from adarl.locate.logs import from_arrays, read
from adarl.types import AdarlError

N = 120


def arrays(**change) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    o = rng.normal(size=(N, 2))
    whole = {
        "observations": o,
        "actions": rng.integers(0, 2, N),
        "rewards": rng.normal(size=N),
        "next_observations": o + 1,
        "domain": np.repeat(["heavy", "light"], N // 2),
        "trial": np.repeat(np.arange(40), 3),
        "names": np.array(["x", "y"]),
    }
    return {name: value for name, value in {**whole, **change}.items() if value is not None}


def test_a_file_becomes_steps(tmp_path: Path):
    np.savez(tmp_path / "log.npz", **arrays())  # pyright: ignore[reportArgumentType]
    log = read([tmp_path / "log.npz"])
    assert log.names == ("x", "y") and log.domains == ("heavy", "light") and not log.notes()
    steps = log.steps()
    assert steps.k.tolist() == [0] * 60 + [1] * 60 and steps.trial.max() == 39
    np.testing.assert_allclose(steps.s_t - steps.s_tm1, np.ones((N, 2)))


def test_without_trials_rows_are_independent_and_names_are_counted():
    log = from_arrays(arrays(trial=None, names=None))
    assert log.trial.tolist() == list(range(N)) and log.names == ("s_1", "s_2")


def test_unequal_domains_and_constant_columns_are_noted():
    still = arrays()["observations"].copy()
    still[:, 1] = 3.0
    log = from_arrays(arrays(observations=still, domain=np.repeat(["a", "b"], [20, N - 20])))
    assert log.notes() == [
        "Domains have 20 to 100 rows; what changed in 'a' is seen least.",
        "y is constant: nothing can be said of its edges.",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"domain": None}, "The data lack domain labels"),
        ({"rewards": None}, "lack the array 'rewards'"),
        ({"domain": np.zeros(N)}, "There is 1 domain in the data"),
        ({"observation": np.zeros(N)}, "Unknown array 'observation'. Did you mean 'observations'?"),
        ({"rewards": np.full(N, np.nan)}, "rewards contain NaN"),
        ({"actions": np.zeros(N - 1)}, "Arrays of different lengths"),
        ({"observations": np.zeros((N, 2, 2))}, "Observations have the shape"),
        ({"names": np.array(["x"])}, "1 names for 2 components"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(change: dict, said: str):
    with pytest.raises(AdarlError, match=re.escape(said)):
        from_arrays(arrays(**change))


def test_equal_columns_are_refused_by_name():
    doubled = np.repeat(arrays()["observations"][:, :1], 2, axis=1) * [1.0, -3.0]
    with pytest.raises(AdarlError, match="x and y are the same up to units"):
        from_arrays(arrays(observations=doubled)).steps()


def test_dynamics_need_what_came_after():
    with pytest.raises(AdarlError, match="no next_observations"):
        from_arrays(arrays(next_observations=None)).steps()


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(AdarlError, match="There is no file"):
        read([tmp_path / "none.npz"])
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(AdarlError, match="not an npz file of plain arrays"):
        read([tmp_path / "text.npz"])
    np.savez(tmp_path / "two.npz", **arrays())  # pyright: ignore[reportArgumentType]
    with pytest.raises(AdarlError, match="one npz file holds all domains"):
        read([tmp_path / "two.npz", tmp_path / "two.npz"])
    with pytest.raises(AdarlError, match="one dataset without domain labels"):
        read(["cartpole/light-v0"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_datasets_are_domains(tmp_path: Path, monkeypatch):
    minari = pytest.importorskip("minari", reason="Minari is not installed.")
    gym = pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for name, push in (("light", 2.0), ("heavy", 1.0)):
        env = minari.DataCollector(gym.make("CartPole-v1"))
        env.unwrapped.force_mag *= push
        env.action_space.seed(0)
        for seed in range(4):
            env.reset(seed=seed)
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(env.action_space.sample())
                over = terminated or truncated
        env.create_dataset(dataset_id=f"cartpole/{name}-v0")
        env.close()
    log = read(["cartpole/light-v0", "cartpole/heavy-v0"])
    assert log.o.shape[1] == 4 and set(log.domains) == {"cartpole/light-v0", "cartpole/heavy-v0"}
    assert log.o_next is not None
    inside = log.trial[1:] == log.trial[:-1]
    np.testing.assert_array_equal(log.o[1:][inside], log.o_next[:-1][inside])
    with pytest.raises(AdarlError, match="cannot be read"):
        read(["cartpole/light-v0", "cartpole/none-v0"])
