"""Jobs in processes of their own: answers, what they tell meanwhile, and failures that stop nobody else."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adarl.run.sweep import Told, sweep
from adarl.types import AdarlError


def square(number: int, teller) -> tuple[int, str | None]:
    bar = teller.stage("square", 2)
    bar(1)
    if number < 0:
        raise AdarlError(f"{number} has no root.")
    return number**2, os.environ.get("JAX_NUM_CPU_DEVICES")


def test_every_job_ends_and_tells(monkeypatch):
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    heard: list[Told] = []
    ends = {end.job: end for end in sweep(square, [(3,), (-1,), (5,)], 2, heard.append)}
    assert {ends[i].answer[0] for i in (0, 2)} == {9, 25}
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    fewest, most = max(1, mine // 2), max(1, -(-mine // 2))  # a device for every core of a worker
    assert all(fewest <= int(ends[i].answer[1]) <= most for i in (0, 2))
    assert isinstance(ends[1].error, AdarlError) and "no root" in str(ends[1].error) and ends[1].answer is None
    assert {told.job for told in heard} == {0, 1, 2} and all(told.share == 0.5 for told in heard)
    assert "JAX_NUM_CPU_DEVICES" not in os.environ


def die(seconds: float, teller) -> None:
    if seconds == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)


def test_a_process_that_was_killed_is_named_and_the_others_go_on():
    ends = {end.job: end for end in sweep(die, [(0.0,), (0.1,)], 1)}
    assert isinstance(ends[0].error, AdarlError) and "status -9" in str(ends[0].error)
    assert ends[1].error is None


def test_who_listens_no_longer_stops_the_work():
    begun = time.monotonic()
    sweeping = sweep(die, [(0.1,), (300.0,)], 2)
    assert next(sweeping).job == 0
    sweeping.close()
    assert time.monotonic() - begun < 200


def cores(_: int, teller) -> list[int]:
    return sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="The system does not tell the cores of a process.")
def test_workers_share_out_the_cores():
    mine = sorted(os.sched_getaffinity(0))
    found = [end.answer for end in sweep(cores, [(0,), (1,), (2,)], len(mine))]
    assert len(found) == 3 and all(len(one) == 1 and one[0] in mine for one in found)
    assert next(sweep(cores, [(0,)], 1)).answer == mine
    assert sorted(os.sched_getaffinity(0)) == mine


def test_workers_end_with_the_process_that_asked_for_them(tmp_path: Path):
    """Killed without a word, it cannot tell them to."""
    script = f"""
import time, os
from pathlib import Path
from adarl.run.sweep import sweep

def sleep(folder, teller):
    Path(folder, "pid").write_text(str(os.getpid()))
    time.sleep(120)

if __name__ == "__main__":
    list(sweep(sleep, [({str(tmp_path)!r},)], 1))
"""
    (tmp_path / "script.py").write_text(script)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], cwd=Path(__file__).parents[2])
    pid = tmp_path / "pid"
    assert comes_true(lambda: pid.exists() and pid.read_text()), "The worker never began."
    listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    children = {int(pid.read_text()), *(map(int, listed.read_text().split()) if listed.exists() else ())}
    assert all(map(is_alive, children))
    parent.kill()
    parent.wait()
    assert comes_true(lambda: not any(map(is_alive, children))), "Somebody goes on without the parent."


def comes_true(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return bool(condition())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
