# SPDX-License-Identifier: MIT
"""weir.Graph, compared with NumPy."""

from __future__ import annotations

import asyncio
import gc
import inspect
import math
import os
import signal
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest

np = pytest.importorskip("numpy")
import weir  # noqa: E402
from weir import _graph, _weir  # noqa: E402

from conftest import header, memory, settles, trace_steps  # noqa: E402

RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def rotate(x: Any, pos: Any, neox: bool) -> Any:
    half = x.shape[-1] // 2
    angle = pos[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = (x[..., :half], x[..., half:]) if neox else (x[..., ::2], x[..., 1::2])
    one, two = a * cos - b * sin, a * sin + b * cos
    if neox:
        return np.concatenate([one, two], -1)
    return np.stack([one, two], -1).reshape(x.shape)


def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    w = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask)
    return (w @ v).swapaxes(0, 1)


def hidden(length: int, window: int = 9) -> Any:
    """The mask of 3 tokens, the last ones of a length, and 5 positions."""
    ago = np.arange(length - 3, length)[:, None] - np.arange(5)
    return np.where((ago >= 0) & (ago < window), 0, -np.inf)


# Pages of 2 positions in the order 2, 1, 0; there is no position 5.
PAGED = [4, 4, 2, 3, 0, 1]
A, B, ROW = floats(3, 8), floats(3, 8), floats(8)
CUBE, W = floats(5, 4, 8), floats(6, 8)
IDS = np.array([2, 0, 2], np.int32)
POS = np.array([0, 3, 9, 1, 7], np.int32)
Q, K, V, MASK = floats(4, 3, 8), floats(2, 5, 8), floats(2, 5, 6), floats(3, 5)
SINK = floats(4)
LOGITS = floats(4, 3, 5)
EXPERTS, WHICH = floats(3, 6, 8), np.array([[0, 2], [1, 1], [2, 0]], np.int32)

