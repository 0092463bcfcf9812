# SPDX-License-Identifier: MIT
"""Signals, ends of processes, files that change, and many loads.

WEIR_T_LOADS=10000 makes the soak long, and WEIR_T_SIGNALS=2000 the interrupts many.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

import weir
from weir import _model, _weir

from conftest import content, header, memory, settles

SIZE = 512 * 1024


def run(code: str, *args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
    )


INTERRUPTS = """
import ctypes, gc, os, random, signal, sys, threading, time, weir
# A shell lets its background jobs ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
path, number = sys.argv[1], int(sys.argv[2])
copy = path + ".copy.safetensors"
root = weir.Root()
tensors = weir.load(path, framework="weir", root=root)
memory = {name: bytearray(tensor.nbytes) for name, tensor in tensors.items()}

class Array:
    "What load_into() needs of an array."
    def __init__(self, data):
        address = ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))
        self.__array_interface__ = {"data": (address, False)}
        self.flags = type("Flags", (), {"writeable": True})
        self.shape, self.strides, self.size = (512, 1024), (1024, 1), len(data)
        self.dtype = "uint8"

into = {name: Array(data) for name, data in memory.items()}
calls = [
    lambda: weir.load(path, framework="weir", root=root),
    lambda: list(weir.stream(path, framework="weir", root=root)),
    lambda: weir.load_into(path, into, root=root),
    lambda: weir.save(tensors, copy, root=root),
]

def threads_of():
    "Without readers: the library has more of them when many files are open."
    tasks = "/proc/self/task/"
    names = [open(f"{tasks}{t}/comm").read() for t in os.listdir(tasks)]
    return sum(not name.startswith("weir-rd") for name in names)

