"""What a run directory promises: nothing finished is lost or computed twice, nothing is mixed up."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.run import checkpoint, directory
from adarl.run.directory import Resume, RunDirectory
from adarl.types import AdarlError

ROOT = Path(__file__).parents[2]
CONFIG = {"seed": 3, "model": {"width": 8, "rates": (0.1, 0.2)}}
STEPS = 12


class Walk(eqx.Module):
    """The state of a toy learner: its place, its key and how far it is."""

    place: jax.Array
    key: jax.Array
    step: int


def start() -> Walk:
    return Walk(jnp.zeros(3), jr.key(0), 0)


def walk(resume: Resume, stop_at: int | None = None, pause: float = 0.0) -> Walk:
    """A random walk that keeps every step, and can be interrupted or slowed down."""
    state = resume.load(start)
    state = start() if state is None else state
    while state.step < STEPS:
        if state.step == stop_at:
            raise KeyboardInterrupt
        key, key_noise = jr.split(state.key)
        state = Walk(jnp.sin(state.place + jr.normal(key_noise, (3,))), key, state.step + 1)
        resume.save(state)
        time.sleep(pause)
    return state


def open_run(path: Path, config: dict | None = None) -> RunDirectory:
    return RunDirectory(path, CONFIG if config is None else config, checkpoint_interval=0.0)


def must_not_run(resume: Resume):
    raise AssertionError("a finished stage was computed again")


def three_stages(path: Path, values: tuple[float, float, float] = (1.0, 2.0, 3.0)) -> list[str]:
    """Go through stages a, b, c and return the names of those that were computed."""
    computed = []

    def produce(name: str, value: float):
        computed.append(name)
        return jnp.float32(value)

    with open_run(path) as run:
        for name, value in zip("abc", values, strict=True):
            run.stage(name, lambda _, name=name, value=value: produce(name, value), like=jnp.float32(0))
    return computed


@contextmanager
def worker(path: Path):
    """Another process in the middle of the stage `walk`, killed at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, __file__, str(path)], env=environment) as process:
        try:
            deadline = time.monotonic() + 60
            while not (path / "walk.partial.npz").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_finished_stage_is_read_back(tmp_path):
    with open_run(tmp_path) as run:
        first = run.stage("walk", walk, like=start)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "lock", "walk.manifest.json", "walk.npz"]
    with open_run(tmp_path) as run:
        second = run.stage("walk", must_not_run, like=eqx.filter_eval_shape(start))
    assert eqx.tree_equal(first, second)


def test_json_stages_are_reused_and_read_back_alike(tmp_path):
    for produce in (lambda _: {"returns": (1.5, float("inf"))}, must_not_run):
        with open_run(tmp_path) as run:
            assert run.stage_json("summary", produce) == {"returns": [1.5, float("inf")]}


def test_the_manifest_says_how_a_stage_came_about(tmp_path):
    three_stages(tmp_path)
    run = RunDirectory.open_existing(tmp_path)
    manifest = run.manifest("c")
    assert run.finished == ("a", "b", "c")
    assert manifest["stage"] == "c" and manifest["seed"] == 3 and set(manifest["after"]) == {"a", "b"}
    assert set(manifest["versions"]) == {"adarl", "jax", "jaxlib", "equinox", "optax", "numpy", "python"}
    assert len(manifest["sha256"]) == len(manifest["config_sha256"]) == 64
    assert manifest["finished_at"] > run.manifest("b")["finished_at"]


