# SPDX-License-Identifier: MIT
"""The command weir, and what it does for programs."""

from __future__ import annotations

import os
import re
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

from . import _check, _dtypes, _errors, _model, _report, _weir
from ._model import Path

if TYPE_CHECKING:
    import subprocess

Names = Union[str, Sequence[str]]
Size = Union[int, str]

# The options of `weir convert`, and the arguments of convert().
_ARGUMENTS = {
    "--cache": "cache",
    "--drop": "drop",
    "--drop-meta": "drop_metadata",
    "--dtype": "dtype",
    "--estimate": "estimate=True",
    "--force": "force=True",
    "--lenient": "lenient=True",
    "--rank": "rank",
    "--raw": "raw=True",
    "--rename": "rename",
    "--set": "metadata",
    "--shard": "shard_bytes",
    "--slice": "slices",
    "--staging": "staging",
}
_OPTION = re.compile(r"(?<![\w/.-])--[a-z]+(?:-[a-z]+)*(?![\w/-])")

# Exit statuses of the command, and the errno of the exception.
_STATUS = {2: 22, 3: 28}


def path() -> str:
    """The path of the command: that of the wheel, or an installed one.

    That is in bin beside the folder of the library, or in PATH.
    """
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "weir")
    if os.access(own, os.X_OK):
        return own
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(_weir.library)))
    for folder in [os.path.join(prefix, "bin"), *os.get_exec_path()]:
        found = os.path.join(folder, "weir")
        if os.access(found, os.X_OK) and _is_program(found):
            return found
    raise _errors.make(
        2, f"the command weir is not in this package, {prefix}/bin or PATH: install it"
    )


def _is_program(file: str) -> bool:
    """False for scripts of Python: one of them may have called us."""
    try:
        with open(file, "rb") as opened:
            return opened.read(4) == b"\x7fELF"
    except OSError:
        return False


def convert(
    source: Path,
    target: Path,
    *,
    dtype: object = None,
    shard_bytes: Size = 0,
    drop: Names = (),
    rename: Optional[Mapping[str, str]] = None,
    slices: Names = (),
    rank: Optional[str] = None,
    drop_metadata: Names = (),
    metadata: Optional[Mapping[str, str]] = None,
    force: bool = False,
    raw: bool = False,
    estimate: bool = False,
    staging: Size = 0,
    cache: str = "keep",
    lenient: bool = False,
    progress: _report.Progress = None,
) -> Dict[str, Any]:
    """Write a model in another format, dtype, or number of files.

    source: a safetensors or GGUF file, an index of shards, or a folder, or the
    URL of one.
    target: NAME.safetensors, NAME.gguf, or a folder, with a slash at its end.
    A folder of Hugging Face with its config.json becomes GGUF with its
    hyperparameters and tokenizer, unless raw is true.
    dtype: "f32", "f16", "bf16", "q8_0", "q4_0", "q4_k" or "q6_k"; or a dtype of
    NumPy or torch.
    shard_bytes: most bytes of tensors of a file, of several; sizes may also be
    strings with a suffix, as of the command: "4G".
    drop, drop_metadata: patterns of names and keys to leave out.
    rename: {extended regular expression: replacement}.
    slices: "PATTERN:DIM" (the part of rank, "0/2") or "PATTERN:DIM:START+N".
    metadata: {key: "TYPE:VALUE"}.
    force: replace target if it exists.
    estimate: write nothing, only return what would be written.
    staging: most bytes of memory for chunks (64 MiB).
    cache: "keep", or "drop": leave nothing of the files in the page cache.
    progress: True for a bar of tqdm, if it is installed, or a function that is
    called every 0.1 s and at the end with {"bytes", "total", "elapsed"}.

    Runs the command `weir convert` in a process of its own and returns its
    report: files, bytes, tensors, seconds and more. Memory does not grow with
    the model. If target cannot be written whole, it stays as it was. Ctrl-C, or
    an exception of progress, ends the conversion. Raises InvalidError for wrong
    options, else ``weir.Error``.
    """
    import json

    _report.check(progress)
    for name, at in (("source", source), ("target", target)):
        _check.path(name, at)
    if not _model.is_url(source) and not os.path.exists(source):
        raise _errors.make(2, f"{os.fsdecode(source)}: No such file or directory")
    arguments = ["convert", "--json"]
    arguments += [] if dtype is None else ["--dtype", _dtype(dtype)]
    arguments += _size("--shard", "shard_bytes", shard_bytes)
    arguments += _each("--drop", "drop", drop)
    arguments += _each("--rename", "rename", _pairs("rename", rename))
    arguments += _each("--slice", "slices", slices)
    arguments += [] if rank is None else ["--rank", _check.text("rank", rank)]
    arguments += _each("--drop-meta", "drop_metadata", drop_metadata)
    arguments += _each("--set", "metadata", _pairs("metadata", metadata))
    arguments += _size("--staging", "staging", staging)
    arguments += ["--cache", _check.text("cache", cache)]
    for option, chosen in (
        ("--force", force),
        ("--raw", raw),
        ("--estimate", estimate),
        ("--lenient", lenient),
    ):
        arguments += [option] if chosen else []
    arguments += ["--", os.fsdecode(source), os.fsdecode(target)]
    if os.path.isfile(target) and not (force or estimate):
        raise _errors.make(
            17, f"{os.fsdecode(target)}: exists already; force=True replaces it"
        )
    with _report.shown(progress) as show:
        report: Dict[str, Any] = json.loads(_run(arguments, show))
    return report


