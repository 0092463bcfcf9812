# SPDX-License-Identifier: MIT
"""Recording tensors: copies are noted first, and then read in one load.

A recording tensor stands for a tensor of a file, or for a part of one. It has
a shape and a dtype and no bytes. Views of it are recording tensors too. A copy
of it into another tensor is noted, and the bytes of all noted copies are read
at the end, straight into their destinations. Every other operation reads the
bytes that it needs and continues with them, so the result is always the same
as with ordinary tensors.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import Counter
from contextlib import ExitStack
from types import TracebackType
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    Type,
)
from weakref import WeakValueDictionary

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from . import _weir
from ._pending import Pending
from ._source import Copy, Numbers, Paths, Source

_aten = torch.ops.aten

# With these a program reaches the bytes of a tensor without an operation.
_POINTERS = frozenset(
    {
        "__array__",
        "__deepcopy__",
        "__dlpack__",
        "__reduce_ex__",
        "data_ptr",
        "item",
        "numpy",
        "pin_memory",
        "share_memory_",
        "storage",
        "tolist",
        "typed_storage",
        "untyped_storage",
    }
)
# Operations on recording tensors that use their shape and dtype only.
_LIKE = frozenset(
    {
        _aten.empty_like.default,
        _aten.full_like.default,
        _aten.new_empty.default,
        _aten.new_empty_strided.default,
        _aten.new_full.default,
        _aten.new_ones.default,
        _aten.new_zeros.default,
        _aten.ones_like.default,
        _aten.zeros_like.default,
    }
)


def enabled(record: Optional[bool] = None) -> bool:
    """True unless RECORD is false or the environment has WEIR_RECORD=0."""
    if record is not None and not record:
        return False
    return os.environ.get("WEIR_RECORD", "1").lower() not in ("0", "no", "off")


class Report(Numbers):
    """What was noted, what was read, and what could not be noted.

    copies: noted copies, and copied: their bytes. loads: loads and reads of
    single tensors; read: bytes of tensors that they have read, and over_read
    others: gaps, ends of blocks, and what was read again since pages were
    missing. fallbacks: how often each operation has read a tensor at once, and
    names: which tensors. early: why noted copies were read before the end, and
    how often. seconds: time in loads and reads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0
        self.copied = 0
        self.fallbacks: Counter[str] = Counter()
        self.names: Dict[str, Set[str]] = {}
        self.early: Counter[str] = Counter()
        self.seconds = 0.0

    def __str__(self) -> str:
        lines = [
            f"read {_megabytes(self.read)} MB in {_number(self.loads, 'load')} "
            f"and {self.seconds:.3f} s, for {_number(self.copies, 'copy')}"
        ]
        if self.over_read:
            lines[0] += (
                f", and {_megabytes(self.over_read)} MB that nobody needed"
            )
        for why, n in self.fallbacks.most_common():
            names = sorted(self.names[why])
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(
                f"{why} needed bytes at once, in {_number(n, 'read')} of its "
                f"own: {', '.join(names[:3])}{more}"
            )
        for why, n in self.early.most_common():
            lines.append(
                f"{why} needed noted copies, so a load ran before it, "
                f"{_number(n, 'time')}"
            )
        return "\n".join(lines)


def _megabytes(n: int) -> str:
    return f"{n / 1e6:.1f}" if n >= 100_000 else f"{n / 1e6:.3f}"


def _number(n: int, what: str) -> str:
    if n == 1:
        return f"1 {what}"
    return f"{n} {what[:-1] + 'ies' if what.endswith('y') else what + 's'}"


def _name(func: Any) -> str:
    """The name of an operation of torch."""
    return str(func.overloadpacket).rpartition(".")[2]