# (operation, arrays, parameters, expected)
CASES: List[Tuple[str, List[Any], Dict[str, Any], Any]] = [
    ("add", [A, ROW], {}, A + ROW),
    ("sub", [A, B], {}, A - B),
    ("mul", [A, ROW], {}, A * ROW),
    ("div", [A, B], {}, A / B),
    ("scale", [A], {"scale": 2, "bias": -1}, 2 * A - 1),
    ("sqr", [A], {}, A * A),
    ("silu", [A], {}, silu(A)),
    ("gelu", [A], {},
     A / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (A + 0.044715 * A**3)))),
    ("gelu_erf", [A], {},
     A / 2 * (1 + np.array([math.erf(x) for x in (A / 2**0.5).flat])
              .reshape(A.shape))),
    ("relu", [A], {}, np.maximum(A, 0)),
    ("tanh", [A], {}, np.tanh(A)),
    ("sigmoid", [A], {}, 1 / (1 + np.exp(-A))),
    ("exp", [A], {}, np.exp(A)),
    ("sqrt", [A * A], {}, np.abs(A)),
    ("clamp", [A], {"min": -0.5, "max": 1}, A.clip(-0.5, 1)),
    ("swiglu", [A, B], {}, silu(A) * B),
    ("rms_norm", [A], {"eps": 1e-5},
     A / np.sqrt((A * A).mean(-1, keepdims=True) + 1e-5)),
    ("norm", [A], {"eps": 1e-5},
     (A - A.mean(-1, keepdims=True))
     / np.sqrt(A.var(-1, keepdims=True) + 1e-5)),
    ("l2_norm", [A], {"eps": 1e-12},
     A / np.sqrt((A * A).sum(-1, keepdims=True))),
    ("group_norm", [CUBE[:4].copy()], {"groups": 2, "eps": 1e-5},
     ((CUBE[:4].reshape(2, -1) - CUBE[:4].reshape(2, -1).mean(-1, keepdims=True))
      / np.sqrt(CUBE[:4].reshape(2, -1).var(-1, keepdims=True) + 1e-5))
     .reshape(4, 4, 8)),
    ("soft_max", [LOGITS, MASK], {"scale": 0.5}, softmax(LOGITS / 2 + MASK)),
    ("soft_max", [LOGITS, None, SINK], {},
     softmax(np.concatenate(
         [LOGITS, np.broadcast_to(SINK[:, None, None], (4, 3, 1))], -1
     ))[..., :-1]),
    ("rope", [CUBE, POS], {}, rotate(CUBE, POS, False)),
    ("rope", [CUBE, POS], {"mode": "neox"}, rotate(CUBE, POS, True)),
    ("attention", [Q, K, V, MASK], {}, attend(Q, K, V, MASK)),
    ("attention", [Q, K, V], {"precision": "f32"}, attend(Q, K, V, 0)),
    ("attention", [Q, K, V], {"causal": 1}, attend(Q, K, V, hidden(5))),
    ("attention", [Q, K, V, None, None, np.array([4], np.int32)],
     {"causal": True, "window": 2}, attend(Q, K, V, hidden(4, 2))),
    ("attention", [Q, K[:, PAGED].copy(), V[:, PAGED].copy(), None, None,
                   np.array([4], np.int32), np.array([[2, 1, 0]], np.int32)],
     {"page": 2}, attend(Q, K, V, np.where(np.arange(5) < 4, 0, -np.inf))),
    ("get_rows", [W, IDS], {}, W[IDS]),
    ("mul_mat", [W, A], {}, A @ W.T),
    ("mul_mat", [W, A], {"precision": "f32"}, A @ W.T),
    ("mul_mat_id", [EXPERTS, np.repeat(A[:, None], 2, 1).copy(), WHICH], {},
     np.einsum("tnmk,tk->tnm", EXPERTS[WHICH], A)),
    ("cont", [A], {"dtype": "F16"}, A.astype(np.float16)),
    ("concat", [A, W], {}, np.concatenate([A, W])),
    ("repeat", [ROW], {"shape": (3, 8)}, np.tile(ROW, (3, 1))),
    ("sum", [A], {}, A.sum().reshape(1)),
    ("sum_rows", [A], {}, A.sum(-1, keepdims=True)),
    ("argmax", [A], {}, A.argmax(-1).astype(np.int32)),
    ("top_k", [A], {"k": 3}, np.argsort(-A, -1)[:, :3].astype(np.int32)),
    ("argsort", [A], {}, A.argsort(-1, kind="stable").astype(np.int32)),
    ("argsort", [A], {"order": "descending"},
     (-A).argsort(-1, kind="stable").astype(np.int32)),
    ("view", [CUBE], {"how": "permute", "shape": (1, 0, 2)},
     CUBE.transpose(1, 0, 2)),
    ("view", [A], {"shape": (2, 4), "stride": (32, 8), "offset": 32},
     A[1:, ::2]),
]


def compute(g: Any, outputs: Any, **inputs: Any) -> Any:
    return g.compile(outputs, framework="numpy").run(**inputs)


@pytest.mark.parametrize("i", range(len(CASES)))
def test_operation(i: int) -> None:
    """An operation computes what NumPy does, from leaves and from inputs."""
    name, arrays, parameters, expected = CASES[i]
    g = weir.Graph()
    leaves = [None if a is None else g.leaf(a) for a in arrays]
    inputs = [
        None if a is None else g.input(f"i{n}", a.shape, a.dtype)
        for n, a in enumerate(arrays)
    ]
    got = compute(
        g,
        (getattr(g, name)(*leaves, **parameters), g.op(name, *inputs, **parameters)),
        **{f"i{n}": a for n, a in enumerate(arrays) if a is not None},
    )
    if expected.dtype == np.float64:
        expected = expected.astype(np.float32)
    for one in got:
        assert one.shape == expected.shape and one.dtype == expected.dtype
        np.testing.assert_allclose(one, expected, rtol=2e-3, atol=2e-3)


def test_all_operations() -> None:
    """Each operation of the library has a method, and a line of help."""
    names = {o[1] for o in _weir.operations()} - {"leaf", "input", "call"}
    assert names == set(_graph.OPERATIONS)
    assert all(getattr(weir.Graph, name).__doc__ for name in names)
    for name, needed in _graph._NEEDED.items():
        assert set(needed) <= set(_graph.OPERATIONS[name].parameters)
    assert {c[0] for c in CASES} | {"set_rows", "copy"} == names


