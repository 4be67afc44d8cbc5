"""A run directory: finished stages are reused, an unfinished one continues from its last checkpoint.

In: a folder and the resolved configuration. Out: the stages' outputs, computed or read back. On disk:

    config.json               the configuration, and the versions of the packages that began the run
    lock                      held while a process works here; the system frees it when that process dies
    <stage>.npz or .json      the output of a stage
    <stage>.manifest.json     written last: a stage is finished when its manifest and its output are there
    <stage>.partial.npz       the last checkpoint of an unfinished stage; <stage>.<part>.partial.npz where it has parts

What is reused: a manifest holds the fingerprints of all stages before its own (a fingerprint is the hash of a
manifest, so of an output and of the moment it was finished). A finished stage is reused if these are the
stages that this run has just gone through, otherwise it is computed again. So deleting the output of a stage
renews that stage and all later ones. A checkpoint is tied to the stages before it in the same way.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from adarl.run import checkpoint
from adarl.run.checkpoint import Json, Tree
from adarl.types import AdarlError

FORMAT = 1
CONFIG = "config.json"
LOCK = "lock"
MANIFEST = ".manifest.json"
PARTIAL = ".partial.npz"
SPENT = 0.05
"""Share of the time that goes into checkpoints, at most: what remembers gigabytes is kept less often."""
PACKAGES = ("adarl", "jax", "jaxlib", "equinox", "optax", "numpy")


class Resume:
    """The checkpoint of one unfinished stage, for the function that computes it."""

    def __init__(self, path: Path, inputs: Json, interval: float, whole: "Resume | None" = None):
        """`inputs` is what the stage starts from: a checkpoint that started elsewhere is not loaded."""
        self._path = path
        self._inputs = inputs
        self._interval = self._wait = interval
        self._whole = whole
        self._seconds_before = 0.0
        self._start = self._last_save = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time spent on this stage, interrupted attempts included up to the checkpoint that is continued."""
        return self._seconds_before + time.monotonic() - self._start

    def part(self, name: str) -> "Resume":
        """The checkpoint of one of several pieces of work in this stage, kept until the stage is finished."""
        path = self._path.with_name(f"{self._path.name.removesuffix(PARTIAL)}.{name}{PARTIAL}")
        return Resume(path, self._inputs, self._interval, self)

    def load(self, like: Tree | Callable[[], Tree]) -> Tree | None:
        """The last checkpoint of this stage, or None when it starts from the beginning."""
        if not self._path.exists():
            return None
        meta = checkpoint.read_meta(self._path)
        if meta["inputs"] != self._inputs:
            return None
        tree = checkpoint.load(self._path, like)
        self._seconds_before = meta["seconds"]
        if self._whole is not None:
            self._whole._seconds_before += meta["seconds"]
        return tree

    def save(self, tree: Any, *, force: bool = False) -> bool:
        """Store `tree` if the last checkpoint is old enough; says whether it did. Cheap to call often."""
        begun = time.monotonic()
        if not force and begun - self._last_save < self._wait:
            return False
        checkpoint.save(self._path, tree, inputs=self._inputs, seconds=self.seconds)
        self._last_save = time.monotonic()
        if self._interval:  # with none, everything is kept
            self._wait = max(self._interval, (self._last_save - begun) / SPENT)
        return True


Produce = Callable[[Resume], Any]
Write = Callable[[Path, Any], None]


