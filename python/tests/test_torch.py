# SPDX-License-Identifier: MIT
"""weir.torch, compared with safetensors where it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest

torch = pytest.importorskip("torch")
import weir  # noqa: E402
import weir.torch  # noqa: E402

NAMES = [
    name
    for name in (
        "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 "
        "float32 float64 complex64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz "
        "float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
    ).split()
    if hasattr(torch, name)
]


def tensors() -> Dict[str, Any]:
    made = {}
    for name in NAMES:
        dtype = getattr(torch, name)
        raw = torch.arange(4 * 6 * dtype.itemsize).to(torch.uint8)
        made[name] = raw.view(dtype).reshape(4, 6)
    made["bool"] = torch.tensor([True, False])
    made["scalar"] = torch.tensor(2.5)
    made["empty"] = torch.zeros(0, 3)
    return made


def raw(tensor: Any) -> bytes:
    if not tensor.numel():
        return b""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def same(a: Dict[str, Any], b: Dict[str, Any]) -> bool:
    return sorted(a) == sorted(b) and all(
        a[n].dtype == b[n].dtype
        and a[n].shape == b[n].shape
        and raw(a[n]) == raw(b[n])
        for n in a
    )


def test_round(tmp_path: Path) -> None:
    """save_file() and load_file() keep all dtypes and shapes of torch."""
    path = tmp_path / "x.safetensors"
    weir.torch.save_file(tensors(), path)
    assert same(weir.torch.load_file(path), tensors())
    assert same(weir.torch.load(weir.torch.save(tensors())), tensors())


def test_theirs(tmp_path: Path) -> None:
    """Files and bytes of torch tensors are equal to those of safetensors."""
    theirs = pytest.importorskip("safetensors.torch")
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    weir.torch.save_file(tensors(), a, {"format": "pt"})
    theirs.save_file(tensors(), b, {"format": "pt"})
    assert a.read_bytes() == b.read_bytes()
    assert same(weir.torch.load_file(b), theirs.load_file(b))
    assert weir.torch.save(tensors()) == theirs.save(tensors())


@pytest.mark.parametrize("name", NAMES)
def test_capsules(tmp_path: Path, name: str) -> None:
    """Each way of making torch tensors makes the same."""
    from weir import _frameworks, _weir

    path = tmp_path / "x.safetensors"
    wanted = {name: tensors()[name]}
    weir.torch.save_file(wanted, path)
    tensor = weir.load(path, framework="weir")[name]
    for make, mode in (
        (torch.Tensor, "exchange"),
        (torch.utils.dlpack.from_dlpack, "tensor"),
    ):
        if mode == "exchange" and not _weir.exchange_api(make):
            continue
        views = _frameworks._torch_views(torch, _weir.Maker(make, mode))
        maker = _weir.Maker(make, mode, views or None)
        again = weir.load(path, framework="weir")[name]
        assert same({name: maker(again)}, wanted)
    assert tensor.nbytes == wanted[name].numel() * wanted[name].element_size()


def test_write(tmp_path: Path) -> None:
    """Tensors can be written to, and outlive all others of their load."""
    path = tmp_path / "x.safetensors"
    weir.torch.save_file(tensors(), path)
    tensor = weir.torch.load_file(path)["float32"]
    tensor.zero_()
    assert tensor.sum() == 0


def test_slice(tmp_path: Path) -> None:
    """get_slice() returns parts of torch tensors."""
    path = tmp_path / "x.safetensors"
    weir.torch.save_file(tensors(), path)
    with weir.safe_open(path, "pt") as file:
        part = file.get_slice("bfloat16")
        assert raw(part[1:3, ::2]) == raw(tensors()["bfloat16"][1:3, ::2])
        assert part[0, 0].shape == ()


def test_as_theirs(tmp_path: Path) -> None:
    """Views and copies have the strides of safetensors, and share as they do."""
    theirs = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    weir.torch.save_file({"w": torch.arange(96.0).reshape(4, 6, 4)}, path)
    for backend in ("mmap", "pread"):
        with theirs.safe_open(path, "pt", backend=backend) as a, weir.safe_open(
            path, "pt", backend=backend
        ) as b:
            for index in (
                ..., slice(1, 3), 2, (slice(None), 2), (..., slice(0, 4, 2)),
                (slice(0, 4, 3), slice(2, 4)), (1, 2, 3), (slice(2, 2), 1),
            ):
                x, y = a.get_slice("w")[index], b.get_slice("w")[index]
                assert x.shape == y.shape and torch.equal(x, y)
                if x.numel():
                    assert x.stride() == y.stride()
            for file in (a, b):
                file.get_tensor("w")[0] = 7
            assert torch.equal(a.get_tensor("w"), b.get_tensor("w"))


def test_refused(tmp_path: Path) -> None:
    """Tensors that a file cannot hold are refused as safetensors does."""
    shared = torch.zeros(8)
    for bad, error, text in (
        ([shared], ValueError, "Expected a dict"),
        ({"w": 1}, ValueError, "Key `w` is invalid"),
        ({"w": shared.to_sparse()}, ValueError, "sparse"),
        ({"a": shared, "b": shared}, RuntimeError, "share memory"),
        ({"w": shared.to("meta")}, RuntimeError, "Cannot copy out of meta tensor"),
    ):
        with pytest.raises(error, match=text):
            weir.torch.save(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="non contiguous tensor: `w`"):
        weir.torch.save_file(
            {"w": torch.zeros(4, 4).t()[1:]}, tmp_path / "x.safetensors"
        )


class Tied(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(4, 4, bias=False)
        self.b = torch.nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight


def test_model(tmp_path: Path) -> None:
    """save_model() and load_model() keep tied weights."""
    path = tmp_path / "x.safetensors"
    first, second = Tied(), Tied()
    weir.torch.save_model(first, path)
    with weir.safe_open(path, "pt") as file:
        assert file.keys() == ["a.weight"]
        assert file.metadata() == {"b.weight": "a.weight"}
    assert weir.torch.load_model(second, path) == (set(), [])
    assert torch.equal(first.b.weight, second.b.weight)
    with pytest.raises(RuntimeError, match="Missing key"):
        weir.torch.load_model(torch.nn.Linear(4, 4), path)


def test_ahead(many: Path) -> None:
    """Slices of all tensors, read whole one by one, are one load."""
    with weir.safe_open(many, "pt", backend="pread") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        found = {name: part[...] for name, part in slices.items()}
        again = slices["layers.3.w"][...]
    wanted = weir.torch.load_file(many)
    assert same(found, wanted) and same({"layers.3.w": again},
                                        {"layers.3.w": wanted["layers.3.w"]})
    again.zero_()
    assert found["layers.3.w"].sum() > 0


def test_replace(tmp_path: Path) -> None:
    """replace_safetensors() also reaches names that modules hold."""
    import sys
    import types

    theirs = pytest.importorskip("safetensors.torch")
    import safetensors

    held = types.ModuleType("held")
    held.safe_open = safetensors.safe_open  # type: ignore[attr-defined]
    held.load = theirs.load_file  # type: ignore[attr-defined]
    original = safetensors.safe_open
    sys.modules["held"] = held
    try:
        weir.replace_safetensors()
        assert safetensors.safe_open is weir.safe_open
        assert held.safe_open is weir.safe_open
        assert held.load is weir.torch.load_file
        assert theirs.save_file is weir.torch.save_file
    finally:
        weir.restore_safetensors()
        del sys.modules["held"]
    assert safetensors.safe_open is original
    assert held.safe_open is original


def test_into(tmp_path: Path) -> None:
    """load_into() fills a state_dict, and refuses the meta device."""
    path = tmp_path / "x.safetensors"
    first, second = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)
    weir.torch.save_model(first, path)
    weir.load_into(path, second.state_dict())
    assert same(dict(first.state_dict()), dict(second.state_dict()))
    meta = torch.nn.Linear(8, 4, device="meta")
    with pytest.raises(weir.InvalidError, match="meta device"):
        weir.load_into(path, meta.state_dict())


def test_allocator() -> None:
    """torch takes weir's heaps as its allocator, without a GPU too."""
    import subprocess
    import sys

    if not hasattr(torch._C, "_cuda_customAllocator"):
        pytest.skip("this torch was built without CUDA")
    try:
        weir.torch.hooks()
    except weir.UnsupportedError as error:
        pytest.skip(str(error))
    code = """
import torch, weir.torch
weir.torch.use_allocator()
try:
    weir.torch.use_allocator()
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "already initialized allocator" in done.stdout


def test_elsewhere(tmp_path: Path, monkeypatch: Any) -> None:
    """Devices that only torch knows get tensors of torch's."""
    path = tmp_path / "x.safetensors"
    weir.torch.save_file(tensors(), path)
    monkeypatch.setattr(weir._open, "_OF_TORCH", {"meta"})
    with weir.safe_open(path, "pt", "meta") as file:
        made = [file.get_tensor(n) for n in file.keys()]
        made += file.get_tensors().values()
        made += [tensor for _, tensor in file.prefetch()]
        made += [file.get_slice("int8")[:2]]
    assert {tensor.device.type for tensor in made} == {"meta"}
    assert weir.torch.load_file(path, "meta")["int8"].shape == (4, 6)


def test_queued_work(monkeypatch: Any) -> None:
    """Memory of a GPU is read into when torch has no work of it queued."""
    from weir import _into

    seen: List[int] = []
    monkeypatch.setattr(torch.cuda, "synchronize", seen.append)
    _into.settle(["CPU", "CUDA1", "CUDA0"])
    assert seen == [1, 0]
