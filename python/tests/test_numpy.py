# SPDX-License-Identifier: MIT
"""weir.numpy and safe_open, compared with safetensors where it is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Dict

import pytest

np = pytest.importorskip("numpy")
import weir  # noqa: E402
import weir.numpy  # noqa: E402

from conftest import content, header, memory  # noqa: E402


def arrays() -> Dict[str, Any]:
    random = np.random.default_rng(1)
    made = {
        name: random.integers(0, 100, (3, 4, 5)).astype(name)
        for name in (
            "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 "
            "float32 float64 complex64 bool"
        ).split()
    }
    made["scalar"] = np.array(2.5, np.float32)
    made["empty"] = np.zeros((0, 7), np.int16)
    return made


def same(a: Dict[str, Any], b: Dict[str, Any]) -> bool:
    return sorted(a) == sorted(b) and all(
        a[n].dtype == b[n].dtype
        and a[n].shape == b[n].shape
        and a[n].tobytes() == b[n].tobytes()
        for n in a
    )


def test_round(tmp_path: Path) -> None:
    """save_file() and load_file() keep all dtypes and shapes of NumPy."""
    path = tmp_path / "x.safetensors"
    weir.numpy.save_file(arrays(), path, {"k": "v"})
    assert same(weir.numpy.load_file(path), arrays())


def test_bytes() -> None:
    """save() and load() keep all dtypes and shapes of NumPy."""
    assert same(weir.numpy.load(weir.numpy.save(arrays())), arrays())


def test_theirs(tmp_path: Path) -> None:
    """Files and bytes are equal to those of safetensors."""
    theirs = pytest.importorskip("safetensors.numpy")
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    weir.numpy.save_file(arrays(), a, {"k": "v"})
    theirs.save_file(arrays(), b, {"k": "v"})
    assert same(theirs.load_file(a), arrays())
    assert same(weir.numpy.load_file(b), arrays())
    assert a.read_bytes() == b.read_bytes()
    assert weir.numpy.save(arrays()) == theirs.save(arrays())


def test_no_dtype(small: Path) -> None:
    """A dtype that NumPy lacks is named, with the tensor and the way out."""
    if importlib.util.find_spec("ml_dtypes") is not None:
        pytest.skip("NumPy has all dtypes with ml_dtypes")
    with weir.safe_open(small, "np") as file:
        for call in (
            lambda: file.get_tensor("h"),
            lambda: file.get_slice("h")[0],
            lambda: file.get_tensors(),
            lambda: dict(file.prefetch()),
            lambda: file.prefetch().take("h"),
            lambda: weir.load(small, framework="numpy"),
            lambda: dict(weir.stream(small, framework="numpy")),
        ):
            with pytest.raises(weir.UnsupportedError) as error:
                call()
            assert isinstance(error.value, TypeError)  # as of safetensors
            for text in ("'h'", "BF16", "ml_dtypes", "dtype=", "framework"):
                assert text in str(error.value)
    only = ["h"]
    found = weir.load(small, framework="numpy", only=only, dtype="float32")["h"]
    assert found.dtype == np.float32
    wanted = np.frombuffer(content(8, 4), np.uint16).astype(np.uint32) << 16
    assert found.tobytes() == wanted.tobytes()


def test_zero_byte(small: Path) -> None:
    """A name with a zero byte is not that of the tensor before it."""
    with weir.safe_open(small, "np") as file:
        for call in (file.get_tensor, file.get_slice, file.get_tensor_meta):
            with pytest.raises(weir.SafetensorError, match="does not contain"):
                call("a\0")


def test_writable(small: Path) -> None:
    """Arrays can be written to."""
    found = weir.load(small, framework="numpy", only=["a", "b"])
    found["a"][0] = 7
    assert found["a"][0] == 7 and found["b"].flags.writeable


INDEXES = [
    np.s_[:], np.s_[...], np.s_[()], 0, -1, np.int64(1), True,
    np.s_[::2], np.s_[1:], np.s_[:-1], np.s_[:, 1], np.s_[:, -1],
    np.s_[:, 1:3, ::3], np.s_[0, 0, 0], np.s_[..., 1], np.s_[1, ..., 2],
    np.s_[:, :, 1:3], np.s_[::2, ::2, ::2], np.s_[:, ::2], np.s_[:, :, ::4],
    np.s_[2:1], np.s_[:, 0:0], [],
]


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_slice(tmp_path: Path, index: Any) -> None:
    """get_slice() returns what the same index of the array does."""
    array = np.arange(4 * 6 * 10, dtype=np.int32).reshape(4, 6, 10)
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([("x", "I32", array.shape, array.tobytes())]))
    wanted = array[int(index) if index is True else index]
    for backend in ("mmap", "pread"):
        with weir.safe_open(path, "np", backend=backend) as file:
            part = file.get_slice("x")
            assert part.get_shape() == [4, 6, 10] and part.get_dtype() == "I32"
            found = part[index]
        assert found.shape == wanted.shape
        assert (found == wanted).all()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_own_memory(small: Path, backend: str) -> None:
    """An array can be written to, and later calls do not see it."""
    with weir.safe_open(small, "np", backend=backend) as file:
        file.get_tensor("a")[:] = 0
        file.get_slice("a")[1:][:] = 0
        file.get_slice("b")[:, 1:, ::2][:] = 0
        assert file.get_tensor("a").tobytes() == content(24, 2)
        assert file.get_slice("b")[...].tobytes() == content(96)


BAD = [
    (np.s_[:20], "[:20] with shape [4, 6, 10]: index 19 out of bounds for "
                 "tensor dimension #0 of size 4"),
    (5, "index 5 out of bounds for tensor dimension #0 of size 4"),
    (-5, "Invalid index -5 for dimension 0 of size 4"),
    (np.s_[::-1], "Slice step must be a positive integer, got -1"),
    (np.s_[0, 0, 0, 0], "more slicing indexes than dimensions in tensor"),
    (None, "Unsupported slice index at position 0"),
    ([0, 1], "Non empty lists are not implemented"),
    ((slice(None), [0]), "Unsupported slice index at position 1"),
    ((..., ...), "Only one ellipsis"),
    (1.0, "Unsupported slice index at position 0"),
]


@pytest.mark.parametrize("index, text", BAD, ids=str)
def test_bad_slice(tmp_path: Path, index: Any, text: str) -> None:
    """get_slice() refuses other indexes with safetensors' words."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([("x", "U8", (4, 6, 10), content(240))]))
    with weir.safe_open(path, "np") as file:
        with pytest.raises(weir.SafetensorError) as error:
            file.get_slice("x")[index]
    assert text in str(error.value)


