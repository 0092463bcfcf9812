# SPDX-License-Identifier: MIT
"""Shared by all tests: fixtures, and results in the Test Anything Protocol.

With --tap each test is a line whose title is the first line of its docstring.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest


if os.environ.get("WEIR_T_BARE"):
    # As if they were not installed.
    for absent in ("numpy", "torch", "jax", "safetensors"):
        sys.modules[absent] = None  # type: ignore[assignment]


if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # Tests look at what their children print.
    os.environ["PYTHONWARNINGS"] = "ignore:The global interpreter lock"


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--tap", action="store_true", help="print TAP")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: Any) -> None:
    if config.getoption("--tap"):
        reporter = config.pluginmanager.getplugin("terminalreporter")
        config.pluginmanager.unregister(reporter)
        config.pluginmanager.register(Tap(), "tap")


class Tap:
    """Prints a line for each test."""

    def __init__(self) -> None:
        self.titles: Dict[str, str] = {}
        self.done = 0

    def pytest_collection_finish(self, session: Any) -> None:
        for item in session.items:
            text = (item.function.__doc__ or item.name).strip()
            case = item.name.partition("[")[2].rstrip("]")
            title = text.splitlines()[0].rstrip(".").replace("#", "no. ")
            self.titles[item.nodeid] = f"{case}: {title}" if case else title
        print(f"1..{len(session.items)}", flush=True)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            print(f"Bail out! {report.nodeid} cannot be imported")
            print("# " + str(report.longrepr).replace("\n", "\n# "))
        elif report.skipped:
            print(f"# {report.nodeid}: {report.longrepr[2]}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (
            report.when == "setup" and report.outcome != "passed"
        ):
            self.done += 1
            title = self.titles[report.nodeid]
            if report.skipped:
                why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
                print(f"ok {self.done} - {title} # SKIP {why}")
            elif report.failed:
                print(f"not ok {self.done} - {title}")
                print("# " + str(report.longrepr).replace("\n", "\n# "))
            else:
                print(f"ok {self.done} - {title}")
        elif report.failed:
            print("# the end of a test failed: " + report.nodeid)
            print("# " + str(report.longrepr).replace("\n", "\n# "))
        sys.stdout.flush()


SIZES = {"U8": 1, "I32": 4, "F16": 2, "BF16": 2, "F32": 4, "I64": 8, "F8_E4M3": 1}


def header(tensors: List[Tuple[str, str, Tuple[int, ...], bytes]],
           metadata: Any = None) -> bytes:
    """The bytes of a safetensors file, written by nothing of weir."""
    entries: Dict[str, Any] = {}
    if metadata is not None:
        entries["__metadata__"] = metadata
    at = 0
    for name, dtype, shape, data in tensors:
        entries[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [at, at + len(data)],
        }
        at += len(data)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(t[3] for t in tensors)


def memory() -> int:
    """The bytes of memory of this process, without pages of files.

    The kernel may evict those at any time.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        kib = [int(t.split()[1]) for t in file if t.startswith(("RssAnon", "RssShmem"))]
    return sum(kib) << 10


def settles(condition: Callable[[], bool]) -> bool:
    """True if it holds within 20 s: threads may release things late."""
    for _ in range(2000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def trace_steps(trace: Callable[[Any, str, Any], Any]) -> None:
    """sys.settrace(), so that frames get opcode events from the first one on.

    CPython 3.12.1 and older give them only once settrace() is called after a frame
    has asked for them.
    """
    def ask(frame: Any, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = True
        return None

    def ignored() -> None:
        pass

    sys.settrace(ask)
    ignored()
    sys.settrace(trace)


def content(n: int, seed: int = 1) -> bytes:
    """``n`` bytes in which no two neighbours of a period are alike."""
    period = _period(seed)
    return (period * (n // len(period) + 1))[:n]


@functools.lru_cache(maxsize=None)
def _period(seed: int) -> bytes:
    return bytes((i * 7 + i // 256 * 13 + seed) % 256 for i in range(65521))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A file with a few small tensors."""
    path = tmp_path / "small.safetensors"
    path.write_bytes(header([
        ("b", "F32", (2, 3, 4), content(96)),
        ("a", "I64", (3,), content(24, 2)),
        ("s", "F32", (), content(4, 3)),
        ("e", "F16", (0, 3), b""),
        ("h", "BF16", (2, 2), content(8, 4)),
    ], {"k": "v"}))
    return path


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A file of 32 MiB with 64 tensors."""
    path = tmp_path / "many.safetensors"
    path.write_bytes(header([
        (f"layers.{i}.w", "U8", (512, 1024), content(512 * 1024, i))
        for i in range(64)
    ]))
    return path
