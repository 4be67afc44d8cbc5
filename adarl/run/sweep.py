"""A sweep: independent jobs, each in a process of its own, as many at once as there are workers.

In: a function and its arguments, one tuple a job, the longest first. Out: what each job returned, as it finishes. A job
leaves its work in a run directory, so a sweep that was killed continues when it is called again.
"""

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

LOOK = 0.5  # seconds between two looks at what the jobs told


@dataclass(frozen=True)
class Told:
    """What a job says of itself while it works."""

    job: int
    stage: str
    share: float


class Teller:
    """`Progress` for a job in another process."""

    def __init__(self, told: Any, job: int):
        self._told, self._job = told, job

    def __enter__(self) -> "Teller":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A new stage; call the answer with how much is done."""
        return lambda done: self._told.put(Told(self._job, name, done / max(total, 1)))


@dataclass(frozen=True)
class Finished:
    """A job's end: its answer, or the error that ended it."""

    job: int
    answer: Any
    error: BaseException | None


def sweep(
    work: Callable[..., Any], jobs: Sequence[tuple], workers: int, hear: Callable[[Told], None] = lambda told: None
) -> Iterator[Finished]:
    """`work(*job, teller)` for every job. A job that fails does not stop the others."""
    context = multiprocessing.get_context("spawn")
    # Each process computes on its own cores: processes that share two get a third less done.
    before = os.environ.get("JAX_NUM_CPU_DEVICES")
    os.environ["JAX_NUM_CPU_DEVICES"] = "1"
    try:
        with (
            context.Manager() as manager,
            ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1) as pool,
        ):
            told, places = manager.Queue(), manager.Queue()
            for place in _places(workers):
                places.put(place)
            running: dict[Future, int] = {
                pool.submit(_in_place, places, work, *job, Teller(told, i)): i for i, job in enumerate(jobs)
            }
            try:
                while running:
                    done, _ = wait(running, timeout=LOOK, return_when=FIRST_COMPLETED)
                    for heard in _drain(told):
                        hear(heard)
                    for future in done:
                        error = future.exception()
                        yield Finished(running.pop(future), None if error else future.result(), error)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise
    finally:
        if before is None:
            del os.environ["JAX_NUM_CPU_DEVICES"]
        else:
            os.environ["JAX_NUM_CPU_DEVICES"] = before


def _places(workers: int) -> list[set[int]]:
    """The cores of each worker; empty where the system cannot say."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [set(cores[k::workers]) for k in range(workers)]


def _in_place(places: Any, work: Callable[..., Any], *job: Any) -> Any:
    """`work(*job)` on cores that no other worker has, and not without the process that asked for it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    place = places.get()
    try:
        if place:
            os.sched_setaffinity(0, place)
        return work(*job)
    finally:
        places.put(place)


def _end_with_parent() -> None:
    """A sweep that was killed leaves nobody at work: a second one would find its directories locked."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _drain(told: Any) -> Iterator[Told]:
    while True:
        try:
            yield told.get_nowait()
        except queue.Empty:
            return
