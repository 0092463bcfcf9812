# SPDX-License-Identifier: MIT
"""The calls of safetensors.torch; modules that are parked; weir's heaps."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import defaultdict
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
    Union,
)

from . import _check, _errors, _frameworks, _load, _serialize, _weir
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
    """Save tensors to a file, which replaces an earlier one when it is whole.

    Raises RuntimeError if tensors share memory, ValueError if one is sparse or
    not contiguous: ``save_model`` takes models with such tensors.
    """
    _savable(tensors)
    _load.save(tensors, filename, metadata, format="safetensors")


def save(
    tensors: Dict[str, Any], metadata: Optional[Dict[str, str]] = None
) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    _savable(tensors)
    return _serialize.serialize(tensors, metadata)


def save_model(
    model: Any,
    filename: Path,
    metadata: Optional[Dict[str, str]] = None,
    force_contiguous: bool = True,
) -> None:
    """Save the parameters of a module. Of tensors that share memory one is
    saved, and the metadata say by which name the others are found."""
    state = _module("model", model).state_dict()
    pairs = dict(metadata or {})
    for kept, others in _duplicates(state).items():
        for name in others:
            pairs.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, pairs or metadata)
    except ValueError as error:
        raise ValueError(
            f"{error} Or use save_model(..., force_contiguous=True), read the "
            "docs for potential caveats."
        ) from None


def load_model(
    model: Any,
    filename: Path,
    strict: bool = True,
    device: Union[str, int] = "cpu",
    *,
    backend: str = "mmap",
) -> Tuple[Set[str], List[str]]:
    """Load a file into a module; returns missing and unexpected names."""
    _module("model", model)
    state = load_file(filename, device, backend=backend)
    duplicates = _duplicates(model.state_dict(), preferred=state)
    absent, unexpected = model.load_state_dict(state, strict=False)
    missing = set(absent)
    for others in duplicates.values():
        for name in others:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        if missing:
            text += f"\n    Missing key(s) in state_dict: {_quote(missing)}"
        if unexpected:
            text += (
                f"\n    Unexpected key(s) in state_dict: {_quote(unexpected)}"
            )
        raise RuntimeError(text)
    return missing, unexpected


def _module(name: str, module: Any) -> Any:
    if not hasattr(module, "state_dict"):
        raise _check.wrong(name, module, "a torch.nn.Module")
    return module


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


def _savable(tensors: Dict[str, Any]) -> None:
    """Refuse what a file cannot hold, in the words of safetensors."""
    import torch

    if not isinstance(tensors, dict):
        raise ValueError(
            "Expected a dict of [str, torch.Tensor] but received "
            f"{type(tensors)}"
        )
    sparse = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected torch.Tensor but received "
                f"{type(tensor)}"
            )
        if tensor.layout != torch.strided:
            sparse.append(name)
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this "
            "library does not support. You can make it a dense tensor before "
            "saving with `.to_dense()` but be aware this might make a much "
            "larger file than needed."
        )
    shared = [names for names in _sharing(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on "
            "disk and potential differences when loading them again: "
            f"{shared}. A potential way to correctly save your model is to use "
            "`save_model`."
        )
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` "
                "which is not allowed. It either means you are trying to save "
                "tensors which are reference of each other in which case it's "
                "recommended to save only the full tensors, and reslice at "
                "load time, or simply call `.contiguous()` on your tensor to "
                "pack it before saving."
            )


def _span(tensor: Any) -> Tuple[int, int]:
    """The addresses from the first to the end of the last element."""
    start: int = tensor.data_ptr()
    if not tensor.nelement():
        return start, start
    last = sum(
        (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())
    )
    return start, start + (last + 1) * tensor.element_size()


def _sharing(state: Dict[str, Any]) -> List[Set[str]]:
    """Groups of names whose tensors overlap in memory."""
    storages: Dict[Any, List[str]] = defaultdict(list)
    for name, tensor in state.items():
        if tensor.device.type == "meta":
            continue
        storage = tensor.untyped_storage()
        if storage.data_ptr() and storage.nbytes():
            key = (tensor.device, storage.data_ptr(), storage.nbytes())
            storages[key].append(name)
    groups: List[Set[str]] = []
    for names in storages.values():
        end = -1
        for start, stop, name in sorted((*_span(state[n]), n) for n in names):
            if start >= end:
                groups.append({name})
            else:
                groups[-1].add(name)
            end = stop
    return groups


def _is_complete(tensor: Any) -> bool:
    """True if the tensor is the whole of its storage."""
    storage = tensor.untyped_storage()
    return bool(
        tensor.data_ptr() == storage.data_ptr()
        and tensor.nelement() * tensor.element_size() == storage.nbytes()
    )


def _duplicates(
    state: Dict[str, Any], preferred: Iterable[str] = ()
) -> Dict[str, List[str]]:
    """Of each group that shares memory the name to keep, and the others."""
    found: Dict[str, List[str]] = {}
    wanted = set(preferred)
    for group in _sharing(state):
        if len(group) < 2:
            continue
        whole = {name for name in group if _is_complete(state[name])}
        if not whole:
            raise RuntimeError(
                "Error while trying to find names to remove to save state "
                "dict, but found no suitable name to keep for saving amongst: "
                f"{group}. None is covering the entire storage. Refusing to "
                "save/load the model since you could be storing much more "
                "memory than needed."
            )
        kept = min(whole & wanted or whole)
        found[kept] = sorted(group - {kept})
    return found


def _tensors_of(module: Any) -> Dict[str, Any]:
    """Its parameters and buffers by name; those of tied weights too."""
    _module("module", module)
    found = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _load_of(tensor: Any) -> Optional[_weir.Load]:
    """The load that can park a tensor."""
    if tensor.device.type not in ("cpu", "cuda") or not tensor.numel():
        return None
    return _weir.parkable_at(tensor.untyped_storage().data_ptr())


def _loads_of(module: Any) -> List[Tuple[_weir.Load, Any, List[Any]]]:
    """The loads that can park tensors of a module: (load, device, tensors)."""
    found: Dict[int, Tuple[_weir.Load, Any, List[Any]]] = {}
    for name, tensor in _tensors_of(module).items():
        load = _load_of(tensor)
        if load is not None:
            entry = found.setdefault(id(load), (load, tensor.device, []))
            entry[2].append((name, tensor))
    if not found:
        raise _errors.make(
            22,
            "no tensor of the module is of weir.load(..., parkable=True): load "
            "its state_dict so, and assign it with "
            "load_state_dict(tensors, assign=True)",
        )
    return list(found.values())


def park(
    module: Any,
    to: Path = "host",
    *,
    unchanged: bool = False,
    changed: Iterable[str] = (),
) -> None:
    """Release the memory of a module's weights; ``unpark`` brings them back.

        tensors = weir.load(path, device="cuda:0", parkable=True)
        module.load_state_dict(tensors, assign=True)
        with weir.torch.parked(module, unchanged=True):
            ...                                # others use the memory

    The arguments are those of ``Tensors.park``; changed has names of the
    module. All parameters and buffers of the module that are of
    ``weir.load(..., parkable=True)`` are parked, and with them all other
    tensors of the same loads. Their addresses stay, so the module, views and
    CUDA graphs are valid when the weights are back; until then nobody may use
    them. Other tensors stay where they are. Waits for the streams of the
    device. Raises ``weir.Error``: then all are as before.
    """
    loads = _loads_of(module)
    names = set(_load.list_changed(changed, unchanged))
    unknown = names.difference(_tensors_of(module))
    if unknown:
        raise _errors.make(22, f"the module has no {sorted(unknown)[0]!r}")
    parked: List[_weir.Load] = []
    try:
        for load, device, tensors in loads:
            numbers = _numbers(load, [t for n, t in tensors if n in names])
            if device.type == "cuda":
                import torch

                torch.cuda.synchronize(device)
            on_host = device.type == "cpu"
            _load.park(load, on_host, to, unchanged, numbers)
            parked.append(load)
    except BaseException:
        for load in parked:
            load.unpark()
        raise


def _numbers(load: _weir.Load, tensors: List[Any]) -> List[int]:
    """The numbers of tensors in their load."""
    if not tensors:
        return []
    number = {load.tensor(i, True).address: i for i in range(len(load))}
    return [number[t.untyped_storage().data_ptr()] for t in tensors]


def unpark(module: Any) -> None:
    """Bring the parked weights of a module back to their addresses; blocks.

    Raises ``weir.Error`` if there is no memory, or a file has changed; call it
    again when that is mended.
    """
    for load, _, _ in _loads_of(module):
        if load.park_info()["state"] != "resident":
            load.unpark()


@contextlib.contextmanager
def parked(module: Any, to: Path = "host", **options: Any) -> Iterator[None]:
    """``with weir.torch.parked(module):`` parks, and unparks at its end."""
    park(module, to, **options)
    try:
        yield
    finally:
        unpark(module)


def hooks() -> ctypes.CDLL:
    """libweir-torch, which is installed beside the library: weir-hooks(7)."""
    folder = os.path.dirname(os.path.realpath(_weir.library))
    path = os.path.join(folder, "libweir-torch.so")
    if not os.path.exists(path):
        raise _errors.make(
            95, f"{path}: there is none, this weir was built without CUDA"
        )
    return ctypes.CDLL(path)


def allocator() -> Any:
    """A ``torch.cuda.memory.CUDAPluggableAllocator`` of weir's heaps.

    ``torch.cuda.MemPool(weir.torch.allocator().allocator())`` is a pool for a
    part of a program; ``use_allocator`` is for all of it.
    """
    from torch.cuda import memory

    library = hooks()
    made = memory.CUDAPluggableAllocator(
        library._name, "weir_torch_alloc", "weir_torch_free"
    )
    functions = made.allocator()
    # Tensor.record_stream() and torch.cuda.empty_cache() call these.
    for name, set_function in (
        ("weir_torch_record_stream", functions.set_record_stream_fn),
        ("weir_torch_empty_cache", functions.set_reset_fn),
    ):
        function = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        set_function(function.value)
    return made


def use_allocator() -> None:
    """Let torch allocate all memory of GPUs from weir's heaps.

    Call it before a tensor of a GPU is made: later torch refuses. The device
    must be one that weir has ("CUDA0" of ``weir.devices()`` is ``cuda:0``).
    Memory that was freed in a stream is used again there at once, and in other
    streams when the queued work is done. With it torch has no statistics, no
    snapshots and no memory that processes share; weir-hooks(7) has the limits.
    """
    from torch.cuda import memory

    memory.change_current_allocator(allocator())
