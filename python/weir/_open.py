# SPDX-License-Identifier: MIT
"""safe_open, with the calls of safetensors' own."""

from __future__ import annotations

import errno
import operator
import os
import stat
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from . import (
    _check,
    _dtypes,
    _errors,
    _fetch,
    _frameworks,
    _model,
    _prefetch,
    _root,
    _weir,
)

_BACKENDS = {"mmap": _weir.PART_VIEW, "pread": _weir.PART_COPY}

# Devices of torch that safetensors knows, and weir does not.
_OF_TORCH = {"mps", "npu", "xpu", "xla", "mlu", "musa", "hpu"}
# What safetensors calls a file that does not exist.
_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}


class TensorMeta(NamedTuple):
    """What the header says of a tensor."""

    dtype: str
    shape: List[int]
    data_offsets: Tuple[int, int]
    nbytes: int


class safe_open:
    """Open a model file, and read tensors as they are asked for.

    filename: a safetensors or GGUF file, an index of shards, or a folder.
    framework: "pt", "np", "jax" or "flax" (as safetensors has them), or "weir".
    device: where the tensors are needed, as the framework names it.
    backend: "mmap": tensors of torch on the CPU are views of a private mapping
    of the file, where its bytes are in the page cache and aligned; a write to
    one copies its page, and tensors of one name share memory. Others, and all
    tensors with "pread", are read into memory of their own. Who asks for the
    slices of all tensors first gets views in any case, and the file is read in
    the background.

    A file that is written to or cut off while it is open raises
    ``weir.ChangedError`` at the next call. A view of it, as one of safetensors,
    may then have other bytes, and ends the process (SIGBUS) where the file has
    none any more. To replace a file by ``os.replace`` is safe.

    A context manager, but it works without ``with`` too.
    """

    # safetensors' own, while weir is in its place: for other frameworks.
    _original: Any = None

    # help() and editors show these arguments.
    def __new__(
        cls,
        filename: Union[str, "os.PathLike[str]"],
        framework: str,
        device: object = "cpu",
        *,
        backend: str = "mmap",
        root: Optional[_weir.Root] = None,
    ) -> Any:
        if isinstance(framework, str) and framework in _frameworks.OTHERS:
            if cls._original is not None:
                given: Dict[str, object] = {}
                if device != "cpu":
                    given["device"] = device
                if backend != "mmap":
                    given["backend"] = backend
                return cls._original(filename, framework, **given)
        return super().__new__(cls)

    def __init__(
        self,
        filename: Union[str, "os.PathLike[str]"],
        framework: str,
        device: object = "cpu",
        *,
        backend: str = "mmap",
        root: Optional[_weir.Root] = None,
    ) -> None:
        if not isinstance(framework, str):
            raise TypeError("argument 'framework': a str")
        if not isinstance(backend, str):
            raise TypeError("argument 'backend': a str")
        if backend not in _BACKENDS:
            raise _errors.fail(
                f'backend "{backend}" is invalid (expected one of: '
                '"mmap", "pread")'
            )
        self._framework = _frameworks.name_of(framework)
        self._device, self._make = _place(device, self._framework)
        self._want = _weir.PART_READ
        if self._device == "CPU":
            self._want = _BACKENDS[backend]
        self._align = _frameworks.align_of(self._framework)
        self._views = (
            self._want == _weir.PART_VIEW
            and not self._make.copies
            and not self._align
        )
        # safetensors lets torch slice its mapping, so that torch's rules hold.
        self._as_torch = self._framework == "torch" and backend == "mmap"
        self._model: Optional[_weir.Model] = self._find(filename, root)
        self._ahead: Optional[_Ahead] = None
        # Where the data of a file begins, which is where its first tensor does.
        self._bases: Dict[int, int] = {}

    def _find(self, filename: Any, root: Optional[_weir.Root]) -> _weir.Model:
        if not isinstance(filename, (str, os.PathLike)):
            raise _check.wrong("filename", filename, "a str or os.PathLike")
        filename = os.fspath(_check.path("filename", filename, zero=True))
        try:
            return _model.open_model(filename, root, lenient=True)
        except (OSError, ValueError) as error:
            if isinstance(error, _errors.InvalidError) and not _is_file(filename):
                # safetensors maps it, which is an OSError.
                raise _errors.file(errno.ENODEV, str(error)) from None
            if _model.is_url(filename):
                raise
            if "\0" not in str(filename) and (
                isinstance(error, _errors.InvalidError)
                or getattr(error, "errno", 0) not in _MISSING
                or os.path.exists(filename)
            ):
                raise
        raise _errors.make(
            errno.ENOENT, f"No such file or directory: {filename}"
        )

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *unused: object) -> None:
        self._model = None
        self._ahead = None

    def __repr__(self) -> str:
        model = self._model
        if model is None:
            return "<weir.safe_open, closed>"
        return (
            f"<weir.safe_open of {model.info()['path']!r}: {len(model)} tensors, "
            f"{self._framework} on {self._device}>"
        )

    def _open(self) -> _weir.Model:
        if self._model is None:
            raise _errors.fail("File is closed")
        return self._model

    def keys(self) -> List[str]:
        """The names of the tensors, sorted."""
        return sorted(self._open().names())

    def offset_keys(self) -> List[str]:
        """The names of the tensors, in the order of the file."""
        return list(self._open().names())

    def metadata(self) -> Optional[Dict[str, Any]]:
        """The metadata of the file, or None if it has none."""
        return self._open().metadata() or None

    def get_tensor(self, name: str, *, dtype: object = None) -> Any:
        """Read one tensor.

        Quantised elements of GGUF, and others that the framework lacks, are
        bytes (uint8): the last dimension counts those of its blocks, and
        get_tensor_meta names their dtype. dtype="float32" converts them, and
        any floating-point tensor, as ``weir.load`` does.
        """
        if dtype is not None:
            model = self._open()
            i, code = _model.find(model, name), _model.dtype_code(dtype)
            return self._make(model.read(i, self._device, dtype=code))
        tensor = self._open().get(name, self._device, self._make, self._want)
        if tensor is None:
            raise _errors.fail(f"File does not contain tensor {name}")
        return tensor

    def get_tensors(self, *, dtype: object = None) -> Dict[str, Any]:
        """Read all tensors, at once and in the order of the file.

        dtype: as for get_tensor.
        """
        model = self._open()
        if dtype is None and self._views and model.absent() == []:
            views = model.views(self._make)
            if views is not None:
                return views
        running = _weir.Load(
            model,
            device=self._device,
            dtype=_model.dtype_code(dtype),
            align=self._align,
        )
        return running.all(self._make)

    def get_slice(self, name: str, *, dtype: object = None) -> "Slice":
        """A tensor of which parts are read by an index: ``s[:, 8:16]``.

        Quantised tensors have parts of whole blocks: rows, for instance. dtype:
        as for get_tensor; whole rows of the first dimension are then read and
        converted, and the index is applied to these.
        """
        model = self._open()
        i = _model.find(model, name)
        if dtype is not None:
            return Slice(self, model, i, None, _model.dtype_code(dtype))
        if self._ahead is None:
            self._ahead = _Ahead(model, self._device, self._want, self._views)
        self._ahead.asked.add(i)
        return Slice(self, model, i, self._ahead)

    def prefetch(
        self,
        plan: Optional[_prefetch.Plan] = None,
        *,
        device: object = None,
        threads: int = 8,
        ahead: Optional[int] = _prefetch.AHEAD,
        dtype: object = None,
    ) -> _prefetch.PrefetchLoader:
        """Start to read tensors in the background, and return their loader.

        The call of safetensors 0.9 (its release candidate 1), here for all
        frameworks and devices.

        plan: names, with None for the whole tensor or a slice of its first
        dimension, of step 1 and inside it; None is all tensors.
        device: where the tensors are needed; None is the device of this object.
        threads: accepted as safetensors has it; the root has the threads that
        read.
        ahead: most bytes in memory that were not taken yet; the reads go on as
        tensors are taken. None: no limit. A tensor that is taken out of turn
        is read at once.
        dtype: as for get_tensor.

        Does not block. This object stays as it is, may have several loaders,
        and may be closed before them.
        """
        model = self._open()
        try:
            if operator.index(threads) < 0:
                raise OverflowError(f"threads is {threads}: at least 0 is needed")
        except TypeError:
            raise _check.wrong("threads", threads, "a whole number") from None
        if ahead is not None:
            ahead = _check.whole("ahead", ahead)
        to, make = self._device, self._make
        if device is not None:
            to, make = _place(device, self._framework)
        wanted = _prefetch.wanted_of(model, plan)
        align = self._align if to == "CPU" else 0
        return _prefetch.PrefetchLoader(
            model, wanted, to, make, ahead, align, _model.dtype_code(dtype)
        )

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """Dtype, shape, bytes of a tensor, from the header.

        data_offsets are its first byte and the end in the data of its file.
        """
        model = self._open()
        code, shape, nbytes, file, at = model.entry(_model.find(model, name))
        if not self._bases:
            entries = [model.entry(i) for i in reversed(range(len(model)))]
            self._bases = {entry[3]: entry[4] for entry in entries}
        at -= self._bases[file]
        return TensorMeta(
            _dtypes.BY_CODE[code].name, list(shape), (at, at + nbytes), nbytes
        )


