# SPDX-License-Identifier: MIT
"""What a load says of itself, while it runs and when it has ended."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Union

from . import _check, _errors, _weir

Progress = Union[bool, Callable[[Mapping[str, Any]], object], None]

# Seconds between two calls of a progress function.
TICK = 0.1


class Report(Dict[str, Any]):
    """How a load went: a dictionary of bytes, seconds and texts.

    bytes were loaded; of them in_place were read into their final place, staged
    went through memory of the library, buffered through the page cache, mapped
    were not read; remote of them came from URLs, cached from the folder that cache=
    of Root names. over_read: bytes that nobody wanted; staging: bytes of that memory;
    memory: bytes of the host that the root had at the end, with those of the tensors,
    as budget= of Root counts them, and memory_peak: the most so far; elapsed and
    prefault: seconds; fallbacks: files without direct reads; note: a sentence or "".
    """

    @property
    def rate(self) -> float:
        """Bytes in a second."""
        seconds = float(self["elapsed"])
        return float(self["bytes"]) / seconds if seconds > 0 else 0.0

    @property
    def ways(self) -> Dict[str, int]:
        """Bytes by the way on which they came, those with any."""
        names = ("in_place", "staged", "buffered", "mapped")
        return {name: self[name] for name in names if self[name]}

    def __str__(self) -> str:
        text = (
            f"{self['bytes'] / 1e9:.3f} GB in {self['elapsed']:.3f} s, "
            f"{self.rate / 1e9:.2f} GB/s"
        )
        if "memory" in self:  # sums of files are computed outside of the root
            text += f", {self['memory'] / 1e9:.3f} GB of memory"
        ways = ", ".join(
            f"{name.replace('_', ' ')} {n / 1e9:.3f} GB"
            for name, n in self.ways.items()
        )
        return f"{text} ({ways})" if ways else text


def check(progress: Progress) -> None:
    """Refuse what is no argument for progress."""
    if isinstance(progress, int) and progress in (0, 1):
        return  # as False and True
    _check.function("progress", progress, "True, or a function of a dictionary")


Show = Callable[[Mapping[str, Any]], object]


@contextlib.contextmanager
def shown(progress: Progress) -> Iterator[Optional[Show]]:
    """What to call with each state; None: nothing."""
    bar = _bar() if progress and not callable(progress) else None
    try:
        yield progress if callable(progress) else bar
    finally:
        if bar:
            bar.close()


def follow(running: _weir.Load, progress: Progress) -> None:
    """Wait for a load, and call progress(state) every 0.1 s and at the end."""
    with shown(progress) as show:
        if show:
            _follow(running, show)


def _follow(running: _weir.Load, show: Show) -> None:
    try:
        ended = False
        while not ended:
            try:
                running.wait(TICK)
                ended = True
            except _errors.WaitTimeoutError:
                pass
            show(running.progress())
    except BaseException:
        running.cancel()
        raise


class _Bar:
    """A bar of tqdm."""

    def __init__(self, tqdm: Any) -> None:
        self.bar = tqdm(unit="B", unit_scale=True, desc="weir")

    def __call__(self, state: Mapping[str, Any]) -> None:
        self.bar.total = state["total"]
        self.bar.update(state["bytes"] - self.bar.n)

    def close(self) -> None:
        self.bar.close()


def _bar() -> Optional[_Bar]:
    """None without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return _Bar(tqdm)