def test_views() -> None:
    """reshape, permute, transpose, slice and cast are those of NumPy."""
    g = weir.Graph()
    x = g.input("x", CUBE.shape)
    got = compute(g, {
        "r": g.reshape(x, (5, 32)),
        "p": g.permute(x, (2, 0, 1)),
        "t": g.transpose(x),
        "s": g.slice(x, 1, 1, 2),
        "c": g.cast(x, np.float16),
        "np": g.permute(x, (-1, 0, -2)),
        "ns": g.slice(x, -2, -3, 2),
        "nc": g.concat(x, x, dim=-1),
        "nk": g.concat(dim=-1, b=g.scale(x, scale=2), a=x),
    }, x=CUBE)
    assert (got["np"] == CUBE.transpose(2, 0, 1)).all()
    assert (got["ns"] == CUBE[:, 1:3]).all()
    assert (got["nc"] == np.concatenate([CUBE, CUBE], -1)).all()
    assert (got["nk"] == np.concatenate([CUBE, 2 * CUBE], -1)).all()
    assert (got["r"] == CUBE.reshape(5, 32)).all()
    assert (got["p"] == CUBE.transpose(2, 0, 1)).all()
    assert (got["t"] == CUBE.swapaxes(1, 2)).all()
    assert (got["s"] == CUBE[:, 1:3]).all()
    assert (got["c"] == CUBE.astype(np.float16)).all()


def test_writes() -> None:
    """set_rows and copy write to the program's arrays, which stay where they are."""
    cache, log = np.zeros((4, 8), np.float16), np.zeros(8, np.float32)
    g = weir.Graph()
    x, at = g.input("x", (1, 8)), g.input("at", (1,), "I32")
    rows = g.set_rows(g.leaf(cache, name="cache"), x, at)
    g.copy(g.reshape(x, (8,)), g.leaf(log))
    plan = g.compile([g.cast(rows, "F32")], framework="numpy")
    for i in (2, 0):
        (seen,) = plan.run(x=A[i : i + 1], at=np.array([i], np.int32))
        assert (cache[i] == A[i].astype(np.float16)).all()
        assert (seen == cache).all() and (log == A[i]).all()
    with pytest.raises(weir.Error, match="constant"):
        cache.flags.writeable = False
        g.set_rows(g.leaf(cache), x, at)


def test_forms() -> None:
    """A run returns an array, a tuple or a dictionary, as compile() got nodes."""
    g = weir.Graph()
    x = g.input("x", (8,))
    y = g.sqr(x)
    assert compute(g, y, x=ROW).shape == (8,)
    assert isinstance(compute(g, [y], x=ROW), tuple)
    assert set(compute(g, {"y": y, 3: x}, x=ROW)) == {"y", 3}
    assert compute(g, {}) == {} and compute(g, []) == ()


def test_outputs_of_failures() -> None:
    """A compile() that failed leaves no output behind."""
    g = weir.Graph()
    x = g.input("x", (8,))
    y, z = g.sqr(x), g.silu(x)
    with pytest.raises(ValueError, match="no node"):
        g.compile([y, None])
    assert g.compile(z).info()["computed"] == 1


def test_input_self() -> None:
    """An input may have any name."""
    g = weir.Graph()
    plan = g.compile(g.sqr(g.input("self", (8,))), framework="numpy")
    assert (plan.run(self=ROW) == ROW * ROW).all()
    assert (plan.start(self=ROW).result() == ROW * ROW).all()


