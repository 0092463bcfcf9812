# SPDX-License-Identifier: MIT
"""The calls of safetensors.numpy."""

from __future__ import annotations

from typing import Any, Dict, Optional

from . import _frameworks, _load, _serialize
from ._model import Path
from ._open import safe_open


def load_file(filename: Path, *, backend: str = "mmap") -> Dict[str, Any]:
    """Load all tensors of a file as NumPy arrays, by name."""
    with safe_open(filename, "np", backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> Dict[str, Any]:
    """NumPy arrays of the bytes of a safetensors file, by name."""
    return _serialize.deserialize(data).all(_frameworks.maker("numpy"))


def save_file(
    tensor_dict: Dict[str, Any],
    filename: Path,
    metadata: Optional[Dict[str, str]] = None,
) -> None:
    """Save arrays to a file, which replaces an earlier one when it is whole."""
    _load.save(tensor_dict, filename, metadata, format="safetensors")


def save(
    tensor_dict: Dict[str, Any], metadata: Optional[Dict[str, str]] = None
) -> bytes:
    """The bytes of a safetensors file with these arrays."""
    return _serialize.serialize(tensor_dict, metadata)
