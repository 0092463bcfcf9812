# SPDX-License-Identifier: MIT
"""As much of PyTorch's interface as examples/weir_torch.py needs, written for
t/cuda/hooks.sh: tensors have memory, and their sums are imagined."""
import ctypes


class _Allocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.alloc = getattr(library, alloc)
        self.alloc.restype = ctypes.c_void_p
        self.alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free = getattr(library, free)
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int,
                              ctypes.c_void_p]
        self.record = self.reset = None

    def allocator(self):
        return self

    def set_record_stream_fn(self, address):
        self.record = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def set_reset_fn(self, address):
        self.reset = ctypes.CFUNCTYPE(None)(address)


class _Stream:
    def wait_stream(self, stream):
        pass


class _Scope:
    def __init__(self, stream):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


class _Tensor:
    def __init__(self, elements):
        self.elements = elements
        self.ptr = _current.alloc(4 * elements, 0, None)
        if not self.ptr:
            raise RuntimeError("no memory")

    def __add__(self, other):
        return _Tensor(self.elements)

    def __del__(self):
        _current.free(self.ptr, 4 * self.elements, 0, None)

    def record_stream(self, stream):
        _current.record(self.ptr, None)

    def sum(self):
        return self

    def item(self):
        return 2.0 * self.elements


def ones(rows, columns, device):
    return _Tensor(rows * columns)


def _change(allocator):
    global _current
    _current = allocator


class cuda:
    Stream = _Stream
    stream = _Scope
    current_stream = _Stream

    class memory:
        CUDAPluggableAllocator = _Allocator
        change_current_allocator = staticmethod(_change)