def measure(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start

took = [min(measure(call) for _ in range(3)) for call in calls]
files, threads = len(os.listdir("/proc/self/fd")), threads_of()
random.seed(int(sys.argv[3]))
sent = 0.0
late = []

def hit(seconds):
    global sent
    time.sleep(seconds)
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

for i in range(number):
    call = calls[i % 4]
    thread = threading.Thread(target=hit, args=(random.random() * took[i % 4],))
    try:
        thread.start()
        call()
        thread.join()
        time.sleep(1)
        print("a signal was lost")
    except KeyboardInterrupt:
        late.append(time.monotonic() - sent)
    thread.join()
again = weir.load(path, framework="weir", root=root)
assert all(memoryview(again[n]) == memoryview(tensors[n]) for n in again)
del again
gc.collect()
for _ in range(2000):
    if len(os.listdir("/proc/self/fd")) <= files and threads_of() <= threads:
        break
    time.sleep(0.01)
else:
    print(os.listdir("/proc/self/fd"), files, threads_of(), threads)
late.sort()
print(len(late), late[len(late) // 2], late[-1])
"""


def test_interrupts(many: Path) -> None:
    """Ctrl-C at any moment of a call is a KeyboardInterrupt within 0.1 s."""
    number = int(os.environ.get("WEIR_T_SIGNALS", "200"))
    done = run(INTERRUPTS, many, number, os.environ.get("WEIR_T_SEED", "1"))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    count, median, last = done.stdout.split()
    assert int(count) == number
    # The machine may be busy when one of them comes.
    assert float(median) < 0.1 and float(last) < 10
    names = sorted(p.name for p in many.parent.iterdir())
    assert names == ["many.safetensors", "many.safetensors.copy.safetensors"]
    again = weir.load(many.parent / names[1], framework="weir")
    assert memoryview(again["layers.9.w"]).tobytes() == content(SIZE, 9)


ENDS = """
import os, signal, sys, threading, time, weir
from weir import _model, _weir
path, how = sys.argv[1:]
running = threading.Event()

def load():
    weir.load(path, framework="weir", way="direct")
    running.set()

def save():
    weir.save(weir.load(path, framework="weir"), path + ".copy.safetensors")

def stream():
    for name, tensor in weir.stream(path, framework="weir"):
        pass

def repeat(call):
    while True:
        call()

for call in (load, load, save, stream):
    threading.Thread(target=repeat, args=(call,), daemon=True).start()
running.wait()
loads = [_weir.Load(_model.open_model(path)) for _ in range(4)]
if how == "the end of the script":
    pass
elif how == "sys.exit":
    sys.exit(3)
elif how == "os._exit":
    os._exit(4)
elif how == "an exception":
    raise ValueError("on purpose")
elif how == "SIGTERM":
    os.kill(os.getpid(), signal.SIGTERM)
elif how == "a thread that ends last":
    threading.Thread(target=lambda: time.sleep(0.1)).start()
"""


@pytest.mark.parametrize("how, status", [
    ("the end of the script", 0),
    ("sys.exit", 3),
    ("os._exit", 4),
    ("an exception", 1),
    ("SIGTERM", -signal.SIGTERM),
    ("a thread that ends last", 0),
])
def test_ends(many: Path, how: str, status: int) -> None:
    """Loads, streams and saves that run in threads do not delay or break the end."""
    for _ in range(3):
        done = run(ENDS, many, how)
        assert done.returncode == status, done.stderr
        assert "Fatal" not in done.stderr
        if status >= 0 and how != "an exception":
            assert done.stderr == ""


OUTLIVES = """
import gc, os, sys, weir
path = sys.argv[1]
tensor = weir.load(path, framework="weir", root=weir.Root())["b"]
os.unlink(path)
weir._weir.shutdown()
for name in [n for n in sys.modules if n.partition(".")[0] == "weir"]:
    del sys.modules[name]
del weir
gc.collect()
sys.exit(0 if memoryview(tensor).nbytes == 96 else 5)
"""


def test_outlives(small: Path) -> None:
    """A tensor outlives its file, its root and the module."""
    done = run(OUTLIVES, small)
    assert (done.returncode, done.stderr) == (0, "")


def test_after_close(small: Path, tmp_path: Path) -> None:
    """All calls with closed objects are refused, and closing twice is allowed."""
    root = weir.Root()
    model = _weir.Model(root, small)
    load = _weir.Load(model)
    tensor = load.tensor(0)
    tensor.wait()
    load.close()
    load.close()
    calls: List[Callable[[], Any]] = [
        load.wait, load.next, load.cancel, load.fileno, load.progress,
        load.report, load.unpark, load.park_info, lambda: load.tensor(0),
        lambda: load.park(True, None, False, []),
    ]
    for call in calls:
        with pytest.raises(weir.ClosedError):
            call()
    model.close()
    model.close()
    for call in (
        model.names, model.metadata, model.info, lambda: model.find("a"),
        lambda: model.entry(0), lambda: model.read(0), lambda: _weir.Load(model),
    ):
        with pytest.raises(weir.ClosedError):
            call()
    arrivals = weir.stream(small, framework="weir", root=root)
    name, late = next(arrivals)
    arrivals.close()
    assert next(arrivals, None) is None
    root.close()
    root.close()
    for call in (
        root.devices, root.io_info, root.trim,
        lambda: weir.save({"x": tensor}, tmp_path / "x.safetensors", root=root),
        lambda: _weir.Memory(root, 8), lambda: _weir.Model(root, small),
    ):
        with pytest.raises(weir.ClosedError):
            call()
    assert memoryview(tensor).nbytes == tensor.nbytes
    assert memoryview(late).nbytes == late.nbytes


CLOSES = """
import sys, threading, time, weir
from weir import _model, _weir
path = sys.argv[1]
roots = [None]
going = True

def repeat():
    while going:
        root = roots[0]
        try:
            root.devices()
            model = _weir.Model(root, path)
            model.read(0)
            load = _weir.Load(model, [1, 2, 3])
            load.wait()
            load.tensor(1)
            root.trim()
        except (weir.ClosedError, weir.CancelledError):
            time.sleep(0.0001)

roots[0] = weir.Root()
threads = [threading.Thread(target=repeat) for _ in range(6)]
for thread in threads:
    thread.start()
for i in range(60):
    time.sleep(0.001 * (i % 8))
    old, roots[0] = roots[0], weir.Root()
    old.close()
going = False
for thread in threads:
    thread.join()
"""


def test_close_meanwhile(many: Path) -> None:
    """A root is closed while threads use it: they get ClosedError or CancelledError."""
    done = run(CLOSES, many)
    assert (done.returncode, done.stderr) == (0, "")


def test_pickles(small: Path) -> None:
    """Objects with memory are not pickled; the error names the type."""
    tensors = weir.load(small, framework="weir", parkable=True)
    for thing in (
        tensors["b"], tensors, weir.Root(), _model.open_model(small),
        weir.stream(small, framework="weir"),
    ):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(thing)


def _total(path: str) -> int:
    tensors = weir.load(path, framework="weir")
    return sum(memoryview(t).nbytes for t in tensors.values())


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes(many: Path, method: str) -> None:
    """Worker processes load a model whose path they were given."""
    assert _total(str(many)) == 64 * SIZE
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(_total, [str(many)] * 4) == [64 * SIZE] * 4


def test_data_loader(many: Path) -> None:
    """Workers of a DataLoader use tensors of their parent, and load others."""
    torch = pytest.importorskip("torch")

    class Data(torch.utils.data.Dataset):  # type: ignore[misc]
        tensors = weir.load(many, framework="torch", only="layers.1?.w")

        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> Any:
            name = f"layers.{10 + i}.w"
            again = weir.load(many, framework="torch", only=[name])[name]
            with weir.safe_open(many, "pt") as file:
                third = file.get_tensor(name)
            assert torch.equal(again, self.tensors[name])
            return torch.stack([again, third]).sum()

    found = torch.utils.data.DataLoader(
        Data(), num_workers=2, multiprocessing_context="fork"
    )
    sums = [int(x) for x in found]
    assert sums == [2 * sum(content(SIZE, 10 + i)) for i in range(8)]


@pytest.mark.parametrize("way", ["buffered", "direct"])
@pytest.mark.parametrize("how", ["truncated", "overwritten", "removed"])
def test_files(many: Path, way: str, how: str) -> None:
    """A file that is changed during a load: all of its bytes, or an error."""
    data = many.read_bytes()
    failed = 0
    for i in range(12):
        model = _model.open_model(many)
        load = _weir.Load(model, way=_model.WAYS[way])
        tensors = [load.tensor(k, True) for k in range(64)]
        if i % 3:
            try:
                load.next(0.001 * i)
            except TimeoutError:
                pass
        if how == "truncated":
            os.truncate(many, len(data) // 2)
        elif how == "overwritten":
            with open(many, "r+b") as file:
                file.seek(-SIZE, os.SEEK_END)
                file.write(b"x" * SIZE)
        else:
            os.unlink(many)
        try:
            load.wait()
            for k in range(64):
                name = model.names()[load.index(k)]
                number = int(name.split(".")[1])
                assert memoryview(tensors[k]).tobytes() == content(SIZE, number)
        except weir.Error as error:
            assert "many.safetensors" in str(error)
            failed += 1
        load.close()
        many.write_bytes(data)
    assert how != "removed" or not failed


def test_at_once(many: Path, tmp_path: Path) -> None:
    """Loads, streams, saves and reads in many threads at once are right."""
    bad: List[str] = []

    def load(i: int) -> bytes:
        name = f"layers.{i}.w"
        return memoryview(
            weir.load(many, framework="weir", only=[name])[name]
        ).tobytes()

    def stream(i: int) -> bytes:
        only = [f"layers.{i}.w", f"layers.{i + 1}.w"]
        found = dict(weir.stream(many, framework="weir", only=only))
        return memoryview(found[only[0]]).tobytes()

    def save(i: int) -> bytes:
        path = tmp_path / f"{i}.safetensors"
        name = f"layers.{i}.w"
        weir.save(weir.load(many, framework="weir", only=[name]), path)
        return memoryview(weir.load(path, framework="weir")[name]).tobytes()

    def read(i: int) -> bytes:
        model = _model.open_model(many)
        return memoryview(model.read(model.find(f"layers.{i}.w"))).tobytes()

    def work(i: int) -> None:
        for call in (load, stream, save, read) * 2:
            try:
                if call(i) != content(SIZE, i):
                    bad.append(f"{call.__name__} {i}")
            except Exception as error:
                bad.append(f"{call.__name__} {i}: {error}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


def state() -> Dict[str, int]:
    """Descriptors, threads, mappings, and bytes of memory that is not a file's.

    Readers do not count: the library starts more of them, up to a limit, when
    it opens several files at once.
    """
    gc.collect()
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text() for task in tasks.iterdir()]
    with open("/proc/self/maps", encoding="ascii") as maps:
        mappings = sum(1 for _ in maps)
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": sum(not name.startswith("weir-rd") for name in names),
        "mappings": mappings,
        "memory": memory(),
    }


def test_soak(small: Path, tmp_path: Path) -> None:
    """Many loads, streams, reads, saves and parks leak nothing."""
    number = int(os.environ.get("WEIR_T_LOADS", "500"))
    copy = tmp_path / "copy.safetensors"

    def once(i: int) -> None:
        tensors = weir.load(small, framework="weir")
        for name, tensor in weir.stream(small, framework="weir"):
            if i % 2:
                break
        if i % 4 == 0:
            with weir.Root() as root:
                weir.load(small, framework="weir", root=root)
        if i % 8 == 0:
            weir.save(tensors, copy)
        if i % 8 == 4:
            with weir.load(small, framework="weir", parkable=True).parked():
                pass
        if i % 2:
            model = _model.open_model(small)
            model.read(model.find("b"))
        with pytest.raises(weir.Error):
            weir.load(small, framework="weir", only="none")

    for i in range(64):
        once(i)
    before = state()
    for i in range(number):
        once(i)
    most = {**before, "mappings": before["mappings"] + 8}
    most["memory"] += 8 << 20
    if number > 500:
        print(before, state(), file=sys.stderr)

    def grown() -> Dict[str, int]:
        return {name: n for name, n in state().items() if n > most[name]}

    assert settles(lambda: not grown()), (before, grown())