def _is_file(filename: Any) -> bool:
    """False if there is something else of this name."""
    try:
        mode = os.stat(filename).st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(mode)


def _place(device: object, framework: str) -> Tuple[str, _weir.Maker]:
    """weir's device for a device of the framework, and the maker there.

    Tensors for devices of torch that weir does not know are read into memory
    of the host, and torch copies them.
    """
    name = _root.device_name(device)
    kind = name.partition(":")[0]
    known = name == "CPU" or name.startswith("CUDA")
    if not known and kind not in _OF_TORCH:
        raise _errors.make(errno.EINVAL, f"device {device} is invalid")
    if name != "CPU" and framework != "torch":
        if framework != "weir" or not known:
            raise _errors.fail(
                f"Device {device} is not supported for framework {framework}"
            )
    try:
        make = _frameworks.maker(framework)
    except ModuleNotFoundError as error:
        if framework != "jax":
            raise
        make = _frameworks.absent(error)
    if not known:
        return "CPU", _frameworks.moved(make, name)
    return name, make


class safe_open_handle(safe_open):
    """safe_open of a file object that the caller has open."""

    _original: Any = None

    def _find(self, filename: Any, root: Optional[_weir.Root]) -> _weir.Model:
        return _weir.Model(
            _root.given(root),
            None,
            [filename.fileno()],
            _weir.MODEL_LENIENT,
        )