WRONG: List[Tuple[Callable[[Any, Any], Any], str]] = [
    (lambda g, x: g.mul_mat(x, g.leaf(ROW)), "mul_mat: b needs 2 dimensions"),
    (lambda g, x: g.add(x, g.leaf(W)), r"add: .*'x' F32 \[3, 8\]"),
    (lambda g, x: g.op("mulmat", x), "is it 'mul_mat'"),
    (lambda g, x: g.norm(x, epsilon=1), "no parameter 'epsilon'"),
    (lambda g, x: g.norm(x, eps="x"), "eps is 'x'"),
    (lambda g, x: g.norm(x, eps=-1), "eps -1"),
    (lambda g, x: g.mul_mat(x, x, precision="low"), "'fast', 'invariant'"),
    (lambda g, x: g.cast(x, "F33"), "F33"),
    (lambda g, x: g.add(x, A), "leaf"),
    (lambda g, x: g.add(x), "source 1 .b. is NULL"),
    (lambda g, x: g.add(x, x, b=x), "given twice"),
    (lambda g, x: g.add(x, weir.Graph().input("x", (8,))), "another graph"),
    (lambda g, x: g.reshape(x, (5, 5)), "25 elements"),
    (lambda g, x: g.repeat(x, shape=(1,) * 9), "at most 8"),
    (lambda g, x: g.reshape(x, (2.5, 12)), "whole numbers"),
    (lambda g, x: g.view(x, shape=(3, 4), stride=(4,)), "differ in length"),
    (lambda g, x: g.concat(x, x, dim=-3), "dimension -3 of .* 2 dimensions"),
    (lambda g, x: g.slice(x, 2, 0, 1), "dimension 2 of .* 2 dimensions"),
    (lambda g, x: g.slice(x, 0, -4, 1), "from -4 on"),
    (lambda g, x: g.permute(x, (-1, 1)), "each dimension once"),
    (lambda g, x: g.slice(A, 0, 0, 1), "ndarray, no node"),
    (lambda g, x: g.scale(x, bias=1), "'scale' is missing"),
    (lambda g, x: g.rms_norm(x), "'eps' is missing"),
    (lambda g, x: g.norm(x, eps=None), "'eps' is missing"),
    (lambda g, x: g.top_k(x), "'k' is missing"),
    (lambda g, x: g.input("x", (1,)), "input 'x' already"),
    (lambda g, x: g.leaf([1.0]), "list"),
    (lambda g, x: g.leaf(A.astype(">f4")), "big-endian"),
    (lambda g, x: g.compile(A), "no node"),
    (lambda g, x: g.compile(x, copies=0), "copies"),
    (lambda g, x: g.compile(x, budget=0), "budget"),
    (lambda g, x: g.compile(x, weights=0), "weights"),
    (lambda g, x: g.compile(x).explain(weir.Graph().input("x", (1,))), "node"),
    (lambda g, x: g.compile(g.sqr(x)).run(), "'x' is missing"),
    (lambda g, x: g.compile(g.sqr(x)).run(x=W), r"F32 \[6, 8\].*\[3, 8\]"),
    (lambda g, x: g.compile(g.sqr(x)).run(x=A.astype("f8")), "F64"),
    (lambda g, x: g.compile(g.sqr(x)).run(x=A, z=A), "'z'"),
    (lambda g, x: g.compile(g.sqr(x)).run(x=[1]), "list"),
]


@pytest.mark.parametrize("i", range(len(WRONG)))
def test_wrong(i: int) -> None:
    """A wrong argument is a ValueError that says why, and the graph goes on."""
    call, why = WRONG[i]
    g = weir.Graph()
    x = g.input("x", A.shape)
    with pytest.raises(ValueError, match=why) as caught:
        call(g, x)
    assert isinstance(caught.value, weir.Error)
    assert (compute(g, g.sqr(x), x=A) == A * A).all()


def test_strided() -> None:
    """Leaves and inputs need not be contiguous."""
    g = weir.Graph()
    x = g.input("x", (8, 3))
    got = compute(g, g.add(x, g.leaf(B.T)), x=A.T)
    assert (got == (A + B).T).all()


