# SPDX-License-Identifier: MIT
"""Opening models, and choosing tensors of them."""

from __future__ import annotations

import fnmatch
import os
from typing import Any, Callable, Iterable, List, Mapping, Optional, Tuple, Union

from . import _dtypes, _errors, _root, _weir

Path = Union[str, "os.PathLike[str]"]
Only = Union[str, Iterable[str], Callable[[str], bool], None]
# (dimension, first index, number of indices), or (dimension, slice)
Part = Union[Tuple[int, int, int], Tuple[int, slice]]

WAYS = {
    "auto": _weir.WAY_AUTO,
    "map": _weir.WAY_MAP,
    "buffered": _weir.WAY_BUFFERED,
    "direct": _weir.WAY_DIRECT,
}


def open_model(
    path: Path, root: Optional[_weir.Root] = None, lenient: bool = False
) -> _weir.Model:
    """Open a file or folder with a model, and read its header only."""
    flags = _weir.MODEL_LENIENT if lenient else 0
    return _weir.Model(root or _root.default(), path, None, flags)


def choose(model: _weir.Model, only: Only) -> Optional[List[int]]:
    """Numbers of the tensors that ``only`` means; None: all of them.

    ``only`` is a pattern of fnmatch, names, or a function of a name.
    """
    if only is None:
        return None
    names = model.names()
    if isinstance(only, str):
        found = fnmatch.filter(names, only)
        if not found:
            raise _errors.make(22, f"no tensor matches {only!r}")
        wanted = set(found)
        return [i for i, name in enumerate(names) if name in wanted]
    if callable(only):
        return [i for i, name in enumerate(names) if only(name)]
    return [find(model, name) for name in only]


def find(model: _weir.Model, name: str) -> int:
    """The number of a tensor."""
    i = model.find(name)
    if i < 0:
        raise _errors.fail(f"File does not contain tensor {name}")
    return i


def parts(
    model: _weir.Model,
    indices: List[int],
    slices: Optional[Mapping[str, Part]],
) -> Optional[List[Optional[Tuple[int, int, int]]]]:
    """The parts of ``indices`` as the glue takes them."""
    if not slices:
        return None
    names = model.names()
    unknown = set(slices).difference(names[i] for i in indices)
    if unknown:
        raise _errors.make(
            22, f"slices name {sorted(unknown)[0]!r}, which is not loaded"
        )
    return [_part(model, i, slices.get(names[i])) for i in indices]


def _part(
    model: _weir.Model, i: int, part: Optional[Part]
) -> Optional[Tuple[int, int, int]]:
    if part is None:
        return None
    dim = int(part[0])
    if len(part) == 3:
        return dim, int(part[1]), int(part[2])
    shape = model.entry(i)[1]
    if not 0 <= dim < len(shape):
        raise _errors.make(22, f"a slice of dimension {dim} of shape {shape}")
    start, stop, step = part[1].indices(shape[dim])
    if step != 1:
        raise _errors.make(22, "a slice of a load has a step of 1")
    return dim, start, max(0, stop - start)


def dtype_code(dtype: object) -> int:
    """The number of a dtype that the caller names; None is 0."""
    return 0 if dtype is None else _dtypes.find(dtype).code


def kind_and_way(device: str, way: str) -> Tuple[int, int]:
    """The memory and the way of a load."""
    if way not in WAYS:
        raise _errors.make(22, f"way {way!r}: one of {', '.join(WAYS)}")
    kind = _weir.MEM_DEVICE
    if way == "map":
        if device != "CPU":
            raise _errors.make(22, "only memory of the CPU is mapped")
        kind = _weir.MEM_MAPPED
    return kind, WAYS[way]


def describe(model: _weir.Model) -> Mapping[str, Any]:
    """What the model is: path, format, bytes, number of tensors."""
    return model.info()