def _as_call(sentence: str) -> str:
    """A sentence of the command for those who have called convert()."""
    sentence = _model.hint(sentence.replace("; see weir convert --help", ""))
    if sentence.startswith("convert: "):
        sentence = sentence[len("convert: "):]
    return _OPTION.sub(lambda m: _ARGUMENTS.get(m[0], m[0]), sentence)


def _dtype(dtype: object) -> str:
    """The command's name of a dtype."""
    if isinstance(dtype, str) and dtype.upper() in _dtypes.BY_NAME:
        return dtype.lower()
    return _dtypes.find(dtype).name.lower()


def _pairs(name: str, pairs: Optional[Mapping[str, str]]) -> List[str]:
    """A dictionary as the command takes it: KEY=VALUE."""
    if pairs is None:
        return []
    return [
        f"{_check.text(f'a key of {name}', key)}="
        f"{_check.text(f'{name}[{key!r}]', value)}"
        for key, value in _check.mapping(name, pairs, "str and str").items()
    ]


def _size(option: str, name: str, size: Size) -> List[str]:
    """A number of bytes; 0 is the command's choice."""
    if not isinstance(size, str):
        size = _check.whole(name, size)
    return [option, str(size)] if size else []


def _each(option: str, name: str, values: Names) -> List[str]:
    if isinstance(values, Mapping):
        raise _check.wrong(name, values, "a str, or a sequence of str")
    return [
        word for value in _check.strings(name, values) for word in (option, value)
    ]


def _run(arguments: Sequence[str], show: Optional[_report.Show]) -> bytes:
    """What the command prints. A failure is an exception with its sentence.

    Exceptions of SHOW, which is the caller's, stay as they are.
    """
    import subprocess

    read, write = os.pipe() if show else (-1, -1)
    if show:
        arguments = [arguments[0], "--progress-fd", str(write), *arguments[1:]]
    try:
        process = subprocess.Popen(
            ["weir", *arguments],
            executable=path(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[write] if show else (),
        )
    except BaseException:
        if show:
            os.close(read)
        raise
    finally:
        if show:
            os.close(write)
    try:
        if show:
            _follow(read, show)
        # Not communicate(): after Ctrl-C it waits for the process for 0.25 s.
        assert process.stdout and process.stderr
        out, said = process.stdout.read(), process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        process.wait()
    except BaseException:
        _end(process)
        raise
    if process.returncode == 0 or (process.returncode == 3 and out):
        return out
    if process.returncode < 0:
        raise _errors.fail(f"weir was ended by signal {-process.returncode}")
    lines = os.fsdecode(said).strip().splitlines() or ["weir failed"]
    sentence = lines[-1]
    if sentence.startswith("weir: "):
        sentence = sentence[len("weir: "):]
    raise _errors.make(
        _STATUS.get(process.returncode, 0), _as_call(sentence)
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the command, and wait until it has removed what it has written.

    Then it closes its pipes. It ends when the file system has freed the blocks,
    which can take a second: a thread waits for that.
    """
    import threading

    process.terminate()
    for pipe in (process.stdout, process.stderr):
        if pipe and not pipe.closed:
            pipe.read()
            pipe.close()
    threading.Thread(target=process.wait, name="weir", daemon=True).start()


def _follow(read: int, show: _report.Show) -> None:
    """Show the progress until the command has closed its end of the pipe.

    What it prints meanwhile is a report and a few lines, which fit their pipes.
    """
    import json

    with os.fdopen(read, encoding="ascii") as lines:
        for line in lines:
            state = json.loads(line)
            state["elapsed"] = state.pop("seconds")
            del state["what"]
            show(state)
