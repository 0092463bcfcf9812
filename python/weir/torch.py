# SPDX-License-Identifier: MIT
"""The calls of safetensors.torch."""

from __future__ import annotations

from typing import Any, Dict, Optional, Union

from . import _frameworks, _load, _serialize
from ._model import Path
from ._open import safe_open


def load_file(
    filename: Path, device: Union[str, int] = "cpu", *, backend: str = "mmap"
) -> Dict[str, Any]:
    """Load all tensors of a file as torch tensors on ``device``, by name."""
    with safe_open(filename, "pt", device, backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> Dict[str, Any]:
    """Torch tensors of the bytes of a safetensors file, by name."""
    return _serialize.deserialize(data).all(_frameworks.maker("torch"))


def save_file(
    tensors: Dict[str, Any],
    filename: Path,
    metadata: Optional[Dict[str, str]] = None,
) -> None:
    """Save tensors to a file, which replaces an earlier one when it is whole."""
    _load.save(tensors, filename, metadata, format="safetensors")


def save(
    tensors: Dict[str, Any], metadata: Optional[Dict[str, str]] = None
) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    return _serialize.serialize(tensors, metadata)
