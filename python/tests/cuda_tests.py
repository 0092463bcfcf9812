# SPDX-License-Identifier: MIT
"""Prints TAP: tensors of a CUDA device, as far as that goes without a framework."""

import ctypes
import gc
import sys
import threading
import time
import types
from array import array
from pathlib import Path

import weir
import weir.cuda
import weir.torch
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
print("1..30")
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

# Copies to and from the device, through the driver that weir has loaded.
driver = ctypes.CDLL("libcuda.so.1")
SIZE = 1 << 20


def call(name: str, *args: object) -> None:
    result = getattr(driver, name)(*args)
    if result:
        sys.exit(f"{name}: {result}")


def on_device(tensor: weir.Tensor) -> bytes:
    """The bytes of a tensor."""
    bytes_of = ctypes.create_string_buffer(tensor.nbytes)
    call("cuMemcpyDtoH_v2", bytes_of, ctypes.c_uint64(tensor.address),
         ctypes.c_size_t(tensor.nbytes))
    return bytes_of.raw


def fails(kind: type, text: str, function: object, *args: object) -> bool:
    try:
        function(*args)  # type: ignore[operator]
    except kind as error:
        return text in str(error)
    return False


with weir.Root() as root:
    # The device must be current in this thread for calls of the driver.
    tensors = weir.load(path, device="cuda:0", framework="weir", root=root)
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    ok(on_device(tensors["w5"]) == content(SIZE, 5),
       "the driver finds the bytes of a tensor at its address")

    def free() -> int:
        return next(d["free"] for d in root.devices() if d["name"] == "CUDA0")

    rows = {f"w{i}": slice(0, 512) for i in range(8)}
    file = weir.safe_open(path, "weir", root=root)
    with file.prefetch(rows, device="cuda:0", ahead=2 << 20) as loader:
        arrived = {name: on_device(tensor) for name, tensor in loader}
    ok(arrived == {f"w{i}": content(SIZE, i)[:SIZE // 2] for i in range(8)},
       "a prefetch loader gives out rows of tensors on a device")
    loader = file.prefetch(device="cuda:0", ahead=None)
    taken = loader.take("w9")
    loader.close()
    ok(on_device(taken) == content(SIZE, 9),
       "a tensor that was taken stays when the loader is closed")
    del loader, taken, file

    part = {"w1": (0, slice(64, 128))}
    for title, options in (
        ("all tensors", {}),
        ("chosen tensors and slices", {"only": ["w1", "w3"], "slices": part}),
    ):
        parkable = weir.load(path, device="cuda:0", framework="weir",
                             parkable=True, root=root, **options)
        places = {n: t.address for n, t in parkable.items()}
        call("cuMemsetD8_v2", ctypes.c_uint64(places["w3"]), 7,
             ctypes.c_size_t(SIZE))
        call("cuCtxSynchronize")
        before = free()
        parkable.park()
        info = parkable.park_info()
        ok(info["state"] == "parked" and info["copied"] == info["released"]
           and free() >= before + info["released"],
           f"{title} leave the device for page-locked memory")
        ok(all(fails(weir.Error, "is parked", use) for use in (
               parkable["w3"].wait,
               lambda: parkable["w3"].__dlpack__(max_version=(1, 0)),
               lambda: weir.cuda.wait(0, parkable["w3"]))),
           f"{title}: neither a capsule nor a stream gets a parked tensor")
        parkable.unpark()
        wanted = content(SIZE, 1)
        if options:
            wanted = wanted[64 * 1024 : 128 * 1024]
        ok({n: t.address for n, t in parkable.items()} == places
           and on_device(parkable["w3"]) == b"\7" * SIZE
           and on_device(parkable["w1"]) == wanted,
           f"{title} come back to their addresses with their bytes")
        with parkable.parked(unchanged=True, changed=["w3"]):
            ok(parkable.park_info()["copied"] == SIZE,
               f"{title}: only what has changed is copied")
        ok(on_device(parkable["w3"]) == b"\7" * SIZE
           and on_device(parkable["w1"]) == wanted,
           f"{title} come back from the file")
        load = _weir.parkable_at(places["w1"] + 5)
        ok(load is not None and load.park_info()["state"] == "resident",
           f"{title}: their load is found by an address")
    del load, parkable

    late = weir.load(path, device="cuda:0", framework="weir", wait=False, root=root)
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    last = "w15"
    weir.cuda.wait(stream.value, late[last])
    copied = ctypes.create_string_buffer(SIZE)
    call("cuMemcpyDtoHAsync_v2", copied, ctypes.c_uint64(late[last].address),
         ctypes.c_size_t(SIZE), stream)
    call("cuStreamSynchronize", stream)
    ok(copied.raw == content(SIZE, 15),
       "work of a stream after weir.cuda.wait() sees the bytes of the tensor")

    class Stream:
        def __cuda_stream__(self) -> object:
            return 0, stream.value

    weir.cuda.wait(Stream(), late["w2"])
    ok(fails(TypeError, "a weir.Tensor", weir.cuda.wait, stream.value,
             bytearray(8)),
       "weir.cuda.wait() takes objects with __cuda_stream__, and refuses other "
       "tensors")
    for tensor in late.values():
        tensor.wait()
    del late, tensor, tensors
    gc.collect()

small = folder / "graph.safetensors"
small.write_bytes(header([("w", "F32", (2, 4), array("f", range(8)).tobytes())]))
g = weir.Graph()
w = g.leaf(weir.load(small, device="cuda:0", framework="weir")["w"], constant=True)
y = g.mul_mat(w, g.input("x", (1, 4)), precision="f32")
plan = g.compile(y, framework="weir")
ones = memoryview(array("f", [1] * 4)).cast("B").cast("f", (1, 4))
results = [plan.run(x=ones) for _ in range(2)]
ok([memoryview(result).tolist() for result in results] == [[[6, 22]]] * 2,
   "a graph computes with a leaf in memory of the device")
del g, w, y, plan

# A stream of torch writes to a leaf, late. torch itself is not needed for it.
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: False)
weights = weir.load(small, device="cuda:0", framework="weir")["w"]
started = threading.Event()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def late_write(unused: object) -> None:
    started.wait(60)
    time.sleep(0.1)


host = array("f", [1] * 8)
g = weir.Graph()
w = g.leaf(weights)
plan = g.compile(g.mul_mat(w, g.input("x", (1, 4)), precision="f32"),
                 framework="weir")
ok(memoryview(plan.run(x=ones)).tolist() == [[6, 22]],
   "a run asks torch for no stream before torch uses CUDA")
torch.cuda = types.SimpleNamespace(
    is_initialized=lambda: True,
    current_stream=lambda n: types.SimpleNamespace(cuda_stream=stream.value),
)
call("cuLaunchHostFunc", stream, late_write, None)
call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(weights.address),
     (ctypes.c_char * 32).from_buffer(host), ctypes.c_size_t(32), stream)
