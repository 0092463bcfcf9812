# SPDX-License-Identifier: MIT
"""The native calls, without any framework."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from array import array
from pathlib import Path

import pytest

import weir
from weir import _model, _root, _weir

from conftest import content, header


def raw(tensor: weir.Tensor) -> bytes:
    return memoryview(tensor).tobytes()


def test_load(small: Path) -> None:
    """load() returns all tensors by name, with their bytes."""
    tensors = weir.load(small, framework="weir")
    assert sorted(tensors) == ["a", "b", "e", "h", "s"]
    assert raw(tensors["b"]) == content(96)
    assert raw(tensors["h"]) == content(8, 4)
    assert tensors["b"].shape == (2, 3, 4)
    assert tensors["e"].shape == (0, 3) and tensors["e"].nbytes == 0
    assert tensors["s"].shape == () and tensors["s"].dtype == "F32"
    assert tensors.metadata == {"k": "v"}
    assert tensors.report["bytes"] == 132


def test_report(many: Path) -> None:
    """The report of load() has bytes, rate, ways and memory, now and at most."""
    root = weir.Root(keep=2**64 - 1)
    first = weir.load(many, framework="weir", way="buffered", root=root)
    report = first.report
    assert report.rate > 0 and sum(report.ways.values()) == report["bytes"]
    assert report["memory"] > report["bytes"] == 64 * 512 * 1024
    assert report["memory_peak"] == report["memory"]
    del first
    one = weir.load(many, framework="weir", only=["layers.1.w"], root=root).report
    assert one["memory_peak"] >= report["memory_peak"]
    assert one["memory"] < one["memory_peak"] - report["bytes"] / 2
    assert "GB of memory" in str(report)


def test_only(many: Path) -> None:
    """load() with only= reads the chosen tensors and no others."""
    found = weir.load(many, framework="weir", only="layers.[12].w")
    assert sorted(found) == ["layers.1.w", "layers.2.w"]
    assert found.report["bytes"] == 2 * 512 * 1024
    assert raw(found["layers.2.w"]) == content(512 * 1024, 2)
    names = ["layers.7.w", "layers.3.w"]
    assert list(weir.load(many, framework="weir", only=names)) == names
    few = weir.load(many, framework="weir", only=lambda n: n.endswith(".9.w"))
    assert list(few) == ["layers.9.w"]


def test_slices(many: Path) -> None:
    """load() with slices= reads these parts only."""
    part = {"layers.1.w": (0, slice(8, 16)), "layers.2.w": (1, 256, 128)}
    found = weir.load(many, framework="weir", only=list(part), slices=part)
    whole = content(512 * 1024, 2)
    assert raw(found["layers.1.w"]) == content(512 * 1024, 1)[8192:16384]
    assert raw(found["layers.2.w"]) == b"".join(
        whole[i * 1024 + 256 : i * 1024 + 384] for i in range(512)
    )
    assert found.report["bytes"] == 8 * 1024 + 512 * 128


def test_dtype(tmp_path: Path) -> None:
    """load() with dtype= converts floating-point tensors and no others."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([
        ("h", "BF16", (2,), b"\x80\x3f\x00\x40"),
        ("i", "I32", (1,), b"\1\0\0\0"),
    ]))
    for only in (None, ["h", "i"]):
        found = weir.load(path, framework="weir", dtype="float32", only=only)
        assert memoryview(found["h"]).tolist() == [1.0, 2.0]
        assert found["i"].dtype == "I32"


@pytest.mark.parametrize("way", ["auto", "map", "buffered", "direct"])
def test_ways(many: Path, way: str) -> None:
    """load() returns the same bytes by each way."""
    found = weir.load(many, framework="weir", way=way)
    assert raw(found["layers.63.w"]) == content(512 * 1024, 63)
    assert found["layers.63.w"].readonly == (way == "map")


