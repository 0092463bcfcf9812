# SPDX-License-Identifier: MIT
"""Digests of models, and models that are checked against them."""

from __future__ import annotations

import os
from typing import Dict, Optional, Union

from . import _check, _errors, _model, _report, _root, _sums, _weir
from ._model import Path
from ._report import Progress, Report

KINDS = {"xxh3": _weir.DIGEST_XXH3, "sha256": _weir.DIGEST_SHA256}


class Digests(Dict[str, str]):
    """The digests of tensors by name, in hexadecimal digits.

    kind: "xxh3" (XXH3-128) or "sha256". whole: the digest of the model, which
    follows from those of its tensors, in files of any format.
    """

    kind: str
    whole: str
    manifest: _weir.Manifest

    def save(self, path: Path) -> None:
        """Write the manifest, as `weir digest` does; replaces an earlier one."""
        name = os.fsdecode(_check.path("path", path))
        part = f"{name}.weir-{os.getpid()}"
        try:
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            raise _errors.make(error.errno or 0, str(error)) from error
        try:
            try:
                self.manifest.write(fd)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(part, name)
        except BaseException as error:
            os.unlink(part)
            if isinstance(error, OSError) and not isinstance(error, _errors.Error):
                raise _errors.make(error.errno or 0, str(error)) from error
            raise


Manifest = Union[Path, Digests]


def manifest(given: Manifest, root: Optional[_weir.Root]) -> _weir.Manifest:
    """The manifest that the caller gave, or that is in the file."""
    if isinstance(given, Digests):
        return given.manifest
    if not isinstance(given, (str, bytes, os.PathLike)):
        raise _check.wrong("verify", given, "what digest() returned, or a path")
    return _weir.Manifest(_root.given(root), given)


def _way(way: str) -> int:
    _check.one_of("way", way, ("auto", "buffered", "direct"))
    return _model.WAYS[way]


def digest(
    path: Path,
    kind: str = "xxh3",
    *,
    way: str = "auto",
    progress: Progress = None,
    root: Optional[_weir.Root] = None,
) -> Digests:
    """Read a model once, and return the digests of its tensors by name.

    kind: "xxh3" or "sha256". way: "auto", "direct" or "buffered". Tensors have
    the same digests in files of any format, and are not kept in memory. Raises
    ``weir.Error``.
    """
    _check.one_of("kind", kind, KINDS)
    number = _way(way)
    _report.check(progress)
    model = _model.open_model(path, root)
    running = _weir.Load(model, digest=KINDS[kind], discard=True, way=number)
    _report.follow(running, progress)
    running.wait()
    names = model.names()
    found = Digests(
        (names[running.index(i)], running.digest(i).hex())
        for i in range(len(running))
    )
    found.manifest = running.manifest()
    found.kind = kind
    found.whole = found.manifest.info()["digest"].hex()
    return found


def verify(
    path: Path,
    against: Optional[Manifest] = None,
    *,
    way: str = "auto",
    progress: Progress = None,
    root: Optional[_weir.Root] = None,
) -> Report:
    """Read a model once, and check it; returns a report.

    against: the path of a manifest, or what ``digest`` returned. Raises
    FormatError, with the names, if a tensor is missing, has another dtype or
    shape, or other bytes. Or the path of a file of SHA-256 sums, such as
    SHA256SUMS, as sha256sum prints them: each file of the model that has
    tensors is checked, and must have a sum; FormatError names those that
    differ. None: the same with the SHA-256 sums that a hub publishes, of hf://
    URLs, and of files in the cache of Hugging Face's clients. way is for
    manifests.
    """
    number = _way(way)
    _report.check(progress)
    if not isinstance(against, (Digests, str, bytes, os.PathLike, type(None))):
        raise _check.wrong(
            "against", against, "what digest() returned, a path, or None"
        )
    model = _model.open_model(path, root)
    if against is None or (
        not isinstance(against, Digests) and not _sums.is_manifest(against)
    ):
        return _sums.verify(model, against, progress)
    running = _weir.Load(
        model, verify=manifest(against, root), discard=True, way=number
    )
    _report.follow(running, progress)
    running.wait()
    return Report(running.report())
