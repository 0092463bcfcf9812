# SPDX-License-Identifier: MIT
"""SHA-256 sums of whole files, as publishers of models give them."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import re
import threading
import time
from typing import Dict, List, Optional

from . import _errors, _report, _weir
from ._model import Path, is_url as _is_url

# The forms of sha256sum: as it is, and with --tag.
_PLAIN = re.compile(r"\\?([0-9a-fA-F]{64}) [ *](.+)")
_TAGGED = re.compile(r"SHA256 \((.+)\) = ([0-9a-fA-F]{64})")

_BLOCK = 1 << 20

# Seconds between two looks at the threads.
_TICK = 0.05


def is_manifest(path: Path) -> bool:
    """True if the file has an object of JSON, as manifests do."""
    try:
        with open(path, "rb") as opened:
            return opened.read(4096).lstrip(b" \t\r\n")[:1] in (b"{", b"")
    except OSError as error:
        raise _errors.make(error.errno or 0, str(error)) from error


def parse(path: Path) -> Dict[str, str]:
    """The sums in a file by the names of files, without folders."""
    name = os.fspath(path)
    with open(path, encoding="utf-8", errors="surrogateescape") as opened:
        lines = opened.read().splitlines()
    sums: Dict[str, str] = {}
    for line in lines:
        if not line or line.startswith("#"):
            continue
        plain, tagged = _PLAIN.fullmatch(line), _TAGGED.fullmatch(line)
        if plain:
            digits, file = plain.groups()
        elif tagged:
            file, digits = tagged.groups()
        else:
            raise _errors.make(
                74,
                f"{name}: neither a manifest nor a file of SHA-256 sums: it "
                f"has a line {line[:60]!r}",
            )
        file = os.path.basename(file)
        if sums.setdefault(file, digits.lower()) != digits.lower():
            raise _errors.make(74, f"{name}: has two sums of a file {file!r}")
    return sums


class _Summing:
    """The sums of files, which threads compute."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bytes = 0
        self.stopped = False

    def of(self, path: str) -> str:
        digest = hashlib.sha256()
        block = memoryview(bytearray(_BLOCK))
        with open(path, "rb", buffering=0) as opened:
            before = os.fstat(opened.fileno())
            while not self.stopped:
                n = opened.readinto(block)
                if not n:
                    break
                digest.update(block[:n])
                with self.lock:
                    self.bytes += n
            after = os.fstat(opened.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise _errors.make(116, f"{path}: was written to while it was read")
        return digest.hexdigest()

    def of_object(self, model: _weir.Model, i: int) -> str:
        """The sum of file i, which is at a URL."""
        if self.stopped:
            return ""
        digest = model.sha256(i)
        with self.lock:
            self.bytes += model.size(i)
        return digest.hex()


def _listed(model: _weir.Model, against: Path) -> List[str]:
    """The sums of the files of a model, which a file has."""
    sums = parse(against)
    names = [os.path.basename(file) for file in model.files()]
    for name in names:
        if name not in sums:
            raise _errors.make(74, f"{os.fspath(against)}: has no sum of {name!r}")
    return [sums[name] for name in names]


def _published(model: _weir.Model) -> List[str]:
    """The sums of the files of a model that were published with them."""
    files = model.files()
    sums = [model.published(i) for i in range(len(files))]
    if "" in sums:
        raise _errors.make(
            74,
            f"{files[sums.index('')]}: no SHA-256 is published that weir knows; "
            "give a file of sums",
        )
    return sums


def verify(
    model: _weir.Model, against: Optional[Path], progress: _report.Progress
) -> _report.Report:
    """Compare the files of a model with the sums in a file, or published ones."""
    if against is None:
        name = "the published SHA-256 sums"
        sums = _published(model)
    else:
        name = os.fspath(against)
        sums = _listed(model, against)
    begin = time.monotonic()
    summing = _Summing()
    with _report.shown(progress) as show:
        found = _all(summing, model, begin, show)
    wrong = [
        f"{file}: SHA-256 is {digits}, not {want}"
        for file, digits, want in zip(model.files(), found, sums)
        if digits != want
    ]
    if wrong:
        wrong = wrong[:10] + ["..."] * (len(wrong) > 10)
        raise _errors.make(74, f"{name}: " + "; ".join(wrong))
    return _report.Report(
        bytes=summing.bytes,
        buffered=summing.bytes,
        in_place=0,
        staged=0,
        mapped=0,
        elapsed=time.monotonic() - begin,
    )


def _all(
    summing: _Summing,
    model: _weir.Model,
    begin: float,
    show: Optional[_report.Show],
) -> List[str]:
    files = model.files()
    total = sum(model.size(i) for i in range(len(files)))
    workers = max(1, min(len(files), len(os.sched_getaffinity(0))))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            running = [
                pool.submit(summing.of_object, model, i)
                if _is_url(file)
                else pool.submit(summing.of, file)
                for i, file in enumerate(files)
            ]
            waiting = set(running)
            while waiting:
                waiting = concurrent.futures.wait(waiting, _TICK).not_done
                if show:
                    show({
                        "bytes": summing.bytes,
                        "total": total,
                        "elapsed": time.monotonic() - begin,
                    })
            return [each.result() for each in running]
        except OSError as error:
            if isinstance(error, _errors.Error):
                raise
            raise _errors.make(error.errno or 0, str(error)) from error
        finally:
            summing.stopped = True