def test_help_defaults() -> None:
    """The defaults that help() shows are those that the library uses."""
    g = weir.Graph()
    x, pos = g.leaf(CUBE), g.leaf(POS)
    defaults = _graph._DEFAULTS["rope"]
    one, two = compute(g, [g.rope(x, pos), g.rope(x, pos, **defaults)])
    assert (one == two).all()
    more = {"ext_factor": 1, "context": 4, "freq_scale": 0.5}
    one, two = compute(
        g, [g.rope(x, pos, **more), g.rope(x, pos, **{**defaults, **more})]
    )
    assert (one == two).all()
    one, two = compute(g, [g.soft_max(x), g.soft_max(x, scale=1)])
    assert (one == two).all()
    assert "base=10000.0" in str(inspect.signature(weir.Graph.rope))


def test_compile_twice() -> None:
    """A graph that is compiled again for a view does not grow."""
    cache = np.zeros((2, 3), np.float32)
    g = weir.Graph()
    leaf = g.leaf(cache)
    view = g.transpose(leaf)
    g.compile(view)
    size = len(g)
    assert (g.compile(view, framework="numpy").run() == 0).all()
    assert len(g) == size
    # What it shows may have been written to since.
    g.copy(g.leaf(A[:2, :3].copy()), leaf)
    assert (compute(g, view) == A[:2, :3].T).all()


def test_unused_input() -> None:
    """Inputs that no output needs are not asked for."""
    g = weir.Graph()
    x, y = g.input("x", (8,)), g.input("y", (8,))
    plan = g.compile(g.sqr(x), framework="numpy")
    assert plan.inputs == ("x",) and (plan.run(x=ROW) == ROW * ROW).all()
    other = g.compile(g.scale(y, scale=2), framework="numpy")
    assert (other.run(y=ROW) == 2 * ROW).all()
    assert plan.explain(x)["where"] == "inputs"


def gone(reference: Any) -> bool:
    """True if the object is collected within 10 s."""
    for _ in range(1000):
        gc.collect()
        if reference() is None:
            return True
        weir.Graph().leaf(ROW)
        time.sleep(0.01)
    return False


def test_lifetime() -> None:
    """An array lives as long as a plan over it, and not longer."""
    array = W.copy()
    reference = weakref.ref(array)
    g = weir.Graph()
    y = g.mul_mat(g.leaf(array), g.input("x", A.shape))
    plan = g.compile(y, framework="numpy")
    del array, g, y
    gc.collect()
    result = plan.run(x=A)
    np.testing.assert_allclose(result, A @ W.T, rtol=1e-4, atol=1e-4)
    assert reference() is not None
    del plan
    assert gone(reference)
    np.testing.assert_allclose(result, A @ W.T, rtol=1e-4, atol=1e-4)


def test_leak() -> None:
    """10,000 runs and 1,000 plans leave no memory behind."""
    g = weir.Graph()
    y = g.sqr(g.input("x", (64, 64)))
    plan = g.compile(y, framework="numpy")
    x = floats(64, 64)

    def work(runs: int, plans: int) -> None:
        for _ in range(runs):
            plan.run(x=x)
        for _ in range(plans):
            h = weir.Graph()
            h.compile(h.add(h.input("x", (8,)), h.leaf(ROW.copy())))

    work(2000, 200)
    before = memory()
    work(10000, 1000)
    assert settles(lambda: memory() - before < 4 << 20)


def test_threads() -> None:
    """Many threads run one plan, and compile one graph."""
    g = weir.Graph()
    plan = g.compile(
        g.mul_mat(g.leaf(W), g.input("x", A.shape)), copies=3, framework="numpy"
    )
    wrong: List[Any] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal(A.shape).astype("f4")
        try:
            for _ in range(200):
                np.testing.assert_allclose(
                    plan.run(x=x), x @ W.T, rtol=1e-3, atol=1e-3
                )
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def long_plan(copies: int = 1, n: int = 4000) -> Tuple[Any, Any]:
    """A plan whose runs take some seconds, and its input."""
    g = weir.Graph()
    w = g.leaf(np.eye(512, dtype=np.float32))
    y = x = g.input("x", (512, 512))
    for _ in range(n):
        y = g.mul_mat(w, y)
    return g.compile(y, framework="numpy", copies=copies), floats(512, 512)


def test_interrupt() -> None:
    """Ctrl-C ends a run, and the plan runs again."""
    plan, x = long_plan()
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            plan.run(x=x)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, old)
    run = plan.start(x=x)
    assert not run.done
    run.cancel()
    with pytest.raises(weir.CancelledError):
        run.result()


