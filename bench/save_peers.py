# SPDX-License-Identifier: MIT
"""save_peers.py DIR BYTES TENSORS: the seconds that safetensors.numpy.save_file,
gguf.GGUFWriter and, if torch is there, safetensors.torch.save_file take for arrays
in memory, fsync(2) of the file included. bench/save calls it."""
import os
import sys
import time

import gguf
import numpy
from safetensors.numpy import save_file

try:
    import torch
    from safetensors.torch import save_file as save_torch
except ImportError:
    torch = None


def write_gguf(arrays, path):
    writer = gguf.GGUFWriter(path, "llama")
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def seconds(write, arrays, path):
    begun = time.monotonic()
    write(arrays, path)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    took = time.monotonic() - begun
    os.close(fd)
    os.unlink(path)
    return took


def main(folder, size, number):
    one = numpy.arange(size // number // 8, dtype=numpy.uint64).view(numpy.int8)
    arrays = {f"model.layers.{i:02}.weight": one + numpy.int8(i)
              for i in range(number)}
    print(seconds(save_file, arrays, os.path.join(folder, "p.safetensors")),
          seconds(write_gguf, arrays, os.path.join(folder, "p.gguf")),
          *[seconds(save_torch, {name: torch.from_numpy(array)
                                 for name, array in arrays.items()},
                    os.path.join(folder, "p.safetensors"))] if torch else [])


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
