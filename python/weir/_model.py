# SPDX-License-Identifier: MIT
"""Opening models, and choosing tensors of them."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import re
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _check, _dtypes, _errors, _root, _weir

if TYPE_CHECKING:
    from concurrent.futures import Future

Path = Union[str, "os.PathLike[str]"]
Only = Union[str, Iterable[str], Callable[[str], bool], None]
# (dimension, first index, number of indices), or (dimension, slice)
Part = Union[Tuple[int, int, int], Tuple[int, slice]]

WAYS = {
    "auto": _weir.WAY_AUTO,
    "map": _weir.WAY_MAP,
    "buffered": _weir.WAY_BUFFERED,
    "direct": _weir.WAY_DIRECT,
}


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# What the library says without the module for URLs, and without its libcurl.
_NO_MODULE = "has weir-http.so"
_NO_LIBCURL = re.compile(r"weir-http\.so: libcurl\S+: cannot open")


def is_url(path: object) -> bool:
    """True if the path is a URL, which a source of bytes opens."""
    return isinstance(path, str) and _URL.match(path) is not None


def hint(sentence: str) -> str:
    """A sentence about a missing module, with what to do about it."""
    if _NO_LIBCURL.search(sentence):
        return f"{sentence} (Debian, Ubuntu: libcurl4; Fedora, RHEL: libcurl)"
    if _NO_MODULE in sentence:
        return f"{sentence}. This weir was built without libcurl"
    return sentence


@contextlib.contextmanager
def _hinted() -> Iterator[None]:
    try:
        yield
    except _errors.MissingFileError as error:
        sentence = str(error)
        if hint(sentence) == sentence:
            raise
        raise _errors.make(errno.ENOENT, hint(sentence)) from None


def _open(root: _weir.Root, *what: Any, **more: Any) -> _weir.Model:
    with _hinted():
        return _weir.Model(root, *what, **more)


def opening(root: _weir.Root, *what: Any, **more: Any) -> "Future[_weir.Model]":
    """Open a model on a thread, since a server may not answer.

    Ctrl-C, or the end of a task, ends the wait for the future. The thread goes on
    until the server answers or the library gives up; nobody gets the model.
    """
    from concurrent import futures  # which take long to import

    future: "Future[_weir.Model]" = futures.Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(_open(root, *what, **more))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="weir-open", daemon=True).start()
    return future


def open_urls(
    urls: Sequence[str], root: Optional[_weir.Root] = None
) -> _weir.Model:
    """Open the shards of a model that are the objects URLS."""
    return opening(_root.given(root), urls=urls).result()


def open_model(
    path: Path,
    root: Optional[_weir.Root] = None,
    lenient: bool = False,
    what: str = "path",
) -> _weir.Model:
    """Open a file or folder with a model, and read its header only."""
    _check.path(what, path)
    flags = _weir.MODEL_LENIENT if lenient else 0
    if is_url(path):
        return opening(_root.given(root), path, None, flags).result()
    return _open(_root.given(root), path, None, flags)


def choose(model: _weir.Model, only: Only) -> Optional[List[int]]:
    """Numbers of the tensors that ``only`` means; None: all of them.

    ``only`` is a pattern of fnmatch, names, or a function of a name.
    """
    if only is None:
        return None
    names = model.names()
    if isinstance(only, str):
        found = fnmatch.filter(names, only)
        if not found:
            raise _errors.make(22, f"only: no tensor matches {only!r}")
        wanted = set(found)
        return [i for i, name in enumerate(names) if name in wanted]
    if callable(only):
        return [i for i, name in enumerate(names) if only(name)]
    wanted_names = _check.items("only", only, "names, or a pattern, or a function")
    return [find(model, _check.text("a name of only", n)) for n in wanted_names]


def find(model: _weir.Model, name: str) -> int:
    """The number of a tensor."""
    i = model.find(name)
    if i < 0:
        raise _errors.fail(f"File does not contain tensor {name}")
    return i


def parts(
    model: _weir.Model,
    indices: List[int],
    slices: Optional[Mapping[str, Part]],
) -> Optional[List[Optional[Tuple[int, int, int]]]]:
    """The parts of ``indices`` as the glue takes them."""
    if slices is None:
        return None
    _check.mapping("slices", slices, "names and (dimension, first, number)")
    if not slices:
        return None
    names = model.names()
    unknown = set(slices).difference(names[i] for i in indices)
    if unknown:
        raise _errors.make(
            22, f"slices name {min(unknown, key=str)!r}, which is not loaded"
        )
    return [_part(model, i, names[i], slices.get(names[i])) for i in indices]


def _part(
    model: _weir.Model, i: int, name: str, part: Optional[Part]
) -> Optional[Tuple[int, int, int]]:
    if part is None:
        return None
    what = f"slices[{name!r}]"
    if not isinstance(part, (tuple, list)) or not 2 <= len(part) <= 3:
        raise _check.wrong(
            what, part, "(dimension, first, number) or (dimension, slice)"
        )
    shape = model.entry(i)[1]
    dim = _check.whole(f"the dimension of {what}", part[0], -len(shape))
    if dim >= len(shape):
        raise _errors.make(22, f"{what}: dimension {dim} of shape {shape}")
    dim %= len(shape)
    if len(part) == 3:
        most = _check.MOST_SIGNED
        first = _check.whole(f"the first index of {what}", part[1], 0, most)
        n = _check.whole(f"the number of {what}", part[2], 0, most)
        return dim, first, n
    if not isinstance(part[1], slice):
        raise _check.wrong(what, part[1], "a slice, after the dimension")
    try:
        start, stop, step = part[1].indices(shape[dim])
    except (TypeError, ValueError) as error:
        raise _errors.make(22, f"{what} is {part[1]}: {error}") from None
    if step != 1:
        raise _errors.make(22, f"{what} has a step of {step}, needed: 1")
    return dim, start, max(0, stop - start)


def dtype_code(dtype: object) -> int:
    """The number of a dtype that the caller names; None is 0."""
    return 0 if dtype is None else _dtypes.find(dtype).code


def kind_and_way(device: str, way: str) -> Tuple[int, int]:
    """The memory and the way of a load."""
    _check.one_of("way", way, WAYS)
    kind = _weir.MEM_DEVICE
    if way == "map":
        if device != "CPU":
            raise _errors.make(22, "only memory of the CPU is mapped")
        kind = _weir.MEM_MAPPED
    return kind, WAYS[way]


def describe(model: _weir.Model) -> Mapping[str, Any]:
    """What the model is: path, format, bytes, number of tensors."""
    return model.info()