def test_start() -> None:
    """A run that was started is waited for, cancelled or dropped."""
    plan, x = long_plan()
    run = plan.start(x=x)
    with pytest.raises(TimeoutError):
        run.result(timeout=0.01)
    with pytest.raises(weir.Error, match="all copies") as caught:
        plan.start(x=x)
    assert caught.value.errno == 11
    with pytest.raises(weir.Error, match="all copies"):
        plan.run(x=x)  # nobody else would end that run
    del run
    run = plan.start(x=x)
    run.cancel()
    with pytest.raises(weir.CancelledError):
        run.result()
    assert run.done and run.report()["nodes"] < 4000


def test_result_of_threads() -> None:
    """Several threads may get the result of one run."""
    g = weir.Graph()
    plan = g.compile(g.silu(g.input("x", (64,))), copies=2)
    x = floats(64)
    for _ in range(200):
        run, got = plan.start(x=x), []
        threads = [
            threading.Thread(target=lambda: got.append(run.result()))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 4 and all(y is got[0] for y in got)
    other = plan.start(x=x)
    again = plan.start(x=x)
    assert np.allclose(other.result(), silu(x))
    assert np.allclose(again.result(), silu(x))
    with pytest.raises(weir.Error, match="all copies"):
        runs = [plan.start(x=x) for _ in range(3)]  # noqa: F841


def test_await() -> None:
    """Runs are awaited, also several at once, and a cancelled task ends its run."""
    g = weir.Graph()
    plan = g.compile(g.sqr(g.input("x", (8,))), copies=3, framework="numpy")
    slow, x = long_plan()

    async def wait_slow() -> Any:
        return await slow.start(x=x)

    async def main() -> None:
        got = await asyncio.gather(*(plan.start(x=ROW * i) for i in range(3)))
        assert all((y == (ROW * i) ** 2).all() for i, y in enumerate(got))
        task = asyncio.ensure_future(wait_slow())
        await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    run = slow.start(x=x)
    run.cancel()
    with pytest.raises(weir.CancelledError):
        run.result()


def test_await_twice() -> None:
    """Several tasks may await one run."""
    plan, x = long_plan(n=100)

    async def main() -> None:
        run = plan.start(x=x)

        async def one() -> Any:
            return await run

        got = await asyncio.wait_for(asyncio.gather(one(), one(), one()), 60)
        assert all(y is got[0] for y in got)

    asyncio.run(main())


def test_handler() -> None:
    """A signal handler is refused a run of the plan that it interrupts."""
    plan, x = long_plan(n=500)
    got: List[Any] = []

    def handler(*unused: Any) -> None:
        try:
            plan.run(x=x)
        except weir.Error as error:
            got.append(error.errno)

    old = signal.signal(signal.SIGPROF, handler)
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.02)
        plan.run(x=x)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    assert got == [11]
    plan.start(x=x).cancel()


