"""One smoke run of every command, and every mistake of a caller: one sentence, status 2, nothing finished lost."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from adarl.cli import main

TINY = """
    --seeds=2 --episodes=1 --steps=60 --samples 5steps --collect.trials=30 --tests.rows=500 --tests.halves=1
    --model.hidden=16 --model.open-steps=200 --model.search-steps=200 --model.binary-steps=200
    --policy.learner.updates=300 --policy.evaluate-every=100 --policy.evaluate-steps=20 --policy.environments=10
    --policy.capacity=2000 --policy.learner.hidden=16
""".split()  # noqa: SIM905 (a list of thirteen strings reads worse)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "adarl.cli", *map(str, arguments)]


def adarl(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=1500)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What was printed, whatever the width of the terminal."""
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run that went through without a break."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    done = adarl("run", "cartpole-gravity", "--out", path, *TINY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Report:" in done.stdout and "gravity=15" in done.stdout and "Mean ± standard deviation" in done.stdout
    return path


def test_run_leaves_everything(finished: Path):
    assert (finished / "report.html").stat().st_size > 10_000
    summary = json.loads((finished / "summary.json").read_text())
    assert {row["target"] for row in summary["scores"]} == {"in", "out"}
    assert all(len(row["scores"]) == 2 for row in summary["scores"])


def test_show_repeats_the_summary(finished: Path):
    shown = adarl("show", finished)
    assert shown.returncode == 0
    assert "gravity=55" in shown.stdout and "s_min" in shown.stdout


def test_locate_tells_what_changed_before_anything_is_learned(tmp_path: Path):
    done = adarl("locate", "cartpole-mass", "--out", tmp_path, "--tests.rows", "2000", "--tests.halves", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Between the domains the dynamics of x_dot and angle_dot changed" in said(done)
    found = json.loads((tmp_path / "locate.json").read_text())
    assert len(found["edges"]) == 30 and (tmp_path / "locate.png").stat().st_size > 10_000
    for arguments in ((), ("cartpole-mass", "--data", "log.npz")):
        refused = adarl("locate", *arguments)
        assert refused.returncode == 2 and "one of the two" in said(refused)


def test_locate_reads_logged_data(tmp_path: Path):
    rng = np.random.default_rng(0)
    k, s = np.arange(600) % 2, rng.normal(size=(600, 2))
    log = {"observations": s, "actions": rng.integers(0, 2, 600), "rewards": s[:, 0] + k, "domain": k}
    np.savez(tmp_path / "log.npz", **log, next_observations=0.5 * s + rng.normal(size=s.shape))
    done = adarl("locate", "--data", tmp_path / "log.npz", "--out", tmp_path, "--tests.halves", "0")
    assert done.returncode == 0 and "Between the domains the reward changed" in said(done)
    np.savez(tmp_path / "bad.npz", **{**log, "rewards": np.full(600, np.nan)})
    refused = adarl("locate", "--data", tmp_path / "bad.npz")
    assert (
        refused.returncode == 2
        and said(refused) == "adarl: rewards contain NaN or infinity; only finite numbers are accepted."
    )


def test_locate_reads_images(tmp_path: Path):
    rng = np.random.default_rng(0)
    k = np.arange(400) % 2
    images = rng.normal(0.5, 0.1, (400, 16, 16, 1)) + 0.2 * k[:, None, None, None]
    log = {"observations": images, "actions": rng.integers(0, 2, 400), "rewards": rng.normal(size=400), "domain": k}
    np.savez(tmp_path / "log.npz", **log)
    done = adarl("locate", "--data", tmp_path / "log.npz", "--out", tmp_path)
    assert done.returncode == 0 and "Case C4; the model must carry theta_o and theta_s." in said(done)
    assert json.loads((tmp_path / "locate.json").read_text())["case"] == "C4"
    assert (tmp_path / "locate.png").stat().st_size > 10_000


def test_report_is_made_anew(finished: Path, tmp_path: Path):
    report = finished / "report.html"
    before = report.read_text()
    report.unlink()
    made = adarl("report", finished)
    assert made.returncode == 0 and said(made) == f"Report: {report}"
    assert report.read_text() == before and len(before) < 10_000_000
    elsewhere = tmp_path / "new" / "page.html"
    assert adarl("report", finished, "--out", elsewhere).returncode == 0 and elsewhere.read_text() == before
    (tmp_path / "file").touch()
    refused = adarl("report", finished, "--out", tmp_path / "file" / "page.html")
    assert refused.returncode == 2 and "Cannot write" in said(refused)


def test_report_of_an_unfinished_run_says_how_to_go_on(finished: Path, tmp_path: Path):
    begun = tmp_path / "begun"
    begun.mkdir()
    for path in (finished / "config.json", *finished.glob("collect.*")):
        shutil.copy(path, begun)
    told = adarl("report", begun)
    assert told.returncode == 2 and not (begun / "report.html").exists()
    assert f"is not finished (done: collect); `adarl run cartpole-gravity --out {begun}` continues it." in said(told)


def test_what_is_watched_starts_alike_and_ends_where_it_says(finished: Path):
    summary = json.loads((finished / "summary.json").read_text())
    assert [entry["target"] for entry in summary["animations"]] == ["in", "out"]
    for entry in summary["animations"]:
        assert entry["samples"] == "5steps" and [agent["name"] for agent in entry["agents"]] == ["adapted", "not adapted"]
        first, second = (agent["states"] for agent in entry["agents"])
        assert first[0] == second[0] and len(first[0]) == 4
        for agent in entry["agents"]:
            assert len(agent["states"]) == 1 + (agent["ended_at"] or 60)
    assert {domain["samples"] for domain in summary["domains"] if domain["kind"] == "target"} == {"5steps"}
    options = "adarl run cartpole-gravity --seeds 2 --samples 5steps --episodes 1 --steps 60 --collect.trials 30"
    assert summary["command"].startswith(options) and "theta" not in summary["command"]


def test_adapt_estimates_and_acts(finished: Path):
    adapted = adarl("adapt", finished, "gravity=15", "--samples=20", "--episodes=1")
    assert adapted.returncode == 0, adapted.stdout + adapted.stderr
    assert re.search(r"theta_s_1 = -?\d+\.\d+ ± \d", adapted.stdout)
    assert "episode 1: return" in adapted.stdout


def test_workers_are_a_number_of_processes(tmp_path: Path):
    done = adarl("table", "cartpole-mdp", "--workers=-1", "--out", tmp_path / "out", "--runs", tmp_path / "runs")
    assert done.returncode == 2 and "workers is -1" in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()


def test_table_writes_scores_and_tables(tmp_path: Path):
    asked = ("--methods", "oracle", "--samples", "20", "--seeds=1", "--updates=0.1", "--workers=1")
    places = ("--families", "cartpole-gravity", "--out", tmp_path / "out", "--runs", tmp_path / "runs")
    done = adarl("table", "cartpole-mdp", *asked, *places)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "scores.csv").read_text().startswith("row,samples,method,seed,score\nG_in,0,oracle,0,")
    table = (tmp_path / "out" / "table-20.md").read_text()
    assert "No scores of 'adarl_plus' in any row with 20 samples." in table  # what is missing is named


