"""A sweep: independent jobs, each in a process of its own, as many at once as there are workers.

In: a function and its arguments, one tuple a job, the longest first. Out: what each job returned, as it finishes. A job
leaves its work in a run directory, so a sweep that was killed continues when it is called again.
"""

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from adarl.types import AdarlError


@dataclass(frozen=True)
class Told:
    """What a job says of itself while it works."""

    job: int
    stage: str
    share: float


@dataclass(frozen=True)
class Finished:
    """A job's end: its answer, or the error that ended it."""

    job: int
    answer: Any
    error: BaseException | None


class Teller:
    """`Progress` for a job in another process."""

    def __init__(self, pipe: Connection, job: int):
        self._pipe, self._job = pipe, job

    def __enter__(self) -> "Teller":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A new stage; call the answer with how much is done."""
        return lambda done: self._pipe.send(Told(self._job, name, done / max(total, 1)))


def sweep(
    work: Callable[..., Any], jobs: Sequence[tuple], workers: int, hear: Callable[[Told], None] = lambda told: None
) -> Generator[Finished, None, None]:
    """`work(*job, teller)` for every job. A job that fails does not stop the others."""
    waiting, places = list(enumerate(jobs)), _places(workers)
    running: dict[Any, tuple[int, Any, set[int]]] = {}
    try:
        while waiting or running:
            while waiting and places:
                (i, job), place = waiting.pop(0), places.pop(0)
                pipe, process = _start(work, i, job, place)
                running[pipe] = i, process, place
            for pipe in wait(list(running)):
                i, process, place = running[pipe]
                said = _hear(pipe, i, process)
                if isinstance(said, Told):
                    hear(said)
                    continue
                process.join()
                places.append(place)
                del running[pipe]
                yield said
    finally:
        for _, process, _ in running.values():
            process.terminate()
            process.join()


def _places(workers: int) -> list[set[int]]:
    """The cores of each worker: processes that share two get a third less done. Empty where the system cannot say."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [set(cores[k::workers]) for k in range(workers)]


def _start(work: Callable[..., Any], i: int, job: tuple, place: set[int]) -> tuple[Any, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, place, work, i, job))
    with _devices(max(1, len(place))):
        process.start()
    theirs.close()
    return ours, process


@contextmanager
def _devices(number: int) -> Iterator[None]:
    """A process that starts here computes on so many devices, one a core. It must know before it imports JAX."""
    before = os.environ.get("JAX_NUM_CPU_DEVICES")
    os.environ["JAX_NUM_CPU_DEVICES"] = str(number)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAX_NUM_CPU_DEVICES"]
        else:
            os.environ["JAX_NUM_CPU_DEVICES"] = before


def _hear(pipe: Any, i: int, process: Any) -> Told | Finished:
    try:
        return pipe.recv()
    except EOFError:
        process.join()
        words = f"its process ended with status {process.exitcode}, perhaps for want of memory; the same command continues"
        return Finished(i, None, AdarlError(words + "."))


def _work(pipe: Connection, place: set[int], work: Callable[..., Any], i: int, job: tuple) -> None:
    """A job in its own process, on its own cores."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if place:
        os.sched_setaffinity(0, place)
    try:
        answer = work(*job, Teller(pipe, i))
    except BaseException as error:
        error.add_note(traceback.format_exc())
        pipe.send(Finished(i, None, error))
    else:
        pipe.send(Finished(i, answer, None))


def _end_with_parent() -> None:
    """A sweep that was killed leaves nobody at work: a second one would find its directories locked."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
