# SPDX-License-Identifier: MIT
"""Graphs: computations that are described before they run."""

from __future__ import annotations

import difflib
import inspect
import keyword
import operator
import struct
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from . import _check, _dtypes, _errors, _into, _model, _root, _weir
from ._model import Path

if TYPE_CHECKING:
    from ._plan import Outputs, Plan

Shape = Sequence[int]

_CALL = "call"
_DIMS, _NDIM, _WORD, _DTYPE, _POINTER = 6, 7, 4, 5, 8
# By the type of a parameter: how struct packs it.
_PACK = {0: "I", 1: "Q", 2: "q", 3: "f"}
# Parameters for which 0 is a value, and no default.
_NEEDED = {
    "scale": ("scale",),
    "clamp": ("min", "max"),
    "norm": ("eps",),
    "l2_norm": ("eps",),
    "group_norm": ("groups", "eps"),
    "rms_norm": ("eps",),
    "repeat": ("shape",),
    "top_k": ("k",),
    "view": ("shape",),
}


# What 0, or no value, stands for, where it is one number: for help().
_DEFAULTS: Dict[str, Dict[str, float]] = {
    "rope": {
        "base": 10000.0,
        "freq_scale": 1.0,
        "attn_factor": 1.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    },
    "soft_max": {"scale": 1.0},
}


_WRITES = ("copy", "set_rows")


class _Parameter(NamedTuple):
    name: str
    type: int
    offset: int
    words: Optional[List[str]]

    def pack(self, operation: "Operation", into: bytearray, value: Any) -> None:
        """Write a value where the operation's struct has it."""
        try:
            if self.type == _DIMS:
                dims = [operator.index(n) for n in value]
                if len(dims) > 8:
                    raise ValueError
                struct.pack_into(f"{len(dims)}q", into, self.offset, *dims)
                operation.set_ndim(into, len(dims))
            elif self.type == _WORD:
                number = (self.words or []).index(value)
                struct.pack_into("I", into, self.offset, number)
            elif self.type == _DTYPE:
                code = _dtypes.find(value).code
                struct.pack_into("I", into, self.offset, code)
            else:
                struct.pack_into(_PACK[self.type], into, self.offset, value)
        except (
            KeyError, OverflowError, TypeError, ValueError, struct.error
        ) as error:
            if isinstance(error, _errors.Error):
                raise
            raise _errors.make(
                22, f"{operation.name}: {self.name} is {value!r}, "
                f"needed: {self._needs()}"
            ) from None

    def _needs(self) -> str:
        if self.words:
            return "one of " + ", ".join(map(repr, self.words))
        if self.type == _DIMS:
            return "at most 8 whole numbers"
        if self.type not in _PACK:
            return "a pointer, which Python cannot give"
        if self.type == 3:
            return "a number"
        return f"a whole number{' from 0 on' * (self.type != 2)} that fits"


