# SPDX-License-Identifier: MIT
"""Tensors of frameworks as memory, and safetensors files as bytes."""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import _check, _dtypes, _errors, _root, _weir


class Spec(NamedTuple):
    """A contiguous tensor in memory of the host, or one of weir anywhere."""

    address: int
    nbytes: int
    code: int
    shape: Tuple[int, ...]
    owner: object


def describe(name: str, tensor: Any) -> Spec:
    """Where a tensor of torch, NumPy, JAX or weir is."""
    if isinstance(tensor, _weir.Tensor):
        tensor.wait()
        return Spec(
            tensor.address, tensor.nbytes, tensor.code, tensor.shape, tensor
        )
    if hasattr(tensor, "data_ptr"):
        return _describe_torch(name, tensor)
    if hasattr(tensor, "__array_interface__"):
        return _describe_numpy(name, tensor)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(tensor, jax.Array):
        asarray = importlib.import_module("numpy").asarray
        return _describe_numpy(name, asarray(tensor))
    raise _errors.make(22, f"{name!r} is {type(tensor).__name__}, no tensor")


def _dtype(name: str, tensor: Any) -> _dtypes.Dtype:
    try:
        return _dtypes.find(tensor.dtype)
    except _errors.Error as error:
        raise _errors.make(22, f"tensor {name!r}: {error}") from None


def _strided(name: str, copy: str) -> Exception:
    return _errors.make(
        22, f"tensor {name!r} is not contiguous: {copy} makes a copy that is"
    )


def _describe_torch(name: str, tensor: Any) -> Spec:
    if tensor.device.type == "meta":
        # A RuntimeError, which torch makes of it for safetensors.
        raise _errors.make(
            errno.ENODEV, f"tensor {name!r}: Cannot copy out of meta tensor; no data!"
        )
    if str(tensor.layout) != "torch.strided":
        raise _errors.make(
            22, f"tensor {name!r} is sparse: to_dense() makes one that is not"
        )
    if tensor.device.type != "cpu":
        tensor = tensor.to("cpu")
    if not tensor.is_contiguous():
        raise _strided(name, "contiguous()")
    dtype = _dtype(name, tensor)
    shape = tuple(tensor.shape)
    if dtype.name == "F4" and shape:
        shape = shape[:-1] + (2 * shape[-1],)
    nbytes = tensor.numel() * tensor.element_size()
    return Spec(tensor.data_ptr(), nbytes, dtype.code, shape, tensor)


def _describe_numpy(name: str, array: Any) -> Spec:
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if not array.flags.c_contiguous:
        raise _strided(name, "copy()")
    code = _dtype(name, array).code
    address: int = array.__array_interface__["data"][0]
    return Spec(address, array.nbytes, code, tuple(array.shape), array)


# safetensors writes the dtypes that come last here first, so that elements are
# aligned.
_ORDER = {
    name: i
    for i, name in enumerate(
        "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ "
        "F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64".split()
    )
}


def in_order(tensors: Mapping[str, Any]) -> List[Tuple[str, Spec]]:
    """The tensors in the order in which safetensors writes them."""
    _check.mapping("tensors", tensors, "names and tensors")
    for name, _ in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"the name {name!r} of a tensor is not a str")
        if "\0" in name:
            raise _errors.make(22, f"the name {name!r} of a tensor has a zero byte")
    specs = [(name, describe(name, t)) for name, t in tensors.items()]
    specs.sort(
        key=lambda s: (-_ORDER.get(_dtypes.BY_CODE[s[1].code].name, 0), s[0])
    )
    return specs


def check_metadata(metadata: Optional[Mapping[str, str]]) -> None:
    """Refuse metadata that a file of safetensors cannot have."""
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a dict, not {type(metadata).__name__}")
    for pair in metadata.items():
        if not all(isinstance(text, str) for text in pair):
            raise TypeError(f"metadata {pair[0]!r}: {pair[1]!r} is not a str")


def serialize(
    tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None
) -> bytes:
    """The bytes of a safetensors file."""
    check_metadata(metadata)
    if "__metadata__" in tensors:
        raise _errors.make(22, "a tensor may not be named '__metadata__'")
    specs = in_order(tensors)
    for name, spec in specs:
        if isinstance(spec.owner, _weir.Tensor) and spec.owner.device != "cpu":
            raise _errors.make(22, f"{name!r} is not in memory of the host")
    header: Dict[str, Any] = {}
    if metadata is not None:
        header["__metadata__"] = dict(metadata)
    at = 0
    for name, spec in specs:
        header[name] = {
            "dtype": _dtypes.BY_CODE[spec.code].name,
            "shape": list(spec.shape),
            "data_offsets": [at, at + spec.nbytes],
        }
        at += spec.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    start = text.encode()
    start += b" " * (-len(start) % 8)
    out: List[Any] = [len(start).to_bytes(8, "little"), start]
    for _, spec in specs:
        if spec.nbytes:
            out.append((ctypes.c_char * spec.nbytes).from_address(spec.address))
    return b"".join(out)


def deserialize(
    data: Any, root: Optional[_weir.Root] = None, align: int = 0
) -> _weir.Load:
    """A load of all tensors of a safetensors file whose bytes are given."""
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise _check.wrong(
            "data", data, "bytes of a file; load_file() takes its path"
        ) from None
    fd = os.memfd_create("weir", os.MFD_CLOEXEC)
    try:
        while view:
            view = view[os.write(fd, view) :]
        model = _weir.Model(_root.given(root), None, [fd])
        return _weir.Load(model, align=align)
    finally:
        os.close(fd)