def test_an_interrupted_stage_continues_to_the_same_bits(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with open_run(whole) as run:
        expected = run.stage("walk", walk, like=start)
    for stop_at in (5, 9):
        with pytest.raises(KeyboardInterrupt), open_run(parts) as run:
            run.stage("walk", lambda resume, stop_at=stop_at: walk(resume, stop_at), like=start)
    assert checkpoint.load(parts / "walk.partial.npz", start).step == 9
    with open_run(parts) as run:
        assert eqx.tree_equal(run.stage("walk", walk, like=start), expected)
    assert (parts / "walk.npz").read_bytes() == (whole / "walk.npz").read_bytes()


def test_seconds_add_up_over_attempts(tmp_path):
    with pytest.raises(KeyboardInterrupt), open_run(tmp_path) as run:
        run.stage("walk", lambda resume: walk(resume, stop_at=4, pause=0.05), like=start)
    with open_run(tmp_path) as run:
        run.stage("walk", walk, like=start)
        assert run.manifest("walk")["seconds"] > 3 * 0.05


def test_checkpoints_keep_their_distance_in_time_unless_forced(tmp_path):
    with RunDirectory(tmp_path, CONFIG) as run:
        kept = run.stage_json("a", lambda resume: [resume.save(0, force=force) for force in (False, True, False)])
    assert kept == [False, True, False]


@pytest.mark.parametrize(("cost", "again"), [(1.0, True), (10.0, False)])
def test_checkpoints_that_take_long_are_rarer(tmp_path, monkeypatch, cost: float, again: bool):
    now = [0.0]
    monkeypatch.setattr(directory.time, "monotonic", lambda: now[0])

    def save(*_, **__):
        now[0] += cost

    def kept(resume: Resume) -> list[bool]:
        monkeypatch.setattr(checkpoint, "save", save)
        saved = []
        for _ in range(2):
            now[0] += 100.0
            saved.append(resume.save(0))
        return saved

    with RunDirectory(tmp_path, CONFIG) as run:
        assert run.stage_json("a", kept) == [True, again]


@pytest.mark.parametrize(("removed", "computed"), [("a", "abc"), ("b", "bc"), ("c", "c")])
@pytest.mark.parametrize("suffix", [".npz", ".manifest.json"])
def test_removing_a_stage_renews_it_and_the_later_ones(tmp_path, removed, computed, suffix):
    assert three_stages(tmp_path) == ["a", "b", "c"]
    assert three_stages(tmp_path) == []
    (tmp_path / f"{removed}{suffix}").unlink()
    assert three_stages(tmp_path) == list(computed)
    assert three_stages(tmp_path) == []


def test_a_checkpoint_of_replaced_inputs_is_not_continued(tmp_path):
    def attempt(value: float, produce) -> None:
        with open_run(tmp_path) as run:
            run.stage("a", lambda _: jnp.float32(value), like=jnp.float32(0))
            run.stage("walk", produce, like=start)

    with pytest.raises(KeyboardInterrupt):
        attempt(1.0, lambda resume: walk(resume, stop_at=5))
    (tmp_path / "a.npz").unlink()
    attempt(2.0, lambda resume: start() if resume.load(must_not_run) is None else None)


def test_a_damaged_output_is_named_and_deleting_it_helps(tmp_path):
    three_stages(tmp_path)
    output = tmp_path / "b.npz"
    content = bytearray(output.read_bytes())
    content[len(content) // 2] ^= 1
    output.write_bytes(content)
    message = r"b\.npz is damaged: delete it and run again; stage 'b' and later ones are then computed anew\."
    with pytest.raises(AdarlError, match=message):
        three_stages(tmp_path)
    with pytest.raises(AdarlError, match=message):
        RunDirectory.open_existing(tmp_path).load("b", jnp.float32(0))
    output.unlink()
    assert three_stages(tmp_path) == ["b", "c"]


def test_a_full_disk_leaves_finished_stages_and_the_last_checkpoint(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill_disk(resume: Resume):
        resume.save(Walk(jnp.ones(3), jr.key(1), 5))
        monkeypatch.setattr(os, "fsync", full)
        resume.save(start())

    three_stages(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with open_run(tmp_path) as run:
        with pytest.raises(AdarlError, match=r"No space left to write .*walk\.partial\.npz"):
            run.stage("walk", fill_disk, like=start)
        monkeypatch.undo()
        after = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
        assert before.items() <= after.items() and set(after) - set(before) == {"walk.partial.npz"}
    assert checkpoint.load(tmp_path / "walk.partial.npz", start).step == 5


def test_one_process_at_a_time_and_a_killed_one_is_continued(tmp_path):
    path = tmp_path / "run"
    with open_run(tmp_path / "whole") as run:
        expected = run.stage("walk", walk, like=start)
    with worker(path) as process:
        with pytest.raises(AdarlError, match=rf"run is in use by another process \(pid {process.pid}\)\."):
            open_run(path).__enter__()
        assert RunDirectory.open_existing(path).finished == ()
    with open_run(path) as run:
        assert not list(path.glob(".*.tmp"))
        assert eqx.tree_equal(run.stage("walk", walk, like=start), expected)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**CONFIG, "seed": 4}, "seed is 3 there and 4 here"),
        ({**CONFIG, "model": {"width": 9, "rates": (0.1, 0.2)}}, "model.width is 8 there and 9 here"),
        ({**CONFIG, "model": {"width": 8, "rates": [0.1]}}, "model.rates is [0.1, 0.2] there and [0.1] here"),
        ({**CONFIG, "more": {}}, "more is absent there and {} here"),
        ({"seed": 3}, "model.width is 8 there and absent here"),
    ],
)
def test_another_configuration_is_refused_with_both_values(tmp_path, config, words):
    with open_run(tmp_path):
        pass
    with pytest.raises(AdarlError) as caught, open_run(tmp_path, config):
        pass
    assert words in str(caught.value) and "Choose another directory" in str(caught.value)
    with open_run(tmp_path):
        pass  # the refused one has left the lock


