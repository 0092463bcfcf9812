# SPDX-License-Identifier: MIT
"""PyTorch allocates the memory of its tensors on GPUs from weir's heaps.

    python3 weir_torch.py /usr/local/lib/libweir-torch.so

weir-hooks(7) describes the functions of the library.
"""
import ctypes
import sys

import torch


def use_weir(path):
    """Call this before anything has allocated memory of a GPU."""
    hooks = ctypes.CDLL(path)

    def address(name):
        return ctypes.cast(getattr(hooks, name), ctypes.c_void_p).value

    weir = torch.cuda.memory.CUDAPluggableAllocator(
        path, "weir_torch_alloc", "weir_torch_free")
    # Tensor.record_stream() and torch.cuda.empty_cache() call these.
    weir.allocator().set_record_stream_fn(address("weir_torch_record_stream"))
    weir.allocator().set_reset_fn(address("weir_torch_empty_cache"))
    torch.cuda.memory.change_current_allocator(weir)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: weir_torch.py LIBWEIR-TORCH")
    use_weir(sys.argv[1])
    a = torch.ones(1024, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = a + a
    # The memory of `a` is used again only after the sum.
    a.record_stream(side)
    del a
    torch.cuda.current_stream().wait_stream(side)
    print("sum:", b.sum().item())


if __name__ == "__main__":
    main()
