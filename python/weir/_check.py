# SPDX-License-Identifier: MIT
"""Arguments that are wrong: exceptions that name them.

A value of a wrong type is a TypeError, and a wrong value an InvalidError, which
is a ValueError.
"""

from __future__ import annotations

import operator
import os
import re
from typing import Any, Callable, Iterable, List, Mapping, Optional, TypeVar

from . import _errors

T = TypeVar("T")

# The most of a size of the library, and of an index.
MOST = (1 << 64) - 1
MOST_SIGNED = (1 << 63) - 1


# What pathlib makes of a URL.
_LOST = re.compile(r"(https?|s3|gs|az|hf):/[^/]")


def wrong(name: str, value: object, needed: str) -> TypeError:
    """The exception for a value of a wrong type."""
    return TypeError(f"{name} is {type(value).__name__}, needed: {needed}")


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """A whole number."""
    try:
        n = operator.index(value)
    except TypeError:
        raise wrong(name, value, "a whole number") from None
    if n < least:
        raise _errors.make(22, f"{name} is {n}, at least {least} is needed")
    if n > most:
        raise _errors.make(22, f"{name} is {n}, at most {most} is allowed")
    return n


def seconds(name: str, value: Any, most: float = 1e9) -> float:
    """A time, or -1."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise wrong(name, value, "a number of seconds") from None
    if number != -1 and not 0 <= number <= most:
        raise _errors.make(
            22, f"{name} is {value}: needed is -1 or 0 to {most:g} seconds"
        )
    return number


def text(name: str, value: Any) -> str:
    """A str."""
    if not isinstance(value, str):
        raise wrong(name, value, "a str")
    return value


def path(name: str, value: Any, zero: bool = False) -> Any:
    """A path. zero: the caller looks for zero bytes."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise wrong(name, value, "a str or os.PathLike")
    if isinstance(value, os.PathLike) and _LOST.match(os.fsdecode(value)):
        raise wrong(name, value, "a str for a URL, which loses a slash in a path")
    if not zero and "\0" in os.fsdecode(value):
        raise _errors.make(22, f"{name} {value!r}: a path has no zero byte")
    return value


def one_of(name: str, value: Any, known: Iterable[str]) -> Any:
    """One of some words."""
    words = list(known)
    if not isinstance(value, str) or value not in words:
        raise _errors.make(22, f"{name} {value!r}: one of {', '.join(words)}")
    return value


def mapping(name: str, value: Any, of: str) -> Mapping[Any, Any]:
    """A mapping, for example a dictionary."""
    if not isinstance(value, Mapping) and not (
        hasattr(value, "items") and hasattr(value, "__getitem__")
    ):
        raise wrong(name, value, f"a dictionary of {of}")
    found: Mapping[Any, Any] = value
    return found


def strings(name: str, value: Any) -> List[str]:
    """A str, or several; of a dictionary its keys."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, bytes):
        raise wrong(name, value, "a str, or a sequence of str")
    return [text(f"one of {name}", item) for item in items(name, value, "str")]


def items(name: str, value: Iterable[T], of: str) -> List[T]:
    """The items of a sequence."""
    if not isinstance(value, (str, bytes)):
        try:
            return list(value)
        except TypeError:
            pass
    raise wrong(name, value, f"a sequence of {of}")


def function(
    name: str, value: Any, needed: str
) -> Optional[Callable[..., Any]]:
    """A function, or None."""
    if value is not None and not callable(value):
        raise wrong(name, value, needed)
    found: Optional[Callable[..., Any]] = value
    return found