run = plan.start(x=ones)
started.set()
ok(memoryview(run.result()).tolist() == [[4, 4]],
   "a run uses a leaf after what torch's stream has queued before it")
ok(memoryview(plan.run(x=ones)).tolist() == [[4, 4]], "the next run uses it too")
del g, w, plan, run, weights, sys.modules["torch"]

hooks = weir.torch.hooks()
hooks.weir_torch_alloc.restype = ctypes.c_void_p
hooks.weir_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
hooks.weir_torch_free.restype = None
hooks.weir_torch_free.argtypes = [
    ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p
]
hooks.weir_torch_record_stream.restype = None
hooks.weir_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
blocks = [hooks.weir_torch_alloc(SIZE, 0, None) for _ in range(8)]
call("cuMemsetD8_v2", ctypes.c_uint64(blocks[7]), 9, ctypes.c_size_t(SIZE))
call("cuCtxSynchronize")
ok(all(blocks) and max(blocks) - min(blocks) >= 7 * SIZE
   and all(block % 256 == 0 for block in blocks),
   "the allocator for torch gives out memory of the device")
hooks.weir_torch_record_stream(blocks[0], stream)
for block in blocks:
    hooks.weir_torch_free(block, SIZE, 0, None)
again = hooks.weir_torch_alloc(SIZE, 0, None)
ok(again in blocks, "memory that was freed is given out again")
hooks.weir_torch_free(again, SIZE, 0, None)
hooks.weir_torch_empty_cache()
