# SPDX-License-Identifier: MIT
"""Loading whole models, or what the caller chooses of them."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from . import _errors, _frameworks, _model, _root, _weir
from ._model import Only, Part, Path


class Tensors(Dict[str, Any]):
    """Tensors by name, with the report and the metadata of their load."""

    report: Dict[str, Any]
    metadata: Dict[str, Any]


def start(
    model: _weir.Model,
    device: object,
    only: Only,
    dtype: object,
    slices: Optional[Mapping[str, Part]],
    way: str,
) -> _weir.Load:
    """Start a load with the options of ``load``."""
    name = _root.device_name(device)
    kind, number = _model.kind_and_way(name, way)
    indices = _model.choose(model, only)
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
    root: Optional[_weir.Root] = None,
) -> Tensors:
    """Load a model into new memory, and return its tensors by name.

    path: a safetensors or GGUF file, an index of shards, or a folder.
    device: "cpu", "cuda:0", or a name of ``weir.devices()``.
    framework: "torch", "numpy", "jax" or "weir"; None is the one that the
    program has imported.
    only: a pattern ("model.layers.0.*"), names, or a function of a name.
    dtype: convert floating-point and quantised tensors to it.
    slices: for names, (dimension, slice) or (dimension, first, number): only
    these bytes are read.
    way: "auto", "direct", "buffered", or "map" (no copy, read-only).

    Blocks; other threads run, and Ctrl-C cancels. Raises ``weir.Error``.
    """
    make = _frameworks.maker(_frameworks.name_of(framework))
    model = _model.open_model(path, root)
    running = start(model, device, only, dtype, slices, way)
    tensors = Tensors(running.all(make))
    tensors.report = running.report()
    tensors.metadata = model.metadata()
    return tensors


def stream(
    path: Path,
    *,
    device: object = "cpu",
    framework: Optional[str] = None,
    only: Only = None,
    dtype: object = None,
    slices: Optional[Mapping[str, Part]] = None,
    way: str = "auto",
    root: Optional[_weir.Root] = None,
) -> Iterator[Tuple[str, Any]]:
    """Yield (name, tensor) in the order of arrival, while later ones are read.

    The arguments are those of ``load``. The load starts with the call. Leaving
    the loop early cancels what has not been read.
    """
    make = _frameworks.maker(_frameworks.name_of(framework))
    model = _model.open_model(path, root)
    running = start(model, device, only, dtype, slices, way)
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

    flags = _weir.SAVE_NEW if new else 0
    saving = _weir.Save(root or _root.default(), path, format, shard_bytes, flags)
    for name, spec in _serialize.in_order(tensors):
        if isinstance(spec.owner, _weir.Tensor):
            saving.add_tensor(name, spec.owner)
        else:
            saving.add(name, spec.address, spec.code, spec.shape, spec.owner)
    for key, value in (metadata or {}).items():
        if not isinstance(value, str):
            raise _errors.make(22, f"metadata {key!r} is not a str")
        saving.meta(key, value)
    saving.start()
    saving.wait()
    return saving.report()