def test_stream(many: Path) -> None:
    """stream() yields each tensor once."""
    seen = {}
    for name, tensor in weir.stream(many, framework="weir"):
        assert name not in seen
        seen[name] = raw(tensor)
    assert len(seen) == 64
    assert seen["layers.5.w"] == content(512 * 1024, 5)


def test_stream_left(many: Path) -> None:
    """A loop over stream() can be left, and its tensor stays."""
    for name, tensor in weir.stream(many, framework="weir"):
        break
    gc.collect()
    number = int(name.split(".")[1])
    assert raw(tensor) == content(512 * 1024, number)


def test_outlive(small: Path) -> None:
    """A tensor outlives its file, its load and its root."""
    root = weir.Root()
    tensor = weir.load(small, framework="weir", root=root)["b"]
    small.unlink()
    root.close()
    del root
    gc.collect()
    assert raw(tensor) == content(96)


def test_closed(small: Path) -> None:
    """Calls with objects that were closed raise ClosedError."""
    root = weir.Root()
    model = _weir.Model(root, small)
    running = _weir.Load(model)
    running.close()
    with pytest.raises(weir.ClosedError, match="the load was closed"):
        running.wait()
    model.close()
    with pytest.raises(weir.ClosedError, match="the model was closed"):
        model.names()
    root.close()
    with pytest.raises(weir.ClosedError, match="the root was closed"):
        weir.load(small, root=root)


def test_errors(tmp_path: Path) -> None:
    """Errors have the library's sentence, an errno, and the fitting class."""
    with pytest.raises(FileNotFoundError, match="No such file") as missing:
        weir.load(tmp_path / "none.safetensors")
    assert isinstance(missing.value, weir.Error)
    assert missing.value.errno == errno.ENOENT
    broken = tmp_path / "x.safetensors"
    broken.write_bytes(b"\xff" * 100)
    with pytest.raises(weir.FormatError, match="x.safetensors") as bad:
        weir.load(broken)
    again = pickle.loads(pickle.dumps(bad.value))
    assert isinstance(again, weir.FormatError) and str(again) == str(bad.value)
    with pytest.raises(weir.InvalidError, match="no tensor matches"):
        broken.write_bytes(header([("a", "U8", (1,), b"1")]))
        weir.load(broken, only="z*")
    with pytest.raises(weir.Error, match="no device 'CUDA7'"):
        weir.load(broken, device="cuda:7")


def test_shrunk(many: Path) -> None:
    """A file that shrinks after it was opened fails the load."""
    model = _model.open_model(many)
    os.truncate(many, 1 << 20)
    with pytest.raises(weir.Error):
        _weir.Load(model).wait()


def test_dlpack(small: Path) -> None:
    """Capsules are versioned if the consumer says so, and legacy if not."""
    tensor = weir.load(small, framework="weir")["b"]
    assert tensor.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(tensor.__dlpack__())
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=True)


def test_dlpack_readonly(small: Path) -> None:
    """A mapped tensor has no legacy capsule, which could not say read-only."""
    tensor = weir.load(small, framework="weir", way="map")["b"]
    tensor.__dlpack__(max_version=(1, 0))
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert memoryview(tensor).readonly


def test_threads(many: Path) -> None:
    """Loads in several threads at once return the right bytes."""
    bad = []

    def work(seed: int) -> None:
        for _ in range(5):
            found = weir.load(many, framework="weir", only=f"layers.{seed}.w")
            if raw(found[f"layers.{seed}.w"]) != content(512 * 1024, seed):
                bad.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


def test_asyncio(many: Path) -> None:
    """A load's descriptor wakes an event loop."""

    async def main() -> int:
        running = _weir.Load(_model.open_model(many))
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(running.fileno(), ready.set)
        seen = 0
        while not running.done:
            await ready.wait()
            ready.clear()
            try:
                while running.next(0) is not None:
                    seen += 1
            except TimeoutError:
                pass
        loop.remove_reader(running.fileno())
        return seen

    assert asyncio.run(main()) == 64


