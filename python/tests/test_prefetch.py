# SPDX-License-Identifier: MIT
"""safe_open.prefetch and its loader."""

from __future__ import annotations

import dis
import faulthandler
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, Tuple

import pytest

import weir

from conftest import content, header, memory, settles, trace_steps

NAMES = [f"layers.{i}.w" for i in range(64)]
WANTED = {name: content(512 * 1024, i) for i, name in enumerate(NAMES)}


def at_step(
    n: int, file: str, call: Callable[[], Any], handler: Callable[[], None]
) -> bool:
    """Call, and call HANDLER before step N of FILE; False: there was none."""
    left = [n]

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.endswith(file):
            return None
        frame.f_trace_opcodes = True
        code = frame.f_code.co_code[frame.f_lasti]
        # Nothing is called between the result and the return.
        if event == "opcode" and dis.opname[code] != "RETURN_VALUE":
            left[0] -= 1
            if not left[0]:
                handler()
        return trace

    old = sys.gettrace()
    # Instead of waiting for ever: a call takes a fraction of a second.
    faulthandler.dump_traceback_later(1200, exit=True)
    trace_steps(trace)
    try:
        call()
    finally:
        sys.settrace(old)
        faulthandler.cancel_dump_traceback_later()
    return left[0] <= 0


def raw(tensor: Any) -> bytes:
    return bytes(memoryview(tensor).cast("B")) if tensor.nbytes else b""


def test_all(many: Path) -> None:
    """A loader gives out all tensors of a file, each once."""
    with weir.safe_open(many, "weir") as file, file.prefetch() as loader:
        assert loader.names() == NAMES and len(loader) == 64
        found = {name: raw(tensor) for name, tensor in loader}
        assert found == WANTED
        assert list(loader) == []


def test_take(many: Path) -> None:
    """take() gives one tensor, and iteration the others."""
    loader = weir.safe_open(many, "weir").prefetch()
    assert raw(loader.take("layers.9.w")) == WANTED["layers.9.w"]
    for _ in range(2):
        with pytest.raises(weir.SafetensorError, match="already delivered"):
            loader.take("layers.9.w")
    with pytest.raises(weir.SafetensorError, match="not in the prefetch plan"):
        loader.take("z")
    left = {name: raw(tensor) for name, tensor in loader}
    assert sorted(left) == sorted(set(NAMES) - {"layers.9.w"})
    assert all(left[name] == WANTED[name] for name in left)


def test_left_early(many: Path) -> None:
    """A second iteration gives what the first one has left."""
    loader = weir.safe_open(many, "weir").prefetch()
    first = {name for name, _ in zip(NAMES[:3], loader)}
    rest = {name for name, _ in loader}
    assert len(first) == 3 and len(rest) == 61


def test_plan(small: Path) -> None:
    """A plan has whole tensors and rows, in any order."""
    plan = {"a": slice(-2, None), "e": slice(0, 0), "b": slice(1, 2), "s": None}
    loader = weir.safe_open(small, "weir").prefetch(plan)
    assert loader.names() == ["b", "a", "s", "e"]
    assert loader.take("b").shape == (1, 3, 4)
    found = dict(loader)
    assert sorted(found) == ["a", "e", "s"]
    assert raw(found["a"]) == content(24, 2)[8:]
    assert found["e"].shape == (0, 3) and raw(found["s"]) == content(4, 3)


BAD = [
    ({}, "selects no tensors"),
    ({"z": None}, "does not contain tensor z"),
    ({3: None}, "keys must be tensor names"),
    ({"b": 3}, "must be None or a slice, got <class 'int'> for b"),
    ({"b": slice(0, 2, 2)}, "must have step 1, got 2 for b"),
    ({"b": slice(0, 2, 0)}, "invalid prefetch plan slice for b"),
    ({"b": slice("x", None)}, "bounds for b must be integers or None"),
    ({"b": slice(3, None)}, "slice start 3 for b is out of range for 2 rows"),
    ({"b": slice(0, 3)}, "slice stop 3 for b is out of range for 2 rows"),
    ({"b": slice(-3, None)}, "slice start -3 for b is out of range"),
    ({"s": slice(0, 1)}, "cannot slice rows of the 0-d tensor s"),
]


@pytest.mark.parametrize("plan, text", BAD, ids=[text for _, text in BAD])
def test_bad_plan(small: Path, plan: Any, text: str) -> None:
    """A wrong plan is refused in the words of safetensors."""
    with weir.safe_open(small, "weir") as file:
        with pytest.raises(weir.SafetensorError) as error:
            file.prefetch(plan)
    assert text in str(error.value)


