# SPDX-License-Identifier: MIT
"""Names and numbers of element types."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

from . import _errors, _weir


class Dtype(NamedTuple):
    """An element type: elements are stored in blocks of so many bytes."""

    code: int
    name: str
    block: int
    bytes: int
    align: int


BY_CODE: Dict[int, Dtype] = {d[0]: Dtype(*d) for d in _weir.dtypes()}
BY_NAME: Dict[str, Dtype] = {d.name: d for d in BY_CODE.values()}

# What NumPy, torch and safetensors' serialisers call them.
_ALIASES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",
}
ALIAS_OF: Dict[str, str] = {name: alias for alias, name in _ALIASES.items()}


def find(dtype: object) -> Dtype:
    """The dtype that a name, a NumPy or a torch dtype means."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    text = str(name or dtype).rpartition(".")[2]
    found: Optional[Dtype] = BY_NAME.get(_ALIASES.get(text, text))
    if found is None:
        raise _errors.make(22, f"dtype {dtype!r} is none that weir knows")
    return found
