# SPDX-License-Identifier: MIT
"""weir.flax, compared with safetensors where it is there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import weir  # noqa: E402
import weir.flax  # noqa: E402
from weir import _frameworks, _weir  # noqa: E402

from conftest import content, header  # noqa: E402

NAMES = (
    "bool uint8 int8 uint16 int16 uint32 int32 float16 bfloat16 float32 "
    "complex64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu"
).split()


def arrays() -> Dict[str, Any]:
    values = np.arange(3 * 5).reshape(3, 5)
    made = {
        name: jnp.asarray(values.astype(getattr(jnp, name)))
        for name in NAMES
        if hasattr(jnp, name)
    }
    made["scalar"] = jnp.float32(2.5)
    made["empty"] = jnp.zeros((0, 7), jnp.int16)
    return made


def same(a: Dict[str, Any], b: Dict[str, Any]) -> bool:
    return sorted(a) == sorted(b) and all(
        isinstance(a[n], jax.Array)
        and a[n].dtype == b[n].dtype
        and a[n].shape == b[n].shape
        and np.asarray(a[n]).tobytes() == np.asarray(b[n]).tobytes()
        for n in a
    )


def test_round(tmp_path: Path) -> None:
    """save_file() and load_file() keep all dtypes and shapes of JAX."""
    path = tmp_path / "x.safetensors"
    given = arrays()
    weir.flax.save_file(given, path, {"k": "v"})
    assert same(weir.flax.load_file(path), arrays())
    assert same(weir.flax.load_file(path, backend="pread"), arrays())
    assert same(given, arrays())
    with weir.safe_open(path, "jax") as file:
        assert file.metadata() == {"k": "v"}


def test_bytes() -> None:
    """save() and load() keep all dtypes and shapes of JAX."""
    assert same(weir.flax.load(weir.flax.save(arrays())), arrays())


def test_theirs(tmp_path: Path) -> None:
    """Files and bytes are equal to those of safetensors."""
    theirs = pytest.importorskip("safetensors.flax")
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    weir.flax.save_file(arrays(), a, {"k": "v"})
    theirs.save_file(arrays(), b, {"k": "v"})
    assert a.read_bytes() == b.read_bytes()
    assert weir.flax.save(arrays()) == theirs.save(arrays())
    plain = {n: x for n, x in arrays().items() if "8_" not in n}
    theirs.save_file(dict(plain), b)
    assert same(weir.flax.load_file(b), theirs.load_file(b))


def test_calls(tmp_path: Path) -> None:
    """All calls that load make arrays of JAX."""
    path = tmp_path / "x.safetensors"
    weir.save(arrays(), path)
    with weir.safe_open(path, framework="flax") as file:
        assert same({n: file.get_tensor(n) for n in file.keys()}, arrays())
        assert same(dict(file.prefetch()), arrays())
        assert same({n: file.get_slice(n)[...] for n in file.keys()}, arrays())
        part = file.get_slice("bfloat16")[1:, 2]
    assert (part == arrays()["bfloat16"][1:, 2]).all()
    assert same(weir.load(path, framework="jax"), arrays())
    assert same(dict(weir.stream(path, framework="flax")), arrays())
    loaded = asyncio.run(weir.load_async(path, framework="jax"))
    assert same(loaded, arrays())


def test_wide(tmp_path: Path) -> None:
    """64-bit elements become 32-bit ones, unless JAX was told to have them."""
    path = tmp_path / "x.safetensors"
    wide = {
        name: np.arange(6).astype(name)
        for name in ("int64", "uint64", "float64")
    }
    weir.save(wide, path)
    for name, found in weir.flax.load_file(path).items():
        assert found.dtype.itemsize == 4
        assert np.asarray(found).tolist() == wide[name].tolist()
    program = (
        "import jax, sys, weir.flax\n"
        "jax.config.update('jax_enable_x64', True)\n"
        "print(*sorted(str(x.dtype) for x in "
        "weir.flax.load_file(sys.argv[1]).values()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True, text=True, check=True,
    )
    assert ran.stdout.split() == ["float64", "int64", "uint64"]


def test_no_copy(tmp_path: Path, monkeypatch: Any) -> None:
    """Arrays of JAX are in the memory of weir, also after odd sizes."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([
        ("a", "U8", (1001,), content(1001)),
        ("b", "F32", (1000, 3), content(12000)),
        ("c", "BF16", (77, 2), content(308)),
    ]))
    make = _frameworks.maker("jax")
    seen: List[int] = []

    def noted(tensor: weir.Tensor) -> Any:
        seen.append(tensor.address)
        return make(tensor)

    def check(found: Dict[str, Any]) -> None:
        at = [array.unsafe_buffer_pointer() for array in found.values()]
        assert len(at) == 3 and sorted(at) == sorted(seen)
        assert np.asarray(found["b"]).tobytes() == content(12000)
        seen.clear()

    monkeypatch.setitem(_frameworks._makers, "jax", _weir.Maker(noted))
    check(weir.load(path, framework="jax"))
    check(dict(weir.stream(path, framework="jax")))
    check(weir.flax.load_file(path))
    check(weir.flax.load(path.read_bytes()))
    check(dict(weir.safe_open(path, "jax").prefetch()))


def test_blocks(tmp_path: Path) -> None:
    """Elements that JAX does not have are bytes."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([("a", "F4", (4, 8), content(16))]))
    found = weir.flax.load_file(path)["a"]
    assert found.dtype == jnp.uint8 and found.shape == (4, 4)
    assert np.asarray(found).tobytes() == content(16)


def test_refused(tmp_path: Path) -> None:
    """save() refuses elements that a file cannot hold."""
    wrong: Any = {"a": jnp.zeros(4, jnp.int4)}
    with pytest.raises(weir.SafetensorError, match="int4"):
        weir.flax.save(wrong)
    with pytest.raises(weir.SafetensorError, match="is not supported"):
        weir.safe_open(tmp_path, "flax", device="cuda:0")
