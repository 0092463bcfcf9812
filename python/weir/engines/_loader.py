# SPDX-License-Identifier: MIT
"""What the loaders of all engines have in common."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from .. import _errors, _load
from .._ranks import Ranks
from .._recording import Recorder, enabled, recording


class Options(NamedTuple):
    """What weir takes of an engine's extra options for loaders.

    record: read only what is copied (see weir.recording). way: how files are
    read, "auto", "direct" or "buffered".
    """

    record: bool = True
    way: str = "auto"


def take_options(extra: Any) -> Tuple[Options, Dict[str, Any]]:
    """weir's own options, and those that are left."""
    rest = dict(extra or {})
    options = Options(rest.pop("record", True), rest.pop("way", "auto"))
    if not isinstance(options.record, bool):
        raise _errors.make(22, f"record is {options.record!r}: true or false")
    if options.way not in ("auto", "direct", "buffered"):
        raise _errors.make(
            22, f'way is {options.way!r}: "auto", "direct" or "buffered"'
        )
    return options, rest


def weights(
    files: List[str], options: Options, shared: bool
) -> Iterator[Tuple[str, Any]]:
    """The tensors of FILES by name, as recording tensors unless it is off."""
    if enabled(options.record):
        yield from recording(files, way=options.way, shared=shared).items()
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
