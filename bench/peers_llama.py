# SPDX-License-Identifier: MIT
"""llama.cpp's own loader, through the package llama-cpp-python.

It reads the metadata, makes a model of the architecture llama without a
vocabulary, and loads the tensors to the CPU: not repacked, with no context.
"""
import ctypes
import os

PAGE = 4096
kept = []       # models, which own the memory of their tensors


def silence(llama_cpp):
    """A function of libc that does nothing with what is printed."""
    libc = ctypes.CDLL(None)
    llama_cpp.llama_log_set(
        ctypes.cast(libc.abs, llama_cpp.llama_log_callback), None)


def llama(paths, mode):
    from llama_cpp import llama_cpp
    silence(llama_cpp)
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    params.use_extra_bufts = False
    params.load_mode = getattr(llama_cpp, "LLAMA_LOAD_MODE_" + mode)
    model = llama_cpp.llama_model_load_from_file(paths[0].encode(), params)
    if not model:
        raise RuntimeError("llama.cpp does not load the file")
    kept.append(model)
    tensors = find_tensors(llama_cpp, model)
    if mode == "MMAP":
        read_pages(tensors)
    return tensors


def read_pages(tensors):
    """A byte of each page, so that all of them are mapped and in memory."""
    import numpy
    for tensor in tensors.values():
        numpy.add.reduce(tensor[::PAGE], dtype=numpy.uint8)


def find_tensors(llama_cpp, model):
    """Names and bytes, from a std::vector of std::string and ggml_tensor *.

    llama.h has no call for that; this one is for llama.cpp's own programs.
    """
    import numpy
    find = llama_cpp._lib["_Z29llama_internal_get_tensor_mapB5cxx11"
                          "PK11llama_model"]
    find.restype = ctypes.POINTER(ctypes.c_void_p)
    find.argtypes = [ctypes.c_void_p]
    ggml = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__),
                                    "lib", "libggml-base.so"))
    ggml.ggml_get_data.restype = ctypes.c_void_p
    ggml.ggml_get_data.argtypes = [ctypes.c_void_p]
    ggml.ggml_nbytes.restype = ctypes.c_size_t
    ggml.ggml_nbytes.argtypes = [ctypes.c_void_p]
    vector = find(ctypes.cast(model, ctypes.c_void_p))
    words = (ctypes.c_size_t * ((vector[1] - vector[0]) // 8)).from_address(
        vector[0])
    found = {}
    for at in range(0, len(words), 5):      # text, length, 16 bytes, tensor
        name = ctypes.string_at(words[at], words[at + 1]).decode()
        size = ggml.ggml_nbytes(words[at + 4])
        data = (ctypes.c_ubyte * size).from_address(
            ggml.ggml_get_data(words[at + 4]))
        found[name] = numpy.frombuffer(data, numpy.uint8)
    return found


LOADERS = {"llama": llama}
MODULES = {"llama": ["llama_cpp", "llama_cpp.llama_cpp", "numpy"]}
