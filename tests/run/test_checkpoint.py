"""A checkpoint comes back bit for bit, or one sentence says why not."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from adarl.run import checkpoint
from adarl.types import AdarlError

ROOT = Path(__file__).parents[2]


def odd_tree():
    """Every kind of leaf that is stored, at its edges."""
    payloads = np.array([0x7FC00001, 0x7F800001, 0xFFC12345, 0x80000000, 0x7F800000], np.uint32)
    return {
        "payloads": jax.lax.bitcast_convert_type(jnp.asarray(payloads), jnp.float32),
        "bool": jnp.array([True, False]),
        "int32": jnp.arange(6, dtype=jnp.int32).reshape(2, 3),
        "raw_key": jr.PRNGKey(3),
        "empty": jnp.zeros((0, 4)),
        "scalar": jnp.float32(0.1),
        "half": jnp.array([1.5, jnp.nan], jnp.bfloat16),
        "numpy": np.array([1.0, np.nan, -0.0]),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "numpy_scalar": np.float64(0.1),
        "big_endian": np.array([1, 2], ">i8"),
        "numbers": (3, 0.1, True, 1 + 2j),
        "nothing": None,
    }


def bits(leaf) -> bytes:
    return np.asarray(leaf).tobytes()


def assert_same(given, expected):
    assert jax.tree.structure(given) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(given), jax.tree.leaves(expected), strict=True):
        assert isinstance(a, jax.Array) == isinstance(b, jax.Array)
        assert jnp.shape(a) == jnp.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        assert bits(a) == bits(b)


@pytest.mark.parametrize("piece", [checkpoint.PIECE, 8])
def test_every_leaf_comes_back_bit_for_bit_also_in_pieces(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(checkpoint, "PIECE", piece)
    tree = odd_tree() | {"rows": jr.normal(jr.key(0), (7, 3)), "no_columns": jnp.zeros((2, 0))}
    checkpoint.save(tmp_path / "a.npz", tree)
    back = checkpoint.load(tmp_path / "a.npz", tree)
    assert_same(back, tree)
    assert [type(number) for number in back["numbers"]] == [int, float, bool, complex]
    assert type(back["numpy_scalar"]) is np.float64


def test_columns_are_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "PIECE", 8)
    columns = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    checkpoint.save(tmp_path / "a.npz", columns)
    assert_same(checkpoint.load(tmp_path / "a.npz", jnp.zeros((2, 3))), jnp.asarray(columns))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_typed_keys_keep_generator_and_shape(tmp_path, impl, shape):
    keys = jr.split(jr.key(7, impl=impl), shape) if shape else jr.key(7, impl=impl)
    checkpoint.save(tmp_path / "a.npz", keys)
    for like in (keys, eqx.filter_eval_shape(lambda: keys)):
        back = checkpoint.load(tmp_path / "a.npz", like)
        assert back.dtype == keys.dtype and back.shape == keys.shape
        assert bits(jr.key_data(back)) == bits(jr.key_data(keys))


def test_functions_and_static_fields_come_from_like(tmp_path):
    model = eqx.nn.MLP(2, 1, 4, 1, activation=jnp.tanh, key=jr.key(0))
    checkpoint.save(tmp_path / "a.npz", model)
    like = eqx.filter_eval_shape(lambda: eqx.nn.MLP(2, 1, 4, 1, activation=jnp.tanh, key=jr.key(1)))
    back = checkpoint.load(tmp_path / "a.npz", like)
    assert eqx.tree_equal(back, model)
    np.testing.assert_array_equal(back(jnp.ones(2)), model(jnp.ones(2)))


def test_like_may_be_a_function(tmp_path):
    checkpoint.save(tmp_path / "a.npz", jnp.ones(2))
    np.testing.assert_array_equal(checkpoint.load(tmp_path / "a.npz", lambda: jnp.zeros(2)), 1.0)


def test_64_bits_are_never_cut(tmp_path):
    wide = np.array([2**40], np.int64)
    checkpoint.save(tmp_path / "a.npz", wide)
    assert checkpoint.load(tmp_path / "a.npz", jax.ShapeDtypeStruct((1,), np.dtype("int64"))) == wide


def test_meta_is_kept_and_equal_trees_give_equal_files(tmp_path):
    for name in ("a.npz", "b.npz"):
        checkpoint.save(tmp_path / name, odd_tree(), path="x", note={"steps": [1, 2]})
    assert checkpoint.read_meta(tmp_path / "a.npz") == {"path": "x", "note": {"steps": [1, 2]}}
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_plain_numpy_reads_the_arrays(tmp_path):
    checkpoint.save(tmp_path / "a.npz", {"w": jnp.arange(3)})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["00000"], [0, 1, 2])


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (
            {"w": jnp.zeros(3), "b": 0},
            "leaf ['w'] of type float32[2], expected is leaf ['w'] of type float32[3]",
        ),
        ({"w": jnp.zeros(2, jnp.int32), "b": 0}, "type float32[2], expected is leaf ['w'] of type int32[2]"),
        ({"w": jnp.zeros(2), "b": 0.0}, "leaf ['b'] of type int, expected is leaf ['b'] of type float"),
        ({"w": jnp.zeros(2), "c": 0}, "leaf ['b'] of type int, expected is leaf ['c'] of type int"),
        ({"b": 0}, "leaf ['w'] of type float32[2], expected is no further leaf"),
        (
            {"b": 0, "w": jnp.zeros(2), "z": jnp.zeros(())},
            "no further leaf, expected is leaf ['z'] of type float32[]",
        ),
    ],
)
def test_another_structure_names_the_first_leaf_that_differs(tmp_path, like, words):
    checkpoint.save(tmp_path / "a.npz", {"w": jnp.zeros(2), "b": 0})
    with pytest.raises(AdarlError) as caught:
        checkpoint.load(tmp_path / "a.npz", like)
    assert words in str(caught.value) and str(tmp_path / "a.npz") in str(caught.value)


def test_any_flipped_byte_and_any_truncation_is_noticed(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, jnp.arange(3.0), step=1)
    whole = path.read_bytes()
    flipped = [whole[:i] + bytes([whole[i] ^ 0x20]) + whole[i + 1 :] for i in range(len(whole))]
    for altered in (*flipped, *(whole[:i] for i in range(len(whole))), whole + b"x"):
        path.write_bytes(altered)
        with pytest.raises(AdarlError, match=r"a\.npz is damaged: delete it and run again"):
            checkpoint.load(path, jnp.zeros(3))


def test_unreadable_and_unwritable_paths_are_named(tmp_path):
    with pytest.raises(AdarlError, match=r"There is no file .*none\.npz"):
        checkpoint.load(tmp_path / "none.npz", 0)
    with pytest.raises(AdarlError, match=r"Cannot read .*: Is a directory"):
        checkpoint.load(tmp_path, 0)
    with pytest.raises(AdarlError, match=r"Cannot write .*none/a\.npz: No such file"):
        checkpoint.save(tmp_path / "none" / "a.npz", 0)


def test_objects_are_refused_instead_of_pickled(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        checkpoint.save(tmp_path / "a.npz", np.array([{}], object))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["os.fsync", "os.replace", "numpy.lib.format.write_array"])
def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "a.npz"
    checkpoint.save(path, jnp.ones(2))

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        with pytest.raises(AdarlError, match=r"No space left to write .*a\.npz; finished stages are untouched\."):
            checkpoint.save(path, jnp.zeros(2))
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(checkpoint.load(path, jnp.zeros(2)), 1.0)


def numbered(step: int) -> dict[str, np.ndarray]:
    """A state large enough for a kill to hit the middle of its file."""
    return {"step": np.asarray(step), "body": np.full(300_000, step)}


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "a.npz"
    for delay in random.Random(0).sample(range(60), 4):
        command = [sys.executable, __file__, str(path)]
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == b"saving\n"
            time.sleep(delay / 1000)
            writer.send_signal(signal.SIGKILL)
        state = checkpoint.load(path, numbered(0))
        np.testing.assert_array_equal(state["body"], state["step"])


def save_forever(path: str) -> None:
    for step in range(10**9):
        checkpoint.save(path, numbered(step))
        if step == 1:
            print("saving", flush=True)


if __name__ == "__main__":
    save_forever(sys.argv[1])
