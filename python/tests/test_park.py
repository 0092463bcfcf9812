# SPDX-License-Identifier: MIT
"""Tensors that leave their memory and come back."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weir

from conftest import content, settles

SIZE = 512 * 1024


def check(tensors: weir.Tensors) -> None:
    for i in range(64):
        name = f"layers.{i}.w"
        if name in tensors:
            assert memoryview(tensors[name]).tobytes() == content(SIZE, i)


@pytest.mark.parametrize("to", ["host", "folder"])
def test_park(many: Path, tmp_path: Path, to: str) -> None:
    """Parked tensors come back to their addresses with their bytes."""
    tensors = weir.load(many, framework="weir", parkable=True)
    places = [t.address for t in tensors.values()]
    memoryview(tensors["layers.3.w"])[0, 0] = 77
    files = sorted(os.listdir(tmp_path))
    tensors.park(to if to == "host" else tmp_path)
    info = tensors.park_info()
    assert info["state"] == "parked"
    assert info["released"] >= 32 << 20 and info["copied"] >= 32 << 20
    with pytest.raises(weir.Error, match="parked"):
        memoryview(tensors["layers.1.w"])
    with pytest.raises(weir.Error, match="parked"):
        tensors["layers.1.w"].__dlpack__()
    with pytest.raises(weir.Error):
        tensors.park()
    tensors.unpark()
    assert tensors.park_info()["state"] == "resident"
    assert [t.address for t in tensors.values()] == places
    assert memoryview(tensors["layers.3.w"])[0, 0] == 77
    del tensors["layers.3.w"]
    check(tensors)
    assert sorted(os.listdir(tmp_path)) == files
    with pytest.raises(weir.Error):
        tensors.unpark()


def test_parked(many: Path) -> None:
    """A with statement parks, and brings back what was not changed from the file."""
    tensors = weir.load(many, framework="weir", parkable=True)
    memoryview(tensors["layers.3.w"])[0, 0] = 77
    changed: Any
    for changed in (["layers.3.w"], {"layers.3.w": tensors["layers.3.w"]}):
        with tensors.parked(unchanged=True, changed=changed):
            info = tensors.park_info()
            assert SIZE <= info["copied"] < 2 * SIZE
            assert info["again"] == 63 * SIZE
    assert memoryview(tensors.pop("layers.3.w"))[0, 0] == 77
    check(tensors)


def test_park_names(many: Path) -> None:
    """changed= needs names of the load, and unchanged=True."""
    tensors = weir.load(many, framework="weir", parkable=True)
    with pytest.raises(weir.InvalidError, match="layers.99.w"):
        tensors.park(unchanged=True, changed=["layers.99.w"])
    with pytest.raises(weir.InvalidError, match="unchanged"):
        tensors.park(changed="layers.2.w")
    check(tensors)


def test_park_changed(many: Path) -> None:
    """Tensors whose file has changed while they were parked stay parked."""
    tensors = weir.load(many, framework="weir", parkable=True)
    tensors.park(unchanged=True)
    os.utime(many, (1, 1))
    with pytest.raises(weir.ChangedError):
        tensors.unpark()
    with pytest.raises(weir.Error, match="parked"):
        memoryview(tensors["layers.1.w"])


def test_park_refused(many: Path, tmp_path: Path) -> None:
    """park() needs parkable=True, and a folder that is there."""
    with pytest.raises(weir.InvalidError, match="parkable=True"):
        weir.load(many, framework="weir").park()
    with pytest.raises(weir.InvalidError, match="mapped"):
        weir.load(many, framework="weir", parkable=True, way="map")
    tensors = weir.load(many, framework="weir", parkable=True)
    with pytest.raises(weir.Error):
        tensors.park(tmp_path / "none")
    check(tensors)


def test_park_drop(many: Path) -> None:
    """Parked tensors can be dropped."""
    tensors = weir.load(many, framework="weir", parkable=True)
    kept = tensors["layers.1.w"]
    tensors.park()
    del tensors
    with pytest.raises(weir.Error, match="parked"):
        memoryview(kept)


def test_park_numpy(many: Path) -> None:
    """Arrays of NumPy over parked memory are valid again when it is back."""
    numpy = pytest.importorskip("numpy")
    tensors = weir.load(many, framework="numpy", parkable=True)
    before = {name: array.copy() for name, array in tensors.items()}
    with tensors.parked():
        pass
    assert all(numpy.array_equal(before[n], tensors[n]) for n in tensors)


@pytest.mark.parametrize("unchanged", [False, True])
def test_park_parts(many: Path, unchanged: bool) -> None:
    """Chosen tensors and slices are parked, and come back to their addresses."""
    part = {"layers.1.w": (0, slice(8, 16)), "layers.2.w": (1, 256, 128)}
    for only in (["layers.2.w", "layers.1.w", "layers.7.w"], None):
        tensors = weir.load(
            many, framework="weir", parkable=True, only=only, slices=part
        )
        places = [t.address for t in tensors.values()]
        memoryview(tensors["layers.7.w"])[0, 0] = 77
        tensors.park(unchanged=unchanged, changed=["layers.7.w"] * unchanged)
        info = tensors.park_info()
        assert info["released"] >= sum(t.nbytes for t in tensors.values())
        if unchanged:
            assert info["copied"] == SIZE
            assert info["again"] == tensors.report["bytes"] - SIZE
        with pytest.raises(weir.Error, match="parked"):
            memoryview(tensors["layers.1.w"])
        tensors.unpark()
        assert [t.address for t in tensors.values()] == places
        first, second = content(SIZE, 1), content(SIZE, 2)
        assert memoryview(tensors.pop("layers.1.w")).tobytes() == first[8192:16384]
        assert memoryview(tensors.pop("layers.2.w")).tobytes() == b"".join(
            second[i * 1024 + 256 : i * 1024 + 384] for i in range(512)
        )
        assert memoryview(tensors.pop("layers.7.w"))[0, 0] == 77
        check(tensors)


def test_park_nothing(small: Path) -> None:
    """Tensors without a byte can be parked."""
    tensors = weir.load(small, framework="weir", parkable=True, only=["e"])
    with tensors.parked():
        pass
    assert tensors["e"].shape == (0, 3)


TOUCH = """
import sys, numpy, weir
tensors = weir.load(sys.argv[1], framework="numpy", parkable=True)
array = tensors["layers.1.w"]
assert array.any()
tensors.park(unchanged=sys.argv[2] == "unchanged")
print("parked", flush=True)
print(array.any())
"""


@pytest.mark.parametrize("how", ["unchanged", "copied"])
def test_park_touched(many: Path, how: str) -> None:
    """A use of parked memory ends the process, and never reads other bytes."""
    pytest.importorskip("numpy")
    done = subprocess.run(
        [sys.executable, "-c", TOUCH, str(many), how],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "parked\n" and done.returncode == -signal.SIGSEGV


def module_of(path: Path, **options: Any) -> Any:
    """A module of torch with the tensors of a load, which nobody else has."""
    torch = pytest.importorskip("torch")

    class Layers(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for i in range(64):
                layer = torch.nn.Module()
                layer.register_buffer("w", torch.empty(0, dtype=torch.uint8))
                self.add_module(str(i), layer)
            self.own = torch.nn.Parameter(torch.ones(4))

    module = Layers()
    tensors = weir.load(path, framework="torch", parkable=True, **options)
    state = {n.partition(".")[2]: t for n, t in tensors.items()}
    for name, tensor in state.items():
        setattr(module.get_submodule(name.partition(".")[0]), "w", tensor)
    return module


def test_park_module(many: Path) -> None:
    """A module is parked and comes back, though nobody has kept its load."""
    torch = pytest.importorskip("torch")
    import weir.torch

    module = module_of(many)
    gc.collect()
    before = {n: (t.data_ptr(), t.clone()) for n, t in module.state_dict().items()}
    module.get_submodule("3").w[0, 0] = 77
    with weir.torch.parked(module, unchanged=True, changed=["3.w"]):
        load = weir._weir.parkable_at(before["3.w"][0])
        assert load is not None
        assert load.park_info()["state"] == "parked"
        assert SIZE <= load.park_info()["copied"] < 2 * SIZE
        with pytest.raises(weir.Error, match="parked already"):
            weir.torch.park(module)
        assert module.own.sum() == 4
        del load
    before["3.w"][1][0, 0] = 77
    for name, tensor in module.state_dict().items():
        assert tensor.data_ptr() == before[name][0]
        assert torch.equal(tensor, before[name][1])
    weir.torch.unpark(module)
    with pytest.raises(weir.InvalidError, match="no 'none'"):
        weir.torch.park(module, unchanged=True, changed=["none"])
    with pytest.raises(weir.InvalidError, match="assign=True"):
        weir.torch.park(torch.nn.Linear(2, 2))


def test_park_assigned(tmp_path: Path) -> None:
    """A module that was given a parkable state_dict is parked as a whole."""
    torch = pytest.importorskip("torch")
    import weir.torch

    first = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 8))
    path = tmp_path / "x.safetensors"
    weir.torch.save_model(first, path)
    with torch.device("meta"):
        second = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.Linear(32, 8)
        )
    second.load_state_dict(
        weir.load(path, framework="torch", parkable=True), assign=True
    )
    x = torch.ones(64)
    with weir.torch.parked(second, to=tmp_path):
        pass
    assert torch.equal(second(x), first(x))


def test_park_module_parts(many: Path) -> None:
    """A module with the tensors of several loads is parked, or none of it."""
    torch = pytest.importorskip("torch")
    import weir.torch

    module = module_of(many, only="layers.1?.w")
    tensors = weir.load(many, framework="torch", parkable=True, only="layers.2?.w")
    for name, tensor in tensors.items():
        module.get_submodule(name.split(".")[1]).w = tensor
    before = {n: t.clone() for n, t in module.state_dict().items()}
    with weir.torch.parked(module):
        assert tensors.park_info()["state"] == "parked"
    tensors.park()
    with pytest.raises(weir.Error, match="parked already"):
        weir.torch.park(module)
    tensors.unpark()
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_park_freed(many: Path) -> None:
    """The memory of a load is freed with the last tensor of a framework."""
    pytest.importorskip("torch")
    module = module_of(many)
    place = module.get_submodule("5").w.data_ptr()
    files = len(os.listdir("/proc/self/fd"))
    assert weir._weir.parkable_at(place) is not None
    kept = module.get_submodule("5").w
    del module
    gc.collect()
    assert weir._weir.parkable_at(place) is not None
    del kept
    assert settles(lambda: weir._weir.parkable_at(place) is None)
    assert settles(lambda: len(os.listdir("/proc/self/fd")) < files)


CLOSES = """
import sys, weir
tensors = weir.load(sys.argv[1], framework="weir", parkable=True)
load = tensors._running

class Numbers:
    def __len__(self):
        return 1

    def __getitem__(self, i):
        load.close()  # as another thread may
        return 0

try:
    load.park(True, None, True, Numbers())
except weir.ClosedError:
    sys.exit(7)
"""


def test_park_closed_meanwhile(small: Path) -> None:
    """A load that is closed while a call begins to park it is refused."""
    done = subprocess.run([sys.executable, "-c", CLOSES, str(small)], timeout=120)
    assert done.returncode == 7
