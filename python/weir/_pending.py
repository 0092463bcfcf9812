# SPDX-License-Identifier: MIT
"""The copies that are noted and not yet read, by the memory they go to."""

from __future__ import annotations

import bisect
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _geometry
from ._source import Copy

# A range of bytes [first, end) in each of some rows: (rows, distance), or one
# range of bytes, which may have gaps: (1, 0).
_Grid = Tuple[int, int]


class _Hull:
    """Copies whose bytes are between two addresses, and no others are."""

    def __init__(self, first: int, end: int, grid: _Grid, column: int) -> None:
        self.first = first
        self.end = end
        self.grid = grid
        self.origin = first - column
        self.columns: List[Tuple[int, int]] = []


def _region(to: torch.Tensor) -> Tuple[int, int, _Grid, int]:
    """First byte, end, rows and the length of a row of a tensor's memory."""
    width = to.element_size()
    dims = [i for i in range(to.dim()) if to.shape[i] != 1]
    dims.sort(key=to.stride, reverse=True)
    sizes = [to.shape[i] for i in dims]
    strides = [to.stride(i) for i in dims]
    first = to.data_ptr()
    last = sum((n - 1) * step for n, step in zip(sizes, strides))
    end = first + (last + 1) * width
    rows = _geometry.levels(sizes, strides)
    if len(rows) == 2:
        return first, end, (rows[0][0], rows[0][1] * width), rows[1][0] * width
    return first, end, (1, 0), end - first


class Pending:
    """Noted copies. No two of them write to the same byte."""

    def __init__(self) -> None:
        self._copies: Dict[Any, Copy] = {}
        self._hulls: Dict[int, List[_Hull]] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def touches(self, tensor: torch.Tensor) -> bool:
        """True if a copy goes to bytes between the first and last of TENSOR."""
        if tensor.layout != torch.strided or not tensor.numel():
            return False
        hulls = self._hulls.get(tensor.untyped_storage()._cdata)
        if not hulls:
            return False
        first, end, _, _ = _region(tensor)
        at = bisect.bisect_left(_Firsts(hulls), end)
        return at > 0 and hulls[at - 1].end > first

    def take(self) -> List[Copy]:
        """All copies, which are then no longer pending."""
        copies = list(self._copies.values())
        self._copies.clear()
        self._hulls.clear()
        return copies

    def add(self, copy: Copy) -> bool:
        """Note a copy. False: it overlaps another, which must be read first.

        A copy to exactly the place of an earlier one replaces it.
        """
        to = copy.to
        key = (to.data_ptr(), to.element_size(), to.shape, to.stride())
        if key in self._copies:
            self._copies[key] = copy
            return True
        first, end, grid, row = _region(to)
        hulls = self._hulls.setdefault(to.untyped_storage()._cdata, [])
        if not self._insert(hulls, first, end, grid, row):
            return False
        self._copies[key] = copy
        return True

    @staticmethod
    def _insert(
        hulls: List[_Hull], first: int, end: int, grid: _Grid, row: int
    ) -> bool:
        at = bisect.bisect_right(_Firsts(hulls), first)
        if at and hulls[at - 1].end > first:
            at -= 1
        near = hulls[at : at + 1]
        if not near or near[0].first >= end:
            hull = _Hull(first, end, grid, 0)
            hull.columns.append((0, row))
            hulls.insert(at, hull)
            return True
        # Columns of the same rows may lie between each other.
        hull = near[0]
        column = first - hull.origin
        after: Optional[_Hull] = hulls[at + 1] if at + 1 < len(hulls) else None
        distance = grid[1]
        low = min([column] + [c for c, _ in hull.columns])
        high = max([column + row] + [e for _, e in hull.columns])
        if (
            hull.grid != grid
            or grid[0] == 1
            or high - low > distance
            or (after is not None and after.first < end)
            or any(c < column + row and column < e for c, e in hull.columns)
        ):
            return False
        hull.columns.append((column, column + row))
        hull.first = min(hull.first, first)
        hull.end = max(hull.end, end)
        return True


class _Firsts:
    """The first bytes of hulls, for bisect, which wants a sequence."""

    def __init__(self, hulls: List[_Hull]) -> None:
        self._hulls = hulls

    def __len__(self) -> int:
        return len(self._hulls)

    def __getitem__(self, i: int) -> int:
        return self._hulls[i].first
