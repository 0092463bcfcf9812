# SPDX-License-Identifier: MIT
"""Loads model weights from files into memory and devices, asynchronously.

    import weir

    tensors = weir.load("model.safetensors")             # or a folder
    for name, tensor in weir.stream("model/", device="cuda:0"):
        ...

``weir.safe_open``, ``weir.torch`` and ``weir.numpy`` have the calls of
safetensors. Errors are ``weir.Error``.
"""


import sys
from typing import TYPE_CHECKING, Any, List

from . import _weir

# A free-threaded build has it on after this import, unless it was forced off.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "weir needs the GIL: start Python without -X gil=0 and PYTHON_GIL=0"
    )

from ._digest import Digests, digest, verify
from ._errors import (
    CancelledError,
    ChangedError,
    ClosedError,
    DeviceError,
    Error,
    FileError,
    FormatError,
    InvalidError,
    OutOfMemoryError,
    SafetensorError,
    UnsupportedError,
)
from ._command import convert
from ._into import load_into
from ._load import Tensors, load, save, stream
from ._open import safe_open
from ._prefetch import PrefetchLoader
from ._ranks import Ranks
from ._replace import replace_safetensors, restore_safetensors
from ._report import Report
from ._root import Root, devices
from ._weir import Tensor
from ._weir import version as __version__

if TYPE_CHECKING:
    from ._async import load_async, stream_async
    from ._graph import Graph, Node
    from ._plan import Plan, Run
    from ._recording import recording

__all__ = [
    "CancelledError",
    "ChangedError",
    "ClosedError",
    "DeviceError",
    "Digests",
    "Error",
    "FileError",
    "FormatError",
    "Graph",
    "InvalidError",
    "Node",
    "OutOfMemoryError",
    "Plan",
    "PrefetchLoader",
    "Ranks",
    "Report",
    "Root",
    "Run",
    "SafetensorError",
    "Tensor",
    "Tensors",
    "UnsupportedError",
    "__version__",
    "convert",
    "devices",
    "digest",
    "load",
    "load_async",
    "load_into",
    "recording",
    "replace_safetensors",
    "restore_safetensors",
    "safe_open",
    "save",
    "stream",
    "stream_async",
    "verify",
]


def _no_recording(*unused: Any, **options: Any) -> Any:
    """Tensors that note copies: needs torch, which is not installed."""
    raise ModuleNotFoundError("weir.recording needs torch", name="torch")


def __getattr__(name: str) -> Any:
    """What needs torch or asyncio is imported when it is used."""
    if name in ("cuda", "flax", "numpy", "torch"):
        import importlib

        return importlib.import_module(f"weir.{name}")
    if name in ("load_async", "stream_async"):
        from . import _async

        return getattr(_async, name)
    if name in ("Graph", "Node"):
        from . import _graph

        return getattr(_graph, name)
    if name in ("Plan", "Run"):
        from . import _plan

        return getattr(_plan, name)
    if name == "recording":
        try:
            from ._recording import recording
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            return _no_recording
        return recording
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
