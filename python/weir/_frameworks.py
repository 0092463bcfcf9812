# SPDX-License-Identifier: MIT
"""Makers of torch tensors, NumPy arrays and others, over weir's memory."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from . import _dtypes, _errors, _root, _weir

_NAMES = {
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "np": "numpy",
    "numpy": "numpy",
    "jax": "jax",
    "flax": "jax",
}

# Frameworks of safetensors that weir has no maker of, and how arrays become
# tensors of them.
OTHERS = {
    "tf": "tensorflow.convert_to_tensor",
    "tensorflow": "tensorflow.convert_to_tensor",
    "mlx": "mlx.core.array",
    "paddle": "paddle.to_tensor",
}

_makers: Dict[str, _weir.Maker] = {}

View = Callable[[Any, Tuple[int, ...]], Any]


def name_of(framework: Optional[str]) -> str:
    """One name for each framework; None is the one that the program uses."""
    if framework is None:
        for name in ("torch", "numpy"):
            if sys.modules.get(name) is not None:
                return name
        return "weir"
    if framework == "weir":
        return framework
    if not isinstance(framework, str):
        raise TypeError(f"framework is a str, not {type(framework).__name__}")
    if framework in OTHERS:
        raise _errors.fail(
            f'framework {framework} is not supported: open it with "np", and '
            f"give the arrays to {OTHERS[framework]}()"
        )
    if framework not in _NAMES:
        raise _errors.fail(
            f"framework {framework} is invalid: weir has "
            + ", ".join(f'"{name}"' for name in (*_NAMES, "weir"))
        )
    return _NAMES[framework]


def maker(name: str) -> _weir.Maker:
    """The maker of a framework, which is imported if need be."""
    found = _makers.get(name)
    if found is None:
        found = _makers[name] = _NEW[name]()
    return found


def absent(error: ModuleNotFoundError) -> _weir.Maker:
    """A maker that raises: the framework is missing when it is needed."""

    def make(tensor: _weir.Tensor) -> Any:
        raise error

    return _weir.Maker(make)


def moved(make: _weir.Maker, device: str) -> _weir.Maker:
    """A maker of tensors of torch on a device that only torch knows."""
    return _weir.Maker(lambda tensor: make(tensor).to(device))


def _same(tensor: _weir.Tensor) -> _weir.Tensor:
    return tensor


def _weir_maker() -> _weir.Maker:
    return _weir.Maker(_same)


_NUMPY = {
    name: name.replace("F", "float") for name in ("F16", "F32", "F64")
}


def _numpy_dtypes() -> Dict[int, Any]:
    numpy = importlib.import_module("numpy")
    known = {
        "BOOL": numpy.dtype("bool"),
        "C64": numpy.dtype("complex64"),
    }
    for alias, name in (
        (a, n) for n, a in _dtypes.ALIAS_OF.items() if n[0] in "UIF"
    ):
        if alias.startswith(("uint", "int")) or alias in (
            "float16",
            "float32",
            "float64",
        ):
            known[name] = numpy.dtype(alias)
    try:
        extra = importlib.import_module("ml_dtypes")
    except ImportError:
        extra = None
    for name in ("BF16", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ",
                 "F8_E8M0"):
        scalar = getattr(extra, _dtypes.ALIAS_OF[name], None)
        if scalar is not None:
            known[name] = numpy.dtype(scalar)
    found = {_dtypes.BY_NAME[name].code: d for name, d in known.items()}
    # Blocks of quantised elements are bytes; the last dimension counts them.
    for dtype in _dtypes.BY_CODE.values():
        if dtype.block > 1:
            found[dtype.code] = numpy.dtype("uint8")
    return found


def _numpy_maker() -> _weir.Maker:
    numpy = importlib.import_module("numpy")
    return _weir.Maker(numpy.ndarray, "array", None, _numpy_dtypes())


def _torch_view(dtype: Any, packed: int) -> View:
    def view(raw: Any, shape: Tuple[int, ...]) -> Any:
        if packed > 1:
            shape = shape[:-1] + (shape[-1] // packed,)
        return raw.view(dtype).reshape(shape)

    return view


def _torch_takes(make: _weir.Maker, code: int, dtype: Any) -> bool:
    """True if this release of torch takes the dtype through DLPack."""
    memory = _weir.Memory(_root.default(), 16)
    try:
        return bool(make(memory.tensor(0, code, (2,))).dtype == dtype)
    except (RuntimeError, BufferError, TypeError, ValueError):
        return False


def _torch_views(torch: Any, make: _weir.Maker) -> Dict[int, View]:
    views: Dict[int, View] = {}
    for name, alias in _dtypes.ALIAS_OF.items():
        code = _dtypes.BY_NAME[name].code
        dtype = getattr(torch, alias, None)
        if dtype is None:
            continue
        if name == "F4":
            views[code] = _torch_view(dtype, 2)
        elif not _torch_takes(make, code, dtype):
            views[code] = _torch_view(dtype, 1)
    return views


def _torch_maker() -> _weir.Maker:
    torch = importlib.import_module("torch")
    make: Any = torch.Tensor
    mode = "exchange"
    if not _weir.exchange_api(make):
        make, mode = torch.from_dlpack, "tensor"
    views = _torch_views(torch, _weir.Maker(make, mode))
    return _weir.Maker(make, mode, views or None)


def _jax_takes(make: Callable[[Any], Any], code: int) -> bool:
    """True if this release of JAX takes the dtype through DLPack."""
    memory = _weir.Memory(_root.default(), 64)
    try:
        make(memory.tensor(0, code, (2,)))
    except (RuntimeError, BufferError, TypeError, ValueError):
        return False
    return True


def _jax_maker() -> _weir.Maker:
    asarray = importlib.import_module("jax.numpy").asarray
    from_dlpack = importlib.import_module("jax.dlpack").from_dlpack
    arrays = maker("numpy")
    copied = {
        code
        for code in _numpy_dtypes()
        if _dtypes.BY_CODE[code].block == 1
        and not _jax_takes(from_dlpack, code)
    }

    def make(tensor: _weir.Tensor) -> Any:
        if tensor.code in copied:
            return asarray(arrays(tensor))
        return from_dlpack(tensor)

    return _weir.Maker(make)


def align_of(name: str) -> int:
    """The alignment that a framework wants in memory of the host; 0: any."""
    return 64 if name == "jax" else 0


_NEW: Dict[str, Callable[[], _weir.Maker]] = {
    "weir": _weir_maker,
    "numpy": _numpy_maker,
    "torch": _torch_maker,
    "jax": _jax_maker,
}
