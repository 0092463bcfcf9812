# SPDX-License-Identifier: MIT
"""Loads in an event loop of asyncio, which goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Mapping, Optional, Tuple

from . import _frameworks, _load, _model, _root, _weir
from ._digest import Manifest
from ._load import Tensors
from ._model import Only, Part, Path


async def _readable(running: _weir.Load) -> None:
    """Return when the load has something to report."""
    loop = asyncio.get_running_loop()
    ready: "asyncio.Future[None]" = loop.create_future()
    fd = running.fileno()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def _open(path: Path, root: Optional[_weir.Root]) -> _weir.Model:
    """Open a model; the event loop goes on while a server does not answer."""
    if not _model.is_url(path):
        return _model.open_model(path, root)
    return await asyncio.wrap_future(_model.opening(_root.given(root), path))


async def stream_async(
    path: Path,
    *,
    device: object = "cpu",
    framework: Optional[str] = None,
    only: Only = None,
    dtype: object = None,
    slices: Optional[Mapping[str, Part]] = None,
    way: str = "auto",
    verify: Optional[Manifest] = None,
    root: Optional[_weir.Root] = None,
) -> AsyncIterator[Tuple[str, Any]]:
    """``stream`` for ``async for``. Cancelling the task cancels the load."""
    to = _frameworks.name_of(framework)
    make = _frameworks.maker(to)
    model = await _open(path, root)
    align = _frameworks.align_of(to)
    running = _load.start(
        model, device, only, dtype, slices, way, verify, align=align
    )
    names = model.names()
    try:
        while True:
            try:
                i = running.next(0)
            except TimeoutError:
                await _readable(running)
                continue
            if i is None:
                return
            yield names[running.index(i)], running.make(i, make)
    finally:
        running.close()


async def load_async(
    path: Path,
    *,
    device: object = "cpu",
    framework: Optional[str] = None,
    only: Only = None,
    dtype: object = None,
    slices: Optional[Mapping[str, Part]] = None,
    way: str = "auto",
    verify: Optional[Manifest] = None,
    parkable: bool = False,
    root: Optional[_weir.Root] = None,
) -> Tensors:
    """``load`` for ``await``, with its options except progress and wait.

    Cancelling the task cancels the load.
    """
    to = _frameworks.name_of(framework)
    make = _frameworks.maker(to)
    model = await _open(path, root)
    align = _frameworks.align_of(to)
    running = _load.start(
        model, device, only, dtype, slices, way, verify, parkable, align
    )
    try:
        while True:
            try:
                if running.next(0) is None:
                    break
            except TimeoutError:
                await _readable(running)
        return _load.arrived(model, running, make, device, parkable)
    except BaseException:
        running.close()
        raise
