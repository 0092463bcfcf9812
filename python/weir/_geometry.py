# SPDX-License-Identifier: MIT
"""Views of tensors as parts that a load can name.

A view has a shape, strides and an offset, in elements of the tensor that it is
a view of, which is contiguous.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

# (dimension, first index, number of indices)
Slice = Tuple[int, int, int]


class View(NamedTuple):
    """Elements of a contiguous tensor: shape, strides and offset."""

    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    offset: int


def strides_of(shape: Sequence[int]) -> Tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides: List[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def product(numbers: Sequence[int]) -> int:
    """The product of NUMBERS, 1 if there are none."""
    result = 1
    for n in numbers:
        result *= n
    return result


def order(view: View) -> Optional[List[int]]:
    """Its dimensions as the tensor has them, the outermost first.

    Dimensions of one element are left out. None: an element appears twice.
    """
    dims = [i for i, size in enumerate(view.shape) if size != 1]
    if any(view.strides[i] <= 0 for i in dims):
        return None
    dims.sort(key=lambda i: (-view.strides[i], i))
    return dims


def levels(
    shape: Sequence[int], strides: Sequence[int]
) -> List[Tuple[int, int]]:
    """Pairs (number, distance); the last one has distance 1.

    Neighbouring dimensions with equal distances between all their elements are
    one level.
    """
    found: List[Tuple[int, int]] = []
    for size, stride in zip(shape, strides):
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    if not found or found[-1][1] != 1:
        found.append((1, 1))
    return found


def as_slice(shape: Sequence[int], view: View) -> Optional[Slice]:
    """The slice of one dimension that has the elements of a view, in order.

    The dimensions of VIEW are in the order of the tensor. The whole tensor is
    a slice of all indices. None: there is no such slice.
    """
    rows = levels(view.shape, view.strides)
    if len(rows) == 1:
        rows.insert(0, (1, 0))
    if len(rows) != 2:
        return None
    (count, pitch), (run, _) = rows
    outer = 1
    full = strides_of(shape)
    for dim, size in enumerate(shape):
        step = full[dim]
        start = view.offset // step
        if (
            outer == count
            and (count == 1 or pitch == step * size)
            and view.offset % step == 0
            and run % step == 0
            and start + run // step <= size
        ):
            return dim, start, run // step
        outer *= size
    return None if shape else (0, 0, 1)


def hull(shape: Sequence[int], view: View) -> Tuple[List[Tuple[int, int]], int]:
    """The smallest block of neighbours that contains all elements of a view.

    Returns a range (first index, number of indices) for each dimension, and
    the offset of the first element of the block.
    """
    first = view.offset
    last = first + sum(
        (size - 1) * stride for size, stride in zip(view.shape, view.strides)
    )
    ranges: List[Tuple[int, int]] = []
    offset = 0
    rest = False
    for size, step in zip(shape, strides_of(shape)):
        if rest:
            ranges.append((0, size))
            continue
        low, high = first // step % size, last // step % size
        ranges.append((low, high - low + 1))
        offset += low * step
        rest = low != high
    return ranges, offset
