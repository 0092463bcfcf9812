# SPDX-License-Identifier: MIT
"""The calls of safetensors.flax: arrays of JAX.

Arrays are made by DLPack, without a copy: loads place tensors at multiples of
64 bytes, as XLA wants them on CPUs. JAX copies what it has to change: 64-bit
elements, unless ``jax_enable_x64`` is set, and float8 in releases whose DLPack
does not have it. What ``safe_open`` reads one by one, by get_tensor and
get_slice, is not aligned, so that JAX may copy it.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from . import _frameworks, _load, _serialize
from ._model import Path
from ._open import safe_open


def load_file(filename: Path, *, backend: str = "mmap") -> Dict[str, Any]:
    """Load all tensors of a file as arrays of JAX on the CPU, by name."""
    with safe_open(filename, "flax", backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> Dict[str, Any]:
    """Arrays of JAX of the bytes of a safetensors file, by name."""
    align = _frameworks.align_of("jax")
    running = _serialize.deserialize(data, align=align)
    return running.all(_frameworks.maker("jax"))


def save_file(
    tensors: Mapping[str, Any],
    filename: Path,
    metadata: Optional[Dict[str, str]] = None,
) -> None:
    """Save arrays to a file, which replaces an earlier one when it is whole."""
    arrays = _to_numpy(tensors)
    _load.save(arrays, filename, metadata, format="safetensors")


def save(
    tensors: Mapping[str, Any], metadata: Optional[Dict[str, str]] = None
) -> bytes:
    """The bytes of a safetensors file with these arrays."""
    return _serialize.serialize(_to_numpy(tensors), metadata)


def _to_numpy(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """The arrays in memory of the host; anything that NumPy makes one of."""
    import numpy

    return {name: numpy.asarray(array) for name, array in tensors.items()}