def interrupted(call: Callable[[], Any], n: int) -> bool:
    """Call with a KeyboardInterrupt before step N in _plan.py; False: it ended."""
    left = [n]

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.endswith("_plan.py"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
        return trace

    old = sys.gettrace()
    trace_steps(trace)
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(old)


@pytest.mark.parametrize("how", ["run", "start", "result"])
def test_copy_after_interrupt(how: str) -> None:
    """Ctrl-C between any two steps of a call does not lose the plan's copy."""
    g = weir.Graph()
    plan = g.compile(g.sqr(g.input("x", (8,))), framework="numpy")
    calls: Dict[str, Callable[[], Any]] = {
        "run": lambda: plan.run(x=ROW),
        "start": lambda: plan.start(x=ROW),
        "result": lambda: plan.start(x=ROW).result(),
    }
    steps = 1
    while interrupted(calls[how], steps):
        assert (plan.start(x=ROW).result() == ROW * ROW).all()
        steps += 1
    assert steps > 20


def test_copy_of_ended_thread() -> None:
    """A thread waits for a copy that a thread has which has ended."""
    plan, x = long_plan(n=100)
    runs: List[Any] = []

    def start() -> None:
        runs.append(plan.start(x=x))

    def run() -> None:
        try:
            runs.append(plan.run(x=x))
        except weir.Error as error:
            runs.append(error)

    for _ in range(8):
        # The second thread often has the stack and the address of the first.
        for work in (start, run):
            thread = threading.Thread(target=work)
            thread.start()
            if work is start:
                thread.join()
        runs.pop(0).result()
        thread.join()
        assert not isinstance(runs.pop(), weir.Error)


def test_copy_after_failure() -> None:
    """A run that failed has returned its copy, also while somebody has its error."""
    plan, x = long_plan()
    run = plan.start(x=x)
    run.cancel()
    with pytest.raises(weir.CancelledError) as caught:
        run.result()
    again = plan.start(x=x)
    again.cancel()
    assert "failed" in repr(run) and caught.value is not None
    # It may have ended before it was cancelled.
    assert any(word in repr(again) for word in ("under way", "CancelledError", "done"))


def test_close_wakes() -> None:
    """Threads that wait for a copy of a plan get ClosedError when it is closed."""
    plan, x = long_plan()
    run = plan.start(x=x)
    got: List[BaseException] = []

    def work() -> None:
        try:
            plan.run(x=x)
        except weir.Error as error:
            got.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    plan.close()
    for thread in threads:
        thread.join()
    assert len(got) == 3
    assert all(isinstance(error, weir.ClosedError) for error in got)
    assert repr(plan) == "<weir.Plan, closed>"
    run.cancel()


def test_copy_of_ended_run() -> None:
    """A run that has ended does not touch the next one of its copy."""
    plan, x = long_plan(n=100)
    first = plan.start(x=x)
    threads = [
        threading.Thread(target=first.result, daemon=True) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    first.result()
    for thread in threads:
        thread.join()
    report = first.report()
    second = plan.start(x=x)
    first.cancel()
    assert first.done and first.report() == report and not second.done
    np.testing.assert_allclose(second.result(), x, rtol=1e-2, atol=1e-2)


def test_fork() -> None:
    """A child of fork() is refused its parent's plan, and makes its own."""
    g = weir.Graph()
    x = g.input("x", (8,))
    plan = g.compile(g.sqr(x), framework="numpy")
    plan.run(x=ROW)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            plan.run(x=ROW)
        except weir.Error:
            h = weir.Graph()
            got = compute(h, h.sqr(h.input("x", (8,))), x=ROW)
            status = 0 if (got == ROW * ROW).all() else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert (plan.run(x=ROW) == ROW * ROW).all()


def test_closed() -> None:
    """A plan that was closed, or whose root was, refuses to run."""
    with weir.Root() as root:
        g = weir.Graph(root=root)
        plan = g.compile(g.sqr(g.input("x", (8,))), framework="numpy")
        assert (plan.run(x=ROW) == ROW * ROW).all()
        with g.compile(g.scale(g.input("y", (8,)), scale=2)) as closed:
            closed.start(y=ROW)
        for call in (closed.run, closed.start):
            with pytest.raises(weir.ClosedError, match="plan"):
                call(y=ROW)
    with pytest.raises(weir.ClosedError, match="root"):
        plan.run(x=ROW)
    with pytest.raises(weir.ClosedError, match="root"):
        g.compile(g.input("z", (8,)))
    with pytest.raises(weir.ClosedError, match="root"):
        g.leaf(ROW)


def test_root_closed_meanwhile() -> None:
    """A root may be closed while other threads compile and run."""
    for _ in range(20):
        root = weir.Root(io="threads")
        wrong: List[BaseException] = []

        def work() -> None:
            try:
                while True:
                    g = weir.Graph(root=root)
                    y = g.mul_mat(g.leaf(W), g.input("x", A.shape))
                    g.compile(y, framework="numpy").run(x=A)
            except weir.ClosedError:
                pass
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        root.close()
        for thread in threads:
            thread.join()
        assert not wrong


def model(path: Path, n: int = 6, size: int = 64) -> List[Any]:
    """A file of square matrices, and its matrices."""
    arrays = [floats(size, size) / 8 for _ in range(n)]
    path.write_bytes(header([
        (f"w{i}", "F32", a.shape, a.tobytes()) for i, a in enumerate(arrays)
    ]))
    return arrays


@pytest.mark.parametrize("framework", ["weir", "numpy"])
def test_parked(tmp_path: Path, framework: str) -> None:
    """A plan does not run while its leaves are parked."""
    path = tmp_path / "m.safetensors"
    (array,) = model(path, 1)
    tensors = weir.load(path, parkable=True, framework=framework)
    g = weir.Graph()
    y = g.mul_mat(g.leaf(tensors["w0"]), g.input("x", (1, 64)), precision="f32")
    plan = g.compile(y, framework="numpy")
    x = floats(1, 64)
    with tensors.parked():
        for call in (plan.run, plan.start):
            with pytest.raises(weir.Error, match="parked"):
                call(x=x)
    np.testing.assert_allclose(plan.run(x=x), x @ array.T, rtol=1e-3, atol=1e-4)


def chain(g: Any, leaves: List[Any], x: Any) -> Any:
    for leaf in leaves:
        x = g.mul_mat(leaf, x, precision="f32")
    return x


def test_arriving(tmp_path: Path) -> None:
    """A run waits for weights that are still being read."""
    arrays = model(tmp_path / "m.safetensors", 64, 256)
    tensors = weir.load(
        tmp_path / "m.safetensors", framework="weir", wait=False
    )
    g = weir.Graph()
    x = g.input("x", (1, 256))
    y = chain(g, [g.leaf(tensors[f"w{i}"]) for i in range(64)], x)
    plan = g.compile(y, framework="numpy")
    del tensors, g, y
    got = want = floats(1, 256)
    got = plan.run(x=got)
    for a in arrays:
        want = want @ a.T
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * abs(want).max())


@pytest.mark.parametrize("weights", [None, 3 * 16384])
def test_files(tmp_path: Path, weights: Any) -> None:
    """Leaves in files are read by the first run, or again in each."""
    path = tmp_path / "m.safetensors"
    arrays = model(path)
    g = weir.Graph()
    leaves = [g.leaf_file(path, f"w{i}") for i in range(6)]
    plan = g.compile(
        chain(g, leaves, g.input("x", (1, 64))), weights=weights,
        framework="numpy",
    )
    assert bool(plan.info()["prefetched"]) == bool(weights)
    for _ in range(2):
        got = want = floats(1, 64)
        got = plan.run(x=got)
        for a in arrays:
            want = want @ a.T
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="'w9'"):
        g.leaf_file(path, "w9")


