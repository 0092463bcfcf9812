# SPDX-License-Identifier: MIT
"""The exceptions of weir: each has the library's sentence and its errno."""

from __future__ import annotations

import errno
import sys
from typing import Any, Dict, Optional, Tuple, Type


class SafetensorError(Exception):
    """What a caller of safetensors catches; the base of weir's errors."""


class Error(SafetensorError):
    """A failure in weir. str() is the sentence, errno its number."""

    errno: Any

    def __init__(self, sentence: str, number: int = 0) -> None:
        super().__init__(sentence)
        self.errno = number

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> Tuple[object, Tuple[str, int]]:
        return make, (self.errno, str(self))  # type: ignore[return-value]


class FormatError(Error):
    """The content of a file violates its format."""


class ChangedError(Error):
    """A file has changed since it was opened."""


class CancelledError(Error):
    """It was cancelled."""


class ClosedError(Error, ValueError):
    """The object, its root or its model was closed."""


class InvalidError(Error, ValueError):
    """An argument is wrong."""


class UnsupportedError(Error, NotImplementedError, TypeError):
    """Well-formed, but weir does not support it, or NumPy not the dtype."""


class DeviceError(Error, RuntimeError):
    """There is no such device, or it is lost."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory, or a budget does not allow it."""


class FileError(Error, OSError):
    """The system refused to open, read or write a file."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file."""


class ForbiddenError(FileError, PermissionError):
    """The file may not be read or written, or the process has forked."""


class ServerError(FileError, ConnectionError):
    """The server of a URL cannot be reached, or it does not speak TLS or HTTP."""


class WaitTimeoutError(Error, TimeoutError):
    """It had not ended when the time was up."""


_CLASSES: Dict[int, Type[Error]] = {
    errno.EBADMSG: FormatError,
    errno.ESTALE: ChangedError,
    errno.ECANCELED: CancelledError,
    errno.ESHUTDOWN: ClosedError,
    errno.EBADF: ClosedError,
    errno.EINVAL: InvalidError,
    errno.E2BIG: InvalidError,
    errno.EOPNOTSUPP: UnsupportedError,
    errno.ENODEV: DeviceError,
    errno.ENOMEM: OutOfMemoryError,
    errno.ENOENT: MissingFileError,
    errno.EACCES: ForbiddenError,
    errno.EPERM: ForbiddenError,
    errno.ETIMEDOUT: WaitTimeoutError,
    errno.ECONNREFUSED: ServerError,
    errno.EHOSTUNREACH: ServerError,
    errno.EPROTO: ServerError,
}
_FILE = {
    errno.EIO,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENODATA,
}

# By class: the same class, which safetensors' own exception is a base of too.
_both: Dict[Type[Error], Type[Error]] = {}


def _catchable(cls: Type[Error]) -> Type[Error]:
    """The class to raise where the program has imported safetensors."""
    module = sys.modules.get("safetensors")
    theirs: Optional[type] = getattr(module, "SafetensorError", None)
    if theirs is None or issubclass(cls, theirs):
        return cls
    both = _both.get(cls)
    if both is None or not issubclass(both, theirs):
        both = type(cls.__name__, (cls, theirs), {"__module__": cls.__module__})
        _both[cls] = both
    return both


def make(number: int, sentence: str) -> Error:
    """The exception for an errno and a sentence."""
    cls = _CLASSES.get(number)
    if cls is None:
        cls = FileError if number in _FILE else Error
    error = _catchable(cls)(sentence, number)
    error.errno = number
    return error


def file(number: int, sentence: str) -> Error:
    """A FileError, where the errno alone would mean something else."""
    error = _catchable(FileError)(sentence, number)
    error.errno = number
    return error


def fail(sentence: str, number: int = 0) -> Error:
    """An exception for a failure that Python code found."""
    return make(number, sentence)
