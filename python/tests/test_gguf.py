# SPDX-License-Identifier: MIT
"""safe_open of GGUF files that the package gguf has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import pytest

np = pytest.importorskip("numpy")
gguf = pytest.importorskip("gguf")
import weir  # noqa: E402

QUANTISED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "TQ1_0", "TQ2_0"]
VALUES = np.random.default_rng(1).standard_normal((6, 512), dtype=np.float32)


def kind(name: str) -> Any:
    return gguf.GGMLQuantizationType[name]


def blocks(name: str) -> Any:
    """VALUES as gguf quantises them: bytes."""
    return gguf.quants.quantize(VALUES, kind(name))


def values(name: str) -> Any:
    """What the blocks mean."""
    return gguf.quants.dequantize(blocks(name), kind(name))


@pytest.fixture(scope="module")
def path(tmp_path_factory: Any) -> Path:
    """A GGUF file with tensors of several dtypes."""
    made: Path = tmp_path_factory.mktemp("gguf") / "x.gguf"
    writer = gguf.GGUFWriter(made, "llama")
    writer.add_uint32("number", 5)
    writer.add_array("list", [1, 2, 3])
    writer.add_string("text", "words")
    writer.add_tensor("F32", VALUES)
    writer.add_tensor("F16", VALUES.astype(np.float16))
    for name in (*QUANTISED, "BF16"):
        writer.add_tensor(name, blocks(name), raw_dtype=kind(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def test_header(path: Path) -> None:
    """keys(), metadata() and get_tensor_meta() are those of the file."""
    with weir.safe_open(path, "np") as file:
        assert file.keys() == sorted(["F32", "F16", "BF16", *QUANTISED])
        assert file.offset_keys()[:3] == ["F32", "F16", "Q8_0"]
        assert file.metadata() == {
            "general.architecture": "llama",
            "number": 5,
            "list": [1, 2, 3],
            "text": "words",
        }
        for name in file.keys():
            meta = file.get_tensor_meta(name)
            assert meta.dtype == name and meta.shape == [6, 512]
        assert file.get_tensor_meta("Q8_0").nbytes == blocks("Q8_0").nbytes
        part = file.get_slice("Q4_0")
        assert part.get_dtype() == "Q4_0" and part.get_shape() == [6, 512]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_plain(path: Path, backend: str) -> None:
    """Tensors without blocks, and any parts of them, are as in safetensors."""
    with weir.safe_open(path, "np", backend=backend) as file:
        assert (file.get_tensor("F32") == VALUES).all()
        half = VALUES.astype(np.float16)
        assert (file.get_tensor("F16") == half).all()
        for index in (slice(1, 3), 0, np.s_[:, 3:9], np.s_[::2, 5]):
            assert (file.get_slice("F16")[index] == half[index]).all()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("name", QUANTISED)
def test_blocks(path: Path, name: str, backend: str) -> None:
    """Quantised tensors, rows of them, and columns of blocks are bytes."""
    wanted = blocks(name)
    with weir.safe_open(path, "np", backend=backend) as file:
        found = file.get_tensor(name)
        assert found.dtype == np.uint8 and (found == wanted).all()
        part = file.get_slice(name)
        assert (part[1:3] == wanted[1:3]).all()
        assert (part[-1] == wanted[-1]).all()
        assert (part[::2] == wanted[::2]).all()
        width = wanted.shape[1] // 2
        assert (part[:, 256:] == wanted[:, width:]).all()
        with pytest.raises(weir.InvalidError, match=f"'{name}'.*{name}.*blocks"):
            part[:, 3:9]


@pytest.mark.parametrize("name", [*QUANTISED, "BF16", "F16", "F32"])
def test_converted(path: Path, name: str) -> None:
    """dtype= makes numbers of quantised tensors, as gguf does."""
    wanted = values(name) if name in QUANTISED else VALUES
    error = {"BF16": 0.02, "F16": 0.002}.get(name, 1e-6)
    with weir.safe_open(path, "np") as file:
        found = file.get_tensor(name, dtype="float32")
        assert found.dtype == np.float32 and found.shape == (6, 512)
        assert np.abs(found - wanted).max() <= error
        assert (file.get_tensors(dtype="float32")[name] == found).all()
        loader = file.prefetch({name: slice(1, 3)}, dtype="float32")
        assert (loader.take(name) == found[1:3]).all()
        half = file.get_tensor(name, dtype=np.float16)
    assert half.dtype == np.float16
    assert np.abs(half - wanted).max() <= error + 0.002


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "BF16", "F32"])
def test_converted_slices(path: Path, name: str) -> None:
    """get_slice() with dtype= has any parts of the numbers."""
    with weir.safe_open(path, "np") as file:
        whole = file.get_tensor(name, dtype="float32")
        part = file.get_slice(name, dtype="float32")
        assert part.get_shape() == [6, 512] and part.get_dtype() == name
        for index in (
            slice(1, 3), slice(4, 99), slice(5, 1), slice(None, None, 2), 0, -1,
            Ellipsis, (), np.s_[:, 3:9], np.s_[::2, 5], np.s_[..., 7], [4, 0],
            np.array([1, 2]), np.s_[2, 8:16], None, np.s_[::-1],
        ):
            assert np.array_equal(part[index], whole[index]), index
        for index in (6, -7):
            with pytest.raises(weir.SafetensorError, match="6 rows"):
                part[index]
        with pytest.raises(ValueError, match="dtype"):
            file.get_slice(name, dtype="none")
    part = weir.safe_open(path, "weir").get_slice(name, dtype="float32")
    assert memoryview(part[1:3]).tobytes() == whole[1:3].tobytes()
    with pytest.raises(weir.InvalidError, match="no indexes"):
        part[:, 3:9]


def test_prefetch(path: Path) -> None:
    """prefetch() gives out blocks, and rows of them."""
    plan: Dict[str, Any] = {name: None for name in QUANTISED}
    plan["Q4_0"] = slice(2, 4)
    with weir.safe_open(path, "np").prefetch(plan) as loader:
        found = dict(loader)
    assert sorted(found) == sorted(QUANTISED)
    assert (found.pop("Q4_0") == blocks("Q4_0")[2:4]).all()
    assert all((found[name] == blocks(name)).all() for name in found)


def test_torch(path: Path) -> None:
    """Tensors of torch are the same bytes, and the same parts of them."""
    torch = pytest.importorskip("torch")
    with weir.safe_open(path, "pt") as file:
        for name in QUANTISED:
            wanted = torch.from_numpy(blocks(name))
            assert torch.equal(file.get_tensor(name), wanted)
            assert torch.equal(file.get_slice(name)[1:3], wanted[1:3])
            assert torch.equal(file.get_slice(name)[4:99], wanted[4:])
            for index in (True, [0], (0, None)):
                with pytest.raises(weir.Error):
                    file.get_slice(name)[index]
            numbers = file.get_tensor(name, dtype=torch.float32)
            assert np.abs(numbers.numpy() - values(name)).max() < 1e-6
        assert file.get_tensor("BF16").dtype == torch.bfloat16