class _Memory:
    """What a recording tensor and its views share, like a storage of torch.

    OWN, of device meta, has the shape and strides of the whole of it. VIEW has
    the same elements as a view of the tensor in the file. `real` is the memory
    that takes its place once an operation writes to it.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        own: torch.Tensor,
        view: torch.Tensor,
        device: torch.device,
    ) -> None:
        self.source = source
        self.name = name
        self.own = own
        self.view = view
        self.device = device
        self.real: Optional[torch.Tensor] = None

    def tensor(self) -> "RecordingTensor":
        """A tensor of all of it."""
        return RecordingTensor(self, self.own, self.view)


class RecordingTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor of a file whose bytes have not been read."""

    _memory: _Memory
    _own: torch.Tensor
    _view: torch.Tensor
    _bytes: Optional[torch.Tensor]

    @staticmethod
    def __new__(
        cls, memory: _Memory, own: torch.Tensor, view: torch.Tensor
    ) -> "RecordingTensor":
        self: RecordingTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            own.shape,
            strides=own.stride(),
            storage_offset=own.storage_offset(),
            dtype=own.dtype,
            device=memory.device,
        )
        self._memory = memory
        self._own = own
        self._view = view
        self._bytes = None
        return self

    def __init__(self, *unused: object) -> None:
        pass

    def __repr__(self, **unused: Any) -> str:
        return (
            f"RecordingTensor({self._memory.name!r}, "
            f"shape={tuple(self._own.shape)}, dtype={self._own.dtype})"
        )

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: Tuple[Any, ...] = (),
        kwargs: Optional[Dict[str, Any]] = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _POINTERS:
            args = tree_map(functools.partial(_read, why=name), args)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Any,
        types: Any,
        args: Tuple[Any, ...] = (),
        kwargs: Optional[Dict[str, Any]] = None,
    ) -> Any:
        return _dispatch(func, args, kwargs or {})


class _Recorders(threading.local):
    """The recorders that are active in a thread. The last one takes notes."""

    def __init__(self) -> None:
        self.active: List["Recorder"] = []


_recorders = _Recorders()


def _read(tensor: Any, why: str) -> Any:
    """A recording tensor with its bytes, which are read now if need be."""
    if not isinstance(tensor, RecordingTensor):
        return tensor
    memory, own = tensor._memory, tensor._own
    if memory.real is not None:
        return memory.real.as_strided(
            own.shape, own.stride(), own.storage_offset()
        )
    if tensor._bytes is None:
        report = _report()
        start = time.monotonic()
        data = memory.source.read(memory.name, tensor._view, report)
        report.seconds += time.monotonic() - start
        report.fallbacks[why] += 1
        report.names.setdefault(why, set()).add(memory.name)
        result = torch.empty_strided(
            own.shape, own.stride(), dtype=own.dtype, device=memory.device
        )
        tensor._bytes = result.copy_(data)
    return tensor._bytes


def _read_to_write(tensor: Any, why: str) -> Any:
    """The same for an operation that changes the bytes, for all views."""
    if not isinstance(tensor, RecordingTensor):
        return tensor
    memory = tensor._memory
    if memory.real is None:
        memory.real = _read(memory.tensor(), why)
    return _read(tensor, why)


def _view(
    func: Any,
    tensor: RecordingTensor,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
) -> Any:
    """The result of an operation that makes views; None: it needs the bytes."""
    if tensor._own is tensor._view:
        owns = views = func(tensor._own, *args, **kwargs)
    elif func is _aten.as_strided.default or func is _aten.view.dtype:
        return None
    else:
        try:
            owns = func(tensor._own, *args, **kwargs)
            views = func(tensor._view, *args, **kwargs)
        except RuntimeError:
            return None
    if isinstance(owns, torch.Tensor):
        if owns.is_conj() or owns.is_neg():
            return None
        return RecordingTensor(tensor._memory, owns, views)
    return [
        RecordingTensor(tensor._memory, own, view)
        for own, view in zip(owns, views)
    ]


def _duplicate(
    tensor: RecordingTensor,
    dtype: Optional[torch.dtype],
    device: Optional[torch.device],
    memory_format: Optional[torch.memory_format],
) -> Optional[RecordingTensor]:
    """A clone, or the tensor with another dtype or device, with no bytes."""
    memory, own, view = tensor._memory, tensor._own, tensor._view
    dtype = dtype or own.dtype
    if dtype != own.dtype and not (
        own.dtype == view.dtype == memory.source.base(memory.name).dtype
        and memory.source.converts(memory.name, dtype)
    ):
        return None
    copy = torch.empty_like(
        own, dtype=dtype, memory_format=memory_format or torch.preserve_format
    )
    device = torch.device(device or memory.device)
    return _Memory(memory.source, memory.name, copy, view, device).tensor()