def test_safe_open(small: Path) -> None:
    """safe_open() has the calls of safetensors' own."""
    file = weir.safe_open(small, framework="np", device="cpu", backend="mmap")
    assert file.keys() == ["a", "b", "e", "h", "s"]
    assert file.offset_keys()[:2] == ["b", "a"]
    assert file.metadata() == {"k": "v"}
    assert file.get_tensor("b").tobytes() == content(96)
    meta = file.get_tensor_meta("a")
    assert meta == ("I64", [3], (96, 120), 24) and meta.dtype == "I64"
    with file as same_file:
        assert same_file is file
    with pytest.raises(weir.SafetensorError, match="File is closed"):
        file.keys()


def test_safe_open_errors(small: Path, tmp_path: Path) -> None:
    """safe_open() refuses wrong arguments as safetensors does."""
    with pytest.raises(FileNotFoundError):
        weir.safe_open(tmp_path / "none", "np")
    for arguments, text in (
        (("zz",), "framework zz is invalid"),
        (("np", "zz"), "device zz is invalid"),
        (("np", "cuda:0"), "Device cuda:0 is not supported"),
    ):
        with pytest.raises(weir.SafetensorError, match=text):
            weir.safe_open(small, *arguments)
    with pytest.raises(weir.SafetensorError, match='backend "q" is invalid'):
        weir.safe_open(small, "np", backend="q")
    with pytest.raises(TypeError):
        weir.safe_open(5, "np")  # type: ignore[arg-type]
    with pytest.raises(weir.SafetensorError, match="does not contain tensor z"):
        weir.safe_open(small, "np").get_tensor("z")


def test_handle(small: Path) -> None:
    """A file that the caller has open is read without its name."""
    from weir._open import safe_open_handle

    with small.open("rb") as file:
        small.unlink()
        with safe_open_handle(file, "np") as found:
            assert found.get_tensor("b").tobytes() == content(96)


def test_catch_theirs(small: Path) -> None:
    """A caller that catches safetensors' own exception catches weir's."""
    safetensors = pytest.importorskip("safetensors")
    with pytest.raises(safetensors.SafetensorError):
        weir.safe_open(small, "np").get_tensor("z")


def test_from_dlpack(small: Path) -> None:
    """numpy.from_dlpack() takes a tensor without a copy."""
    tensor = weir.load(small, framework="weir")["b"]
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == tensor.address
    assert array.shape == (2, 3, 4) and array.tobytes() == content(96)


def test_memory_freed(many: Path) -> None:
    """The memory of a load is freed with the last array over it."""
    with weir.Root(keep=2**64 - 1) as root:
        found = weir.load(many, framework="numpy", root=root)
        full = memory()
        last = found.pop("layers.3.w")
        found.clear()
        assert last.tobytes() == content(512 * 1024, 3)
        assert full - memory() < 16 << 20
        del last, found
        assert full - memory() > 16 << 20
