# SPDX-License-Identifier: MIT
"""Tensors of safe_open: views of the file, copies, and when which."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, List, Tuple

import pytest

import weir
from weir import _dtypes, _fetch, _weir

from conftest import content, header


def raw(tensor: Any) -> bytes:
    return memoryview(tensor).tobytes()


def address(tensor: Any) -> int:
    return int(tensor.address)


def test_signature() -> None:
    """help() shows the arguments of safe_open, those of safetensors first."""
    arguments = list(inspect.signature(weir.safe_open).parameters)
    assert arguments == ["filename", "framework", "device", "backend", "root"]


def test_view(small: Path) -> None:
    """A tensor of "mmap" is a view of the file, which a write leaves alone."""
    before = small.read_bytes()
    with weir.safe_open(small, "weir") as file:
        first, again = file.get_tensor("b"), file.get_tensor("b")
        everything = file.get_tensors()
    assert address(first) == address(again) == address(everything["b"])
    assert not first.readonly
    memoryview(first).cast("B")[:4] = b"\xaa" * 4
    del first, everything
    assert raw(again) == b"\xaa" * 4 + content(96)[4:]
    assert small.read_bytes() == before
    with weir.safe_open(small, "weir") as file:
        assert raw(file.get_tensor("b")) == content(96)


def test_copy(small: Path) -> None:
    """A tensor of "pread" has memory of its own."""
    with weir.safe_open(small, "weir", backend="pread") as file:
        first, again = file.get_tensor("b"), file.get_tensor("b")
        memoryview(first).cast("B")[:4] = b"\xaa" * 4
        assert raw(again) == raw(file.get_tensors()["b"]) == content(96)
        assert raw(file.get_slice("b")[1]) == content(96)[48:]
        assert raw(file.get_tensor("e")) == b""


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_all_kinds(small: Path, backend: str) -> None:
    """Both backends have the shapes and bytes of all tensors."""
    wanted = weir.load(small, framework="weir")
    with weir.safe_open(small, "weir", backend=backend) as file:
        for name, tensor in file.get_tensors().items():
            for found in (tensor, file.get_tensor(name), file.get_slice(name)[...]):
                assert found.shape == wanted[name].shape
                assert found.dtype == wanted[name].dtype
                assert raw(found) == raw(wanted[name])


def test_unaligned(tmp_path: Path) -> None:
    """A tensor at an odd address of the file is copied to an aligned one."""
    path = tmp_path / "odd.safetensors"
    path.write_bytes(header([
        ("byte", "U8", (1,), b"x"), ("w", "F32", (4, 4), content(64)),
    ]))
    with weir.safe_open(path, "weir") as file:
        for found in (
            file.get_tensor("w"), file.get_slice("w")[:], file.get_tensors()["w"],
        ):
            assert address(found) % 4 == 0 and raw(found) == content(64)
        assert raw(file.get_slice("w")[1:3]) == content(64)[16:48]


def _is_cached(fd: int, offset: int) -> bool:
    """True if the page is in the page cache, or the file system does not say."""
    try:
        os.preadv(fd, [bytearray(1)], offset, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _evict(path: Path) -> None:
    """Try to remove a file from the page cache."""
    with open(path, "rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_large(tmp_path: Path) -> None:
    """A large tensor is a view if it is in the page cache, otherwise read."""
    path = tmp_path / "large.safetensors"
    data = content(4 << 20)
    path.write_bytes(header([("w", "U8", (4, 1 << 20), data)]))

    def is_view() -> bool:
        path.read_bytes()
        with weir.safe_open(path, "weir") as file:
            first, again = file.get_tensor("w"), file.get_tensor("w")
            rows = file.get_slice("w")[1:3]
            assert raw(first) == data
            return address(first) == address(again) == address(rows) - (1 << 20)

    # The kernel may evict the file at any time.
    assert any(is_view() for _ in range(100))
    _evict(path)
    with open(path, "rb") as opened:
        if _is_cached(opened.fileno(), 1 << 20):
            pytest.skip("the file cannot be evicted from the page cache")
    with weir.safe_open(path, "weir") as file:
        first, again = file.get_tensor("w"), file.get_tensors()["w"]
        assert address(first) != address(again)
        assert raw(first) == raw(again) == data


def test_all_slices(many: Path) -> None:
    """Who asks for all slices gets views, also of what is not in the page cache."""
    _evict(many)
    with weir.safe_open(many, "weir") as file:
        slices = [file.get_slice(name) for name in file.offset_keys()]
        first = [part[...] for part in slices]
        again = [part[:] for part in slices]
        row = slices[3][7:8]
    assert [address(t) for t in first] == [address(t) for t in again]
    assert address(row) == address(first[3]) + 7 * 1024
    for i, tensor in enumerate(first):
        assert raw(tensor) == content(512 * 1024, i)


def test_all_slices_exit(many: Path) -> None:
    """A program may end while files are read in the background."""
    _evict(many)
    code = """if 1:
        import sys, weir
        file = weir.safe_open(sys.argv[1], "weir")
        slices = [file.get_slice(name) for name in file.keys()]
        tensors = [part[...] for part in slices]
        print(len(tensors))
    """
    found = subprocess.run(
        [sys.executable, "-c", code, str(many)], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "64\n", "")


def test_fetch(monkeypatch: Any) -> None:
    """Files are read in the background once, whole, by several threads."""
    root = weir.Root()
    memory = [_weir.Memory(root, size) for size in (1, 9 << 20, (4 << 20) + 5)]
    places = [m.address for m in memory]
    reads: List[Tuple[int, int, int]] = []
    calls = itertools.count()
    here, all_read = threading.Barrier(_fetch.THREADS), threading.Event()

    def read(part: _weir.Memory, offset: int, bytes: int) -> None:
        if part.address not in places:
            return  # of another test
        if next(calls) < _fetch.THREADS:
            here.wait(60)  # until all threads run
        part.fetch(offset, bytes)
        reads.append((len(part), offset, bytes))
        if len(reads) == 6:
            all_read.set()

    monkeypatch.setattr(_fetch, "read", read)
    _fetch._Queue().add(memory)
    assert all_read.wait(60)
    step = 4 << 20
    assert sorted(reads) == [
        (1, 0, 1), (step + 5, 0, step), (step + 5, step, 5),
        (9 << 20, 0, step), (9 << 20, step, step), (9 << 20, 2 * step, 1 << 20),
    ]
    for offset, size in ((1, 4096), (0, (9 << 20) + 1), (step, 2**64 - 1)):
        with pytest.raises(weir.InvalidError):
            memory[1].fetch(offset, size)


@pytest.mark.parametrize("kept", [False, True])
def test_fetch_dropped(monkeypatch: Any, kept: bool) -> None:
    """A file is not read further when all of its tensors are gone."""
    memory = _weir.Memory(weir.Root(), 100 << 20)
    place, reads = memory.address, []
    started, dropped = threading.Event(), threading.Event()

    def read(part: _weir.Memory, offset: int, bytes: int) -> None:
        if part.address == place:
            reads.append(offset)
            started.set()
            dropped.wait(60)

    monkeypatch.setattr(_fetch, "read", read)
    queue = _fetch._Queue()
    queue.add([memory])
    assert started.wait(60) and not memory.alone()
    threads = set(queue._threads)
    tensor = memory.tensor(16, _dtypes.BY_NAME["F32"].code, (4,)) if kept else None
    del memory
    dropped.set()
    for thread in threads:
        thread.join(60)
    assert len(reads) == 25 if kept else len(reads) <= _fetch.THREADS
    assert not queue._mappings and not queue._threads
    del tensor


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_fetch_without_threads(monkeypatch: Any, error: Any) -> None:
    """Files are read in the background again after no thread could be started."""
    memory = [_weir.Memory(weir.Root(), 1)]
    queue, was_read = _fetch._Queue(), threading.Event()

    def read(part: _weir.Memory, offset: int, bytes: int) -> None:
        if part.address == memory[0].address:
            was_read.set()

    def fail(thread: threading.Thread) -> None:
        raise error("can't start new thread")

    monkeypatch.setattr(_fetch, "read", read)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for _ in range(_fetch.THREADS + 1):
            try:
                queue.add(memory)
            except KeyboardInterrupt:
                pass
    assert error is KeyboardInterrupt or not queue._mappings
    queue.add(memory)
    assert was_read.wait(60)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("change", ["write", "truncate"])
def test_changed(small: Path, change: str, backend: str) -> None:
    """A file that is written to or cut off is noticed at the next call."""
    with weir.safe_open(small, "weir", backend=backend) as file:
        assert raw(file.get_tensor("a")) == content(24, 2)
        part = file.get_slice("a")
        if change == "write":
            with open(small, "r+b") as opened:
                opened.write(b"x")
        else:
            os.truncate(small, 16)
        for use in (
            lambda: file.get_tensor("a"), lambda: part[1:], file.get_tensors,
        ):
            with pytest.raises(weir.ChangedError):
                use()


def test_replaced(small: Path) -> None:
    """A file that another replaces keeps its tensors."""
    with weir.safe_open(small, "weir") as file:
        view = file.get_tensor("a")
        other = small.with_suffix(".new")
        other.write_bytes(b"other")
        os.replace(other, small)
        assert raw(view) == raw(file.get_tensor("a")) == content(24, 2)


def test_threads(tmp_path: Path) -> None:
    """Threads map the files of a model at once, and one of them closes it."""
    for i in range(4):
        (tmp_path / f"model-{i}.safetensors").write_bytes(
            header([(f"w{i}.{k}", "U8", (512,), content(512, i)) for k in range(8)])
        )
    index = {"weight_map": {
        f"w{i}.{k}": f"model-{i}.safetensors" for i in range(4) for k in range(8)
    }}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    wrong = []

    def use(file: weir.safe_open, i: int, start: threading.Barrier) -> None:
        start.wait()
        try:
            for k in range(8):
                if raw(file.get_tensor(f"w{i}.{k}")) != content(512, i):
                    wrong.append(i)
        except weir.ClosedError:
            pass
        file._open().close()

    for _ in range(20):
        file = weir.safe_open(path, "weir")
        start = threading.Barrier(8)
        threads = [
            threading.Thread(target=use, args=(file, i % 4, start))
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_exit(small: Path) -> None:
    """Views may be the last objects of the interpreter."""
    program = (
        "import sys, weir\n"
        "sys.kept = weir.safe_open(sys.argv[1], 'weir').get_tensors()\n"
        "print(memoryview(sys.kept['a']).nbytes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(small)],
        capture_output=True, text=True, check=True,
    )
    assert done.stdout == "24\n" and not done.stderr


def test_slice_bytes(tmp_path: Path) -> None:
    """Parts of all dimensions have the bytes of the same part of a list."""
    shape = (3, 4, 5, 6)
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([("x", "U8", shape, bytes(range(90)) * 4)]))
    whole = memoryview(bytes(range(90)) * 4).cast("B", shape)
    for index in (
        (slice(None), 2), (slice(None, None, 2), slice(1, 3), 0),
        (..., slice(0, 6, 5)), (slice(0, 0), slice(None, None, 2), slice(1, 3)),
        (1, slice(3), slice(4), slice(5)), (slice(2), ..., slice(2, 4)),
    ):
        for backend in ("mmap", "pread"):
            with weir.safe_open(path, "weir", backend=backend) as file:
                found = file.get_slice("x")[index]
            picked = _pick(whole, index, shape)
            assert raw(found) == picked


def _pick(whole: memoryview, index: Any, shape: Any) -> bytes:
    """The bytes of a part, one by one."""
    import itertools

    items = list(index)
    if Ellipsis in items:
        at = items.index(Ellipsis)
        rest = len(shape) - len(items) + 1
        items[at : at + 1] = [slice(None)] * rest
    items += [slice(None)] * (len(shape) - len(items))
    ranges = [
        range(size)[item] if isinstance(item, slice) else [item]
        for item, size in zip(items, shape)
    ]
    return bytes(whole[at] for at in itertools.product(*ranges))


def test_submodules() -> None:
    """The modules of frameworks are there after `import weir`."""
    code = (
        "import sys, weir\n"
        "assert 'weir.numpy' not in sys.modules\n"
        "weir.cuda.wait, weir.flax.load_file, weir.torch.load_file\n"
        "print(weir.numpy.load_file.__doc__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.stderr == b"" and b"NumPy arrays" in done.stdout


def test_no_gil() -> None:
    """Where the GIL is forced off, the import says so."""
    code = "import sys; sys._is_gil_enabled = lambda: False; import weir"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 1 and b"ImportError: weir needs the GIL" in done.stderr


def test_repr(small: Path) -> None:
    """Objects say what they are."""
    tensor = weir.load(small, framework="weir")["h"]
    assert repr(tensor) == "<weir.Tensor BF16 [2, 2] on cpu>"
    with weir.Root() as root:
        assert repr(root) == "<weir.Root>"
    assert repr(root) == "<weir.Root, closed>"
    with weir.safe_open(small, "weir") as file:
        assert "small.safetensors': 5 tensors, weir on CPU" in repr(file)
        assert repr(file.get_slice("b")) == "<slices of 'b': F32 [2, 3, 4]>"
        with file.prefetch() as loader:
            loader.take("b")
            assert repr(loader) == "<weir.PrefetchLoader: 1 of 5 tensors taken>"
    assert repr(file) == "<weir.safe_open, closed>"
    assert repr(loader) == "<weir.PrefetchLoader, closed>"
