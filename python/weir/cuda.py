# SPDX-License-Identifier: MIT
"""CUDA streams that wait for tensors, so that no thread of the host does."""

from __future__ import annotations

from typing import Any

from . import _check, _weir


def wait(stream: Any, tensor: _weir.Tensor) -> None:
    """Let later work of a CUDA stream wait until a tensor has arrived.

    stream: a ``torch.cuda.Stream``, an object with ``__cuda_stream__``, or the
    number of a CUstream. tensor: of ``weir.load(..., wait=False)``. Returns at
    once; for a tensor of the host, when it has arrived.
    """
    if not isinstance(tensor, _weir.Tensor):
        raise _check.wrong(
            "tensor", tensor, "a weir.Tensor; others have arrived"
        )
    if hasattr(stream, "__cuda_stream__"):
        number = int(stream.__cuda_stream__()[1])
    else:
        stream = getattr(stream, "cuda_stream", stream)
        if isinstance(stream, bool) or not isinstance(stream, int):
            raise _check.wrong(
                "stream", stream, "a stream of torch, or the number of a CUstream"
            )
        number = stream
    # 0 means no stream in DLPack, and 1 the default one.
    tensor.__dlpack__(stream=number or 1, max_version=(1, 0))
