# SPDX-License-Identifier: MIT
"""weir in the place of safetensors, for programs that do not know of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any, Dict, List, Tuple

from . import _errors, _open

# What was replaced: (module, name, the original).
_replaced: List[Tuple[types.ModuleType, str, Any]] = []
# Modules that were made, because safetensors is not installed.
_made: List[str] = []

_CALLS = ("load_file", "load", "save_file", "save", "save_model", "load_model")
# Modules of safetensors and of weir, and what they import.
_MODULES = {"numpy": "numpy", "torch": "torch", "flax": "jax"}


def replace_safetensors() -> None:
    """Put weir in the place of safetensors, in the whole process.

    ``safetensors.safe_open`` and the calls of ``safetensors.torch`` and
    ``safetensors.numpy`` become weir's, also where loaded modules hold them by
    name; modules that are imported later get them as well. Without safetensors
    modules of its name are made. ``restore_safetensors`` undoes it.
    """
    if _replaced or _made:
        return
    if importlib.util.find_spec("safetensors") is None:
        _make_modules()
        return
    import safetensors

    swap: Dict[int, Any] = {}
    _open.safe_open._original = safetensors.safe_open
    _open.safe_open_handle._original = getattr(
        safetensors, "_safe_open_handle", None
    )
    _put(safetensors, "safe_open", _open.safe_open, swap)
    _put(safetensors, "_safe_open_handle", _open.safe_open_handle, swap)
    for name, needed in _MODULES.items():
        if importlib.util.find_spec(needed) is None:
            continue
        if needed == "jax" and needed not in sys.modules:
            continue  # safetensors.flax calls safe_open and numpy, as they are
        ours = importlib.import_module(f"weir.{name}")
        theirs = importlib.import_module(f"safetensors.{name}")
        _put(theirs, "safe_open", _open.safe_open, swap)
        for call in _CALLS:
            if hasattr(ours, call) and hasattr(theirs, call):
                _put(theirs, call, getattr(ours, call), swap)
    _rebind(swap)


def restore_safetensors() -> None:
    """Undo ``replace_safetensors``."""
    _open.safe_open._original = None
    _open.safe_open_handle._original = None
    while _replaced:
        module, name, original = _replaced.pop()
        setattr(module, name, original)
    while _made:
        sys.modules.pop(_made.pop(), None)


def _put(
    module: types.ModuleType, name: str, ours: Any, swap: Dict[int, Any]
) -> None:
    original = getattr(module, name, None)
    if original is None or original is ours:
        return
    _replaced.append((module, name, original))
    setattr(module, name, ours)
    swap[id(original)] = ours


def _rebind(swap: Dict[int, Any]) -> None:
    """Replace what modules have imported by name."""
    for module in list(sys.modules.values()):
        # Modules may be lazy: only what they hold now is looked at.
        names = getattr(module, "__dict__", None)
        name_of = getattr(module, "__name__", "")
        if not isinstance(names, dict) or str(name_of).startswith("weir"):
            continue
        for name, value in list(names.items()):
            ours = swap.get(id(value))
            if ours is not None and isinstance(module, types.ModuleType):
                _replaced.append((module, name, value))
                names[name] = ours


def _make_modules() -> None:
    """A package safetensors of weir's calls."""
    import weir

    package: Any = types.ModuleType("safetensors", "weir, as safetensors.")
    package.__path__ = []
    package.__version__ = "0.8.0"
    package.safe_open = _open.safe_open
    package._safe_open_handle = _open.safe_open_handle
    package.SafetensorError = _errors.SafetensorError
    package.weir = weir
    made = {"safetensors": package}
    for name, needed in _MODULES.items():
        if importlib.util.find_spec(needed) is not None:
            module = importlib.import_module(f"weir.{name}")
            made[f"safetensors.{name}"] = module
            setattr(package, name, module)
    sys.modules.update(made)
    _made.extend(made)
