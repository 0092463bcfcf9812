# SPDX-License-Identifier: MIT
"""Loads model weights from files into memory and devices, asynchronously.

    import weir

    tensors = weir.load("model.safetensors")             # or a folder
    for name, tensor in weir.stream("model/", device="cuda:0"):
        ...

``weir.safe_open``, ``weir.torch`` and ``weir.numpy`` have the calls of
safetensors. Errors are ``weir.Error``.
"""


from ._errors import (
    CancelledError,
    ChangedError,
    ClosedError,
    Error,
    FileError,
    FormatError,
    InvalidError,
    OutOfMemoryError,
    SafetensorError,
    UnsupportedError,
)
from ._load import Tensors, load, save, stream
from ._open import safe_open
from ._root import Root, devices
from ._weir import Tensor
from ._weir import version as __version__

__all__ = [
    "CancelledError",
    "ChangedError",
    "ClosedError",
    "Error",
    "FileError",
    "FormatError",
    "InvalidError",
    "OutOfMemoryError",
    "Root",
    "SafetensorError",
    "Tensor",
    "Tensors",
    "UnsupportedError",
    "__version__",
    "devices",
    "load",
    "safe_open",
    "save",
    "stream",
]
