# SPDX-License-Identifier: MIT
"""Wheels of stub loaders, for t/house/bundle.sh: wheels.py FOLDER.

They are minimal loaders, which load to a stub of a device. One of them loads a
wrong byte, one cannot be imported, one is for another Python.
"""
import os
import sys
import zipfile

HEADER = '''
import json, os, struct
from contextlib import contextmanager

def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        header.pop("__metadata__", None)
        data = f.read()
    return {k: data[slice(*v["data_offsets"])] for k, v in header.items()}
'''

SAFETENSORS = HEADER + '''
class safe_open:
    def __init__(self, path, framework, device="cpu"):
        assert framework == "pt" and device == "cuda:0"
        self.tensors = read(path)
    def __enter__(self):
        return self
    def __exit__(self, *args):
        pass
    def keys(self):
        return self.tensors.keys()
    def get_tensor(self, name):
        return self.tensors[name]
'''

NEXT = HEADER + '''
class safe_open:
    def __init__(self, path, framework):
        self.tensors = read(path)
    def __enter__(self):
        return self
    def __exit__(self, *args):
        pass
    @contextmanager
    def prefetch(self, device):
        assert device == "cuda:0"
        name = next(iter(self.tensors))
        self.tensors[name] = self.tensors[name][:-1] + b"?"
        yield self.tensors.items()
'''

# The library that the bundle carries, where the test says it is.
XXHASH = '''
import ctypes, os

class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

lib = ctypes.CDLL(os.environ["T_XXHASH"])
lib.XXH3_128bits.restype = Hash
lib.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

def xxh3_128_hexdigest(data):
    h = lib.XXH3_128bits(bytes(data), len(data))
    return f"{h.high:016x}{h.low:016x}"
'''

TORCH = '''
class cuda:
    set_device = synchronize = staticmethod(lambda device: None)
device = zeros = lambda *args, **settings: None
'''

WHEELS = (
    ("safetensors-0.8.0-py3-none-any", SAFETENSORS),
    ("safetensors-0.9.0rc1-py3-none-any", NEXT),
    ("runai_model_streamer-0.17.0-py3-none-any", "import nosuchthing"),
    ("fastsafetensors-0.5.0-cp27-cp27m-linux_x86_64", ""),
    ("xxhash-4.1.0-py3-none-any", XXHASH),
    ("humanize-4.17.0-py3-none-any", ""),
    ("torch-2.15.0-py3-none-any", TORCH),
)

for wheel, code in WHEELS:
    name, version = wheel.split("-")[:2]
    with zipfile.ZipFile(os.path.join(sys.argv[1], wheel + ".whl"), "w") as z:
        # One of the two places where pip would put it.
        root = "" if name == "torch" else f"{name}-{version}.data/purelib/"
        z.writestr(f"{root}{name}/__init__.py", code)
        z.writestr(f"{name}-{version}.dist-info/METADATA",
                   f"Metadata-Version: 2.1\nName: {name}\n"
                   f"Version: {version}\n")