def test_await(many: Path) -> None:
    """load_async() and stream_async() let the event loop go on."""

    async def main() -> None:
        loaded, again = await asyncio.gather(
            weir.load_async(many, framework="weir"),
            weir.load_async(many, framework="weir", only="layers.1?.w"),
        )
        assert len(loaded) == 64 and len(again) == 10
        assert raw(loaded["layers.9.w"]) == content(512 * 1024, 9)
        seen = 0
        async for name, tensor in weir.stream_async(many, framework="weir"):
            seen += 1
        assert seen == 64
        whole = weir.load(many, framework="weir")
        assert loaded.report["bytes"] == whole.report["bytes"]
        assert loaded.metadata == whole.metadata and list(loaded) == list(whole)
        parkable = await weir.load_async(many, framework="weir", parkable=True)
        with parkable.parked():
            assert parkable.park_info()["state"] == "parked"

    asyncio.run(main())


def test_graph() -> None:
    """A graph runs without NumPy: inputs are buffers, results weir's tensors."""
    g = weir.Graph()
    x = g.input("x", (2, 3))
    plan = g.compile(g.scale(x, scale=2, bias=1), framework="weir")
    values = memoryview(array("f", range(6))).cast("B").cast("f", (2, 3))
    result = plan.run(x=values)
    assert result.dtype == "F32" and result.shape == (2, 3)
    assert memoryview(result).tolist() == [[1, 3, 5], [7, 9, 11]]