def test_budget() -> None:
    """A budget that is too small is refused with both numbers."""
    g = weir.Graph()
    with pytest.raises(MemoryError, match="4096"):
        g.compile(g.sqr(g.input("x", (512, 512))), budget=4096)


def test_quantised(tmp_path: Path) -> None:
    """Quantised and BF16 weights that weir has loaded are leaves."""
    arrays = model(tmp_path / "m.safetensors", 1, 64)
    for dtype, error in (("Q8_0", 0.05), ("BF16", 0.05), ("F16", 0.01)):
        tensors = weir.load(
            tmp_path / "m.safetensors", framework="weir", dtype=dtype
        )
        g = weir.Graph()
        w = g.leaf(tensors["w0"])
        assert w.dtype == dtype
        x = floats(2, 64)
        got = compute(g, g.mul_mat(w, g.input("x", (2, 64))), x=x)
        np.testing.assert_allclose(got, x @ arrays[0].T, atol=error)


def test_torch() -> None:
    """Leaves, inputs and outputs are tensors of torch."""
    torch = pytest.importorskip("torch")
    w, x = torch.randn(6, 8), torch.randn(3, 8)
    g = weir.Graph()
    y = g.mul_mat(g.leaf(w), g.input("x", (3, 8)), precision="f32")
    got = g.compile(y, framework="torch").run(x=x)
    assert torch.allclose(got, x @ w.T, atol=1e-4)
