# SPDX-License-Identifier: MIT
"""Mappings of files that threads read in the background, ahead of their users."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from typing import Deque, Iterable, Iterator, Set, Tuple

from . import _weir

# Most threads, which wait for the disk most of the time.
THREADS = 4
# Bytes that a thread reads at a time.
CHUNK = 4 << 20

_Mapping = Tuple[_weir.Memory, Iterator[int]]


class _Queue:
    """The mappings that are being read, the first one first.

    Threads are started when there is work, and end when there is none. A file
    is not read further when its model and all of its tensors are gone: the
    queue has an object of its own of each mapping, which is alone then.
    """

    def __init__(self) -> None:
        # A signal handler may add mappings while this thread does.
        self._lock = threading.RLock()
        self._mappings: Deque[_Mapping] = deque()
        self._threads: Set[threading.Thread] = set()

    def add(self, mappings: Iterable[_weir.Memory]) -> None:
        """Read MAPPINGS too."""
        with self._lock:
            self._mappings.extend(
                (m.share(), itertools.count(0, CHUNK)) for m in mappings
            )
            # A thread ends early if Ctrl-C met its start, for example.
            self._threads = {t for t in self._threads if t.is_alive()}
            while self._mappings and len(self._threads) < THREADS:
                thread = threading.Thread(target=self._run, name="weir", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads
                    if not self._threads:
                        self._mappings.clear()  # their users read them
                    return
                self._threads.add(thread)

    def _next(self) -> Tuple[_weir.Memory, int]:
        """A mapping and the offset of a chunk to read; IndexError: no more."""
        with self._lock:
            try:
                while True:
                    memory, offsets = self._mappings[0]
                    offset = next(offsets)
                    if offset < len(memory) and not memory.alone():
                        return memory, offset
                    self._mappings.popleft()
            except IndexError:
                self._threads.discard(threading.current_thread())
                raise

    def _run(self) -> None:
        while True:
            try:
                memory, offset = self._next()
            except IndexError:
                return
            read(memory, offset, min(CHUNK, len(memory) - offset))


def read(memory: _weir.Memory, offset: int, bytes: int) -> None:
    """Read a chunk. If that fails, its user finds out."""
    memory.fetch(offset, bytes)


_queue = _Queue()


def _forked() -> None:
    """A child has none of the threads."""
    global _queue
    _queue = _Queue()


os.register_at_fork(after_in_child=_forked)


def start(mappings: Iterable[_weir.Memory]) -> None:
    """Read MAPPINGS from their files in the background. Does not block."""
    _queue.add(mappings)
