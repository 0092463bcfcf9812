# SPDX-License-Identifier: MIT
"""Tensors that leave their memory and come back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import weir

from conftest import content

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
    with tensors.parked(unchanged=True, changed=["layers.3.w"]):
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
    with pytest.raises(weir.InvalidError, match="only="):
        weir.load(many, framework="weir", parkable=True, only="layers.1.*")
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
