"""Trees and JSON <-> one file each: no pickle, never half written, trees bit for bit.

In: any JAX or Equinox tree. Out: a `.npz` whose arrays plain numpy reads too. It holds the leaves in tree
order, `header.json` (format, meta, path and type of every leaf) and, as the archive's comment, the sha256 of
all bytes before it. That is checked before anything is parsed: a damaged file never passes for another tree.

Stored are arrays, typed random keys and Python numbers (a counter that silently came back as that of `like`
would spoil a continued run). All other leaves, functions and strings, come from `like`.
"""

import errno
import functools
import hashlib
import inspect
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from adarl.types import AdarlError

Tree = TypeVar("Tree")
Json = Any
"""What `json` writes: dictionaries, lists, strings, numbers, booleans, None."""

Number = bool | int | float | complex
Stored = jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic | Number

FORMAT = 1
HEADER = "header.json"
TEMPORARY = ".tmp"
DIGEST_LENGTH = 64
"""Hexadecimal digits of a sha256."""
PIECE = 1 << 26
"""Bytes above which an array is read in pieces: whole, it would be held twice while JAX takes it over."""


class _Leaf(NamedTuple):
    """What a leaf is, in words that can be compared and shown."""

    path: str
    type: str


def save(path: str | Path, tree: Any, /, **meta: Json) -> None:
    """Write `tree` to `path`, with `meta` beside it. Equal trees and metas give equal bytes."""
    write_atomically(path, lambda handle: _write_tree(handle, tree, meta))


def load(path: str | Path, like: Tree | Callable[[], Tree]) -> Tree:
    """The tree in `path`, with the structure of `like`.

    Its arrays may be `jax.ShapeDtypeStruct`s. If `like` is a function (`def`, `lambda`), it is called; a
    callable model is not. A leaf comes back as what it is in `like`: numpy as numpy, numbers as numbers and
    all others as JAX arrays.
    """
    structure = like() if inspect.isroutine(like) else like
    with _open(path) as (archive, header):
        _check_fit(path, header["leaves"], structure)
        members = iter(enumerate(header["key_impls"]))

        def restore(leaf: Any) -> Any:
            if not isinstance(leaf, Stored):
                return leaf
            index, key_impl = next(members)
            with archive.open(_member(index)) as member:
                if archive.getinfo(_member(index)).file_size > PIECE and _by_rows(leaf):
                    return _read_in_pieces(member, leaf.dtype)
                return _from_numpy(np.lib.format.read_array(member, allow_pickle=False), leaf, key_impl)

        return jax.tree.map(restore, structure)


def read_meta(path: str | Path) -> dict[str, Json]:
    """The `meta` that was saved with the tree in `path`."""
    with _open(path) as (_, header):
        return header["meta"]


def write_json(path: str | Path, value: Json) -> None:
    """Write `value` to `path`, atomically."""
    text = json.dumps(value, indent=2) + "\n"
    write_atomically(path, lambda handle: handle.write(text.encode()))


def read_json(path: str | Path) -> Json:
    """The value in `path`."""
    with _open_bytes(path) as handle:
        try:
            return json.load(handle)
        except ValueError as error:
            raise damaged(path) from error


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file that appears under `path` complete or not at all, whatever ends the process.

    The folder is synced too: otherwise a power cut may lose the new name, though not the bytes.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, "w+b") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise AdarlError(f"No space left to write {path}; finished stages are untouched.") from error
        raise AdarlError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def damaged(path: str | Path, consequence: str = "") -> AdarlError:
    """The error for a file that is not what was written; `consequence` says what deleting it costs."""
    return AdarlError(f"{path} is damaged: delete it and run again{consequence}.")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_tree(handle: IO[bytes], tree: Any, meta: dict[str, Json]) -> None:
    leaves: list[Any] = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, Stored)]
    header = {
        "format": FORMAT,
        "meta": meta,
        "leaves": _describe(tree),
        "key_impls": [str(jr.key_impl(leaf)) if _is_key(leaf) else None for leaf in leaves],
    }
    with zipfile.ZipFile(handle, "w") as archive:
        archive.comment = bytes(DIGEST_LENGTH)
        # A bare ZipInfo carries no time of day: equal trees give equal files.
        archive.writestr(zipfile.ZipInfo(HEADER), json.dumps(header))
        for index, leaf in enumerate(leaves):
            with archive.open(zipfile.ZipInfo(_member(index)), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _to_numpy(leaf), allow_pickle=False)
    digest = _digest_of_body(handle)
    handle.seek(-DIGEST_LENGTH, os.SEEK_END)
    handle.write(digest)


