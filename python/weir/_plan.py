# SPDX-License-Identifier: MIT
"""Plans of graphs, and their runs."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import (
    Any,
    Dict,
    Generator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _check, _errors, _frameworks, _root, _serialize, _weir
from ._graph import Graph, Node

Outputs = Union[Node, Sequence[Node], Mapping[Any, Node]]

_WHERE = ("nowhere", "leaf", "inputs", "results")
_CAUSE = ("none", "pinned", "writes", "weights", "cost", "only")


def _describe(name: str, value: Any) -> _serialize.Spec:
    """A contiguous tensor of any framework, for an input."""
    if hasattr(value, "data_ptr"):
        if str(value.layout) == "torch.strided":
            value = value.detach().contiguous()
    elif hasattr(value, "__array_interface__"):
        import numpy

        value = numpy.ascontiguousarray(value).reshape(value.shape)
    return _serialize.describe(name, value)


class Plan:
    """A graph that is ready to run: made by ``Graph.compile``.

        with g.compile({"logits": y}) as plan:
            logits = plan.run(x=x, mask=mask)["logits"]

    Any thread may run it at any time. ``copies`` runs are under way at a time,
    and others wait for one of them to end. The plan keeps the memory of the
    graph's leaves; results are in memory of their own, which they keep.
    """

    def __init__(
        self,
        graph: Graph,
        outputs: Outputs,
        devices: Optional[Sequence[object]] = None,
        copies: int = 1,
        budget: Optional[int] = None,
        weights: Optional[int] = None,
        framework: Optional[str] = None,
    ) -> None:
        self._maker = _frameworks.maker(_frameworks.name_of(framework))
        self._keys, nodes = _form(outputs)
        copies = _check.whole("copies", copies, 1, 4096)
        if budget is not None:
            budget = _check.whole("budget", budget, 1)
        if weights is not None:
            weights = _check.whole("weights", weights, 1)
        if isinstance(devices, str):
            devices = [devices]
        elif devices is None:
            devices = [*(d for d in graph._devices if d != "CPU"), "CPU"]
        names = [
            _root.device_name(d) for d in _check.items("devices", devices, "names")
        ]
        self._graph = graph
        self._loads = tuple(graph._loads)
        self._cuda = tuple(
            int(d[4:]) for d in graph._devices if d.startswith("CUDA")
        )
        marked: List[int] = []
        try:
            for node in nodes:
                marked.append(_output(graph, node))
            self._native: Optional[_weir.Plan] = _weir.Plan(
                graph._native,
                tuple((name, weights or 0) for name in names),
                tuple(graph._inputs.values()),
                tuple(marked),
                copies,
                budget or 0,
            )
        finally:
            for index in marked:
                graph._native.unmark(index)
        by_index = {index: name for name, index in graph._inputs.items()}
        self._inputs = tuple(by_index[i] for i in self._native.inputs())

    def __enter__(self) -> "Plan":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native is None:
            return "<weir.Plan, closed>"
        info = self._native.info()
        inputs = ", ".join(self._inputs) or "none"
        return (
            f"<weir.Plan: inputs {inputs}, {info['computed']} of "
            f"{info['nodes']} nodes computed, {info['bytes']} bytes>"
        )

    def close(self) -> None:
        """Free the memory; runs that are under way keep what they need."""
        native, self._native = self._native, None
        if native is not None:
            native.close()

    def _open(self) -> _weir.Plan:
        if self._native is None:
            raise _errors.make(9, "the plan was closed")
        return self._native

    @property
    def inputs(self) -> Tuple[str, ...]:
        """The names of the inputs: ``run`` needs a value for each."""
        return self._inputs

    def _check_parked(self) -> None:
        for load in self._loads:
            try:
                state = load.park_info()["state"]
            except _errors.ClosedError:
                continue  # nothing can park its memory any more
            if state != "resident":
                raise _errors.make(
                    16, "leaves of the graph are parked: unpark() brings them back"
                )

    def _streams(self) -> Tuple[Tuple[int, int], ...]:
        """The current streams of torch, whose work may write to leaves."""
        torch = sys.modules.get("torch") if self._cuda else None
        # Otherwise it has queued nothing, and perhaps it cannot use CUDA at all.
        if torch is None or not torch.cuda.is_initialized():
            return ()
        current = torch.cuda.current_stream
        return tuple((n, current(n).cuda_stream) for n in self._cuda)

    def _order(self, inputs: Mapping[str, Any]) -> Tuple[Any, ...]:
        try:
            values = tuple([inputs[name] for name in self._inputs])
        except KeyError as error:
            raise _errors.make(
                22, f"the input {error.args[0]!r} is missing"
            ) from None
        if len(values) != len(inputs):
            unknown = next(n for n in inputs if n not in self._inputs)
            raise _errors.make(
                22,
                f"no output needs an input {unknown!r}; there are: "
                + ", ".join(self._inputs),
            )
        return values

    def run(self, /, **inputs: Any) -> Any:
        """Compute the outputs, and return them in the form that compile() got.

        The inputs are contiguous or other tensors of NumPy, torch or weir, with
        the dtypes and shapes of the graph: nothing is converted. Blocks; other
        threads run, and Ctrl-C ends the run. If all copies of the plan are
        taken it waits for one, or raises ``weir.Error`` (EAGAIN) if this thread
        has taken them: by ``start``, or by a ``run`` that a signal handler
        interrupts.
        """
        values = self._order(inputs)
        native = self._open()
        self._check_parked()
        return self._shaped(
            native.compute(values, _describe, self._maker, self._streams())
        )

    def start(self, /, **inputs: Any) -> "Run":
        """Start a run, and return at once: ``.result()``, or ``await`` it.

        The inputs are copied before it returns. Raises ``weir.Error`` (EAGAIN)
        if all copies of the plan are taken: a run has one until its result was
        fetched, or it is dropped.
        """
        values = self._order(inputs)
        native = self._open()
        self._check_parked()
        return Run(self, native.start(values, _describe, self._streams()))

    def _shaped(self, results: Tuple[Any, ...]) -> Any:
        keys = self._keys
        if keys is None:
            return results[0]
        return results if isinstance(keys, tuple) else dict(zip(keys, results))

    def info(self) -> Dict[str, Any]:
        """Bytes of memory, and numbers of nodes: as weir_exec_info(3) has them."""
        return self._open().info()

    def explain(self, node: Node) -> Dict[str, Any]:
        """Where a node is computed, and why: device (None: nowhere), where its
        bytes are ("leaf", "inputs", "results" or "nowhere"), cause ("pinned",
        "writes", "weights", "cost", "only" or "none") and bytes."""
        _belongs(self._graph, node, "node")
        device, where, _, cause, nbytes = self._open().explain(node.index)
        return {
            "device": device,
            "where": _WHERE[where],
            "cause": _CAUSE[cause],
            "bytes": nbytes,
        }


class Run:
    """A run under way. ``await run`` returns its result, as ``result()`` does.

    Any thread may call its methods. A run that is dropped is cancelled.
    """

    def __init__(self, plan: Plan, native: _weir.Run) -> None:
        self._plan = plan
        self._native = native
        # Signal handlers may interrupt a call and make another.
        self._lock = threading.RLock()
        self._ended = False  # the result, the error and the report are there
        self._result: Any = None
        self._error: Optional[BaseException] = None
        self._report: Dict[str, Any] = {}

    def __repr__(self) -> str:
        if not self.done:
            how = "under way"
        elif self._error is not None:
            how = f"failed: {self._error!r}"
        else:
            how = "done"
        return f"<weir.Run {how}>"

    @property
    def done(self) -> bool:
        """True if it has ended."""
        return not self.report().get("running")

    def cancel(self) -> None:
        """Begin no further operation: ``result()`` raises CancelledError."""
        with self._lock:
            if not self._ended:
                self._native.cancel()

    def result(self, timeout: Optional[float] = None) -> Any:
        """Wait, for at most so many seconds, and return the outputs.

        Raises the failure of the run, or TimeoutError: it then goes on. Ctrl-C
        ends the run.
        """
        seconds = -1.0
        if timeout is not None:
            try:
                seconds = max(float(timeout), 0.0)
            except (TypeError, ValueError):
                raise _check.wrong("timeout", timeout, "seconds, or None") from None
        if not self._ended:
            self._wait(seconds)
        if self._error is not None:
            raise self._error
        return self._result

    def _wait(self, seconds: float) -> None:
        failure: Optional[BaseException] = None
        try:
            self._native.wait(seconds)
        except _errors.WaitTimeoutError:
            raise
        except BaseException as error:
            failure = error
        with self._lock:
            if not self._ended:
                self._fetch(failure)
            # Other threads may still be in a call with it.
            self._native.release()

    def _fetch(self, failure: Optional[BaseException]) -> None:
        result: Any = None
        try:
            if failure is not None:
                raise failure
            result = self._plan._shaped(self._native.outputs(self._plan._maker))
        except BaseException as error:
            failure = error
        # A signal handler may have been here meanwhile.
        if not self._ended:
            self._result, self._error = result, failure
            self._report = self._native.report() or {}
            self._ended = True

    def report(self) -> Dict[str, Any]:
        """Seconds (total, queued, wait, compute, prefetch_wait), and numbers:
        nodes computed, bytes of leaves that were kept and prefetched."""
        found = None if self._ended else self._native.report()
        return self._report if found is None else found

    def __await__(self) -> Generator[Any, None, Any]:
        return self._arrive().__await__()

    def _descriptor(self) -> Optional[int]:
        """A new descriptor that is readable when the run has ended."""
        with self._lock:
            fd = None if self.done else self._native.fileno()
            # A loop has one reader for each descriptor.
            return None if fd is None else os.dup(fd)

    async def _arrive(self) -> Any:
        fd = self._descriptor()
        if fd is not None:
            loop = asyncio.get_running_loop()
            ended: "asyncio.Future[None]" = loop.create_future()
            try:
                loop.add_reader(fd, _wake, ended)
                await ended
            except asyncio.CancelledError:
                self.cancel()
                raise
            finally:
                loop.remove_reader(fd)
                os.close(fd)
        return self.result()


def _wake(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


Keys = Union[None, Tuple[()], List[Any]]


def _form(outputs: Outputs) -> Tuple[Keys, List[Node]]:
    """The keys of a result (None: one array, (): a tuple), and its nodes."""
    if isinstance(outputs, Node):
        return None, [outputs]
    if isinstance(outputs, Mapping):
        return list(outputs), list(outputs.values())
    return (), _check.items("outputs", outputs, "nodes")


def _belongs(graph: Graph, node: Node, what: str) -> None:
    if not isinstance(node, Node) or node.graph is not graph:
        raise _errors.make(22, f"the {what} {node!r} is no node of the graph")


def _output(graph: Graph, node: Node) -> int:
    """Mark a node as an output: a contiguous one of what it shows."""
    _belongs(graph, node, "output")
    index = node.index
    if not graph._native.node(index)[4]:
        key = index, graph._writes
        if key not in graph._contiguous:
            graph._contiguous[key] = graph.op("cont", node).index
        index = graph._contiguous[key]
    graph._native.output(index)
    return index
