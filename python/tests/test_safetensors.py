# SPDX-License-Identifier: MIT
"""safetensors' own Python tests, with weir in its place.

WEIR_T_SAFETENSORS names the folder of its source distribution.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from collections import Counter
from pathlib import Path

import pytest

SOURCES = os.environ.get("WEIR_T_SAFETENSORS")

# Files that need packages which may be absent.
NEEDS = {
    "test_flax_comparison.py": ("jax", "flax"),
    "test_tf_comparison.py": ("tensorflow", "h5py"),
}
# Tests that are skipped at most, by reason.
SKIPPED = {
    "Will not work without s3 access": 1,
    "Mlx is not available on non Mac": 3,
    "Paddle is not available": 9,
    "Cuda is not available": 6,
    "Only 1 device available": 1,
    "MPS is not available": 4,
    "HPU is not available": 1,
    "Npu is not available": 1,
}
TESTS = 92  # in the other files
FLAX = 4

# The tests run only if weir is what they test.
CONFTEST = """
import safetensors
import weir

assert safetensors.safe_open is weir.safe_open
"""


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@pytest.mark.skipif(
    not SOURCES,
    reason="WEIR_T_SAFETENSORS is not set; ./bootstrap check-engines sets it",
)
def test_safetensors(tmp_path: Path) -> None:
    """safetensors' own tests pass with weir in its place"""
    pytest.importorskip("torch")
    pytest.importorskip("fsspec")
    folder = tmp_path / "python"
    shutil.copytree(f"{SOURCES}/bindings/python/tests", folder / "tests")
    (folder / "tests" / "conftest.py").write_text(CONFTEST)
    left_out = [
        name for name, packages in NEEDS.items() if not all(map(has, packages))
    ]
    wanted = TESTS + FLAX * ("test_flax_comparison.py" not in left_out)
    results = tmp_path / "results.xml"
    run = subprocess.run(
        [sys.executable, "-m", "weir.run", "-m", "pytest", "tests",
         "-p", "no:cacheprovider", f"--junit-xml={results}",
         *(f"--ignore=tests/{name}" for name in left_out)],
        cwd=folder, env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout[-6000:]
    cases = list(xml.etree.ElementTree.parse(results).iter("testcase"))
    assert len(cases) == wanted
    skipped = Counter(
        found.get("message") for case in cases for found in case.iter("skipped")
    )
    for reason, n in skipped.items():
        assert n <= SKIPPED.get(str(reason), 0), f"{n} skipped: {reason}"