def test_the_configuration_is_written_with_the_versions(tmp_path):
    with open_run(tmp_path / "deep" / "run"):
        run = RunDirectory.open_existing(tmp_path / "deep" / "run")
    assert run.config == {"seed": 3, "model": {"width": 8, "rates": [0.1, 0.2]}}
    assert run.versions["jax"] == jax.__version__ and run.versions["numpy"] == np.__version__


@pytest.mark.parametrize(("name", "text"), [("notes.txt", "mine"), ("config.json", "{}"), ("config.json", "// mine")])
def test_a_foreign_directory_is_left_as_it_is(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(AdarlError, match=r"Choose a"), open_run(tmp_path):
        pass
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == text


@pytest.mark.parametrize("path", ["file", "file/run"])
def test_a_file_is_no_run_directory(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AdarlError, match=r"Cannot use .* as a run directory"), open_run(tmp_path / path):
        pass


def test_a_run_killed_before_its_configuration_was_written_starts_anew(tmp_path):
    (tmp_path / "lock").write_text("1")
    (tmp_path / ".config.json.1.tmp").write_text("{")
    with open_run(tmp_path):
        assert sorted(os.listdir(tmp_path)) == ["config.json", "lock"]


def test_an_existing_run_is_read_without_a_lock(tmp_path):
    with open_run(tmp_path) as run:
        expected = run.stage("walk", walk, like=start)
        run.stage_json("summary", lambda _: {"score": 1})
        reader = RunDirectory.open_existing(tmp_path)
        assert reader.config["seed"] == 3 and reader.finished == ("walk", "summary")
        assert eqx.tree_equal(reader.load("walk", start), expected)
        assert reader.load_json("summary") == {"score": 1}
    with pytest.raises(AdarlError, match=r"no finished stage 'policy'\. Finished: walk, summary\."):
        reader.load("policy", start)
    with pytest.raises(RuntimeError, match="needs the lock"):
        reader.stage("policy", walk, like=start)


def test_where_there_is_no_run_the_expected_files_are_listed(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(AdarlError, match=r"There is no adarl run in .*: expected config\.json and"):
            RunDirectory.open_existing(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["config", "../a", "a.partial", "", "twice"])
def test_names_that_would_clash_are_refused(tmp_path, name):
    with open_run(tmp_path) as run:
        run.stage_json("twice", lambda _: 0)
        with pytest.raises(ValueError, match="cannot name a stage"):
            run.stage_json(name, lambda _: 0)


if __name__ == "__main__":
    with open_run(Path(sys.argv[1])) as slow_run:
        slow_run.stage("walk", lambda resume: walk(resume, pause=5.0), like=start)
