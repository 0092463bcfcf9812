# SPDX-License-Identifier: MIT
"""Loading into tensors that the program has."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _check, _dtypes, _errors, _model, _root, _weir
from ._model import Path

Target = Tuple[int, int, Sequence[int], Optional[Sequence[int]], object]


def load_into(
    path: Path,
    tensors: Mapping[str, Any],
    *,
    root: Optional[_weir.Root] = None,
) -> Dict[str, Any]:
    """Fill existing tensors with those of a model that have their names.

    tensors: torch tensors (a ``state_dict()``) or NumPy arrays by name. Each has
    the shape of the tensor in the file; another floating-point dtype is
    converted to. They may be views whose rows have equal distances. Tensors of
    the model that have no name here are not read.

    Blocks, and returns a report. Raises InvalidError before anything is read if
    a name is not in the model, a shape differs, or a tensor has no memory (the
    meta device). After another error the contents are not specified.
    """
    _check.mapping("tensors", tensors, "names and tensors")
    model = _model.open_model(path, root)
    groups: Dict[str, Tuple[List[int], List[Target]]] = {}
    for name, tensor in tensors.items():
        i = model.find(_check.text("a name of tensors", name))
        if i < 0:
            raise _errors.make(22, f"the model has no tensor {name!r}")
        device, target = _target(name, tensor)
        if tuple(target[2]) != model.entry(i)[1]:
            raise _errors.make(
                22,
                f"{name!r} has shape {list(target[2])}, in the file "
                f"{list(model.entry(i)[1])}",
            )
        if target[0]:
            indices, targets = groups.setdefault(device, ([], []))
            indices.append(i)
            targets.append(target)
    settle(groups)
    loads = [
        _weir.Load(model, indices, None, targets, device=device)
        for device, (indices, targets) in groups.items()
    ]
    for running in loads:
        running.wait()
    return _sum([running.report() for running in loads])


def settle(devices: Iterable[str]) -> None:
    """Wait for what torch has queued: it may still use memory of the targets."""
    for name in devices:
        if name.startswith("CUDA") and "torch" in sys.modules:
            sys.modules["torch"].cuda.synchronize(int(name[4:]))


def _sum(reports: List[Dict[str, Any]]) -> Dict[str, Any]:
    """One report of the loads of several devices, which ran at once."""
    total: Dict[str, Any] = {}
    for report in reports:
        for key, value in report.items():
            if key == "elapsed":
                total[key] = max(value, total.get(key, 0.0))
            elif isinstance(value, (int, float)):
                total[key] = total.get(key, 0) + value
            else:
                total[key] = total.get(key) or value
    return total


def _target(name: str, tensor: Any) -> Tuple[str, Target]:
    """The device and the place of a tensor. Its address is 0 if it is empty."""
    if hasattr(tensor, "data_ptr"):
        return torch_target(name, tensor)
    if not hasattr(tensor, "__array_interface__"):
        raise _errors.make(
            22,
            f"{name!r} is {type(tensor).__name__}, needed: a tensor of torch or an "
            "array of NumPy",
        )
    if not tensor.flags.writeable:
        raise _errors.make(22, f"{name!r} is read-only")
    address = tensor.__array_interface__["data"][0] if tensor.size else 0
    code = _dtypes.find(tensor.dtype).code
    return "CPU", (address, code, tensor.shape, tensor.strides, tensor)


def torch_target(name: str, tensor: Any) -> Tuple[str, Target]:
    if tensor.device.type == "meta":
        raise _errors.make(
            22, f"{name!r} is on the meta device: it has no memory to load into"
        )
    dtype = _dtypes.find(tensor.dtype)
    shape = tuple(tensor.shape)
    strides: Optional[Tuple[int, ...]] = tuple(
        n * tensor.element_size() for n in tensor.stride()
    )
    if dtype.name == "F4":
        if not tensor.is_contiguous():
            raise _errors.make(22, f"{name!r} is F4 and not contiguous")
        shape, strides = shape[:-1] + (2 * shape[-1],), None
    address = tensor.data_ptr() if tensor.numel() else 0
    device = _root.device_name(tensor.device)
    return device, (address, dtype.code, shape, strides, tensor)