def _noted(
    func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Tuple[bool, Any]:
    """Do an operation without the bytes if possible: (done, its result)."""
    tensor = args[0] if args else None
    if func is _aten.copy_.default and isinstance(args[1], RecordingTensor):
        return _copy(tensor, args[1]), tensor
    if not isinstance(tensor, RecordingTensor):
        return False, None
    if func in _LIKE:
        kwargs = dict(kwargs)
        kwargs["device"] = kwargs.get("device") or tensor._memory.device
        return True, func(tensor._own, *args[1:], **kwargs)
    if func is _aten.is_pinned.default:
        return True, False
    if tensor._memory.real is not None or tensor._bytes is not None:
        return False, None
    result: Any = None
    if func.is_view:
        result = _view(func, tensor, args[1:], kwargs)
    elif func is _aten.clone.default:
        result = _duplicate(tensor, None, None, kwargs.get("memory_format"))
    elif func is _aten._to_copy.default and not kwargs.get("pin_memory"):
        result = _duplicate(
            tensor,
            kwargs.get("dtype"),
            kwargs.get("device"),
            kwargs.get("memory_format"),
        )
    return result is not None, result


def _dispatch(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """Do an operation that has a recording tensor among its arguments."""
    done, result = _noted(func, args, kwargs)
    if done:
        return result
    why = _name(func)
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable:
        args = tree_map(functools.partial(_read, why=why), args)
        kwargs = tree_map(functools.partial(_read, why=why), kwargs)
        return func(*args, **kwargs)
    written = {
        a.name
        for a in schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    }

    def replace(name: str, value: Any) -> Any:
        how = _read_to_write if name in written else _read
        return tree_map(functools.partial(how, why=why), value)

    names = [a.name for a in schema.arguments]
    real = [replace(name, value) for name, value in zip(names, args)]
    named = {name: replace(name, value) for name, value in kwargs.items()}
    result = func(*real, **named)
    # Operations in place return the tensor that they were given.
    for given, used in zip(args, real):
        if result is used:
            return given
    return result


def _is_plain(tensor: Any) -> bool:
    """True if the tensor has memory of its own, as torch has it."""
    return (
        isinstance(tensor, torch.Tensor)
        and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    )


def _copy(to: Any, tensor: RecordingTensor) -> bool:
    """Note a copy, or do it at once if nobody takes notes. False: it cannot."""
    memory, own, view = tensor._memory, tensor._own, tensor._view
    if isinstance(to, RecordingTensor) or not _is_plain(to):
        return False
    if to.is_meta or not to.numel():
        return True
    if memory.real is not None or tensor._bytes is not None:
        return False
    source = memory.source
    if to.numel() != view.numel() or not source.reaches(to):
        return False
    if to.dtype != own.dtype and not (
        own.dtype == view.dtype == source.base(memory.name).dtype
        and source.converts(memory.name, to.dtype)
    ):
        return False
    if to.shape != view.shape:
        view = view.expand(to.shape)
    recorder = _recorders.active[-1] if _recorders.active else _unnoted
    recorder.note(Copy(source, memory.name, view, to))
    return True


def _storages(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments that have memory."""
    for value in tree_flatten(values)[0]:
        if isinstance(value, torch.Tensor) and _is_plain(value):
            yield value


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation of torch while a recorder is active."""

    def __init__(self, recorder: "Recorder") -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Tuple[Any, ...] = (),
        kwargs: Optional[Dict[str, Any]] = None,
    ) -> Any:
        kwargs = kwargs or {}
        values = tree_flatten((args, kwargs))[0]
        records = any(isinstance(value, RecordingTensor) for value in values)
        if records and func is _aten.copy_.default:
            done, result = _noted(func, args, kwargs)
            if done:
                return result
        if not getattr(func, "is_view", False):
            self._recorder.before(values, _name(func))
        if records:
            return _dispatch(func, args, kwargs)
        return func(*args, **kwargs)


class _Calls(TorchFunctionMode):  # type: ignore[misc]
    """Sees the methods of tensors that reach bytes without an operation."""

    def __init__(self, recorder: "Recorder") -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Tuple[Any, ...] = (),
        kwargs: Optional[Dict[str, Any]] = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _POINTERS:
            self._recorder.before(args, name)
        elif name == "__set__" and len(args) == 2:
            args = (args[0], self._recorder.placed(args[1]))
        return func(*args, **(kwargs or {}))


class Recorder:
    """Notes the copies of recording tensors, and reads them when it ends.

    A context manager. Until it ends, an operation that uses a tensor with
    noted copies reads these first. It sees the operations of its own thread;
    copies that other threads make are read at once. If the block raises an
    exception, the noted copies are dropped.

    A block inside of another one reads its own copies at its end: pointers and
    arrays of NumPy reach their targets without an operation of torch. What the
    other block has noted is read before, so that the copies keep their order.
    """

    def __init__(self, report: Optional[Report] = None) -> None:
        self.report = Report() if report is None else report
        self._pending = Pending()
        self._modes = ExitStack()

    def __enter__(self) -> "Recorder":
        if _recorders.active:
            _recorders.active[-1].enclose()
        self._modes.enter_context(_Calls(self))
        self._modes.enter_context(_Operations(self))
        _recorders.active.append(self)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        _recorders.active.remove(self)
        self._modes.close()
        if kind is None:
            self.run()
        else:
            self._pending.take()

    def note(self, copy: Copy) -> None:
        """Note a copy. Copies that it overlaps in part are read first."""
        self.report.copies += 1
        self.report.copied += copy.view.numel() * copy.view.element_size()
        if not self._pending.add(copy):
            self.report.early["a copy over parts of others"] += 1
            self.run()
            self._pending.add(copy)

    def before(self, values: Any, what: str) -> None:
        """Read the noted copies if one goes to memory of a tensor of VALUES."""
        if not len(self._pending):
            return
        if any(self._pending.touches(tensor) for tensor in _storages(values)):
            self.report.early[what] += 1
            self.run()

    def enclose(self) -> None:
        """Read the noted copies before a block inside of this one notes its own."""
        if len(self._pending):
            self.report.early["a block inside"] += 1
            self.run()

    def placed(self, tensor: Any) -> Any:
        """A recording tensor with memory, to which its copy is noted."""
        if not isinstance(tensor, RecordingTensor):
            return tensor
        if tensor._memory.real is not None or tensor._bytes is not None:
            return _read(tensor, "")
        own = tensor._own
        to = torch.empty_strided(
            own.shape, own.stride(), dtype=own.dtype, device=tensor.device
        )
        if _copy(to, tensor):
            return to
        return _read(tensor, "a new tensor")

    def settle(self, module: torch.nn.Module) -> None:
        """Give memory to recording tensors that a module holds."""
        settled: Dict[int, Tuple[Any, Any]] = {}
        for part in module.modules():
            for held in (part._parameters, part._buffers, part.__dict__):
                for name, value in list(held.items()):
                    if isinstance(value, RecordingTensor):
                        held[name] = self._settled(settled, value)

    def _settled(
        self, settled: Dict[int, Tuple[Any, Any]], value: RecordingTensor
    ) -> Any:
        """The tensor in place of VALUE: one for all names of a tied weight."""
        if id(value) not in settled:
            tensor = self.placed(value)
            if isinstance(value, torch.nn.Parameter):
                tensor = torch.nn.Parameter(tensor, value.requires_grad)
            settled[id(value)] = value, tensor
        return settled[id(value)][1]

    def run(self) -> None:
        """Read all noted copies, in one load of each source."""
        sources: Dict[Source, List[Copy]] = {}
        for copy in self._pending.take():
            sources.setdefault(copy.source, []).append(copy)
        start = time.monotonic()
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for source, copies in sources.items():
                source.run(copies, self.report)
        self.report.seconds += time.monotonic() - start


class _Unnoted(Recorder):
    """Reads every copy at once, where no recorder is active."""

    def note(self, copy: Copy) -> None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            copy.source.run([copy], self.report)


_unnoted = _Unnoted()


def _report() -> Report:
    return (_recorders.active[-1] if _recorders.active else _unnoted).report


class _Blocks(threading.local):
    """The recorders of the blocks of a Recording that a thread is in."""

    def __init__(self) -> None:
        self.entered: List[Recorder] = []


class Recording(Mapping[str, torch.Tensor]):
    """The tensors of a model by name, whose bytes are read when it is known
    where they are needed.

    Give it to the load_state_dict() of a module, or use it as a context
    manager around code that copies the tensors: `report` then says what was
    read.
    """

    def __init__(
        self, source: Source, device: torch.device, record: bool
    ) -> None:
        self._source = source
        self._device = device
        self._record = record
        # The same tensor for a name, as long as somebody has it.
        self._tensors: WeakValueDictionary[str, torch.Tensor] = (
            WeakValueDictionary()
        )
        self._recorder = Recorder()
        self._blocks = _Blocks()

    @property
    def report(self) -> Report:
        """What was noted and read in the last block or load_state_dict()."""
        return self._recorder.report

    @property
    def metadata(self) -> Dict[str, Any]:
        """The metadata of the file."""
        return self._source.model.metadata()

    def __len__(self) -> int:
        return len(self._source.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.names)

    def __contains__(self, name: object) -> bool:
        return name in self._source

    def __getitem__(self, name: str) -> torch.Tensor:
        found = self._tensors.get(name)
        if found is None:
            if name not in self._source:
                raise KeyError(name)
            found = self._tensors[name] = self._new(name)
        return found

    def _new(self, name: str) -> torch.Tensor:
        base = self._source.base(name)
        if self._record:
            return _Memory(
                self._source, name, base, base, self._device
            ).tensor()
        data = self._source.read(name, base, self._recorder.report)
        return data.to(self._device)

    def __enter__(self) -> "Recording":
        entered = self._blocks.entered
        # A block of the same tensors inside of this one counts in its report.
        recorder = Recorder(entered[-1].report if entered else None)
        recorder.__enter__()
        self._recorder = recorder
        entered.append(recorder)
        return self

    def __exit__(self, *error: Any) -> None:
        self._blocks.entered.pop().__exit__(*error)

    def settle(self, module: torch.nn.Module) -> None:
        """Give memory to tensors of this kind that MODULE holds."""
        self._recorder.settle(module)


def _recorder_of(state_dict: Any) -> Optional[Any]:
    """What to enter while a module loads STATE_DICT; None: nothing."""
    if isinstance(state_dict, Recording):
        return state_dict
    if _recorders.active or not isinstance(state_dict, Mapping):
        return None
    if any(isinstance(value, RecordingTensor) for value in state_dict.values()):
        return Recorder()
    return None


def _teach() -> None:
    """Let load_state_dict() read noted copies before it returns."""
    original = torch.nn.Module.load_state_dict
    if hasattr(original, "_weir"):
        return

    @functools.wraps(original)
    def load_state_dict(
        self: Any, state_dict: Any, *args: Any, **kwargs: Any
    ) -> Any:
        recorder = _recorder_of(state_dict)
        if recorder is None:
            return original(self, state_dict, *args, **kwargs)
        with recorder:
            result = original(self, state_dict, *args, **kwargs)
            recorder.settle(self)
        return result

    load_state_dict._weir = True  # type: ignore[attr-defined]
    torch.nn.Module.load_state_dict = load_state_dict


def recording(
    path: Paths,
    *,
    device: object = "cpu",
    way: str = "auto",
    shared: bool = False,
    record: Optional[bool] = None,
    root: Optional[_weir.Root] = None,
) -> Recording:
    """Open a model as recording tensors, for any module of torch.

        module.load_state_dict(weir.recording("model.safetensors"))

    reads each byte that the module needs once, straight into its parameters,
    in one load; with ``assign=True`` into new memory of ``device``.
    Conversions of dtypes and other devices are part of that. For code that
    copies tensors by itself:

        with weir.recording("model/") as tensors:
            for name, tensor in tensors.items():
                parameters[name].copy_(tensor[first:last])
        print(tensors.report)

    path: a file, a folder, or a list of files. way: "auto", "direct" or
    "buffered". shared: several processes of this machine load the model, so
    parts that they have in common are read through the page cache. record:
    false, or the environment variable WEIR_RECORD=0: read each tensor whole
    when it is asked for. Raises ``weir.Error``.
    """
    _teach()
    source = Source(path, way=way, shared=shared, root=root)
    return Recording(source, torch.device(device), enabled(record))
