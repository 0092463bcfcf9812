# SPDX-License-Identifier: MIT
"""One load by one loader, in a process of its own that bench/peers starts.

Prints "ready" when everything is imported, waits for a line, loads, and prints
a line of JSON with the time and then the digest of every tensor in the loaded
memory. prepare() imports the modules of a loader before; the import statements
in its function only look them up. Every loader ends with all bytes in memory
that the process owns: tensors that map the file, or that are views of a lent
buffer, are copied out. With a device (peers_device.py) that is the device's
memory, and its context exists before "ready".
"""
import json
import os
import resource
import struct
import sys
import time
from importlib import import_module
from importlib.metadata import version

import peers_device
import peers_llama


def plain(paths):
    """The reference: a simple reader of the format, a range at a time."""
    if paths[0].endswith(".gguf"):
        from gguf import GGUFReader
        return {t.name: t.data for t in GGUFReader(paths[0]).tensors}
    tensors = {}
    for path in paths:
        with open(path, "rb") as f:
            length = struct.unpack("<Q", f.read(8))[0]
            header = json.loads(f.read(length))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                f.seek(8 + length + begin)
                tensors[name] = f.read(end - begin)
    return tensors


def safetensors_numpy(paths):
    from safetensors import safe_open
    tensors = {}
    for path in paths:
        with safe_open(path, "np") as f:
            for name in f.keys():
                tensors[name] = f.get_tensor(name)      # a copy
    return tensors


def safetensors_mmap(paths):
    from safetensors import safe_open
    tensors = {}
    for path in paths:
        with safe_open(path, "pt") as f:
            for name in f.keys():
                tensors[name] = f.get_tensor(name).clone()
    return tensors


def safetensors_pool(paths, threads=2):
    """mmap, and threads that copy out, as some servers do."""
    import torch
    from concurrent.futures import ThreadPoolExecutor
    from safetensors import safe_open
    files = [safe_open(path, "pt") for path in paths]

    def copy(job):
        return job[1], job[0].get_tensor(job[1]).clone()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(threads) as pool:
        return dict(pool.map(copy, [(f, n) for f in files for n in f.keys()]))


def safetensors_pread(paths):
    from safetensors import safe_open
    tensors = {}
    for path in paths:
        with safe_open(path, "pt", backend="pread") as f:
            for name in f.keys():
                tensors[name] = f.get_tensor(name)
    return tensors


def safetensors_pread_pool(paths, threads=2):
    from concurrent.futures import ThreadPoolExecutor
    from safetensors import safe_open
    files = [safe_open(path, "pt", backend="pread") for path in paths]

    def read(job):
        return job[1], job[0].get_tensor(job[1])
    with ThreadPoolExecutor(threads) as pool:
        return dict(pool.map(read, [(f, n) for f in files for n in f.keys()]))


def safetensors_prefetch(paths):
    from safetensors import safe_open
    tensors = {}
    for path in paths:
        with safe_open(path, "pt", backend="pread") as f:
            with f.prefetch() as loader:
                tensors.update(loader)
    return tensors


def fastsafetensors(paths, loader=None, copy=None):
    """Tensors are views of a buffer that they keep alive: not copied."""
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup
    files = SafeTensorsFileLoader(SingleGroup(), "cpu", **(loader or {}))
    files.add_filenames({0: paths})
    buffer = files.copy_files_to_device(**(copy or {}))
    return {name: buffer.get_tensor(name) for name in files.get_keys()}


def runai(paths):
    """Tensors are owned by the caller by default: not copied."""
    from runai_model_streamer import SafetensorsStreamer
    with SafetensorsStreamer() as streamer:
        streamer.stream_files(paths)
        return dict(streamer.get_tensors())


def each(load_file, paths, **options):
    """load_file() of torch tensors for each file."""
    tensors = {}
    for path in paths:
        tensors.update(load_file(path, **options))
    return tensors


def weir_python(paths, **options):
    from weir.torch import load_file
    return each(load_file, paths, **options)


def safetensors_python(paths, **options):
    from safetensors.torch import load_file
    return each(load_file, paths, **options)


def read_all(tensors):
    """Read every byte, as the program that needed them would."""
    from xxhash import xxh3_64_intdigest
    for tensor in tensors.values():
        xxh3_64_intdigest(view(tensor))


LOADERS = {f.__name__: f for f in (
    weir_python, safetensors_python, plain, safetensors_numpy, safetensors_mmap, safetensors_pool,
    safetensors_pread, safetensors_pread_pool, safetensors_prefetch,
    fastsafetensors, runai)}
LOADERS.update(peers_device.LOADERS)
LOADERS.update(peers_llama.LOADERS)


# Modules of each loader; the first has the version, torch is the last.
MODULES = {
    "plain": [],
    "weir_python": ["weir", "weir.torch", "torch"],
    "safetensors_python": ["safetensors", "safetensors.torch", "torch"],
    "safetensors_numpy": ["safetensors", "safetensors.numpy", "ml_dtypes"],
    "fastsafetensors": ["fastsafetensors", "torch"],
    "runai": ["runai_model_streamer", "torch"],
}
MODULES.update(peers_device.MODULES)
MODULES.update(peers_llama.MODULES)
PACKAGES = {"runai_model_streamer": "runai-model-streamer",
            "llama_cpp": "llama-cpp-python"}


def prepare(name):
    """Import the modules of @name, so that importing is not timed; versions."""
    import_module("concurrent.futures")     # of the pools
    found = {}
    for module in MODULES.get(name, ["safetensors", "torch"]):
        import_module(module)
        if "." not in module:
            found[module] = version(PACKAGES.get(module, module))
    return found


def status_bytes(key):
    with open("/proc/self/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def view(tensor):
    """The bytes of a torch tensor, of an array, or of bytes."""
    if isinstance(tensor, bytes):
        return tensor
    if hasattr(tensor, "untyped_storage"):
        import torch
        flat = tensor.contiguous().reshape(-1)
        return memoryview(flat.view(torch.uint8).cpu().numpy())
    return memoryview(tensor.reshape(-1).view("uint8"))


def reset_peak():
    """Reset the peak RSS, if the kernel can."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
            f.write("5")
    except OSError as e:
        print(f"the peak of memory cannot be reset: {e}", file=sys.stderr)


def load(function, paths, options, device, read):
    reset_peak()
    before = status_bytes("VmRSS")
    cpu, begun = cpu_seconds(), time.perf_counter()
    tensors = function(paths, **options)
    if device:
        peers_device.finish(device)
    if read:
        read_all(tensors)
    seconds = time.perf_counter() - begun
    return tensors, {"seconds": seconds, "cpu": cpu_seconds() - cpu,
                     "before": before, "peak": status_bytes("VmHWM"),
                     "tensors": len(tensors)}


def main():
    job = json.loads(sys.argv[1])
    from xxhash import xxh3_128_hexdigest
    # Output of loaders goes to stderr; stdout is for bench/peers.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    versions, device = prepare(job["loader"]), job.get("device")
    if device:
        job["options"]["device"] = device
        peers_device.begin(device)
    print("ready", json.dumps(versions), file=out, flush=True)
    sys.stdin.readline()
    tensors, result = load(LOADERS[job["loader"]], job["paths"],
                           job["options"], device, job["read"])
    print(json.dumps(result), file=out, flush=True)
    for name, tensor in tensors.items():
        print(f"{xxh3_128_hexdigest(view(tensor))}  {name}", file=out)
    out.flush()
    os._exit(0)     # nothing of the tearing down of others is of interest


if __name__ == "__main__":
    main()
