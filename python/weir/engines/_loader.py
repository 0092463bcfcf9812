# SPDX-License-Identifier: MIT
"""What the loaders of all engines have in common."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from .. import _errors, _load, _model
from .._ranks import Ranks
from .._recording import Recorder, enabled, recording


class Options(NamedTuple):
    """What weir takes of an engine's extra options for loaders.

    record: read only what is copied (see weir.recording). way: how files are
    read, "auto", "direct" or "buffered". url: where the weights are, instead of
    in the engine's files.
    """

    record: bool = True
    way: str = "auto"
    url: str = ""


def take_options(extra: Any) -> Tuple[Options, Dict[str, Any]]:
    """weir's own options, and those that are left."""
    rest = dict(extra or {})
    options = Options(
        rest.pop("record", True), rest.pop("way", "auto"), rest.pop("url", "")
    )
    if not isinstance(options.record, bool):
        raise _errors.make(22, f"record is {options.record!r}: true or false")
    if options.way not in ("auto", "direct", "buffered"):
        raise _errors.make(
            22, f'way is {options.way!r}: "auto", "direct" or "buffered"'
        )
    if options.url and not _model.is_url(options.url):
        raise _errors.make(22, f"url is {options.url!r}: a URL is needed")
    return options, rest


def weights(
    files: List[str], options: Options, shared: bool
) -> Iterator[Tuple[str, Any]]:
    """The tensors of FILES by name, as recording tensors unless it is off."""
    if enabled(options.record):
        # A URL may be that of a folder.
        path = files[0] if options.url else files
        yield from recording(path, way=options.way, shared=shared).items()
        return
    for file in files:
        yield from _load.stream(file, framework="torch", way=options.way)


@contextmanager
def recorder(model: Any, ranks: Ranks) -> Iterator[Recorder]:
    """A recorder for a block that loads MODEL, on all ranks or on none."""
    with ranks.together():
        with Recorder() as notes:
            yield notes
            notes.settle(model)