class _Ahead:
    """All of a file, for those who want all of its slices.

    A program that has asked for a slice of each tensor, as transformers does,
    then reads them all, one by one. With VIEWS, the first whole tensor that it
    reads makes all of them views of the file, which is read in the background.
    Otherwise it starts the load of all. Each is given out once, since its user
    may change it. `want` is how other parts are read.
    """

    def __init__(
        self, model: _weir.Model, device: str, want: int, views: bool
    ) -> None:
        self.asked: Set[int] = set()
        self.want = want
        self._model = model
        self._count = len(model)
        self._device = device
        self._views = views
        self._load: Optional[_weir.Load] = None
        self._taken: Dict[int, object] = {}
        # A signal handler may read a slice while this thread has the lock.
        self._lock = threading.RLock()

    def take(self, i: int) -> Optional[_weir.Tensor]:
        """Tensor i, whose users wait for it; None: it is not in this load."""
        if not 1 < self._count == len(self.asked):
            return None
        with self._lock:
            if i in self._taken:
                return None
            load = self._load
            if load is None:
                if self._taken:
                    return None
                absent = self._model.absent() if self._views else None
                if absent is not None:
                    self._count = 0
                    self.want = _weir.PART_MAP
                    _fetch.start(absent)
                    return None
                load = _weir.Load(self._model, device=self._device)
                if self._taken:  # by a signal handler
                    return None
                self._load = load
            call = object()
            if self._taken.setdefault(i, call) is not call:
                return None
            tensor = load.tensor(i)
            if len(self._taken) == len(self.asked):
                self._load = None
            return tensor


