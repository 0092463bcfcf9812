# SPDX-License-Identifier: MIT
"""The command in the wheel, and conversions by it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

import weir

from weir import _command

from conftest import content

try:
    _command.path()
except weir.Error as error:
    pytest.skip(str(error), allow_module_level=True)


def weir_command(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "weir", *map(str, arguments)],
        capture_output=True, text=True)


def test_command(small: Path) -> None:
    """python -m weir is the command of the same version, with its exit status."""
    found = weir_command("--version")
    assert found.returncode == 0 and weir.__version__.split(".")[0] in found.stdout
    assert "5 tensors" in weir_command("inspect", small).stdout
    wrong = weir_command("inspect", "--nonsense")
    assert wrong.returncode == 2 and wrong.stderr.startswith("weir: inspect: ")


def test_command_of_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a command in the package it is that beside the library, or in PATH."""
    own = _command.path()
    library = tmp_path / "lib" / "libweir.so.0"
    monkeypatch.setattr(_command, "__file__", str(tmp_path / "weir" / "_command.py"))
    monkeypatch.setattr(_command, "_weir", types.SimpleNamespace(library=str(library)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/bin or PATH: install"):
        _command.path()
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        shutil.copy(own, folder / "weir")
        assert _command.path() == str(folder / "weir")


def test_command_pipe(small: Path) -> None:
    """A closed pipe ends the command by its signal, as from a shell."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [sys.executable, "-m", "weir", "--help"], stdout=write,
        stderr=subprocess.PIPE)
    os.close(write)
    process.communicate()
    assert process.returncode in (-signal.SIGPIPE, 1)


def test_convert(small: Path, tmp_path: Path) -> None:
    """convert() writes a model in another format and returns a report."""
    target = tmp_path / "x.gguf"
    report = weir.convert(small, target)
    assert report["tensors"] == 5 and report["format"] == "GGUF"
    tensors = weir.load(target, framework="weir")
    assert memoryview(tensors["b"]).tobytes() == content(96)
    assert list(weir.load(target, framework="weir")) == list(tensors)


def test_convert_options(small: Path, tmp_path: Path) -> None:
    """convert() takes the options of the command."""
    target = tmp_path / "x.safetensors"
    weir.convert(small, target, drop=["a", "e"], rename={"^b$": "layer.b"},
                 metadata={"x": "string:y"}, drop_metadata="k")
    tensors = weir.load(target, framework="weir")
    assert sorted(tensors) == ["h", "layer.b", "s"]
    assert tensors.metadata == {"x": "y"}
    estimate = weir.convert(small, tmp_path / "none.gguf", estimate=True)
    assert estimate["bytes"] > 0 and not (tmp_path / "none.gguf").exists()


def test_convert_sizes(many: Path, tmp_path: Path) -> None:
    """Sizes are numbers, or strings with a suffix, as the command takes them."""
    for size in (8 << 20, "8M"):
        report = weir.convert(
            many, tmp_path / "x.safetensors", shard_bytes=size, staging="16M",
            estimate=True)
        assert report["files"] > 1


def test_convert_fails(small: Path, tmp_path: Path) -> None:
    """convert() raises the sentence of the command."""
    target = tmp_path / "x.gguf"
    target.write_bytes(b"kept")
    with pytest.raises(weir.FileError, match="force=True replaces it"):
        weir.convert(small, target)
    assert target.read_bytes() == b"kept"
    weir.convert(small, target, force=True)
    with pytest.raises(weir.InvalidError, match="f31"):
        weir.convert(small, target, dtype="f31")
    with pytest.raises(weir.Error, match="No such file"):
        weir.convert(tmp_path / "-none", target, force=True)


def test_convert_progress(many: Path, tmp_path: Path) -> None:
    """convert() calls a function with what has been written, up to the end."""
    seen: "list[dict[str, float]]" = []
    report = weir.convert(many, tmp_path / "x.safetensors", progress=seen.append)
    assert report["tensors"] == 64
    assert seen[-1]["bytes"] == seen[-1]["total"] >= 32 << 20
    assert set(seen[-1]) == {"bytes", "total", "elapsed"}
    weir.convert(many, tmp_path / "y.safetensors", progress=True)


def test_convert_progress_fails(many: Path, tmp_path: Path) -> None:
    """An exception of the function ends the conversion, and nothing is left."""

    def refuse(state: object) -> None:
        raise KeyError("refused")

    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyError, match="refused"):
        weir.convert(many, tmp_path / "z.safetensors", progress=refuse)
    assert set(os.listdir(tmp_path)) <= {many.name, "z.safetensors"}
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(weir.Error, match="No such file"):
        weir.convert(tmp_path / "-none", tmp_path / "w.safetensors", progress=print)


def test_convert_progress_error(many: Path, tmp_path: Path) -> None:
    """convert() passes on the function's exception, also one of weir's."""

    class Stopped(weir.CancelledError):
        """An exception of the program."""

    own = Stopped("--force of the program")

    def refuse(state: object) -> None:
        raise own

    with pytest.raises(Stopped) as caught:
        weir.convert(many, tmp_path / "z.safetensors", progress=refuse)
    assert caught.value is own


def test_convert_ctrl_c(many: Path, tmp_path: Path) -> None:
    """Ctrl-C, which the command gets, too, ends convert() and leaves no file."""
    code = (
        "import sys, weir\n"
        "try:\n"
        "    while True:\n"
        "        weir.convert(sys.argv[1], sys.argv[2], force=True,\n"
        "                     progress=lambda state: print('.', flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    print('ended')\n"
    )
    target = tmp_path / "x.safetensors"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(many), str(target)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert process.stdout and process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    assert out.endswith("ended\n") and process.returncode == 0
    assert set(os.listdir(tmp_path)) <= {many.name, "x.safetensors"}


ENDS_SLOWLY = """#!{python}
import os, signal, sys, time

def end(*unused):
    os.close(1)
    os.close(2)
    time.sleep(60)

signal.signal(signal.SIGTERM, end)
show = int(sys.argv[sys.argv.index("--progress-fd") + 1])
line = '{{"bytes": %d, "total": 0, "seconds": 0, "what": ""}}\\n' % os.getpid()
os.write(show, line.encode())
time.sleep(60)
"""


def test_convert_ends_slowly(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """convert() that is ended does not wait until the blocks of its file are free."""
    command = tmp_path / "weir"
    command.write_text(ENDS_SLOWLY.format(python=sys.executable))
    command.chmod(0o755)
    monkeypatch.setattr(_command, "path", lambda: str(command))
    pids = []

    def end(state: Any) -> None:
        pids.append(state["bytes"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weir.convert(small, tmp_path / "x.gguf", progress=end)
    os.kill(pids[0], signal.SIGKILL)  # it is there
    with pytest.raises(ProcessLookupError):  # a thread has waited for it
        for _ in range(600):
            os.kill(pids[0], 0)
            time.sleep(0.1)
