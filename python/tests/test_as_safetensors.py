# SPDX-License-Identifier: MIT
"""The same calls of safetensors and of weir, wrong ones too.

Where safetensors succeeds, weir returns the same; where it fails, weir fails
with an exception that a caller of safetensors catches. MORE has the calls that
fail there and not here.
"""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import pytest

np = pytest.importorskip("numpy")
safetensors = pytest.importorskip("safetensors")
import safetensors.numpy  # noqa: E402
import weir  # noqa: E402
import weir.numpy  # noqa: E402

try:
    import torch
    import safetensors.torch
    import weir.torch
except ImportError:
    torch = None  # type: ignore[assignment]


class Library(NamedTuple):
    """safetensors or weir."""

    safe_open: Any
    numpy: Any
    torch: Any


THEIRS = Library(
    safetensors.safe_open, safetensors.numpy,
    safetensors.torch if torch else None,
)
OURS = Library(weir.safe_open, weir.numpy, weir.torch if torch else None)

# What callers catch.
CAUGHT = (
    safetensors.SafetensorError, FileNotFoundError, OSError, TypeError,
    ValueError, IndexError, RuntimeError, ImportError,
)

Call = Callable[[Library, Path], Any]
CASES: List[Tuple[str, Call]] = []
MORE: List[Tuple[str, Call]] = []


def shown(value: Any) -> Any:
    """What two results are compared by."""
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    if torch and isinstance(value, torch.Tensor):
        shape = tuple(value.shape)
        return "torch", str(value.dtype), shape, value.tolist()
    if isinstance(value, np.ndarray):
        return "numpy", str(value.dtype), value.shape, value.tolist()
    return value


