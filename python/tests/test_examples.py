# SPDX-License-Identifier: MIT
"""The programs of python/examples."""

from __future__ import annotations

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