class RunDirectory:
    """The stages of one run on disk. As a context manager it computes; from `open_existing` it only reads."""

    def __init__(self, path: str | Path, config: dict[str, Json], *, checkpoint_interval: float = 15.0):
        """`config` is the resolved configuration; `checkpoint_interval` is in seconds."""
        self.path = Path(path)
        self.config: dict[str, Json] = json.loads(json.dumps(config))  # as it reads back: tuples are lists
        self.versions = _versions()
        self._interval = checkpoint_interval
        self._lock: int | None = None
        self._fingerprints: dict[str, str] = {}

    @classmethod
    def open_existing(cls, path: str | Path) -> "RunDirectory":
        """The run in `path`, for reading only and without a lock: another process may be at work on it."""
        path = Path(path)
        if not (path / CONFIG).is_file():
            raise AdarlError(
                f"There is no adarl run in {path}: expected {CONFIG} and, for every finished stage,"
                f" <stage>.npz or <stage>.json with <stage>{MANIFEST}."
            )
        stored = _read_config(path)
        run = cls(path, stored["config"])
        run.versions = stored["versions"]
        return run

    def __enter__(self) -> "RunDirectory":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign_files()
            self._lock = _take_lock(self.path)
        except OSError as error:
            raise AdarlError(f"Cannot use {self.path} as a run directory: {error.strerror}.") from error
        try:
            self._settle_config()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The file stays: removing it would let two processes lock two files of one name.
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # closing is not enough while a forked child has it open
            os.close(self._lock)
        self._lock = None
        self._fingerprints.clear()

    def stage(self, name: str, produce: Callable[[Resume], Tree], like: Tree | Callable[[], Tree]) -> Tree:
        """The output of stage `name`: read back if it is finished, otherwise `produce(resume)`, stored.

        `like` is the structure of the output or a function that returns it, see `checkpoint.load`. The answer
        always comes from the file, so a run that reuses a stage goes on from exactly what the first had.
        """
        return checkpoint.load(self._finish(name, ".npz", produce, checkpoint.save), like)

    def stage_json(self, name: str, produce: Callable[[Resume], Json]) -> Json:
        """`stage` for an output that is JSON."""
        return checkpoint.read_json(self._finish(name, ".json", produce, checkpoint.write_json))

    @property
    def finished(self) -> tuple[str, ...]:
        """The names of the finished stages, in the order in which they finished."""
        manifests = [checkpoint.read_json(path) for path in self.path.glob(f"*{MANIFEST}")]
        present = [manifest for manifest in manifests if (self.path / manifest["file"]).exists()]
        return tuple(manifest["stage"] for manifest in sorted(present, key=lambda m: m["finished_at"]))

    def manifest(self, name: str) -> dict[str, Json]:
        """How the finished stage `name` came about."""
        if name not in self.finished:
            known = ", ".join(self.finished) or "none"
            raise AdarlError(f"The run in {self.path} has no finished stage {name!r}. Finished: {known}.")
        return checkpoint.read_json(self._file(name, MANIFEST))

    def load(self, name: str, like: Tree | Callable[[], Tree]) -> Tree:
        """The output of the finished stage `name`."""
        return checkpoint.load(self._verified(self.manifest(name)), like)

    def load_json(self, name: str) -> Json:
        """`load` for an output that is JSON."""
        return checkpoint.read_json(self._verified(self.manifest(name)))

    def _file(self, name: str, suffix: str) -> Path:
        return self.path / f"{name}{suffix}"

    def _finish(self, name: str, suffix: str, produce: Produce, write: Write) -> Path:
        """The output file of stage `name`, computed if need be."""
        if self._lock is None:
            raise RuntimeError(f"Stage {name!r} needs the lock: `with RunDirectory(...) as run`.")
        if not re.fullmatch(r"[a-z0-9_-]+", name) or name in (*self._fingerprints, "config"):
            raise ValueError(f"{name!r} cannot name a stage: it needs a-z, 0-9, _, -, a name of its own, not 'config'.")
        output = self._file(name, suffix)
        if not self._is_current(name, output):
            self._compute(name, output, produce, write)
        for partial in (self._file(name, PARTIAL), *self.path.glob(f"{name}.*{PARTIAL}")):
            partial.unlink(missing_ok=True)
        self._fingerprints[name] = _sha256(self._file(name, MANIFEST))
        return output

    def _inputs(self) -> dict[str, Json]:
        """What the next stage starts from."""
        text = json.dumps(self.config, sort_keys=True)
        return {"config_sha256": hashlib.sha256(text.encode()).hexdigest(), "after": dict(self._fingerprints)}

    def _is_current(self, name: str, output: Path) -> bool:
        manifest_path = self._file(name, MANIFEST)
        if not (manifest_path.exists() and output.exists()):
            return False
        manifest = checkpoint.read_json(manifest_path)
        if any(manifest[key] != value for key, value in self._inputs().items()):
            return False
        self._verified(manifest)
        return True

    def _verified(self, manifest: dict[str, Json]) -> Path:
        """The output file of a manifest, if its bytes are those that were written."""
        output = self.path / manifest["file"]
        if _sha256(output) != manifest["sha256"]:
            raise checkpoint.damaged(output, f"; stage {manifest['stage']!r} and later ones are then computed anew")
        return output

    def _compute(self, name: str, output: Path, produce: Produce, write: Write) -> None:
        # Without its manifest a stale output counts as unfinished, whatever ends this process now.
        self._file(name, MANIFEST).unlink(missing_ok=True)
        resume = Resume(self._file(name, PARTIAL), self._inputs(), self._interval)
        write(output, produce(resume))
        manifest = {
            "stage": name,
            "file": output.name,
            "sha256": _sha256(output),
            "seed": self.config.get("seed"),
            **self._inputs(),
            "versions": _versions(),
            "seconds": resume.seconds,
            "finished_at": datetime.now(UTC).isoformat(timespec="microseconds"),
        }
        checkpoint.write_json(self._file(name, MANIFEST), manifest)

    def _refuse_foreign_files(self) -> None:
        """Before anything is written: a folder with someone else's files is left as it is."""
        names = os.listdir(self.path)
        if CONFIG in names:
            _read_config(self.path)
        elif foreign := [name for name in names if name != LOCK and not name.endswith(checkpoint.TEMPORARY)]:
            raise AdarlError(
                f"{self.path} is not empty and holds no adarl run (it has {min(foreign)!r} and no {CONFIG})."
                " Choose a new or an empty directory."
            )

    def _settle_config(self) -> None:
        """Compare the configuration with that of the run, or write it if the run is new."""
        for leftover in self.path.glob(f".*{checkpoint.TEMPORARY}"):
            leftover.unlink()  # of a process that was killed: the lock says that none is writing now
        if not (self.path / CONFIG).exists():
            content = {"adarl_run": FORMAT, "config": self.config, "versions": self.versions}
            return checkpoint.write_json(self.path / CONFIG, content)
        there, here = _flat(_read_config(self.path)["config"]), _flat(self.config)
        for key in {**there, **here}:
            if there.get(key) != here.get(key):
                values = f"{there.get(key, 'absent')} there and {here.get(key, 'absent')} here"
                raise AdarlError(
                    f"{self.path} holds a run with another configuration: {key} is {values}. Choose another directory."
                )


def _take_lock(folder: Path) -> int:
    """An open file whose lock this process holds until it closes it or dies."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except OSError as error:
        holder = os.read(descriptor, 32).decode() or "unknown"
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise AdarlError(f"{folder} is in use by another process (pid {holder}).") from error
        raise
    return descriptor


def _read_config(folder: Path) -> dict[str, Json]:
    try:
        stored = json.loads((folder / CONFIG).read_bytes())
    except ValueError:
        stored = None  # not "damaged: delete it", since the file may be someone else's
    if not isinstance(stored, dict) or stored.get("adarl_run") != FORMAT:
        raise AdarlError(f"{folder / CONFIG} is not of an adarl run of format {FORMAT}. Choose another directory.")
    return stored


def _flat(config: Json, prefix: str = "") -> dict[str, str]:
    """Dotted keys to values as JSON text, in which NaN equals NaN."""
    if not isinstance(config, dict) or (prefix and not config):
        return {prefix: json.dumps(config)}
    inner = ((f"{prefix}.{key}" if prefix else key, value) for key, value in config.items())
    return {k: v for key, value in inner for k, v in _flat(value, key).items()}


def _sha256(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions
