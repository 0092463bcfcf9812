# SPDX-License-Identifier: MIT
"""Wrong arguments: each is an exception that names it.

A wrong type is a TypeError, and a wrong value a ValueError of weir's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest

import weir
import weir.cuda
from weir import _command

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]
try:
    import torch
    import weir.torch
except ImportError:
    torch = None  # type: ignore[assignment]

Call = Callable[[Path, Any], Any]
TYPES: List[Tuple[Call, str]] = []
VALUES: List[Tuple[Call, str]] = []


def given(
    call: Callable[..., Any], wrong: Dict[str, Tuple[List[Any], List[Any]]]
) -> None:
    """For each argument values of a wrong type, and wrong values."""
    for name, (types, values) in wrong.items():
        for table, found in ((TYPES, types), (VALUES, values)):
            for value in found:
                table.append(
                    (lambda p, t, n=name, v=value:  # type: ignore[misc]
                     call(p, t, **{n: v}), name)
                )


COMMON: Dict[str, Tuple[List[Any], List[Any]]] = {
    "framework": ([5], []),
    "only": ([5, [5], b"b"], ["none*"]),
    "dtype": ([], [5, "zz", [1]]),
    "slices": (
        [5, [1], {"b": 5}, {"b": (0,)}, {"b": ("x", 0, 1)}, {"b": (0, 1.5, 1)},
         {"b": (0, 5)}],
        [{"b": (9, 0, 1)}, {"b": (-9, 0, 1)}, {"b": (0, -1, 1)},
         {"b": (0, 0, -1)}, {"b": (0, slice(0, 2, 2))}, {"b": (0, slice("a"))},
         {5: (0, 0, 1)}, {"zz": (0, 0, 1)}],
    ),
    "way": ([], [5, "zz", [1], None]),
    "verify": ([5, [1]], []),
    "root": ([5, "x"], []),
}
given(lambda p, t, **k: weir.load(p, **k), {
    **COMMON, "progress": ([5, "x", 1.0], []),
})
given(lambda p, t, **k: weir.stream(p, **k), COMMON)
given(lambda p, t, **k: asyncio.run(weir.load_async(p, **k)), COMMON)
for call in (
    weir.load, weir.stream, weir.digest, weir.safe_open,
    lambda path: weir.load_into(path, {}), lambda path: weir.verify(path, "x"),
    lambda path: weir.save({}, path), lambda path: weir.Graph().leaf_file(path, "b"),
    lambda path: asyncio.run(weir.load_async(path)),
):
    for wrong in (5, None, ["x"]):
        if call is weir.safe_open:
            TYPES.append((
                lambda p, t, v=wrong: weir.safe_open(v, "weir"),  # type: ignore
                "filename",
            ))
        else:
            TYPES.append((
                lambda p, t, c=call, v=wrong: c(v), "path"  # type: ignore
            ))
TYPES.append((lambda p, t: weir.load(Path("https://host/x")), "a str for a URL"))
TYPES.append((
    lambda p, t: weir.safe_open(Path("s3://bucket/x"), "weir"), "a str for a URL"
))
TYPES.append((lambda p, t: weir.load(Path("az://c-1/x")), "a str for a URL"))
given(lambda p, t, tensors: weir.load_into(p, tensors), {
    "tensors": ([5, None, [1], "x", {5: 5}], []),
})
VALUES.append((lambda p, t: weir.load_into(p, {"b": 5}), "'b' is int"))
VALUES.append((lambda p, t: weir.load_into(p, {"zz": 5}), "'zz'"))
OUT = "out.safetensors"
given(lambda p, t, tensors: weir.save(tensors, p.parent / OUT), {
    "tensors": ([5, None, [1], "x"], []),
})
for bad in (5, None, [1]):
    VALUES.append((
        lambda p, t, v=bad: weir.save({"w": v}, p.parent / OUT), "'w'"  # type: ignore
    ))
TYPES.append((lambda p, t: weir.save({5: t}, p.parent / OUT), "name 5"))
VALUES.append((lambda p, t: weir.save({"a\0": t}, p.parent / OUT), "zero byte"))
given(lambda p, t, **k: weir.save({"w": t}, p.parent / OUT, **k), {
    "metadata": ([5, [1], {"a": 1}, {1: "a"}], []),
    "format": ([5, [1]], ["zz"]),
    "shard_bytes": ([1.5, "x", None], [-1, 1 << 70]),
    "root": ([5], []),
})
given(lambda p, t, **k: weir.digest(p, **k), {
    "kind": ([], ["zz", [1]]), "way": ([], ["map", 5]), "root": ([5], []),
    "progress": ([5], []),
})
given(lambda p, t, **k: weir.verify(p, **k), {"against": ([5, [1]], [])})
given(lambda p, t, **k: weir.digest(p).save(**k), {"path": ([5, None], [])})
given(lambda p, t, **k: weir.Root(**k), {
    "io": ([], [5, "zz", [1]]),
    **{name: (["x", 1.5, None], [-1, 1 << 70]) for name in (
        "reactors", "depth", "copiers", "chunk", "staging", "keep", "budget")},
    "io_cpus": ([5], ["zz"]),
    "module_path": ([5], []),
    **{name: (["x", "5", b"5", None], [-2, 1e30, float("nan")]) for name in (
        "close_timeout", "read_timeout")},
})
given(lambda p, t, **k: weir.Root().trim(**k), {"keep": (["x"], [-1])})
given(lambda p, t, **k: weir.devices(**k), {"root": ([5], [])})
TYPES.append((lambda p, t: weir.Tensor(), "Tensor"))
given(lambda p, t, **k: weir.safe_open(p, "weir").prefetch(**k), {
    "ahead": (["x"], [-1]), "threads": (["x"], []), "dtype": ([], [5]),
    "plan": ([["b"]], []), "device": ([], ["zz"]),
})
for method in ("get_tensor", "get_slice", "get_tensor_meta"):
    TYPES.append((
        lambda p, t, m=method:  # type: ignore[misc]
        getattr(weir.safe_open(p, "weir"), m)(5), "name",
    ))
given(
    lambda p, t, **k: weir.load(p, framework="weir", parkable=True).park(**k),
    {"to": ([5, None], []), "changed": ([5, [5]], [["b"]])},
)
for wrong in ("x", "5", b"5", 5.0, True, None):
    TYPES.append((
        lambda p, t, v=wrong: weir.cuda.wait(v, t), "stream"  # type: ignore[misc]
    ))
TYPES.append((lambda p, t: weir.cuda.wait(0, 5), "tensor"))
TYPES.append((lambda p, t: weir.Ranks.of_mpi(5), "comm"))
given(
    lambda p, t, **k: weir.Ranks(
        **{"rank": 0, "size": 1, "agree": str, "broadcast": print, **k}
    ),
    {"rank": (["x"], [-1, 1]), "size": ([1.5], [0]), "agree": ([5], []),
     "broadcast": ([None], [])},
)


def graph() -> Tuple[Any, Any]:
    g = weir.Graph()
    return g, g.input("x", (2, 3))


given(lambda p, t, **k: weir.Graph(**k), {"root": ([5], [])})
given(lambda p, t, **k: weir.Graph().input(**{"name": "x", "shape": (1,), **k}), {
    "name": ([5, None], []), "shape": ([5, "x", (1.5,), None], []),
    "dtype": ([], ["zz", 5]),
})
TYPES.append((lambda p, t: weir.Graph().leaf(t, name=5), "name"))
TYPES.append((lambda p, t: weir.Graph().leaf_file(p, 5), "tensor"))
VALUES.append((lambda p, t: weir.Graph().leaf_file(p, "zz"), "'zz'"))
VALUES.append((lambda p, t: weir.Graph().leaf(None), "leaf is NoneType"))
TYPES.append((lambda p, t: graph()[0].op(5), "operation"))
VALUES.append((lambda p, t: graph()[0].transpose(5), "transpose"))
given(lambda p, t, **k: (lambda g, x: g.sqr(x, **k))(*graph()), {
    "name": ([5], []),
})
given(lambda p, t, **k: (lambda g, x: g.compile(g.sqr(x), **k))(*graph()), {
    "devices": ([5], []), "copies": ([1.5, "x"], [-1, 0, 1 << 40]),
    "budget": ([1.5, "x"], [-1, 0, 1 << 70]),
    "weights": ([1.5, "x"], [-1, 0]), "framework": ([5], []),
})
given(lambda p, t, **k: graph()[0].compile(**k), {"outputs": ([5, None, "x"], [])})

try:
    _command.path()
except weir.Error:
    pass
else:
    given(
        lambda p, t, **k: weir.convert(
            **{"source": p, "target": p.parent / "o.gguf", "force": True, **k}
        ),
        {
            "source": ([5, None], []), "target": ([5, None], []),
            "dtype": ([], [5, "zz", ""]), "shard_bytes": ([1.5], ["x", -1]),
            "drop": ([5, [5], b"a", {"a": "b"}], []),
            "rename": ([5, "x", {"a": 5}, {5: "a"}], [{"(": "x"}]),
            "slices": ([5, [5]], ["x", "b:9"]), "rank": ([5], ["x", "3/2"]),
            "drop_metadata": ([5, [5]], []),
            "metadata": ([5, {"a": 5}], [{"a": "x"}, {"a": "U8:999"}]),
            "staging": ([1.5], ["x", -1, 1]), "cache": ([5], ["zz"]),
            "progress": ([5], []),
        },
    )
if np is not None:
    TYPES.append((lambda p, t: weir.numpy.load("x"), "data"))  # type: ignore[arg-type]
    strided = np.ones((2, 3), np.float32).T
    VALUES.append((
        lambda p, t: weir.save({"w": strided}, p.parent / OUT), "'w' is not cont"
    ))
    for what in (np.ones(2, complex), np.array(["x"])):
        VALUES.append((
            lambda p, t, w=what: weir.save({"w": w}, p.parent / OUT),  # type: ignore
            "'w': dtype",
        ))
if torch is not None:
    one = torch.ones(2, 3)
    for tensor, why in (
        (one.T, "'w' is not contiguous"), (one.to_sparse(), "'w' is sparse"),
        (one.to(torch.complex128), "'w': dtype"),
    ):
        VALUES.append((
            lambda p, t, w=tensor: weir.save({"w": w}, p.parent / OUT),  # type: ignore
            why,
        ))
    VALUES.append((lambda p, t: weir.Graph().leaf(one.to_sparse()), "leaf is sparse"))
    for call in (weir.torch.park, weir.torch.unpark):
        TYPES.append((lambda p, t, c=call: c(5), "module"))  # type: ignore[misc]
    TYPES.append((lambda p, t: weir.torch.save_model(5, p.parent / OUT), "model"))
    TYPES.append((lambda p, t: weir.torch.load_model(5, p), "model"))
    given(lambda p, t, **k: weir.recording(**{"path": p, **k}), {
        "path": ([5, [5]], []), "way": ([], [5, "map"]), "root": ([5], []),
    })


@pytest.fixture
def tensor(small: Path) -> Any:
    return weir.load(small, framework="weir")["b"]


def wrong_of(call: Call, path: Path, tensor: Any) -> BaseException:
    try:
        call(path, tensor)
    except Exception as error:
        return error
    return AssertionError("nothing was raised")


def test_types(small: Path, tensor: Any) -> None:
    """A value of a wrong type is a TypeError that names the argument."""
    found = []
    for call, name in TYPES:
        error = wrong_of(call, small, tensor)
        # A fault of weir's own would speak of objects.
        if type(error) is not TypeError or name not in str(error) or (
            "object" in str(error).replace("objects", "")
        ):
            found.append((name, error))
    assert not found


def test_values(small: Path, tensor: Any) -> None:
    """A wrong value is a ValueError of weir's that names the argument."""
    found = []
    for call, name in VALUES:
        error = wrong_of(call, small, tensor)
        if not isinstance(error, weir.InvalidError) or name not in str(error) or (
            "--" in str(error)
        ):
            found.append((name, error))
    assert not found


@pytest.mark.parametrize("name", ["tf", "tensorflow", "mlx", "paddle"])
def test_other_frameworks(small: Path, name: str) -> None:
    """A framework that weir has no tensors of is refused with what to do."""
    for call in (
        lambda: weir.safe_open(small, name), lambda: weir.load(small, framework=name)
    ):
        with pytest.raises(weir.SafetensorError, match='"np".*arrays'):
            call()


def test_replaced_framework(small: Path) -> None:
    """replace_safetensors() leaves such frameworks to safetensors."""
    theirs = pytest.importorskip("safetensors")
    original = theirs.safe_open
    weir.replace_safetensors()
    try:
        assert isinstance(theirs.safe_open(small, "mlx"), original)
        assert isinstance(theirs.safe_open(small, framework="np"), weir.safe_open)
    finally:
        weir.restore_safetensors()


def test_replaced_handle(small: Path) -> None:
    """So it does for files that are open, where safetensors takes them."""
    theirs = pytest.importorskip("safetensors")
    original = getattr(theirs, "_safe_open_handle", None)
    if original is None:
        pytest.skip("this safetensors takes no file that is open")
    weir.replace_safetensors()
    try:
        with open(small, "rb") as file:
            assert isinstance(theirs._safe_open_handle(file, "mlx"), original)
            ours = theirs._safe_open_handle(file, "np")
            assert isinstance(ours, weir.safe_open)
    finally:
        weir.restore_safetensors()


class OnlyInt:
    """A stream as those of numba and cuda.bindings: only int() takes it."""

    def __int__(self) -> int:
        return 7


class Index:
    """A whole number, as NumPy's, that is no int."""

    def __index__(self) -> int:
        return 1 << 20


def test_streams(tensor: Any) -> None:
    """A stream is a number, or an object that int() makes a number of."""
    for stream, number in ((5, 5), (OnlyInt(), 7), (Index(), 1 << 20)):
        assert weir.cuda._number(stream) == number
        weir.cuda.wait(stream, tensor)


def test_whole(small: Path, tensor: Any) -> None:
    """Sizes may be whole numbers of other types, as NumPy's."""
    size: Any = Index()
    report = weir.save({"w": tensor}, small.parent / OUT, shard_bytes=size)
    assert report["bytes"] >= 96
    g, x = graph()
    with g.compile(g.sqr(x), budget=size, weights=size):
        pass
    weir.safe_open(small, "weir").prefetch(ahead=size).close()


def test_progress_number(small: Path) -> None:
    """0 and 1 are False and True for progress."""
    for no in (0, False):
        assert "b" in weir.load(small, framework="weir", progress=no)
    for yes in (1, True):
        assert "b" in weir.load(small, framework="weir", progress=yes)