def test_bad_arguments(small: Path) -> None:
    """Wrong arguments are refused as safetensors does."""
    file: Any = weir.safe_open(small, "weir")
    for wrong in (["a"], "a", ("a",)):
        with pytest.raises(TypeError):
            file.prefetch(wrong)
    with pytest.raises(TypeError):
        file.prefetch(None, "cpu")
    with pytest.raises(TypeError):
        file.prefetch(threads="8")
    with pytest.raises(OverflowError):
        file.prefetch(threads=-1)
    with pytest.raises(weir.SafetensorError, match="device zz is invalid"):
        file.prefetch(device="zz")


def test_closed(many: Path) -> None:
    """A loader that was closed refuses, one of a closed file does not."""
    with weir.safe_open(many, "weir") as file:
        loader = file.prefetch(ahead=1 << 20)
    with pytest.raises(weir.SafetensorError, match="File is closed"):
        file.prefetch()
    kept = loader.take("layers.0.w")
    running = iter(loader)
    next(running)
    loader.close()
    loader.close()
    for call in (
        lambda: next(running),
        lambda: next(iter(loader)),
        lambda: loader.take("layers.1.w"),
    ):
        with pytest.raises(weir.SafetensorError, match="loader closed"):
            call()
    assert raw(kept) == WANTED["layers.0.w"]


def test_several(many: Path) -> None:
    """A file may have several loaders, and reads beside them."""
    with weir.safe_open(many, "weir") as file:
        with file.prefetch({"layers.1.w": None}) as one, file.prefetch() as two:
            a, b = one.take("layers.1.w"), two.take("layers.1.w")
            assert raw(a) == raw(b) == WANTED["layers.1.w"]
            assert a.address != b.address
            assert raw(file.get_tensor("layers.1.w")) == raw(a)


@pytest.mark.parametrize("ahead", [0, 1 << 20, 4 << 20])
def test_bounded(many: Path, ahead: int) -> None:
    """A loader reads a file that is larger than the memory."""
    with weir.Root(budget=24 << 20) as root:
        with pytest.raises(weir.OutOfMemoryError):
            weir.load(many, framework="weir", root=root)
        file = weir.safe_open(many, "weir", root=root)
        with file.prefetch(ahead=ahead) as loader:
            for name, tensor in loader:
                assert raw(tensor) == WANTED[name]
                del tensor
        with file.prefetch(ahead=ahead) as loader:
            for name in reversed(NAMES):
                assert raw(loader.take(name)) == WANTED[name]


def test_goes_on(many: Path, monkeypatch: Any) -> None:
    """More is read as soon as tensors are taken."""
    started: List[int] = []
    load = weir._weir.Load

    def counted(*args: Any, **options: Any) -> Any:
        started.append(len(args[1]))
        return load(*args, **options)

    monkeypatch.setattr(weir._weir, "Load", counted)
    loader = weir.safe_open(many, "weir").prefetch(ahead=8 << 20)
    assert started == [4] * 4
    for name in NAMES[:4]:
        loader.take(name)
    assert started == [4] * 5
    loader.take(NAMES[-1])
    assert started == [4] * 6
    assert len(list(loader)) == 59 and started == [4] * 16


def test_no_memory(many: Path) -> None:
    """Tensors that fit are given out, the next one is OutOfMemoryError."""
    with weir.Root(budget=24 << 20) as root:
        loader = weir.safe_open(many, "weir", root=root).prefetch(ahead=4 << 20)
        kept: Dict[str, Any] = {}
        with pytest.raises(weir.OutOfMemoryError):
            for name, tensor in loader:
                kept[name] = tensor
        assert len(kept) >= 16
        assert all(raw(kept[name]) == WANTED[name] for name in kept)
        count = len(kept)
        kept.clear()
        del tensor
        assert len([name for name, _ in loader]) == 64 - count


def test_threads(many: Path) -> None:
    """Several threads take tensors of one loader, or iterate over it."""
    with weir.safe_open(many, "weir") as file:
        one = file.prefetch(ahead=4 << 20)
        two = file.prefetch(ahead=4 << 20)
    found: List[Tuple[str, bytes]] = []

    def run(first: int) -> None:
        for name in NAMES[first::3]:
            found.append((name, raw(one.take(name))))
        for name, tensor in two:
            found.append((name, raw(tensor)))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in found) == sorted(NAMES * 2)
    assert all(data == WANTED[name] for name, data in found)


def test_close_elsewhere(many: Path) -> None:
    """close() ends the takes of other threads with an error."""
    for _ in range(20):
        loader = weir.safe_open(many, "weir").prefetch(ahead=1 << 20)
        other = threading.Timer(0.001, loader.close)
        other.start()
        with pytest.raises(weir.SafetensorError, match="loader closed"):
            for name in NAMES:
                assert raw(loader.take(name)) == WANTED[name]
            other.join()
            loader.take("z")
        other.join()


