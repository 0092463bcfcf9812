# SPDX-License-Identifier: MIT
"""The programs of python/examples."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["sleep", "stream", "check"])
def test_example(small: Path, tmp_path: Path, name: str) -> None:
    """The example runs."""
    words = [str(small)] + [str(tmp_path / "manifest")] * (name == "check")
    for _ in range(2):
        subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py"), *words], check=True)


def run(*words: object, **variables: str) -> str:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    ).stdout


def test_recording(many: Path) -> None:
    """The example of recording tensors reads its part only, in one load."""
    pytest.importorskip("torch")
    said = run(EXAMPLES / "recording.py", many, 1, 4)
    assert said.startswith("read 8.4 MB in 1 load ")
    assert f"{8 << 20} bytes are kept" in said


def test_ranks(many: Path) -> None:
    """The example of ranks has all tensors on both."""
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    said = run(EXAMPLES / "ranks.py", many, 2, MASTER_PORT=port)
    assert sorted(said.splitlines()) == [
        f"rank {i} has {32 << 20} bytes" for i in range(2)
    ]


def test_graph_example() -> None:
    """The example of graphs computes what NumPy does."""
    pytest.importorskip("numpy")
    subprocess.run([sys.executable, str(EXAMPLES / "graph.py")], check=True)