class Operation(NamedTuple):
    """An operation of the library: ``weir.Graph`` has a method for each."""

    number: int
    name: str
    summary: str
    sources: List[str]
    required: int
    any: bool
    size: int
    parameters: Dict[str, _Parameter]

    @property
    def needed(self) -> Tuple[str, ...]:
        """The parameters that have no default."""
        return _NEEDED.get(self.name, ())

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse a call without a parameter that it needs."""
        for name in self.needed:
            if given.get(name) is None:
                raise _errors.make(
                    22, f"{self.name}: the parameter {name!r} is missing"
                )

    def set_ndim(self, into: bytearray, n: int) -> None:
        for parameter in self.parameters.values():
            if parameter.type != _NDIM:
                continue
            if struct.unpack_from("I", into, parameter.offset)[0] not in (0, n):
                raise _errors.make(
                    22, f"{self.name}: shape and stride differ in length"
                )
            struct.pack_into("I", into, parameter.offset, n)

    def signature(self) -> inspect.Signature:
        """For help()."""
        kind = inspect.Parameter
        list_: List[inspect.Parameter] = [
            kind("self", kind.POSITIONAL_ONLY),
            *(
                kind(
                    name + "_" * keyword.iskeyword(name),
                    kind.POSITIONAL_OR_KEYWORD,
                    default=kind.empty if i < self.required else None,
                )
                for i, name in enumerate(self.sources)
            ),
            *(
                kind(
                    p.name,
                    kind.KEYWORD_ONLY,
                    default=(
                        kind.empty
                        if p.name in self.needed
                        else _DEFAULTS.get(self.name, {}).get(p.name, _default(p))
                    ),
                )
                for p in self.parameters.values()
                if p.type != _NDIM
            ),
            kind("name", kind.KEYWORD_ONLY, default=None),
        ]
        return inspect.Signature(list_)


def _default(parameter: _Parameter) -> Any:
    if parameter.words:
        return parameter.words[0]
    return None if parameter.type in (_DIMS, _DTYPE) else 0


def _operations() -> Dict[str, Operation]:
    found: Dict[str, Operation] = {}
    for number, name, summary, sources, required, any_, size, list_ in (
        _weir.operations()
    ):
        parameters = {p[0]: _Parameter(*p) for p in list_}
        operation = Operation(
            number, name, summary, sources, required, any_, size, parameters
        )
        # Leaves and inputs have calls of their own; a function of C cannot be
        # given.
        if sources:
            found[name] = operation
    return found


OPERATIONS = _operations()


class Node:
    """A node of a graph: a leaf, an input, or the result of an operation."""

    __slots__ = ("graph", "index", "dtype", "shape", "operation", "name")

    graph: "Graph"
    index: int
    dtype: str
    shape: Tuple[int, ...]
    operation: str
    name: Optional[str]

    def __init__(self, graph: "Graph", index: int) -> None:
        self.graph = graph
        self.index = index
        operation, name, dtype, shape, _ = graph._native.node(index)
        self.operation = operation
        self.name = name
        self.dtype = _dtypes.BY_CODE[dtype].name
        self.shape = shape

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return (
            f"<node {self.index}: {self.operation}{name} "
            f"{self.dtype} {list(self.shape)}>"
        )


class Graph:
    """A computation that is described first, and then runs many times.

        g = weir.Graph()
        x = g.input("x", (4, 64))                 # each run gets it
        w = g.leaf(tensors["w"])                  # [256, 64], not copied
        y = g.silu(g.mul_mat(w, x))               # [4, 256]
        plan = g.compile(y)
        y1 = plan.run(x=array)                    # an array

    Shapes are those of NumPy and torch: the outermost dimension first. Note
    that ``mul_mat(w, x)`` is x times w transposed, as the weight of
    ``torch.nn.Linear`` wants it.

    Each operation of the library is a method: its arguments are nodes, and its
    parameters have keywords, with the defaults of weir_ops(3): 0 or None stands
    for them. Those without a default must be given, as ``scale(x, scale=2)``.
    ``op`` makes any operation by its name. ``name=`` names a node in messages.
    A call that fails raises ``weir.Error`` (InvalidError, a ValueError, for
    wrong shapes, dtypes and parameters) with the library's sentence; the graph
    is then as before.

    Memory of leaves is used where it is and kept alive by the graph and by its
    plans. Operations that write (``copy``, ``set_rows``) write to leaves, so
    to the program's arrays: a cache, for example. Tensors that were loaded
    with ``parkable=True`` must not be parked while a run uses them; a run that
    begins while they are parked is refused. A run uses leaves of a GPU after the
    work that torch has queued in its current stream of that device. Work of other
    streams and of other frameworks that writes to them must be done before. A leaf
    that has not arrived when it is added (``wait=False``) is not ordered after
    torch's work: all runs wait for its bytes only.

    Any thread may use a graph, one at a time.
    """

    def __init__(self, *, root: Optional[_weir.Root] = None) -> None:
        self._root = _root.given(root)
        self._native = _weir.Graph(self._root)
        self._inputs: Dict[str, int] = {}
        self._devices: List[str] = []
        self._models: Dict[object, _weir.Model] = {}
        # By the number of a node that is not contiguous, and how many nodes
        # have written before: its contiguous copy.
        self._contiguous: Dict[Tuple[int, int], int] = {}
        self._writes = 0
        # Those that can park memory of leaves.
        self._loads: List[_weir.Load] = []

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<weir.Graph with {len(self)} nodes>"

    def input(self, name: str, shape: Shape, dtype: object = "F32") -> Node:
        """A contiguous tensor that each run gets under this name."""
        _check.text("name", name)
        if name in self._inputs:
            raise _errors.make(22, f"the graph has an input {name!r} already")
        code = _dtypes.find(dtype).code
        dims = _dims("shape", shape)
        index = self._native.input(name, code, dims)
        self._inputs[name] = index
        return Node(self, index)

    def leaf(
        self,
        tensor: Any,
        *,
        name: Optional[str] = None,
        constant: bool = False,
    ) -> Node:
        """A tensor in memory of the program, which is not copied.

        tensor: a NumPy array or a torch tensor, or one of weir. One of weir may
        still be coming (``weir.load(..., wait=False)``): a run computes what
        needs it when it has arrived.
        constant: nothing changes its bytes while a plan exists, so another
        device may keep a copy. Arrays that are read-only are constant.
        """
        if name is not None:
            _check.text("name", name)
        if isinstance(tensor, _weir.Tensor):
            index = self._native.leaf_tensor(name, tensor)
            device = _root.device_name(tensor.device)
            constant = constant or tensor.readonly
            address = tensor.address
        else:
            device, place, readonly = _place(name, tensor)
            index = self._native.leaf(name, device, place)
            constant = constant or readonly
            address = place[0]
        load = _weir.parkable_at(address)
        if load is not None and load not in self._loads:
            self._loads.append(load)
        if device not in self._devices:
            self._devices.append(device)
        if constant:
            self._native.constant(index)
        return Node(self, index)

    def leaf_file(
        self, path: Path, tensor: str, *, name: Optional[str] = None
    ) -> Node:
        """A tensor that stays in a file: the first run that needs it reads it.

        path: a file or a folder with a model; tensor: its name there. With
        ``compile(..., weights=bytes)`` the devices keep only as many bytes of
        such leaves, and each run reads the others again, ahead of their use:
        a model may be larger than the memory.
        """
        _check.path("path", path)
        _check.text("tensor", tensor)
        if name is not None:
            _check.text("name", name)
        model = self._models.get(path)
        if model is None:
            model = _model.open_model(path, self._root)
            self._models[path] = model
        i = model.find(tensor)
        if i < 0:
            raise _errors.make(22, f"{path}: there is no tensor {tensor!r}")
        return Node(self, self._native.leaf_file(name or tensor, model, i))

    def op(
        self,
        operation: str,
        /,
        *sources: Optional[Node],
        name: Optional[str] = None,
        **parameters: Any,
    ) -> Node:
        """The result of an operation, by its name: ``g.op("norm", x, eps=1e-5)``.

        Sources may also be given by their names, as ``mask=``. ``help`` of the
        method of that name lists both.
        """
        found = OPERATIONS.get(_check.text("operation", operation))
        if name is not None:
            _check.text("name", name)
        if found is None:
            raise _errors.make(22, _unknown("operation", operation, OPERATIONS))
        nodes = list(sources)
        packed = bytearray(found.size)
        values: List[Tuple[_Parameter, Any]] = []
        for key, value in parameters.items():
            key = key.rstrip("_")  # as_ is the source "as"
            parameter = found.parameters.get(key)
            if parameter is not None and parameter.type != _NDIM:
                if value is not None:
                    values.append((parameter, value))
            elif key in found.sources:
                _put(found, nodes, len(sources), key, value)
            else:
                known = [*found.sources, *found.parameters]
                raise _errors.make(
                    22, f"{operation}: " + _unknown("parameter", key, known)
                )
        for parameter, value in values:
            if parameter.name == "dim" and nodes:
                value = _dim(nodes[0], value)
            parameter.pack(found, packed, value)
        found.check(parameters)
        numbers = tuple(
            self._number(found, i, node) for i, node in enumerate(nodes)
        )
        node = Node(
            self, self._native.op(found.number, bytes(packed), numbers, name)
        )
        self._writes += operation in _WRITES
        return node

    def _number(
        self, found: Operation, i: int, node: Optional[Node]
    ) -> Optional[int]:
        if node is None:
            return None
        what = found.sources[i] if i < len(found.sources) else f"source {i}"
        if not isinstance(node, Node):
            raise _errors.make(
                22,
                f"{found.name}: {what} is {type(node).__name__}, no node; "
                "leaf() makes one of a tensor",
            )
        if node.graph is not self:
            raise _errors.make(
                22, f"{found.name}: {what} is a node of another graph"
            )
        return node.index

    def reshape(
        self, a: Node, shape: Shape, *, name: Optional[str] = None
    ) -> Node:
        """The elements of a in the same order, in another shape: a view."""
        return self.op("view", a, how="reshape", shape=shape, name=name)

    def permute(
        self, a: Node, dims: Sequence[int], *, name: Optional[str] = None
    ) -> Node:
        """Dimension i of the result is dimension dims[i] of a: a view.

        Dimensions may count from the end: -1 is the last one.
        """
        dims = [_dim(a, dim) for dim in _check.items("dims", dims, "numbers")]
        return self.op("view", a, how="permute", shape=dims, name=name)

    def transpose(self, a: Node, *, name: Optional[str] = None) -> Node:
        """The last two dimensions of a exchanged: a view."""
        dims = list(range(len(_node("transpose", a).shape)))
        if len(dims) >= 2:
            dims[-2:] = [dims[-1], dims[-2]]
        return self.permute(a, dims, name=name)

    def slice(
        self,
        a: Node,
        dim: int,
        start: int,
        n: int,
        *,
        name: Optional[str] = None,
    ) -> Node:
        """The n indices of dimension dim from start on: a view.

        A negative dim or start counts from the end: -1 is the last.
        """
        dim = _dim(a, dim)
        start = _from_end(start, a.shape[dim])
        return self.op("view", a, how="slice", shape=(dim, start, n), name=name)

    def cast(self, a: Node, dtype: object, *, name: Optional[str] = None) -> Node:
        """A contiguous copy of a, converted to a dtype."""
        return self.op("cont", a, dtype=dtype, name=name)

    def compile(
        self,
        outputs: "Outputs",
        *,
        devices: Optional[Sequence[object]] = None,
        copies: int = 1,
        budget: Optional[int] = None,
        weights: Optional[int] = None,
        framework: Optional[str] = None,
    ) -> "Plan":
        """Decide where and when everything is computed, and allocate the memory.

        outputs: a node, or a sequence or a dictionary of nodes: what a run
        returns, in this form. It computes what these need, and all operations
        of the graph that write.
        devices: names as those of ``weir.devices()``; None: those whose memory
        has leaves, and the CPU. A device that cannot compute is of use for its
        leaves, which others get copies of.
        copies: how many runs can be under way at a time.
        budget: most bytes of memory of all devices; None: no limit.
        weights: most bytes, of each device, for copies of leaves in files and
        of constant leaves that it cannot use where they are; None: no limit.
        framework: of the arrays that runs return, as in ``weir.load``.

        Blocks; other threads run. Raises OutOfMemoryError, with both numbers,
        if a budget is too small, and UnsupportedError if no device has an
        operation, with the reason of each.
        """
        from ._plan import Plan

        return Plan(self, outputs, devices, copies, budget, weights, framework)

    if TYPE_CHECKING:
        # The operations of the library.
        def __getattr__(self, name: str) -> Callable[..., Node]: ...


def _from_end(number: Any, size: int) -> Any:
    """An index that may count from the end; what is wrong stays as it is."""
    try:
        n = operator.index(number)
    except TypeError:
        return number
    return n + size if -size <= n < 0 else n


def _dim(node: Any, dim: Any) -> int:
    """The number of a dimension of a node."""
    ndim = len(_node("a dimension", node).shape)
    try:
        n = operator.index(dim)
    except TypeError:
        raise _check.wrong("a dimension", dim, "a whole number") from None
    if not -ndim <= n < ndim:
        raise _errors.make(
            22, f"dimension {n} of a node that has {ndim} dimensions"
        )
    return n % ndim


def _node(name: str, node: Any) -> Node:
    if not isinstance(node, Node):
        raise _errors.make(
            22,
            f"{name}: a is {type(node).__name__}, no node; leaf() makes one of a "
            "tensor",
        )
    return node


def _dims(name: str, value: Any) -> Tuple[int, ...]:
    """Sizes, or numbers, of dimensions."""
    found = _check.items(name, value, "whole numbers")
    most = _check.MOST_SIGNED
    return tuple(_check.whole(f"one of {name}", n, -most, most) for n in found)


def _put(
    found: Operation,
    nodes: List[Optional[Node]],
    positional: int,
    key: str,
    node: Any,
) -> None:
    """A source that is given by its name, in any order, after POSITIONAL ones."""
    at = found.sources.index(key)
    if at < positional:
        raise _errors.make(22, f"{found.name}: {key} is given twice")
    nodes.extend([None] * (at + 1 - len(nodes)))
    nodes[at] = node


def _unknown(what: str, name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; is it {close[0]!r}?" if close else f": {', '.join(known)}"
    return f"there is no {what} {name!r}{hint}"


def _place(name: Optional[str], tensor: Any) -> Tuple[str, _into.Target, bool]:
    """The device and the place of a tensor, and whether it is read-only."""
    if hasattr(tensor, "data_ptr"):
        if str(tensor.layout) != "torch.strided":
            raise _errors.make(22, "a leaf is sparse: to_dense() makes it usable")
        return (*_into.torch_target(name or "leaf", tensor), False)
    if not hasattr(tensor, "__array_interface__"):
        raise _errors.make(
            22, f"a leaf is {type(tensor).__name__}, no tensor of NumPy or torch"
        )
    if tensor.dtype.byteorder == ">":
        raise _errors.make(22, "a leaf is big-endian: convert it")
    address = tensor.__array_interface__["data"][0]
    code = _dtypes.find(tensor.dtype).code
    place = (address, code, tensor.shape, tensor.strides, tensor)
    return "CPU", place, not tensor.flags.writeable


def _method(operation: Operation) -> Callable[..., Node]:
    name = operation.name

    def method(self: Graph, /, *sources: Any, **parameters: Any) -> Node:
        return self.op(name, *sources, **parameters)

    method.__name__ = name
    method.__qualname__ = f"Graph.{name}"
    method.__doc__ = operation.summary
    method.__signature__ = operation.signature()  # type: ignore[attr-defined]
    return method


for _operation in OPERATIONS.values():
    if not hasattr(Graph, _operation.name):
        setattr(Graph, _operation.name, _method(_operation))