def test_dropped(many: Path) -> None:
    """A loader that is not read leaves neither memory nor descriptors."""
    with weir.Root() as root:
        file = weir.safe_open(many, "weir", root=root)

        def drop(n: int) -> None:
            for _ in range(n):
                loader = file.prefetch(ahead=None)
                running = iter(loader)
                next(running)
                del loader, running

        def files() -> int:
            return len(os.listdir("/proc/self/fd"))

        drop(2)
        before, bytes_before = files(), memory()
        drop(30)
        assert settles(lambda: files() <= before)
        assert settles(lambda: memory() - bytes_before < 256 << 20)


def test_short(tmp_path: Path) -> None:
    """A tensor that cannot be read is an error, again and again."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(header([
        ("a", "U8", (1 << 20,), content(1 << 20)),
        ("b", "U8", (1 << 20,), content(1 << 20, 2)),
    ]))
    with weir.safe_open(path, "weir") as file:
        os.truncate(path, path.stat().st_size - 4096)
        loader = file.prefetch(ahead=0)
        assert raw(loader.take("a")) == content(1 << 20)
        for _ in range(2):
            with pytest.raises(weir.SafetensorError, match="x.safetensors"):
                loader.take("b")
            with pytest.raises(weir.SafetensorError, match="x.safetensors"):
                list(loader)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A file with the first bytes of the tensors of ``many``."""
    path = tmp_path / "tiny.safetensors"
    path.write_bytes(header([(n, "U8", (64,), WANTED[n][:64]) for n in NAMES]))
    return path


TINY = {name: data[:64] for name, data in WANTED.items()}


def test_handler(tiny: Path) -> None:
    """A signal handler takes tensors of a loader at any step of another call."""
    for step in range(1, 400, 7):
        loader = weir.safe_open(tiny, "weir").prefetch(ahead=512)
        found: Dict[str, bytes] = {}

        def take() -> None:
            for name, tensor in loader:
                found[name] = raw(tensor)
                if len(found) == 40:
                    break

        def handler() -> None:
            for name in ("layers.0.w", "layers.1.w", "layers.40.w"):
                try:
                    tensor = loader.take(name)
                except weir.SafetensorError as error:
                    assert "already" in str(error)
                else:
                    assert name not in found
                    found[name] = raw(tensor)

        if not at_step(step, "_prefetch.py", take, handler):
            break
        found.update((name, raw(tensor)) for name, tensor in loader)
        assert found == TINY
    assert step > 200


def test_handler_takes_last(tiny: Path) -> None:
    """A signal handler takes the last tensors at any step of an iteration."""
    for step in range(1, 5000):
        plan = dict.fromkeys(NAMES[:2])
        loader = weir.safe_open(tiny, "weir").prefetch(plan, ahead=0)
        found: Dict[str, bytes] = {}

        def iterate() -> None:
            found.update((name, raw(tensor)) for name, tensor in loader)

        def handler() -> None:
            try:
                found[NAMES[1]] = raw(loader.take(NAMES[1]))
            except weir.SafetensorError as error:
                assert "already" in str(error)

        if not at_step(step, "_prefetch.py", iterate, handler):
            break
        assert found == {name: TINY[name] for name in NAMES[:2]}
    assert 100 < step < 4999


def test_take_looks_at_first(tiny: Path) -> None:
    """take() does not go through all tensors that wait."""

    class Waiting(Deque[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("all were looked at")

    loader = weir.safe_open(tiny, "weir").prefetch(ahead=128)
    loader._waiting = Waiting(list(loader._waiting))
    assert {name: raw(loader.take(name)) for name in NAMES} == TINY


def test_interrupted_take(tiny: Path) -> None:
    """Ctrl-C at any step of take() leaves the tensor to the next call."""
    loader = weir.safe_open(tiny, "weir").prefetch()
    for step in range(1, 2000):
        name = NAMES[step % 8]

        def interrupt() -> None:
            raise KeyboardInterrupt

        try:
            again = at_step(
                step, "_prefetch.py", lambda: loader.take(name), interrupt
            )
        except KeyboardInterrupt:
            again = True
        if not again:
            break
        assert raw(loader.take(name)) == TINY[name]
        loader = weir.safe_open(tiny, "weir").prefetch()
    assert step > 50


def test_slices_in_a_handler(tiny: Path) -> None:
    """A signal handler reads a slice at any step of reading another."""
    file = weir.safe_open(tiny, "weir", backend="pread")
    for step in range(1, 200):
        slices = {name: file.get_slice(name) for name in NAMES}
        found: Dict[str, bytes] = {}

        def read(name: str) -> None:
            found[name] = raw(slices[name][...])

        if not at_step(
            step, "_open.py", lambda: read(NAMES[3]), lambda: read(NAMES[4])
        ):
            break
        assert found == {name: TINY[name] for name in NAMES[3:5]}
        file = weir.safe_open(tiny, "weir", backend="pread")
    assert step > 20