def test_fork(small: Path) -> None:
    """After a fork tensors stay readable, and a new load works."""
    tensor = weir.load(small, framework="weir")["b"]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            again = weir.load(small, framework="weir")["b"]
            status = 0 if raw(tensor) == raw(again) == content(96) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def run(code: str, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_exit(many: Path) -> None:
    """The interpreter ends while loads run, without a hang or a crash."""
    code = """
import sys, threading, weir
from weir import _weir, _model
model = _model.open_model(sys.argv[1])
loads = [_weir.Load(model, way=_weir.WAY_DIRECT) for _ in range(4)]
def wait():
    try:
        loads[0].wait()
    except weir.Error:
        pass
threading.Thread(target=wait, daemon=True).start()
for name, tensor in weir.stream(sys.argv[1], framework="weir"):
    break
"""
    done = run(code, str(many))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


INTERRUPT = """
import signal, sys, time, weir
path, what = sys.argv[1:]
root = weir.Root(io="threads", copiers=1, reactors=1)
calls = {
    "load": lambda: weir.load(path, framework="weir", dtype="BF16", root=root),
    "stream": lambda: list(
        weir.stream(path, framework="weir", dtype="BF16", root=root)
    ),
    "save": lambda: weir.save(tensors, path + ".copy.safetensors", root=root),
}
tensors = weir.load(path, framework="weir", root=root)
call = calls[what]
def timed():
    start = time.monotonic()
    call()
    return time.monotonic() - start
# A file that is still being written to the disk is slow for a while.
whole = min(timed() for _ in range(4))
sent = 0.0
def handler(*unused):
    global sent
    sent = time.monotonic()
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, whole / 5)
try:
    call()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    print("not interrupted")
except KeyboardInterrupt:
    print(time.monotonic() - sent)
"""


@pytest.mark.parametrize("what", ["load", "stream", "save"])
def test_interrupt(tmp_path: Path, what: str) -> None:
    """Ctrl-C ends a call within 0.1 s."""
    path = tmp_path / "x.safetensors"
    n = 16 << 20
    zeros = b"\0" * (4 * n)
    path.write_bytes(header([(f"w{i}", "F32", (n,), zeros) for i in range(4)]))
    for attempt in range(5):
        done = run(INTERRUPT, str(path), what)
        assert done.returncode == 0, done.stderr
        # The machine may have been busier in the first run than in the second.
        if "not" not in done.stdout and float(done.stdout) < 0.1:
            break
    else:
        pytest.fail(done.stdout)
    assert sorted(p.name for p in tmp_path.iterdir()) in (
        ["x.safetensors"], ["x.safetensors", "x.safetensors.copy.safetensors"]
    )


def test_save(tmp_path: Path, small: Path) -> None:
    """save() writes tensors and metadata that load() reads again."""
    tensors = weir.load(small, framework="weir")
    path = tmp_path / "saved.safetensors"
    report = weir.save(tensors, path, {"k": "w"})
    again = weir.load(path, framework="weir")
    assert report["bytes"] == path.stat().st_size
    assert again.metadata == {"k": "w"}
    assert {n: raw(t) for n, t in again.items()} == {
        n: raw(t) for n, t in tensors.items()
    }
    with pytest.raises(weir.FileError):
        weir.save(tensors, path, new=True)


def test_devices() -> None:
    """devices() begins with the CPU."""
    assert weir.devices()[0]["name"] == "CPU"


def test_root_options(small: Path) -> None:
    """A root takes options, and refuses wrong ones with a sentence."""
    with weir.Root(io="threads", reactors=1, budget=1 << 30) as root:
        assert weir.load(small, framework="weir", root=root)
        assert root.io_info()["method"] == "threads"
    with pytest.raises(weir.InvalidError, match="chunk"):
        weir.Root(chunk=1)
    with pytest.raises(weir.InvalidError, match="one of auto"):
        weir.Root(io="magic")
    with weir.Root(close_timeout=-1, read_timeout=-1) as root:
        assert weir.load(small, framework="weir", root=root)
    with pytest.raises(weir.InvalidError, match="close_timeout"):
        weir.Root(close_timeout=-2)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from weir import *
import pydoc, weir
assert "mul_mat" in pydoc.render_doc(weir)
try:
    weir.recording("a")
except ModuleNotFoundError as error:
    assert error.name == "torch"
else:
    raise SystemExit("recording() did not fail")
"""

INTERPRETERS = """
import weir, _xxsubinterpreters as others
other = others.create(isolated=False)
others.run_string(other, "try: import weir\\nexcept ImportError: pass\\n"
                         "else: raise SystemError")
others.destroy(other)
try:
    weir.load("/none")
except weir.FileError:
    pass
"""


def test_names_without_torch() -> None:
    """All names of weir, and its help, are there without torch."""
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True)


def test_interpreters() -> None:
    """A second interpreter of a process is refused, and the first goes on."""
    pytest.importorskip("_xxsubinterpreters")
    subprocess.run([sys.executable, "-c", INTERPRETERS], check=True)


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="not a free-threaded build")
def test_free_threaded() -> None:
    """Free-threaded builds turn the GIL on for weir, with a warning, or refuse it."""
    code = "import sys, weir; print(sys._is_gil_enabled())"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout == "True\n" and "RuntimeWarning" in done.stderr
    done = subprocess.run(
        [sys.executable, "-X", "gil=0", "-c", code], capture_output=True, text=True,
        env=env)
    assert done.returncode == 1 and "weir needs the GIL" in done.stderr


def test_budget(many: Path) -> None:
    """A load that exceeds the budget of its root is a MemoryError."""
    with weir.Root(budget=16 << 20) as root:
        with pytest.raises(MemoryError):
            weir.load(many, framework="weir", root=root)


def test_target(many: Path) -> None:
    """A load fills memory of the program, and keeps its owner meanwhile."""
    memory = bytearray(512 * 1024)
    view = memoryview(memory)
    address = _weir_address(view)
    model = _model.open_model(many)
    i = model.find("layers.9.w")
    code = model.entry(i)[0]
    running = _weir.Load(
        model, [i], None, [(address, code, (512, 1024), None, view)]
    )
    running.wait()
    running.close()
    assert bytes(memory) == content(512 * 1024, 9)


def _weir_address(view: memoryview) -> int:
    import ctypes

    return ctypes.addressof((ctypes.c_char * len(view)).from_buffer(view))
