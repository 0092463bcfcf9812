# SPDX-License-Identifier: MIT
"""Roots: the one that calls use by default, and its options."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Dict, List, Optional, Union

from . import _check, _errors, _weir

_weir.set_errors(_errors.make)
atexit.register(_weir.shutdown)

_IO = {"auto": 0, "io_uring": 1, "threads": 2}


def _ns(name: str, seconds: float) -> int:
    seconds = _check.seconds(name, seconds)
    return -1 if seconds == -1 else int(seconds * 1e9)


class Root(_weir.Root):
    """The library's devices, its I/O engine and its kept memory.

    Calls use a root of their own that is opened when it is first needed. Make
    one to choose options, and give it as ``root=``; all sizes are in bytes,
    times in seconds:

    io: "auto", "io_uring" or "threads"; reactors, depth, copiers: threads that
    read and how much they read at once; chunk: size of a read; staging: most
    memory for reads that do not end in place; keep: memory kept for reuse;
    budget: most host memory; io_cpus: CPUs of these threads, "0-3,8"; close
    and read timeouts, -1 for no limit; cache: a folder that keeps what URLs gave,
    of at most cache_bytes. 0 or None means the library's choice: for cache that of
    the environment variable WEIR_CACHE.
    """

    def __new__(
        cls,
        *,
        io: str = "auto",
        reactors: int = 0,
        depth: int = 0,
        copiers: int = 0,
        chunk: int = 0,
        staging: int = 0,
        keep: int = 0,
        budget: int = 0,
        io_cpus: Optional[str] = None,
        module_path: Optional[str] = None,
        close_timeout: float = 0,
        read_timeout: float = 0,
        cache: Optional[Union[str, "os.PathLike[str]"]] = None,
        cache_bytes: int = 0,
    ) -> "Root":
        for name, word in (("io_cpus", io_cpus), ("module_path", module_path)):
            if word is not None:
                _check.text(name, word)
        folder = None if cache is None else os.fsdecode(_check.path("cache", cache))
        few = (1 << 31) - 1
        return super().__new__(
            cls,
            io=_IO[_check.one_of("io", io, _IO)],
            reactors=_check.whole("reactors", reactors, 0, few),
            depth=_check.whole("depth", depth, 0, few),
            copiers=_check.whole("copiers", copiers, 0, few),
            chunk=_check.whole("chunk", chunk),
            staging=_check.whole("staging", staging),
            keep=_check.whole("keep", keep),
            budget=_check.whole("budget", budget),
            io_cpus=io_cpus,
            module_path=module_path,
            close_timeout=_ns("close_timeout", close_timeout),
            read_timeout=_ns("read_timeout", read_timeout),
            cache=folder,
            cache_bytes=_check.whole("cache_bytes", cache_bytes),
        )

    def trim(self, keep: int = 0) -> None:
        """Return kept memory to the system until at most so many bytes are left."""
        super().trim(_check.whole("keep", keep, 0, _check.MOST_SIGNED))

    def __repr__(self) -> str:
        return "<weir.Root, closed>" if self.closed else "<weir.Root>"

    def __enter__(self) -> "Root":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


# A signal handler, or a finalizer, may call while this thread has it.
_lock = threading.RLock()
_default: Optional[Root] = None
_pid = 0


def default() -> Root:
    """The root of calls that were given none: a new one after a fork."""
    global _default, _pid
    root = _default
    if root is not None and _pid == os.getpid() and not root.closed:
        return root
    with _lock:
        root = _default
        if root is None or _pid != os.getpid() or root.closed:
            root = _default = Root(close_timeout=5)
            _pid = os.getpid()
        return root


def given(root: Optional[_weir.Root]) -> _weir.Root:
    """The root that the caller gave, or the default one."""
    if root is None:
        return default()
    if not isinstance(root, _weir.Root):
        raise _check.wrong("root", root, "a weir.Root")
    return root


def _after_fork() -> None:
    """Another thread may have held the lock when the process forked."""
    global _lock, _default
    _weir.forked()
    _lock = threading.RLock()
    _default = None


os.register_at_fork(after_in_child=_after_fork)


def device_name(device: Union[str, int, object, None]) -> str:
    """weir's name of a device that a framework names: "cuda:1" is CUDA1."""
    if device is None:
        return "CPU"
    if isinstance(device, int) and not isinstance(device, bool):
        return f"CUDA{device}" if device >= 0 else str(device)
    name = str(device)
    if name.isdigit():
        return f"CUDA{name}"
    kind, colon, number = name.partition(":")
    if kind == "cuda" and (not colon or number.isdigit()):
        return f"CUDA{number or 0}"
    if kind == "cpu" and (not colon or number.isdigit()):
        return "CPU"
    return name


def devices(root: Optional[Root] = None) -> List[Dict[str, Any]]:
    """The devices of this machine: dictionaries with name, memory and more."""
    return given(root).devices()
