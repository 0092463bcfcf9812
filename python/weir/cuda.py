# SPDX-License-Identifier: MIT
"""CUDA streams that wait for tensors, so that no thread of the host does."""

from __future__ import annotations

import operator
from typing import Any

from . import _check, _weir


def wait(stream: Any, tensor: _weir.Tensor) -> None:
    """Let later work of a CUDA stream wait until a tensor has arrived.

    stream: a ``torch.cuda.Stream``, an object with ``__cuda_stream__``, or a
    CUstream, as a number or an object that int() makes one of. tensor: of
    ``weir.load(..., wait=False)``. Returns at once; for a tensor of the host, when
    it has arrived.
    """
    if not isinstance(tensor, _weir.Tensor):
        raise _check.wrong(
            "tensor", tensor, "a weir.Tensor; others have arrived"
        )
    if hasattr(stream, "__cuda_stream__"):
        number = int(stream.__cuda_stream__()[1])
    else:
        number = _number(getattr(stream, "cuda_stream", stream))
    # 0 means no stream in DLPack, and 1 the default one.
    tensor.__dlpack__(stream=number or 1, max_version=(1, 0))


def _number(stream: Any) -> int:
    """Of a CUstream; those of numba and of cuda.bindings have only int()."""
    if not isinstance(stream, (bool, float, str, bytes, bytearray)):
        for make in (operator.index, int):
            try:
                return make(stream)
            except (TypeError, ValueError):
                pass
    raise _check.wrong(
        "stream", stream, "a stream of torch, or the number of a CUstream"
    )
