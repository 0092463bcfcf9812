# SPDX-License-Identifier: MIT
"""Prints TAP: tensors of a CUDA device, as far as DLPack goes without a consumer."""

import ctypes
import gc
import sys
from pathlib import Path

import weir
from weir import _model, _weir

from conftest import content, header

done = 0


def ok(passed: bool, title: str) -> None:
    global done
    done += 1
    print(f"{'ok' if passed else 'not ok'} {done} - {title}", flush=True)


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned, to the members that are checked."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("ctx", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


def managed(capsule: object) -> Managed:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return Managed.from_address(get(capsule, b"dltensor_versioned"))


folder = Path(sys.argv[1])
path = folder / "x.safetensors"
path.write_bytes(header([
    (f"w{i}", "BF16", (1024, 512), content(1 << 20, i)) for i in range(16)
]))
print("1..7")
tensors = weir.load(path, device="cuda:0", framework="weir")
tensor = tensors["w3"]
ok(tensor.device == "cuda:0" and tensor.__dlpack_device__() == (2, 0),
   "a tensor of the first CUDA device is of DLPack's device (2, 0)")
fields = managed(capsule := tensor.__dlpack__(stream=1, max_version=(1, 0)))
ok((fields.code, fields.bits, fields.device_type) == (4, 16, 2)
   and fields.data == tensor.address
   and fields.shape[:2] == [1024, 512] and fields.strides[:2] == [512, 1],
   "the capsule has the dtype, place, shape and strides of the tensor")
del capsule
try:
    memoryview(tensor)
    ok(False, "memory of a device has no buffer protocol")
except BufferError:
    ok(True, "memory of a device has no buffer protocol")
copy = folder / "copy.safetensors"
weir.save(tensors, copy)
again = weir.load(copy, framework="weir")
ok(all(memoryview(again[f"w{i}"]).tobytes() == content(1 << 20, i)
       for i in range(16)),
   "tensors of a device are saved with their bytes")
load = _weir.Load(_model.open_model(path), device="CUDA0")
late = [load.tensor(i) for i in range(16)]
capsules = [t.__dlpack__(stream=1, max_version=(1, 0)) for t in late]
ok(len(capsules) == 16,
   "capsules are made before the bytes have arrived, with the consumer's stream")
for t in late:
    t.wait()
load.wait()
ok(load.done, "the load of such tensors ends")
del tensors, tensor, late, capsules, load
gc.collect()
try:
    weir.safe_open(path, "np", device="cuda:0")
    ok(False, "NumPy has no tensors of a device")
except weir.SafetensorError:
    ok(True, "NumPy has no tensors of a device")
