# SPDX-License-Identifier: MIT
"""Tensors of a file that are read in the background, each given out once."""

from __future__ import annotations

import operator
import select
import threading
from collections import deque
from typing import (
    Any,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)
from . import _errors, _model, _weir

Plan = Mapping[str, Optional[slice]]
Rows = Optional[Tuple[int, int, int]]

# Most bytes that are read ahead of their users.
AHEAD = 2 << 30
# Bytes of neighbouring tensors that share their memory.
_SHARED = 256 << 20


class _Wanted(NamedTuple):
    """A tensor of the plan, or rows of it."""

    i: int
    name: str
    rows: Rows
    bytes: int


class _Group:
    """Neighbouring tensors, which one load reads into one allocation."""

    def __init__(self) -> None:
        self.wanted: List[_Wanted] = []
        self.bytes = 0
        self.given = 0  # bytes of tensors that were given out
        self.left: Set[int] = set()  # numbers of those that were not
        self.load: Optional[_weir.Load] = None
        self.ended = False

    def add(self, wanted: _Wanted) -> int:
        """Its number in the load."""
        k = len(self.wanted)
        self.wanted.append(wanted)
        self.bytes += wanted.bytes
        self.left.add(k)
        return k


class PrefetchLoader:
    """Tensors of a file on their way to a device; ``safe_open.prefetch``.

    Each tensor is given out once, by ``take`` or by iteration, as a view of
    memory that weir has read into. Neighbouring tensors share an allocation of
    256 MiB or more, which is freed when all of them were taken and dropped.
    Any thread may take tensors. The loader does not need the file object.

    A context manager: its end is ``close``. So is dropping the loader.
    """

    def __init__(
        self,
        model: _weir.Model,
        wanted: List[_Wanted],
        device: str,
        make: _weir.Maker,
        ahead: Optional[int],
        align: int,
        dtype: int,
    ) -> None:
        self._model = model
        self._device = device
        self._make = make
        self._ahead = ahead
        self._align = align
        self._dtype = dtype
        # A signal handler may call while this thread has the lock. So each
        # step under it must be right if another call runs before or after it.
        self._lock = threading.RLock()
        self._closed = False
        self._places: Dict[str, Tuple[_Group, int]] = {}
        # By the name of a tensor that was taken, or is being taken, the object
        # of the call that does.
        self._taken: Dict[str, object] = {}
        # Groups that no load reads yet, and groups with tensors to be taken.
        self._waiting: Deque[_Group] = deque()
        self._running: List[_Group] = []
        self._divide(wanted)
        self._names = [w.name for w in wanted]
        if self._waiting:
            self._start(self._waiting[0])
        self._start_more()

    def _divide(self, wanted: List[_Wanted]) -> None:
        most = _SHARED
        if self._ahead is not None:
            most = min(most, self._ahead // 4)
        group = None
        for item in wanted:
            if group is None or group.bytes >= most:
                group = _Group()
                self._waiting.append(group)
            self._places[item.name] = group, group.add(item)

    def _start(self, group: _Group) -> _weir.Load:
        """The load of a group."""
        load = group.load
        if load is None:
            parts = [w.rows for w in group.wanted]
            load = _weir.Load(
                self._model,
                [w.i for w in group.wanted],
                parts if any(parts) else None,
                device=self._device,
                align=self._align,
                dtype=self._dtype,
            )
            try:
                self._waiting.remove(group)
            except ValueError:  # a signal handler has started or closed it
                self._check()
                return group.load or load
            group.load = load
            self._running.append(group)
        return load

    def _first(self) -> Optional[_Group]:
        """The first group that no load reads yet, in one step: see _lock."""
        try:
            return self._waiting[0]
        except IndexError:
            return None

    def _start_more(self) -> None:
        """Start the loads of what may be read ahead."""
        while (group := self._first()) is not None:
            ahead = sum(g.bytes - g.given for g in self._running)
            if self._ahead is not None and ahead + group.bytes > self._ahead:
                return
            try:
                self._start(group)
            except _errors.Error:
                return  # its first user gets the error, or has memory for it

    def _check(self) -> None:
        if self._closed:
            raise _errors.fail("prefetch loader closed")

    def names(self) -> List[str]:
        """The names of all tensors of the plan, in the order of the file."""
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        if self._closed:
            return "<weir.PrefetchLoader, closed>"
        return (
            f"<weir.PrefetchLoader: {len(self._taken)} of {len(self)} tensors taken>"
        )

    def take(self, name: str) -> Any:
        """The tensor of this name, when it has arrived.

        Blocks until then; other threads run, and Ctrl-C ends it. A tensor, or
        rows that the plan has of it, is taken once.
        """
        if not isinstance(name, str) or name not in self._places:
            with self._lock:
                self._check()
            raise _errors.fail(f"{name} is not in the prefetch plan")
        group, k = self._places[name]
        call = object()
        try:
            with self._lock:
                self._check()
                if self._taken.setdefault(name, call) is not call:
                    raise _errors.fail(
                        f"tensor {name} already delivered (prefetch hands each "
                        "tensor out once, via take or iteration)"
                    )
                load = self._start(group)
            load.tensor(k).wait()
            made = load.make(k, self._make)
            with self._lock:
                group.left.discard(k)
                group.given += group.wanted[k].bytes
                if not self._closed:
                    if not group.left:
                        self._end(group)
                    self._start_more()
            return made
        except BaseException:
            # Also of Ctrl-C at any moment: nobody has the tensor.
            if self._taken.get(name) is call:
                del self._taken[name]
            with self._lock:
                self._check()
            raise

    def _end(self, group: _Group) -> None:
        """All tensors of a group were given out."""
        try:
            self._running.remove(group)
        except ValueError:
            pass  # a signal handler was faster
        group.load = None

    def __iter__(self) -> Iterator[Tuple[str, Any]]:
        """(name, tensor) in the order of arrival; not those already taken."""
        while True:
            with self._lock:
                self._check()
                self._start_more()
                first = self._first()
                if first is not None and all(g.ended for g in self._running):
                    self._start(first)
                loads = [
                    (group, load)
                    for group, load in [(g, g.load) for g in self._running]
                    if load is not None and not group.ended
                ]
            if not loads:
                break
            for name in self._arrivals(loads):
                yield from self._give(name)
        # Those of which an attempt to take them was interrupted or failed.
        for name in self._names:
            yield from self._give(name)

    def _give(self, name: str) -> Iterator[Tuple[str, Any]]:
        """The tensor of this name, unless it was taken."""
        if name in self._taken:
            return
        try:
            tensor = self.take(name)
        except _errors.Error:
            if name not in self._taken:
                raise
            return  # another call was faster
        yield name, tensor

    def _arrivals(
        self, loads: List[Tuple[_Group, _weir.Load]]
    ) -> List[str]:
        """Wait for any of the loads: the names of what has arrived."""
        poll = select.poll()
        for _, load in loads:
            poll.register(load.fileno(), select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        found = []
        for group, load in loads:
            if load.fileno() not in ready:
                continue
            try:
                k = load.next(0)
            except _errors.WaitTimeoutError:
                continue  # another thread was faster
            except _errors.Error:
                with self._lock:
                    self._check()
                raise
            if k is None:
                group.ended = True
            else:
                found.append(group.wanted[k].name)
        return found

    def close(self) -> None:
        """Cancel what has not arrived, and let go of what was not taken.

        Tensors that were taken keep their memory. Threads in ``take`` get an
        error.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            running, self._running = self._running, []
            self._waiting.clear()
        for group in running:
            if group.load is not None:
                group.load.cancel()
            group.load = None

    def __enter__(self) -> "PrefetchLoader":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def wanted_of(model: _weir.Model, plan: Optional[Plan]) -> List[_Wanted]:
    """The tensors that a plan means, in the order of the file."""
    names = model.names()
    if plan is None:
        wanted = [
            _want(model, i, name, None) for i, name in enumerate(names)
        ]
    elif not isinstance(plan, dict):
        raise TypeError(f"a plan is a dict, not {type(plan).__name__}")
    elif not plan:
        raise _errors.fail("prefetch plan selects no tensors")
    else:
        wanted = []
        for name, rows in plan.items():
            if not isinstance(name, str):
                raise _errors.fail("prefetch plan keys must be tensor names")
            wanted.append(_want(model, _model.find(model, name), name, rows))
        wanted.sort()
    return wanted


def _want(
    model: _weir.Model, i: int, name: str, rows: Optional[slice]
) -> _Wanted:
    _, shape, nbytes, _, _ = model.entry(i)
    if rows is None:
        return _Wanted(i, name, None, nbytes)
    if not isinstance(rows, slice):
        raise _errors.fail(
            f"prefetch plan values must be None or a slice, got {type(rows)} "
            f"for {name}"
        )
    first, n = _rows(rows, name, shape)
    share = nbytes // shape[0] * n if shape[0] else 0
    return _Wanted(i, name, (0, first, n), share)


def _rows(rows: slice, name: str, shape: Tuple[int, ...]) -> Tuple[int, int]:
    """First row and number of rows: a plan is exact, so nothing is clipped."""
    if not shape:
        raise _errors.fail(f"cannot slice rows of the 0-d tensor {name}")
    try:
        step = 1 if rows.step is None else operator.index(rows.step)
        ends = [
            None if end is None else operator.index(end)
            for end in (rows.start, rows.stop)
        ]
    except TypeError:
        raise _errors.fail(
            f"prefetch plan slice bounds for {name} must be integers or None"
        ) from None
    if step == 0:
        raise _errors.fail(
            f"invalid prefetch plan slice for {name}: its step is 0"
        )
    if step != 1:
        raise _errors.fail(
            f"prefetch plan slices must have step 1, got {step} for {name}"
        )
    for what, end in zip(("start", "stop"), ends):
        if end is not None and not -shape[0] <= end <= shape[0]:
            raise _errors.fail(
                f"prefetch plan slice {what} {end} for {name} is out of range "
                f"for {shape[0]} rows"
            )
    first, stop, _ = rows.indices(shape[0])
    return first, max(0, stop - first)
