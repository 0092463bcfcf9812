# SPDX-License-Identifier: MIT
"""Digests, manifests, progress and reports."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest

import weir
import weir.cuda
from weir import _command

from conftest import content


def test_digest(small: Path) -> None:
    """digest() returns the digest of each tensor, and of the whole."""
    found = weir.digest(small, "sha256")
    assert sorted(found) == ["a", "b", "e", "h", "s"]
    assert found["b"] == hashlib.sha256(content(96)).hexdigest()
    assert found.kind == "sha256" and len(found.whole) == 64
    short = weir.digest(small)
    assert len(short["a"]) == 32 and len(short.whole) == 32
    with pytest.raises(weir.InvalidError, match="md5"):
        weir.digest(small, "md5")


def test_digest_save(small: Path, tmp_path: Path) -> None:
    """A manifest that was saved is the command's, byte by byte."""
    mine = tmp_path / "mine.json"
    mine.write_text("an earlier one")
    weir.digest(small).save(mine)
    assert sorted(p.name for p in tmp_path.glob("mine*")) == ["mine.json"]
    assert weir.verify(small, mine)["bytes"] == 132
    with pytest.raises(FileNotFoundError):
        weir.digest(small).save(tmp_path / "none" / "x.json")
    try:
        _command.path()
    except weir.Error:
        return
    theirs = tmp_path / "theirs.json"
    subprocess.run([sys.executable, "-m", "weir", "digest", "--quiet",
                    str(small), str(theirs)], check=True)
    assert mine.read_bytes() == theirs.read_bytes()


def test_verify(many: Path, tmp_path: Path) -> None:
    """verify() and load() with verify= refuse a model with another byte."""
    good = weir.digest(many)
    assert weir.verify(many, good)["bytes"] == 32 << 20
    assert len(weir.load(many, framework="weir", verify=good)) == 64
    one = weir.load(many, framework="weir", verify=good, only=["layers.7.w"])
    assert list(one) == ["layers.7.w"]
    data = bytearray(many.read_bytes())
    data[-1] ^= 1
    other = tmp_path / "other.safetensors"
    other.write_bytes(data)
    with pytest.raises(weir.FormatError, match="layers.63.w"):
        weir.verify(other, good)
    with pytest.raises(weir.FormatError, match="layers.63.w"):
        weir.load(other, framework="weir", verify=good)
    with pytest.raises(weir.FormatError):
        list(weir.stream(other, framework="weir", verify=good))
    with pytest.raises(weir.InvalidError):
        weir.load(many, framework="weir", verify=good,
                  slices={"layers.1.w": (0, slice(0, 1))})


def test_verify_other(small: Path, many: Path) -> None:
    """verify() refuses a manifest of another model, and what is no manifest."""
    with pytest.raises(weir.FormatError):
        weir.verify(small, weir.digest(many))
    with pytest.raises(weir.FormatError):
        weir.verify(small, small)
    with pytest.raises(FileNotFoundError):
        weir.verify(small, small.with_name("none"))


def test_progress(many: Path) -> None:
    """progress= is called until all bytes have arrived."""
    seen: List[Any] = []
    tensors = weir.load(many, framework="weir", progress=seen.append)
    assert seen[-1]["bytes"] == seen[-1]["total"] == 32 << 20
    assert len(tensors) == 64
    seen.clear()
    weir.digest(many, progress=seen.append)
    assert seen[-1]["tensors"] == 64
    assert len(weir.load(many, framework="weir", progress=True)) == 64


def test_progress_raises(many: Path) -> None:
    """An exception of the progress function cancels the load and is passed on."""
    def fail(state: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        weir.load(many, framework="weir", progress=fail)


def test_report(many: Path) -> None:
    """The report has the rate, the ways and a line of text."""
    report = weir.load(many, framework="weir").report
    assert report.rate > 0 and sum(report.ways.values()) >= 32 << 20
    assert "GB/s" in str(report)


def test_no_wait(many: Path) -> None:
    """load() with wait=False returns tensors that arrive later."""
    tensors = weir.load(many, framework="weir", wait=False)
    assert len(tensors) == 64
    tensors["layers.9.w"].wait()
    assert memoryview(tensors["layers.9.w"]).tobytes() == content(512 * 1024, 9)
    weir.cuda.wait(0, tensors["layers.8.w"])
    assert memoryview(tensors["layers.8.w"]).tobytes() == content(512 * 1024, 8)
    with pytest.raises(TypeError, match="weir.Tensor"):
        weir.cuda.wait(0, b"x")
    with pytest.raises(weir.InvalidError, match="wait=False"):
        weir.load(many, framework="weir", wait=False, parkable=True)


def test_verify_sums(many: Path, tmp_path: Path) -> None:
    """verify() compares whole files with SHA-256 sums, as publishers give them."""
    good = hashlib.sha256(many.read_bytes()).hexdigest()
    sums = tmp_path / "SHA256SUMS"
    seen: List[Any] = []
    for text in (
        f"# a comment\n{'0' * 64}  README.md\n{good}  any/{many.name}\n",
        f"{good.upper()} *{many.name}\r\n",
        f"SHA256 ({many.name}) = {good}\n",
    ):
        sums.write_text(text)
        report = weir.verify(many, sums, progress=seen.append)
        assert report["bytes"] == many.stat().st_size and "GB" in str(report)
        assert seen[-1]["bytes"] == seen[-1]["total"] == many.stat().st_size
    sums.write_text(f"{'1' * 64}  {many.name}\n")
    with pytest.raises(weir.FormatError, match=f"{many.name}: SHA-256 is {good}"):
        weir.verify(many, sums)
    sums.write_text(f"{good}  other\n")
    with pytest.raises(weir.FormatError, match="has no sum of"):
        weir.verify(many, sums)
    sums.write_text("hello\n")
    with pytest.raises(weir.FormatError, match="neither a manifest nor"):
        weir.verify(many, sums)
    sums.write_text(f"{good}  {many.name}\n{'1' * 64}  {many.name}\n")
    with pytest.raises(weir.FormatError, match="two sums"):
        weir.verify(many, sums)
    with pytest.raises(FileNotFoundError):
        weir.verify(many, tmp_path / "none")


def test_verify_sums_ends(many: Path, tmp_path: Path) -> None:
    """An exception of the function of the progress ends verify()."""

    def refuse(state: object) -> None:
        raise KeyError("refused")

    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{'1' * 64}  {many.name}\n")
    with pytest.raises(KeyError):
        weir.verify(many, sums, progress=refuse)
