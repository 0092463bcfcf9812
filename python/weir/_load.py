# SPDX-License-Identifier: MIT
"""Loading whole models, or what the caller chooses of them."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from . import _check, _digest, _errors, _frameworks, _model, _report, _root, _weir
from ._digest import Manifest
from ._model import Only, Part, Path
from ._report import Progress, Report


class Tensors(Dict[str, Any]):
    """Tensors by name, with the report and the metadata of their load.

    Those of ``weir.load(..., parkable=True)`` can be parked: their bytes leave
    the memory, and later come back to the same addresses, so that all tensors
    over it stay valid. Until then they must not be used. weir refuses to hand
    them out; other frameworks know nothing of it: on the host a use ends the
    process (SIGSEGV), on a GPU it is an error of the device. Neither ever
    reads other bytes.
    """

    report: Report
    metadata: Dict[str, Any]
    _running: Optional[_weir.Load] = None
    _on_host = False
    _names: Tuple[str, ...] = ()

    def _parkable(self) -> _weir.Load:
        if self._running is None:
            raise _errors.make(
                22, "the tensors were not loaded with parkable=True"
            )
        return self._running

    def park(
        self,
        to: Path = "host",
        *,
        unchanged: bool = False,
        changed: Iterable[str] = (),
    ) -> None:
        """Copy the bytes, and release the memory that they are in.

        to: "host" (page-locked memory for tensors of a GPU), or a folder for a
        file without a name. unchanged: the program has written to no tensor
        but those that changed names; the others are not copied, but read again
        from the files of the model. Waits for work that weir has queued on a
        GPU; that of others must be done (``torch.cuda.synchronize()``). Blocks.
        Raises ``weir.Error``: the tensors are then as before.
        """
        running = self._parkable()
        wanted = list_changed(changed, unchanged)
        numbers: List[int] = []
        if wanted:
            of = {self._names[running.index(i)]: i for i in range(len(running))}
            unknown = [name for name in wanted if name not in of]
            if unknown:
                raise _errors.make(22, f"{unknown[0]!r} was not loaded")
            numbers = [of[name] for name in wanted]
        park(running, self._on_host, to, unchanged, numbers)

    def unpark(self) -> None:
        """Bring parked tensors back to their addresses; blocks.

        After Ctrl-C they go on coming: call it again. Raises OutOfMemoryError
        if there is no memory now, ChangedError if a file of the model that is
        read again has changed; the tensors are then still parked.
        """
        self._parkable().unpark()

    @contextlib.contextmanager
    def parked(self, to: Path = "host", **options: Any) -> Iterator[None]:
        """``with tensors.parked():`` parks, and unparks at its end."""
        self.park(to, **options)
        try:
            yield
        finally:
            self.unpark()

    def park_info(self) -> Dict[str, Any]:
        """state ("resident", "parked", "returning" or "failed"), and bytes:
        released, copied, and again, which come from the files."""
        return self._parkable().park_info()


def list_changed(changed: Iterable[str], unchanged: bool) -> List[str]:
    """The names of ``changed=``."""
    names = _check.strings("changed", changed)
    if names and not unchanged:
        raise _errors.make(22, "changed= is of use with unchanged=True only")
    return names


def park(
    running: _weir.Load,
    on_host: bool,
    to: Path,
    unchanged: bool,
    numbers: List[int],
) -> None:
    """Park the tensors of a load; those of NUMBERS have changed."""
    to = os.fsdecode(_check.path("to", to))
    folder = None if to == "host" else to
    running.park(on_host and not folder, folder, unchanged, numbers)


def start(
    model: _weir.Model,
    device: object,
    only: Only,
    dtype: object,
    slices: Optional[Mapping[str, Part]],
    way: str,
    verify: Optional[Manifest] = None,
    parkable: bool = False,
    align: int = 0,
) -> _weir.Load:
    """Start a load with the options of ``load``."""
    name = _root.device_name(device)
    kind, number = _model.kind_and_way(name, way)
    indices = _model.choose(model, only)
    if parkable and way == "map":
        raise _errors.make(22, "mapped tensors are not parked")
    if slices and indices is None:
        indices = list(range(len(model)))
    return _weir.Load(
        model,
        indices,
        _model.parts(model, indices, slices) if indices is not None else None,
        device=name,
        kind=kind,
        way=number,
        dtype=_model.dtype_code(dtype),
        verify=None if verify is None else _digest.manifest(verify, model.root),
        buf_flags=_weir.BUF_PARKABLE if parkable else 0,
        align=align if name == "CPU" and way != "map" else 0,
    )


def load(
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
    progress: Progress = None,
    wait: bool = True,
    root: Optional[_weir.Root] = None,
) -> Tensors:
    """Load a model into new memory, and return its tensors by name.

    path: a safetensors or GGUF file, an index of shards, or a folder, or the URL
    of one.
    device: "cpu", "cuda:0", or a name of ``weir.devices()``.
    framework: "torch", "numpy", "jax" or "weir"; None is the one that the
    program has imported.
    only: a pattern ("model.layers.0.*"), names, or a function of a name.
    dtype: convert floating-point and quantised tensors to it.
    slices: for names, (dimension, slice) or (dimension, first, number): only
    these bytes are read.
    way: "auto", "direct", "buffered", or "map" (no copy, read-only).
    verify: a manifest (``weir.digest``, or the path of one): each tensor is
    checked as it is read. Needs whole tensors. Sums of whole files
    (SHA256SUMS) are checked by ``weir.verify``.
    parkable: the tensors can be parked: see ``Tensors.park``, and
    ``weir.torch.park`` for a module that has them. They keep the files open.
    progress: True for a bar of tqdm, where it is installed, or a function that
    gets {"bytes", "total", "tensors", "failed", "count", "elapsed"} every
    0.1 s and at the end.
    wait: False returns at once, with weir's own tensors, which arrive later:
    ``tensor.wait()``, ``weir.cuda.wait`` and DLPack wait for one. They have no
    report.

    Blocks; other threads run, and Ctrl-C cancels. Raises ``weir.Error``.
    """
    to = _frameworks.name_of(framework)
    make = _frameworks.maker(to)
    _report.check(progress)
    model = _model.open_model(path, root)
    if not wait and (framework != "weir" or progress or parkable):
        raise _errors.make(
            22, 'wait=False needs framework="weir", no progress and no parkable'
        )
    align = _frameworks.align_of(to)
    running = start(
        model, device, only, dtype, slices, way, verify, parkable, align
    )
    if not wait:
        tensors = _coming(model.names(), running)
        tensors.metadata = model.metadata()
        return tensors
    _report.follow(running, progress)
    return arrived(model, running, make, device, parkable)


def arrived(
    model: _weir.Model,
    running: _weir.Load,
    make: _weir.Maker,
    device: object,
    parkable: bool,
) -> Tensors:
    """The tensors of a load, when all have arrived."""
    tensors = Tensors(running.all(make))
    tensors.report = Report(running.report())
    tensors.metadata = model.metadata()
    if parkable:
        tensors._running = running
        tensors._on_host = _root.device_name(device) == "CPU"
        tensors._names = model.names()
    return tensors


def _coming(names: Tuple[str, ...], running: _weir.Load) -> Tensors:
    """Tensors that arrive later."""
    return Tensors(
        (names[running.index(i)], running.tensor(i))
        for i in range(len(running))
    )


def stream(
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
) -> Iterator[Tuple[str, Any]]:
    """Yield (name, tensor) in the order of arrival, while later ones are read.

    The arguments are those of ``load``. The load starts with the call. Leaving
    the loop early cancels what has not been read.
    """
    to = _frameworks.name_of(framework)
    make = _frameworks.maker(to)
    model = _model.open_model(path, root)
    align = _frameworks.align_of(to)
    running = start(
        model, device, only, dtype, slices, way, verify, align=align
    )
    return _arrivals(model.names(), running, make)


def _arrivals(
    names: Tuple[str, ...], running: _weir.Load, make: _weir.Maker
) -> Iterator[Tuple[str, Any]]:
    try:
        while True:
            i = running.next()
            if i is None:
                return
            yield names[running.index(i)], running.make(i, make)
    finally:
        running.close()


def save(
    tensors: Mapping[str, Any],
    path: Path,
    metadata: Optional[Mapping[str, str]] = None,
    *,
    format: Optional[str] = None,
    shard_bytes: int = 0,
    new: bool = False,
    root: Optional[_weir.Root] = None,
) -> Dict[str, Any]:
    """Save tensors of torch, NumPy or weir, and return a report.

    path: NAME.safetensors or NAME.gguf, unless format is "safetensors" or
    "GGUF". An earlier file of this name is replaced when all bytes of the new
    one are on the disk. shard_bytes: most
    bytes of a file, of several. new: fail if there is such a file.
    """
    from . import _serialize

    _check.path("path", path)
    if format is not None:
        _check.text("format", format)
    shard_bytes = _check.whole("shard_bytes", shard_bytes)
    _serialize.check_metadata(metadata)
    flags = _weir.SAVE_NEW if new else 0
    saving = _weir.Save(_root.given(root), path, format, shard_bytes, flags)
    for name, spec in _serialize.in_order(tensors):
        if isinstance(spec.owner, _weir.Tensor):
            saving.add_tensor(name, spec.owner)
        else:
            saving.add(name, spec.address, spec.code, spec.shape, spec.owner)
    for key, value in (metadata or {}).items():
        saving.meta(key, value)
    saving.start()
    saving.wait()
    return saving.report()
