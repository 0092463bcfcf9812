# SPDX-License-Identifier: MIT
"""The loaders that are compared, and their settings.

Each runs as its documents show, and again with the best settings that were
found; these may differ between files that are in the page cache and files that
are not. `bench/peers --sweep` runs the candidates that they were chosen from.
"""


class Peer:
    def __init__(self, key, title, loader, package, options=None, env=None,
                 only=None, ahead=False, without_torch=False):
        self.key = key
        self.title = title
        self.loader = loader        # in peers_child.py; None: weir
        self.package = package
        self.options = options or {}
        self.env = env or {}
        self.only = only            # "cold" or "resident"; None: both
        self.without_torch = without_torch
        self.ahead = ahead          # of the final release: the one beside it


def fst(key, title, loader=None, copy=None, direct=None, only=None):
    """fastsafetensors; @direct: whether it may use O_DIRECT, its default."""
    options = {"loader": loader or {"nogds": True}}
    if copy:
        options["copy"] = copy
    env = {} if direct is None else {"FASTSAFETENSORS_ODIRECT": str(direct)}
    return Peer(key, title, "fastsafetensors", "fastsafetensors", options,
                env, only)


def runai_env(**settings):
    return {"RUNAI_STREAMER_" + k.upper(): str(v) for k, v in settings.items()}


def runai(key, title, only=None, **settings):
    return Peer(key, title, "runai", "runai-model-streamer", None,
                runai_env(**settings), only)


WEIR = Peer("weir", "weir", None, None)

PEERS = [
    Peer("st-mmap", "safetensors, mmap, copied out", "safetensors_mmap",
         "safetensors"),
    Peer("st-pool", "safetensors, mmap, 2 threads", "safetensors_pool",
         "safetensors"),
    Peer("st-numpy", "safetensors, numpy", "safetensors_numpy",
         "safetensors", without_torch=True),
    Peer("st-pread", "safetensors, pread", "safetensors_pread",
         "safetensors"),
    Peer("st-prefetch", "safetensors, prefetch", "safetensors_prefetch",
         "safetensors --pre", ahead=True),
    fst("fst", "fastsafetensors"),
    fst("fst-best", "fastsafetensors, tuned", only="resident", direct=0,
        loader={"nogds": True, "max_threads": 2},
        copy={"max_copy_block_size": 16 << 20}),
    fst("fst-best", "fastsafetensors, tuned", only="cold", direct=0,
        loader={"nogds": True, "max_threads": 16},
        copy={"max_copy_block_size": 160 << 20}),
    runai("runai", "runai-model-streamer"),
    runai("runai-best", "runai-model-streamer, tuned", only="resident",
          fs_strategy="sync_buffered", concurrency=2),
    runai("runai-ring", "runai-model-streamer, ring, buffered",
          only="resident", fs_strategy="io_uring_buffered"),
    runai("runai-best", "runai-model-streamer, tuned", only="cold",
          fs_strategy="io_uring_direct", fs_chunk_bytesize=8 << 20),
]

# From Python, to torch tensors of which every byte is read: weir's wheel comes
# first, then its C program.
WEIR_PYTHON = Peer("weir", "weir, Python", "weir_python", "weir",
                   {"backend": "pread"})
PYTHON_PEERS = [
    Peer("weir-c", "weir, C", None, None),
    Peer("st-pread", "safetensors, pread", "safetensors_python",
         "safetensors", {"backend": "pread"}),
    *(p for p in PEERS if p.key in ("st-mmap", "st-pool", "fst", "fst-best",
                                    "runai", "runai-best")),
]
WEIR_PYTHON_MAP = Peer("weir", "weir, Python", "weir_python", "weir")
PYTHON_MAP_PEERS = [
    Peer("st", "safetensors", "safetensors_python", "safetensors"),
]

# Loads of GGUF files: some copy, some map the file.
LLAMA_PEERS = [
    Peer("llama", "llama.cpp", "llama", "llama-cpp-python", {"mode": "NONE"}),
    Peer("llama-direct", "llama.cpp, O_DIRECT", "llama", "llama-cpp-python",
         {"mode": "DIRECT_IO"}),
]
MAP_PEERS = [
    Peer("llama-map", "llama.cpp, mapped", "llama", "llama-cpp-python",
         {"mode": "MMAP"}),
]


def to_device(key, title, how, package, only=None, env=None, ahead=False,
              **options):
    return Peer(key, title, "device_" + how, package, options, env, only,
                ahead)


# To a GPU: as their documents show, and settings for fast disks and memory.
DEVICE_PEERS = [
    to_device("st", "safetensors", "safetensors", "safetensors"),
    to_device("st-prefetch", "safetensors, prefetch", "prefetch",
              "safetensors --pre", ahead=True),
    to_device("it", "InstantTensor", "instanttensor", "instanttensor"),
    to_device("fst", "fastsafetensors", "fastsafetensors", "fastsafetensors"),
    to_device("runai", "runai-model-streamer", "runai",
              "runai-model-streamer"),
    to_device("it-best", "InstantTensor, buffered", "instanttensor",
              "instanttensor", only="resident",
              env={"INSTANTTENSOR_BACKEND": "BUFFERED"}),
    to_device("fst-best", "fastsafetensors, tuned", "fastsafetensors",
              "fastsafetensors", loader={"nogds": True, "max_threads": 16},
              copy={"max_copy_block_size": 160 << 20}),
    to_device("runai-best", "runai-model-streamer, tuned", "runai",
              "runai-model-streamer", only="resident",
              env=runai_env(fs_strategy="sync_buffered", concurrency=16)),
    to_device("runai-best", "runai-model-streamer, tuned", "runai",
              "runai-model-streamer", only="cold",
              env=runai_env(fs_strategy="io_uring_direct",
                            fs_chunk_bytesize=8 << 20)),
]


def candidates():
    """The candidates of --sweep: settings that may be the best."""
    found = [Peer("st-pread-pool", "safetensors, pread, 2 threads",
                  "safetensors_pread_pool", "safetensors")]
    for block in (16, 32, 160):
        for threads in (2, 16):
            for direct in (0, 1):
                name = f"fst-{block}M-t{threads}-direct{direct}"
                found.append(fst(name, name, {"nogds": True,
                                              "max_threads": threads},
                                 {"max_copy_block_size": block << 20},
                                 direct))
    found.append(fst("fst-gds", "fst-gds", {"nogds": False}))
    for how in ("io_uring_direct", "io_uring_buffered", "libaio_direct"):
        for size in (2, 8):
            name = f"runai-{how}-{size}M"
            found.append(runai(name, name, fs_strategy=how,
                               fs_chunk_bytesize=size << 20))
    for threads in (2, 4, 16):
        name = f"runai-sync-{threads}"
        found.append(runai(name, name, fs_strategy="sync_buffered",
                           concurrency=threads))
    return found


def choose(keys, sweep, device, model):
    """The peers that load @model, weir first."""
    weir = WEIR
    if model.python:
        weir = WEIR_PYTHON_MAP if model.mapped else WEIR_PYTHON
        peers = PYTHON_MAP_PEERS if model.mapped else PYTHON_PEERS
    elif model.gguf:
        peers = MAP_PEERS if model.mapped else LLAMA_PEERS
    else:
        peers = candidates() if sweep else DEVICE_PEERS if device else PEERS
    return [weir] + [p for p in peers if not keys or p.key in keys]