def test_families_lists_all():
    listed = adarl("families")
    assert listed.returncode == 0
    for name in ("cartpole-gravity", "cartpole-mass", "cartpole-gravity-mass", "cartpole-motor", "cartpole-target"):
        assert name in listed.stdout


def test_second_call_reuses_every_stage(finished: Path):
    before = {path.name: path.stat().st_mtime_ns for path in finished.glob("*.npz") if path.name != "agent.npz"}
    assert adarl("run", "cartpole-gravity", "--out", finished, *TINY).returncode == 0
    assert before == {path.name: path.stat().st_mtime_ns for path in finished.glob("*.npz") if path.name != "agent.npz"}


def test_killed_runs_continue_bit_identically(finished: Path, tmp_path: Path):
    path = tmp_path / "killed"
    for delay in (6.0, 9.0, 12.0):
        process = subprocess.Popen(
            command("run", "cartpole-gravity", "--out", path, *TINY), stdout=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = adarl("run", "cartpole-gravity", "--out", path, *TINY)
    assert done.returncode == 0, done.stdout + done.stderr
    scores = "scores_adarl_plus.json"
    assert (path / scores).read_bytes() == (finished / scores).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "cartpole-gravty"), "Unknown family 'cartpole-gravty'. Did you mean 'cartpole-gravity'?"),
        (("run", "cartpole-gravity", "--samples", "0steps"), "Samples are '0steps'; a positive number"),
        (("run", "cartpole-gravity", "--seeds", "0"), "seeds is 0; at least 1 is needed."),
        (("run", "cartpole-gravity", "--policy.learner.n-step", "0"), "n_step is 0; at least 1 is needed."),
        (("run", "cartpole-gravity", "--methods", "oracle"), "The first method is 'oracle'"),
        (("table", "cartpole"), "Unknown table 'cartpole'. Did you mean 'cartpole-mdp'?"),
        (("show", "nowhere"), "There is no adarl run in nowhere"),
        (("report", "nowhere"), "There is no adarl run in nowhere"),
        (("adapt", "nowhere", "gravity=15"), "There is no adarl run in nowhere"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["adarl", *arguments])
    with pytest.raises(SystemExit) as told:
        main()
    assert told.value.code == 2 and sentence in capsys.readouterr().out
    assert not list(tmp_path.rglob("*.npz"))


def test_mistakes_in_a_finished_run(finished: Path, tmp_path: Path):
    other = adarl("run", "cartpole-gravity", "--out", finished, *TINY, "--seed=1")
    assert other.returncode == 2 and "seed" in other.stdout
    factor = adarl("adapt", finished, "gravitty=15")
    assert factor.returncode == 2 and "Did you mean 'gravity'?" in factor.stdout
    none = adarl("adapt", finished, "gravity=15", "--samples=0")
    assert none.returncode == 2 and "0 samples" in none.stdout

    model = finished / "model.npz"
    whole = model.read_bytes()
    half = len(whole) // 2
    for other_bytes in (whole[:half], whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]):
        model.write_bytes(other_bytes)
        damaged = adarl("run", "cartpole-gravity", "--out", finished, *TINY)
        model.write_bytes(whole)
        assert damaged.returncode == 2 and "is damaged" in said(damaged)
    assert adarl("show", finished).returncode == 0


def test_two_processes_in_one_directory(finished: Path):
    with (finished / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = adarl("run", "cartpole-gravity", "--out", finished, *TINY)
    assert second.returncode == 2 and "in use by another process" in said(second)
    assert adarl("show", finished).returncode == 0


def test_a_file_that_cannot_be_written(tmp_path: Path):
    """A limit on the size of files stands in for a disk without space."""
    limit = "import os, resource as r, sys; r.setrlimit(r.RLIMIT_FSIZE, (10_000,) * 2); os.execv(sys.argv[1], sys.argv[1:])"
    small = [sys.executable, "-c", limit, *command("run", "cartpole-gravity", "--out", tmp_path / "run", *TINY)]
    limited = subprocess.run(small, capture_output=True, text=True, timeout=600)
    assert limited.returncode == 2, limited.stdout + limited.stderr
    assert "Cannot write" in said(limited) and "File too large" in said(limited)
    assert not (tmp_path / "run" / "collect.npz").exists()