@contextmanager
def _open(path: str | Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, Json]]]:
    """The verified archive and its header."""
    with _open_bytes(path) as handle:
        if _digest_of_body(handle) != handle.read():
            raise damaged(path)
        with zipfile.ZipFile(handle) as archive:
            header = json.loads(archive.read(HEADER))
            if header["format"] != FORMAT:
                raise AdarlError(f"{path} has format {header['format']}; this version of adarl reads {FORMAT}.")
            yield archive, header


def _open_bytes(path: str | Path) -> IO[bytes]:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise AdarlError(f"There is no file {path}.") from error
    except OSError as error:
        raise AdarlError(f"Cannot read {path}: {error.strerror}.") from error


def _digest_of_body(handle: IO[bytes]) -> bytes:
    """The sha256 of all bytes but the trailing digest, at which the file is left for reading."""
    remaining = max(handle.seek(0, os.SEEK_END) - DIGEST_LENGTH, 0)
    handle.seek(0)
    digest = hashlib.sha256()
    while chunk := handle.read(min(remaining, 1 << 20)):
        digest.update(chunk)
        remaining -= len(chunk)
    return digest.hexdigest().encode()


def _describe(tree: Any) -> list[_Leaf]:
    """The leaves that live in the file, in tree order."""
    pairs = jax.tree_util.tree_leaves_with_path(tree)
    return [_Leaf(jax.tree_util.keystr(path), _type(leaf)) for path, leaf in pairs if isinstance(leaf, Stored)]


def _type(leaf: Any) -> str:
    if _is_number(leaf):
        return type(leaf).__name__
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def _check_fit(path: str | Path, leaves: list[list[str]], structure: Any) -> None:
    found = [_Leaf(*leaf) for leaf in leaves]
    for given, wanted in zip_longest(found, _describe(structure)):
        if given != wanted:
            raise AdarlError(f"{path} does not fit: it holds {_words(given)}, expected is {_words(wanted)}.")


def _words(leaf: _Leaf | None) -> str:
    return "no further leaf" if leaf is None else f"leaf {leaf.path or 'at the root'} of type {leaf.type}"


def _is_number(leaf: Any) -> bool:
    """Whether this is Python's own number: numpy's float64 is a float too, but has a type to keep."""
    return isinstance(leaf, Number) and not isinstance(leaf, np.generic)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jr.key_data(leaf) if _is_key(leaf) else leaf)


def _from_numpy(array: np.ndarray, leaf: Any, key_impl: str | None) -> Any:
    """`array` as what `leaf` is. The file names the generator of a key, since an abstract key does not."""
    if key_impl is not None:
        return jr.wrap_key_data(jnp.asarray(array), impl=key_impl)
    if _is_number(leaf):
        return array.item()
    array = array.view(leaf.dtype)  # numpy's format loses the name of bfloat16 and its kin, not the bits
    if isinstance(leaf, np.ndarray):
        return array
    if isinstance(leaf, np.generic):
        return array[()]
    restored = jnp.asarray(array)
    return restored if restored.dtype == array.dtype else array  # JAX would cut 64 bits to 32 without a word


def _by_rows(leaf: Any) -> TypeGuard[jax.Array]:
    """Whether JAX can take this over some rows at a time: neither a number, nor a key, nor of 64 bits."""
    is_array = isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and leaf.ndim > 0
    return is_array and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) and leaf.dtype.itemsize <= 4


def _read_in_pieces(member: IO[bytes], dtype: Any) -> jax.Array:
    """An array along its first axis, some rows at a time."""
    np.lib.format.read_magic(member)
    shape, by_columns, stored = np.lib.format.read_array_header_1_0(member)
    if by_columns:
        member.seek(0)
        return jnp.asarray(np.lib.format.read_array(member, allow_pickle=False).view(dtype))
    row = max(1, math.prod(shape[1:]) * stored.itemsize)
    some = max(1, PIECE // row)
    whole = jnp.zeros(shape, dtype)
    for first in range(0, shape[0], some):
        rows = min(some, shape[0] - first)
        piece = np.frombuffer(member.read(rows * row), stored).view(dtype).reshape(rows, *shape[1:])
        whole = _put(whole, piece, first)
    return whole


@functools.partial(jax.jit, donate_argnums=0)
def _put(whole: jax.Array, piece: np.ndarray, first: int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(whole, piece, first, axis=0)


def _member(index: int) -> str:
    return f"{index:05d}.npy"
