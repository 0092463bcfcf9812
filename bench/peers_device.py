# SPDX-License-Identifier: MIT
"""Loads to a GPU, with the interfaces that the loaders' documents show.

All leave the tensors in device memory that stays valid when the loader is
closed. begin() is called before the clock starts, finish() before it stops.
"""
from contextlib import ExitStack


def begin(device):
    """Make the context, which a program that uses PyTorch has by then."""
    import torch
    torch.cuda.set_device(torch.device(device))
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)


def finish(device):
    import torch
    torch.cuda.synchronize(device)


def device_safetensors(paths, device, **settings):
    from safetensors import safe_open
    tensors = {}
    for path in paths:
        with safe_open(path, "pt", device=device, **settings) as f:
            for name in f.keys():
                tensors[name] = f.get_tensor(name)
    return tensors


def device_prefetch(paths, device, **settings):
    """All files are started before the first one is waited for."""
    from safetensors import safe_open
    tensors = {}
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(path, "pt")) for path in paths]
        loaders = [stack.enter_context(f.prefetch(device=device, **settings))
                   for f in files]
        for loader in loaders:
            tensors.update(loader)
    return tensors


def device_fastsafetensors(paths, device, loader=None, copy=None):
    """Tensors are views of a buffer that they keep alive: not copied."""
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup
    files = SafeTensorsFileLoader(SingleGroup(), device, **(loader or {}))
    files.add_filenames({0: paths})
    buffer = files.copy_files_to_device(**(copy or {}))
    return {name: buffer.get_tensor(name) for name in files.get_keys()}


def device_runai(paths, device):
    from runai_model_streamer import SafetensorsStreamer
    with SafetensorsStreamer() as streamer:
        streamer.stream_files(paths, device=device)
        return dict(streamer.get_tensors())


def device_instanttensor(paths, device, **settings):
    """By default each tensor is a clone that owns its memory."""
    from instanttensor import safe_open
    with safe_open(paths, framework="pt", device=device, **settings) as f:
        return dict(f.tensors())


LOADERS = {f.__name__: f for f in (
    device_safetensors, device_prefetch, device_fastsafetensors, device_runai,
    device_instanttensor)}

# As in peers_child.py, the first has the version.
MODULES = {
    "device_fastsafetensors": ["fastsafetensors", "torch"],
    "device_runai": ["runai_model_streamer", "torch"],
    "device_instanttensor": ["instanttensor", "torch"],
}
