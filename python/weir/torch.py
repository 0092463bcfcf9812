# SPDX-License-Identifier: MIT
"""The calls of safetensors.torch."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple, Union

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
    """Save tensors to a file, which replaces an earlier one when it is whole.

    Raises RuntimeError if tensors share memory, ValueError if one is sparse or
    not contiguous: ``save_model`` takes models with such tensors.
    """
    _check(tensors)
    _load.save(tensors, filename, metadata, format="safetensors")


def save(
    tensors: Dict[str, Any], metadata: Optional[Dict[str, str]] = None
) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    _check(tensors)
    return _serialize.serialize(tensors, metadata)


def save_model(
    model: Any,
    filename: Path,
    metadata: Optional[Dict[str, str]] = None,
    force_contiguous: bool = True,
) -> None:
    """Save the parameters of a module. Of tensors that share memory one is
    saved, and the metadata say by which name the others are found."""
    state = model.state_dict()
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


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


def _check(tensors: Dict[str, Any]) -> None:
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