def outcome(call: Call, library: Library, folder: Path) -> Tuple[str, Any]:
    try:
        return "returns", shown(call(library, folder))
    except Exception as error:
        return "raises", error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Files with and without faults."""
    made: Path = tmp_path_factory.mktemp("as")
    safetensors.numpy.save_file({
        "a": np.arange(12, dtype=np.float32).reshape(3, 4),
        "s": np.array(1.5, np.float32),
        "e": np.zeros((0, 3), np.int16),
    }, made / "ok", {"k": "v"})
    for name, (head, data) in FAULTS.items():
        text = head if isinstance(head, bytes) else json.dumps(head).encode()
        (made / name).write_bytes(struct.pack("<Q", len(text)) + text + data)
    (made / "zero").write_bytes(b"")
    (made / "seven").write_bytes(b"1234567")
    (made / "over").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    return made


def entry(dtype: str, shape: List[int], first: int, end: int) -> Any:
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, end]}


FAULTS: Dict[str, Tuple[Any, bytes]] = {
    "no-json": (b"nope", b""),
    "list": (b"[]", b""),
    "none": ({}, b""),
    "spaces": (b"  {}", b""),
    "utf-8": (b'{"\xff":1}', b""),
    "hole": ({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 3, 5)},
             b"12345"),
    "short": ({"a": entry("U8", [4], 0, 4)}, b"12"),
    "long": ({"a": entry("U8", [4], 0, 4)}, b"123456"),
    "dtype": ({"a": entry("X8", [4], 0, 4)}, b"1234"),
    "shape": ({"a": entry("U8", [5], 0, 4)}, b"1234"),
    "negative": ({"a": entry("U8", [-4], 0, 4)}, b"1234"),
    "reverse": ({"a": entry("U8", [1], 1, 0)}, b"1"),
    "odd": ({"a": entry("F4", [3], 0, 2)}, b"12"),
    "metadata": ({"__metadata__": {"a": 1}}, b""),
    "metadata-null": ({"__metadata__": None}, b""),
    "more": ({"a": {**entry("U8", [1], 0, 1), "x": 1}}, b"1"),
    "less": ({"a": {"dtype": "U8", "shape": [1]}}, b"1"),
    "twice": (b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
              b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1"),
}


def case(name: str, call: Call, more: bool = False) -> None:
    (MORE if more else CASES).append((name, call))


def opened(
    name: str, *args: Any, more: bool = False, **kwargs: Any
) -> None:
    case(name, lambda x, d: x.safe_open(d / "ok", *args, **kwargs).keys(), more)


OTHER = ("zz", "mxnet", "paddlepaddle", "NP", "", None, 5, b"np")
for framework in ("np", "numpy", "flax", "jax", *OTHER):
    opened(f"framework {framework!r}", framework)
FRAMEWORKS = ("np", "pt") if torch else ("np",)
for framework in FRAMEWORKS:
    for device in ("cpu", "cuda:x", "cuda:", "mps", "mps:0", "npu", "xpu:1",
                   "xla", "hpu", "meta", "disk", "zz", "", -1, 1.5, b"cpu"):
        opened(f"{framework} on {device!r}", framework, device)
    for device in ("cpu:0", "CPU"):
        opened(f"{framework} on {device!r}", framework, device, more=True)
    for device in ("cuda:9", 9, "mps", "npu", "xpu:1", "meta"):
        case(f"{framework}: a tensor on {device!r}",
             lambda x, d, f=framework, to=device:  # type: ignore[misc]
             x.safe_open(d / "ok", f, to).get_tensor("a"))
if importlib.util.find_spec("jax") is None:
    case("a tensor of a framework that is missing",
         lambda x, d: x.safe_open(d / "ok", "flax").get_tensor("a"))
for backend in ("mmap", "pread", "zz", "", None, 5):
    opened(f"backend {backend!r}", "np", backend=backend)
opened("no framework")
opened("unknown argument", "np", zz=1)
opened("five arguments", "np", "cpu", "mmap")

for path in (*FAULTS, "zero", "seven", "over", "absent", "absent/x", "ok/x",
             "x" * 300, "x" * 5000, "\0"):
    case(f"file {path[:20]!r}",
         lambda x, d, p=path: x.safe_open(f"{d}/{p}", "np").keys())  # type: ignore
    case(f"load_file of {path[:20]!r}",
         lambda x, d, p=path: x.numpy.load_file(f"{d}/{p}"))  # type: ignore
for wrong in (b"ok", 5, None, bytearray(b"ok"), 1.5):
    case(f"file {wrong!r}",
         lambda x, d, p=wrong: x.safe_open(p, "np"))  # type: ignore[misc]
for path in ("/dev/null", "/dev/zero"):
    case(path, lambda x, d, p=path: x.safe_open(p, "np"))  # type: ignore[misc]
case("a folder with several models", lambda x, d: x.safe_open(d, "np"))
case("a folder", lambda x, d: x.safe_open(d.parent, "np").keys())
case("a str", lambda x, d: x.safe_open(str(d / "ok"), "np").keys())


def closed(x: Library, d: Path) -> Any:
    with x.safe_open(d / "ok", "np") as file:
        return file


for method in ("keys", "metadata", "offset_keys", "get_tensors"):
    case(f"{method} of a closed file",
         lambda x, d, m=method: getattr(closed(x, d), m)())  # type: ignore
    case(method,
         lambda x, d, m=method:  # type: ignore[misc]
         getattr(x.safe_open(d / "ok", "np"), m)())
for method in ("get_tensor", "get_slice"):
    case(f"{method} of a closed file",
         lambda x, d, m=method: getattr(closed(x, d), m)("a"))  # type: ignore
    case(f"{method} without a name",
         lambda x, d, m=method:  # type: ignore[misc]
         getattr(x.safe_open(d / "ok", "np"), m)())
    for key in ("z", "", None, 5, b"a", "a\0", ("a",), "__metadata__"):
        case(f"{method} of {key!r}",
             lambda x, d, m=method, k=key:  # type: ignore[misc]
             getattr(x.safe_open(d / "ok", "np"), m)(k))
case("the end of a closed file",
     lambda x, d: closed(x, d).__exit__(None, None, None))
case("a closed file again", lambda x, d: bool(closed(x, d).__enter__()))
for method in ("__iter__", "__len__", "__getitem__"):
    case(method,
         lambda x, d, m=method:  # type: ignore[misc]
         hasattr(x.safe_open(d / "ok", "np"), m))

INDEXES = [
    0, 2, 3, -3, -4, slice(None), slice(0, 10), slice(5, 1), slice(-10, None),
    slice(None, None, 2), slice(None, None, 0), slice(None, None, -1), Ellipsis,
    None, (), [], [0], (0, 0), (0, 0, 0), (Ellipsis, 0), (0, Ellipsis, 0),
    (slice(None), None), 1.0, "a", True, np.int64(1), slice("a", None),
    (slice(0, 1), slice(0, 1)), slice(2, 2), (slice(None), slice(2, 2)),
    (slice(None), slice(0, 99)), (slice(1, 9), 2), (0, 4), (0, -5), (..., ...),
]
# safetensors has no empty parts, and no numbers before the first of a slice.
ODD = {"slice(5, 1, None)", "slice(-10, None, None)"}
for framework in FRAMEWORKS:
    for backend in ("mmap", "pread"):
        for name in "as":
            for index in INDEXES:
                plain = framework == "np" or backend == "pread"
                if plain and name == "s" and isinstance(index, slice):
                    continue
                case(f"{framework} {backend} {name}[{index!r}]",
                     lambda x, d, f=framework, b=backend, n=name,  # type: ignore
                     i=index: x.safe_open(d / "ok", f, backend=b)
                     .get_slice(n)[i],
                     plain and str(index) in ODD)

zeros = np.zeros((2, 2), np.float32)
whole = safetensors.numpy.save({"a": zeros})
for data in (whole, b"", b"123", whole[:-1], whole + b"x", "x", None, 5):
    case(f"load of {str(data)[-9:]!r}",
         lambda x, d, b=data: x.numpy.load(b))  # type: ignore[misc]
for tensors in ({"a": zeros}, {}, {1: zeros}, {"": zeros}, None, zeros,
                {"a": zeros.astype("complex128")}, {"a": np.array(["x"])},
                {"a": zeros.astype(">f4")}, {"a": np.zeros((0, 3))},
                {"a": np.zeros(2, "m8[s]")}, {"a": np.array([object()])}):
    case(f"save of {str(tensors)[:50]!r}",
         lambda x, d, t=tensors: x.numpy.save(t))  # type: ignore[misc]
    case(f"save_file of {str(tensors)[:50]!r}",
         lambda x, d, t=tensors: x.numpy.save_file(t, d / "new"))  # type: ignore
for metadata in ({}, {"a": "b"}, {"a": 1}, {1: "a"}, "x", [], None, {"a": None}):
    case(f"save with {metadata!r}",
         lambda x, d, m=metadata: x.numpy.save({"a": zeros}, m))  # type: ignore
    case(f"save_file with {metadata!r}",
         lambda x, d, m=metadata:  # type: ignore[misc]
         x.numpy.save_file({"a": zeros}, d / "new", m))
for to in ("absent/x", "ok/x", ".", ""):
    case(f"save_file to {to!r}",
         lambda x, d, to=to:  # type: ignore[misc]
         x.numpy.save_file({"a": zeros}, f"{d}/{to}"))
for wrong in (None, 5, ""):
    case(f"save_file to {wrong!r}",
         lambda x, d, to=wrong: x.numpy.save_file({"a": zeros}, to))  # type: ignore

if torch:
    ones = torch.ones(2, 2)
    for tensors in ({"a": ones}, {}, {"a": [1]}, {"a": zeros}, {1: ones}, [ones],
                    None, {"a": ones.T[:, :1]}, {"a": ones, "b": ones[0]},
                    {"a": ones.to_sparse()}, {"a": ones.to(torch.bfloat16)},
                    {"a": torch.nn.Parameter(ones)}):
        case(f"torch: save of {str(tensors)[:50]!r}",
             lambda x, d, t=tensors: x.torch.save(t))  # type: ignore[misc]
        case(f"torch: save_file of {str(tensors)[:50]!r}",
             lambda x, d, t=tensors: x.torch.save_file(t, d / "new"))  # type: ignore
    for device in ("cpu", "cuda:9", 9, "mps", "meta", "zz", None):
        case(f"torch: load_file on {device!r}",
             lambda x, d, to=device: x.torch.load_file(d / "ok", to))  # type: ignore


def message(name: str, theirs: Any, ours: Any) -> str:
    return f"{name}: safetensors {theirs}, weir {ours}"


def test_cases(folder: Path) -> None:
    """weir returns and raises what safetensors does."""
    for name, call in CASES:
        theirs = outcome(call, THEIRS, folder)
        ours = outcome(call, OURS, folder)
        if theirs[0] == "returns":
            assert ours == theirs, message(name, theirs, ours)
            continue
        assert ours[0] == "raises", message(name, theirs, ours)
        for caught in CAUGHT:
            if isinstance(theirs[1], caught):
                assert isinstance(ours[1], caught), message(name, theirs, ours)


def test_more(folder: Path) -> None:
    """weir takes some calls that safetensors refuses."""
    for name, call in MORE:
        theirs = outcome(call, THEIRS, folder)
        ours = outcome(call, OURS, folder)
        assert theirs[0] == "raises", message(name, theirs, ours)
        assert ours[0] == "returns", message(name, theirs, ours)
