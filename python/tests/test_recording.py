# SPDX-License-Identifier: MIT
"""Recording tensors: exact bytes, equal results, and what reads early."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, Dict

import pytest

torch = pytest.importorskip("torch")

import weir  # noqa: E402
from conftest import header  # noqa: E402
from weir import _geometry  # noqa: E402

NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.uint8: "U8",
    torch.int64: "I64",
}


def write(path: Path, tensors: Dict[str, Any]) -> Dict[str, Any]:
    """Write tensors to a file by nothing of weir."""
    path.write_bytes(header([
        (name, NAMES[t.dtype], tuple(t.shape),
         t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        for name, t in tensors.items()
    ]))
    return tensors


@pytest.fixture
def model(tmp_path: Path) -> Any:
    """A file with a few tensors, and these."""
    torch.manual_seed(1)
    path = tmp_path / "model.safetensors"
    return path, write(path, {
        "w": torch.randn(64, 4096),
        "v": torch.randn(64, 4096).bfloat16(),
        "e": torch.randn(4, 32, 48).half(),
        "b": torch.randn(64),
        "s": torch.randn(()),
        "i": torch.arange(10),
        "z": torch.empty(0, 3),
    })


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(512, 256)
        self.b = torch.nn.Linear(256, 8)
        self.register_buffer("n", torch.zeros(()))


@pytest.fixture
def net(tmp_path: Path) -> Any:
    torch.manual_seed(2)
    path = tmp_path / "net.safetensors"
    return path, write(path, dict(Net().state_dict()))


@pytest.mark.parametrize("assign", [False, True])
def test_load_state_dict(net: Any, assign: bool) -> None:
    """load_state_dict reads each byte once, straight into the parameters"""
    path, tensors = net
    module = Net()
    before = {n: p.data_ptr() for n, p in module.named_parameters()}
    record = weir.recording(path)
    module.load_state_dict(record, assign=assign)
    for name, tensor in module.state_dict().items():
        assert same(tensor, tensors[name]), name
    assert not record.report.fallbacks
    assert not record.report.early
    needed = sum(t.numel() * t.element_size() for t in tensors.values())
    assert needed <= record.report.read + record.report.over_read
    assert record.report.read + record.report.over_read <= needed * 1.02
    assert record.report.loads == 1
    for name, parameter in module.named_parameters():
        assert type(parameter) is torch.nn.Parameter
        assert parameter.requires_grad
        assert assign or parameter.data_ptr() == before[name]


def test_partial_state_dict(net: Any) -> None:
    """a state dict of some renamed recording tensors loads these"""
    path, tensors = net
    module = torch.nn.Linear(512, 256)
    module.load_state_dict({
        name[2:]: tensor
        for name, tensor in weir.recording(path).items()
        if name.startswith("a.")
    })
    assert same(module.weight.data, tensors["a.weight"])
    module = Net()
    with pytest.raises(RuntimeError, match="Unexpected key"):
        module.a.load_state_dict(weir.recording(path))
    module.a.load_state_dict(
        {"weight": weir.recording(path)["a.weight"]}, strict=False)
    assert same(module.a.weight.data, tensors["a.weight"])


def test_load_state_dict_converts(net: Any) -> None:
    """load_state_dict into another dtype converts as torch does"""
    path, tensors = net
    module = Net().bfloat16()
    record = weir.recording(path)
    module.load_state_dict(record)
    assert not record.report.fallbacks
    for name, tensor in module.state_dict().items():
        assert same(tensor, tensors[name].to(torch.bfloat16)), name


PARTS = {
    "rows": ("w", lambda t: t[16:32]),
    "columns": ("w", lambda t: t[:, 2048:]),
    "narrow": ("v", lambda t: t.narrow(1, 0, 2048)),
    "chunk": ("v", lambda t: t.chunk(2)[1]),
    "select": ("e", lambda t: t[2]),
    "unbind": ("e", lambda t: t.unbind(0)[3]),
    "part of an expert": ("e", lambda t: t[1, 8:16]),
    "a middle dimension": ("e", lambda t: t[:, 8:16]),
    "the last dimension": ("e", lambda t: t[..., 16:32]),
    "a box": ("e", lambda t: t[1:3, 8:16, 4:20]),
    "steps": ("e", lambda t: t[:, ::2]),
    "transposed": ("w", lambda t: t.t()),
    "transposed part": ("e", lambda t: t[1].t()[4:8]),
    "flat": ("e", lambda t: t.flatten()[100:900]),
    "clone": ("w", lambda t: t[:, 2048:].contiguous()),
    "view of a clone": ("w", lambda t: t[:, 2048:].contiguous()[3:9]),
    "reshaped": ("w", lambda t: t.view(128, 2048)[5:7]),
    "to bf16": ("w", lambda t: t.to(torch.bfloat16)),
    "part to half": ("w", lambda t: t[:, 2048:].half()),
    "bytes": ("v", lambda t: t.view(torch.uint8)[:, 4096:]),
    "int16": ("v", lambda t: t.view(torch.int16)[:, 2048:]),
    "scalar": ("s", lambda t: t),
    "one": ("b", lambda t: t[3]),
    "unsqueezed": ("b", lambda t: t.unsqueeze(0)),
    "expanded": ("s", lambda t: t.expand(4)),
    "empty": ("z", lambda t: t),
    "integers": ("i", lambda t: t[2:5]),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("noted", [True, False])
def test_views(model: Any, part: str, noted: bool) -> None:
    """a copy of a view has the bytes that torch gives"""
    path, tensors = model
    name, take = PARTS[part]
    wanted = take(tensors[name])
    if not noted:
        got = torch.zeros(wanted.shape, dtype=wanted.dtype)
        got.copy_(take(weir.recording(path)[name]))
        assert same(got, wanted)
        return
    for layout in ("plain", "rows", "transposed"):
        got = torch.zeros(wanted.shape, dtype=wanted.dtype)
        if layout == "rows" and wanted.dim():
            shape = (*wanted.shape[:-1], wanted.shape[-1] + 5)
            got = torch.zeros(shape, dtype=wanted.dtype)
            got = got[..., 2:2 + wanted.shape[-1]]
        if layout == "transposed" and wanted.dim() == 2:
            got = torch.zeros(wanted.shape[::-1], dtype=wanted.dtype).t()
        with weir.recording(path) as record:
            got.copy_(take(record[name]))
        assert same(got, wanted), layout
        assert record.report.copies == (wanted.numel() > 0)
        assert not record.report.fallbacks, layout


def bytes_read() -> int:
    """What system calls of this process have read so far."""
    text = Path("/proc/self/io").read_text()
    return int(text.split()[1])


def test_exact_bytes(tmp_path: Path) -> None:
    """half of the rows and half of the columns are half of the bytes"""
    path = tmp_path / "large.safetensors"
    tensors = write(path, {"w": torch.randn(2048, 4096)})
    rows = torch.zeros(1024, 4096)
    columns = torch.zeros(2048, 2048)
    for to, part in (
        (rows, lambda t: t[1024:]),
        (columns, lambda t: t[:, :2048]),
    ):
        for _ in range(2):  # the first one imports modules
            record = weir.recording(path, way="buffered")
            part(record["w"])
            before = bytes_read()
            with record:
                to.copy_(part(record["w"]))
            after = bytes_read()
        assert same(to, part(tensors["w"]))
        needed = to.numel() * to.element_size()
        assert record.report.read == needed
        assert record.report.loads == 1
        assert after - before <= needed * 1.02


def test_read_of_parameter(model: Any) -> None:
    """a parameter that is read has its bytes"""
    path, tensors = model
    p = torch.nn.Parameter(torch.zeros(64, 4096))
    other = torch.zeros(64)
    with weir.recording(path) as record:
        p.data.copy_(record["w"])
        other.copy_(record["b"])
        p.data.copy_(p * 2)
    assert same(p.data, tensors["w"] * 2)
    assert same(other, tensors["b"])
    assert sum(record.report.early.values()) == 1


@pytest.mark.parametrize("how", ["data_ptr", "numpy", "tolist", "item", "data"])
def test_pointers(model: Any, how: str) -> None:
    """bytes that are reached without an operation are there"""
    path, tensors = model
    p = torch.zeros(64)
    with weir.recording(path) as record:
        p.copy_(record["b"])
        if how == "numpy":
            assert (p.numpy() == tensors["b"].numpy()).all()
            assert (record["b"].numpy() == tensors["b"].numpy()).all()
        elif how == "tolist":
            assert p.tolist() == tensors["b"].tolist()
        elif how == "item":
            assert p[3].item() == tensors["b"][3].item()
            assert record["s"].item() == tensors["s"].item()
        elif how == "data_ptr":
            assert record["b"].data_ptr() != 0
            p.data_ptr()
            assert record.report.early["data_ptr"] == 1
        else:
            p = torch.nn.Parameter(torch.zeros(64))
            p.data = record["b"]
    assert same(p.data, tensors["b"])


def test_overlaps(model: Any) -> None:
    """of copies to one place the last one wins"""
    path, tensors = model
    whole = torch.zeros(64, 4096)
    part = torch.zeros(64)
    with weir.recording(path) as record:
        whole.copy_(record["v"])
        whole.copy_(record["w"])
        part.copy_(record["b"])
        part[10:20].copy_(record["w"][0, :10])
        part[5:15].zero_()
    assert same(whole, tensors["w"])
    wanted = tensors["b"].clone()
    wanted[10:20] = tensors["w"][0, :10]
    wanted[5:15] = 0
    assert same(part, wanted)


def test_columns_of_one_tensor(model: Any) -> None:
    """copies to different columns of a tensor are one load"""
    path, tensors = model
    to = torch.zeros(64, 3 * 2048)
    with weir.recording(path) as record:
        to[:, 4096:].copy_(record["w"][:, :2048])
        to[:, :2048].copy_(record["w"][:, 2048:])
        to[:, 2048:4096].copy_(record["w"][:, 1000:3048])
    assert record.report.loads == 1
    assert not record.report.early
    w = tensors["w"]
    assert same(to, torch.cat([w[:, 2048:], w[:, 1000:3048], w[:, :2048]], 1))


def test_writes_to_recording(model: Any) -> None:
    """a recording tensor that is written to keeps what was written"""
    path, tensors = model
    to, other = torch.zeros(64), torch.zeros(10)
    with weir.recording(path) as record:
        b = record["b"]
        part = b[10:20]
        b += 1
        to.copy_(b)
        other.copy_(part)
    assert same(to, tensors["b"] + 1)
    assert same(other, tensors["b"][10:20] + 1)


def test_fallbacks(model: Any) -> None:
    """other operations read the tensor, and the report names them"""
    path, tensors = model
    with weir.recording(path) as record:
        assert same(torch.cat([record["b"], record["b"]]), tensors["b"].repeat(2))
        assert same(record["w"] * 2, tensors["w"] * 2)
        assert torch.equal(record["i"], tensors["i"])
        assert torch.empty_like(record["w"]).shape == (64, 4096)
        assert torch.zeros_like(record["v"]).dtype == torch.bfloat16
    assert set(record.report.fallbacks) == {"cat", "mul", "equal"}
    text = str(record.report).splitlines()
    assert re.fullmatch(
        r"read 1\.0 MB in \d loads and \d+\.\d+ s, for 0 copies", text[0])
    assert "cat needed bytes at once, in 1 read of its own: b" in text


def test_report(model: Any) -> None:
    """the report says what was read, and why not in one load"""
    path, _ = model
    rows, columns = torch.zeros(8, 4096), torch.zeros(64, 1024)
    with weir.recording(path) as record:
        rows.copy_(record["w"][:8])
        torch.exp(rows)
        columns.copy_(record["v"][:, :1024])
    assert re.fullmatch(
        r"read 0\.3 MB in 2 loads and \d+\.\d+ s, for 2 copies\n"
        r"exp needed noted copies, so a load ran before it, 1 time",
        str(record.report))


def test_switch_off(model: Any, monkeypatch: Any) -> None:
    """record=False and WEIR_RECORD=0 give ordinary tensors"""
    path, tensors = model
    assert type(weir.recording(path, record=False)["w"]) is torch.Tensor
    monkeypatch.setenv("WEIR_RECORD", "0")
    record = weir.recording(path)
    assert all(type(t) is torch.Tensor for t in record.values())
    assert all(same(record[name], t) for name, t in tensors.items())


def test_threads(model: Any) -> None:
    """copies in other threads are done at once"""
    path, tensors = model
    to = [torch.zeros(64, 4096) for _ in range(4)]
    with weir.recording(path) as record:
        w = record["w"]

        def work(i: int) -> None:
            to[i].copy_(w)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(same(t, tensors["w"]) for t in to)


def test_errors(model: Any, tmp_path: Path) -> None:
    """a file that has changed and one that is missing are errors"""
    path, _ = model
    with pytest.raises(weir.Error):
        weir.recording(tmp_path / "none.safetensors")
    with pytest.raises(KeyError):
        weir.recording(path)["none"]
    to = torch.zeros(64)
    with pytest.raises(weir.Error, match="model.safetensors"):
        with weir.recording(path) as record:
            to.copy_(record["b"])
            with open(path, "r+b") as file:
                file.truncate(1000)
    with pytest.raises(ValueError):
        weir.recording(path, way="map")


@pytest.mark.parametrize("how", ["other", "same", "module"])
def test_nested(tmp_path: Path, how: str) -> None:
    """The end of a block inside of another one reads its copies, in one load."""
    pytest.importorskip("numpy")
    wanted = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(6))
    path = tmp_path / "x.safetensors"
    weir.torch.save_model(wanted, path)
    found = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(6))
    bias = [part.bias.detach().numpy() for part in found]
    outer = weir.recording(path)
    with outer:
        for i, part in enumerate(found):
            if how == "module":
                names = {n: outer[f"{i}.{n}"] for n in ("weight", "bias")}
                part.load_state_dict(names)
                continue
            with outer if how == "same" else weir.recording(path) as inner:
                for name, parameter in part.named_parameters():
                    parameter.data.copy_(inner[f"{i}.{name}"])
            assert (bias[i] == wanted[i].bias.detach().numpy()).all()
            assert inner.report.loads == (1 if inner is not outer else i + 1)
    loads, copies = {"other": (0, 0), "same": (6, 12), "module": (1, 12)}[how]
    assert outer.report.loads == loads and outer.report.copies == copies
    assert not outer.report.early
    assert all(map(torch.equal, found.parameters(), wanted.parameters()))
    with outer:
        found.load_state_dict(outer)
    assert outer.report.loads == 1 and outer.report.copies == 12


@pytest.mark.parametrize("how", ["other", "same"])
def test_nested_order(model: Any, how: str) -> None:
    """The copies of a block and of one inside of it keep their order."""
    path, tensors = model
    to = torch.zeros(64)
    with weir.recording(path) as outer:
        to.copy_(outer["w"][0, :64])
        with outer if how == "same" else weir.recording(path) as inner:
            to.copy_(inner["b"])
        assert same(to, tensors["b"])
        to.copy_(outer["w"][1, :64])
    assert same(to, tensors["w"][1, :64])
    assert outer.report.early == {"a block inside": 1}
    assert "a block inside needed noted copies" in str(outer.report)


@pytest.mark.parametrize("how", ["other", "same"])
def test_nested_exception(model: Any, how: str) -> None:
    """An exception in a block inside drops the copies of that block only."""
    path, tensors = model
    before, to, after = torch.zeros(64), torch.zeros(64), torch.zeros(64)
    with weir.recording(path) as outer:
        before.copy_(outer["b"])
        with pytest.raises(ZeroDivisionError):
            with outer if how == "same" else weir.recording(path) as inner:
                to.copy_(inner["b"])
                1 / 0
        after.copy_(outer["b"])
    assert same(before, tensors["b"]) and same(after, tensors["b"])
    assert not to.any()
    assert not torch._C._len_torch_dispatch_stack()


def test_exception_drops(model: Any) -> None:
    """after an exception in the block nothing is read"""
    path, _ = model
    to = torch.zeros(64)
    record = weir.recording(path)
    with pytest.raises(ZeroDivisionError):
        with record:
            to.copy_(record["b"])
            1 / 0
    assert not to.any()
    assert record.report.loads == 0
    assert not torch._C._len_torch_dispatch_stack()


def test_tied(tmp_path: Path) -> None:
    """tied weights stay tied, also with assign"""
    path = tmp_path / "tied.safetensors"
    tensors = write(path, {"a.weight": torch.randn(4, 4)})
    module = torch.nn.Module()
    module.a = torch.nn.Linear(4, 4, bias=False)
    module.b = torch.nn.Linear(4, 4, bias=False)
    module.b.weight = module.a.weight
    tensor = weir.recording(path)["a.weight"]
    module.load_state_dict({"a.weight": tensor, "b.weight": tensor})
    assert module.a.weight is module.b.weight
    assert same(module.b.weight.data, tensors["a.weight"])


def test_files(tmp_path: Path) -> None:
    """a list of files is one model"""
    a = write(tmp_path / "1.safetensors", {"a": torch.randn(9)})
    b = write(tmp_path / "2.safetensors", {"b": torch.randn(9)})
    files = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    got = {name: torch.zeros(9) for name in "ab"}
    with weir.recording(files) as record:
        for name, tensor in record.items():
            got[name].copy_(tensor)
    assert record.report.loads == 1
    assert same(got["a"], a["a"])
    assert same(got["b"], b["b"])


def test_slices_of_views() -> None:
    """a slice of one dimension has exactly the elements of its view"""
    shape = (3, 4, 5)
    base = torch.arange(60).view(shape)
    for dim in range(3):
        for first in range(shape[dim]):
            for n in range(1, shape[dim] - first + 1):
                part = base.narrow(dim, first, n)
                view = _geometry.View(
                    tuple(part.shape), part.stride(), part.storage_offset())
                dims = _geometry.order(view)
                assert dims is not None
                view = _geometry.View(tuple(part.shape[d] for d in dims),
                                      tuple(part.stride(d) for d in dims),
                                      view.offset)
                found = _geometry.as_slice(shape, view)
                assert found is not None
                assert torch.equal(
                    base.narrow(*found).reshape(-1), part.reshape(-1))
                ranges, offset = _geometry.hull(shape, view)
                assert offset <= view.offset
                size = _geometry.product([n for _, n in ranges])
                assert size >= part.numel()