_ALL = slice(None)
_ROWS = slice(None, None, 1)


class Slice:
    """A tensor in a file, of which an index reads a part."""

    __slots__ = ("_file", "_model", "_i", "_ahead", "_to")

    def __init__(
        self,
        file: safe_open,
        model: _weir.Model,
        i: int,
        ahead: Optional["_Ahead"],
        to: int = 0,
    ) -> None:
        self._file = file
        self._model = model
        self._i = i
        self._ahead = ahead
        self._to = to  # the dtype to convert to; 0: none

    def __repr__(self) -> str:
        name = self._model.names()[self._i]
        return f"<slices of {name!r}: {self.get_dtype()} {self.get_shape()}>"

    def get_shape(self) -> List[int]:
        """The shape of the whole tensor."""
        return list(self._model.entry(self._i)[1])

    def get_dtype(self) -> str:
        """The dtype, as safetensors names it: "BF16"."""
        return _dtypes.BY_CODE[self._model.entry(self._i)[0]].name

    def __getitem__(self, index: Any) -> Any:
        file = self._file
        if self._ahead is None:
            return self._converted(index)
        if index is Ellipsis or (
            isinstance(index, slice) and index == _ALL and self.get_shape()
        ):
            tensor = self._ahead.take(self._i)
            if tensor is not None:
                return file._make(tensor)
        if not file._as_torch:
            return self._part(index)
        if not isinstance(index, bool):
            try:
                return self._part(index)
            except _errors.Error as error:
                if error.errno:
                    raise
            clipped = _clip(index, self.get_shape())
            if clipped is not None:
                return self._part(clipped)
        return self._whole()[index]

    def _converted(self, index: Any) -> Any:
        """An index of converted rows: of those that it needs."""
        items = index if isinstance(index, tuple) else (index,)
        shape = self.get_shape()
        rows, rest = None, items
        if shape and items and isinstance(items[0], slice):
            start, stop, step = items[0].indices(shape[0])
            if step > 0:
                rows = 0, start, max(0, stop - start)
                rest = slice(None, None, step), *items[1:]
        elif shape and items and type(items[0]) is int:
            if not -shape[0] <= items[0] < shape[0]:
                raise _errors.fail(
                    f"index {items[0]} is out of range for {shape[0]} rows"
                )
            rows, rest = (0, items[0] % shape[0], 1), (0, *items[1:])
        file = self._file
        load = _weir.Load(
            self._model, [self._i], [rows], device=file._device, dtype=self._to
        )
        load.wait()
        tensor = load.make(0, file._make)
        if not rest or (len(rest) == 1 and (
            rest[0] is Ellipsis or isinstance(rest[0], slice) and rest[0] == _ROWS
        )):
            return tensor
        if not hasattr(tensor, "__getitem__"):
            raise _errors.make(
                errno.EINVAL,
                "tensors of weir have no indexes: a part of one with dtype= is "
                "rows with a step of 1",
            )
        return tensor[rest]

    def _whole(self) -> Any:
        """The whole tensor, for indexes that only torch has."""
        dtype = _dtypes.BY_CODE[self._model.entry(self._i)[0]]
        if dtype.block > 1:
            raise _errors.make(
                errno.EINVAL,
                f"elements of {dtype.name} are in blocks of {dtype.block}: "
                "parts are slices and numbers",
            )
        return self._part(Ellipsis)

    def _part(self, index: Any) -> Any:
        file = self._file
        want = file._want if self._ahead is None else self._ahead.want
        return self._model.part(
            self._i, index, file._device, file._make, want
        )


def _clip(index: Any, shape: List[int]) -> Optional[Tuple[slice, ...]]:
    """Slices that end in their dimensions; None: there are other indexes."""
    items = index if isinstance(index, tuple) else (index,)
    if len(items) > len(shape):
        return None
    found = []
    for item, size in zip(items, shape):
        if not isinstance(item, slice) or (item.step or 1) < 1:
            return None
        start, stop, step = item.indices(size)
        found.append(slice(start, max(start, stop), step))
    return tuple(found)
