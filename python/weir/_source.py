# SPDX-License-Identifier: MIT
"""The files of recording tensors, and the loads that read noted copies."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from . import _check, _dtypes, _errors, _frameworks, _geometry, _into, _model
from . import _root, _weir
from ._geometry import Slice, View

Paths = Union[_model.Path, Sequence[_model.Path]]


class Copy(NamedTuple):
    """Elements of a tensor of a file, and the tensor that they are copied to.

    Both have the same shape. VIEW is a tensor of device meta, a view of the
    whole tensor.
    """

    source: "Source"
    name: str
    view: torch.Tensor
    to: torch.Tensor


class _Target(NamedTuple):
    """A part of tensor I and where its elements are stored."""

    i: int
    part: Optional[Slice]
    place: Tuple[int, int, Sequence[int], Optional[Sequence[int]], object]
    common: bool  # other ranks need the same blocks of the file


class Numbers:
    """What loads have read: bytes of tensors, and others."""

    def __init__(self) -> None:
        self.loads = 0
        self.read = 0
        self.over_read = 0

    def add(self, report: Dict[str, Any]) -> None:
        """Count a load that has ended."""
        self.loads += 1
        self.read += report["bytes"]
        self.over_read += report["over_read"]


def view_of(tensor: torch.Tensor) -> View:
    """The shape, strides and offset of a tensor."""
    return View(
        tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())
    )


def _torch_dtype(dtype: _dtypes.Dtype) -> Tuple[torch.dtype, int]:
    """The dtype of torch, and how many elements of weir one of it holds."""
    alias = _dtypes.ALIAS_OF.get(dtype.name)
    found = getattr(torch, alias, None) if alias else None
    if isinstance(found, torch.dtype):
        return found, 2 if dtype.name == "F4" else 1
    return torch.uint8, 0


class Source:
    """A model in files: the shapes and dtypes of its tensors, and its bytes.

    WAY is that of loads; with SHARED, what several processes read comes from
    the disk once, through the page cache.
    """

    def __init__(
        self,
        path: Paths,
        *,
        way: str = "auto",
        shared: bool = False,
        root: Optional[_weir.Root] = None,
    ) -> None:
        _check.one_of("way", way, ("auto", "direct", "buffered"))
        self.way = _model.WAYS[way]
        self.shared = shared
        if isinstance(path, (str, os.PathLike)):
            self.model = _model.open_model(path, root)
        else:
            self.model = _open_files(path, root)
        self.names = self.model.names()
        self._number = {name: i for i, name in enumerate(self.names)}
        self._base: Dict[str, torch.Tensor] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._number

    def base(self, name: str) -> torch.Tensor:
        """The whole tensor, of device meta."""
        found = self._base.get(name)
        if found is None:
            code, shape, nbytes, _, _ = self.model.entry(self._number[name])
            dtype, elements = _torch_dtype(_dtypes.BY_CODE[code])
            if elements != 1:
                # Blocks of elements are bytes, which the last dimension counts.
                shape = shape[:-1] + (
                    nbytes // max(_geometry.product(shape[:-1]), 1),
                )
            found = torch.empty(shape, dtype=dtype, device="meta")
            self._base[name] = found
        return found

    def converts(self, name: str, dtype: torch.dtype) -> bool:
        """True if a load can convert the tensor to DTYPE as torch does."""
        code = self.model.entry(self._number[name])[0]
        try:
            to = _dtypes.find(dtype)
        except _errors.Error:
            return False
        return (
            _dtypes.BY_CODE[code].name in ("F32", "F16", "BF16")
            and to.name in ("F32", "F16", "BF16")
            and _weir.convertible(code, to.code)
        )

    @staticmethod
    def reaches(tensor: torch.Tensor) -> bool:
        """True if a load can write to the memory of TENSOR."""
        return (
            tensor.device.type in ("cpu", "cuda")
            and tensor.layout == torch.strided
            and not tensor.is_quantized
            and not tensor.is_conj()
            and not tensor.is_neg()
        )

    def _target(self, copy: Copy) -> Optional[_Target]:
        """The copy as a load does it; None: no load can."""
        i = self._number[copy.name]
        code, shape, _, _, _ = self.model.entry(i)
        base, to = self.base(copy.name), copy.to
        if copy.view.element_size() != base.element_size():
            return None
        view = view_of(copy.view)
        dims = _geometry.order(view)
        if dims is None:
            return None
        sizes = tuple(view.shape[d] for d in dims)
        strides = tuple(view.strides[d] for d in dims)
        part = _geometry.as_slice(base.shape, View(sizes, strides, view.offset))
        if part is None:
            return None
        dim, _, count = part
        whole = not base.dim() or count == base.shape[dim]
        blocks = tuple(base.shape) != shape
        if blocks and not whole and dim == base.dim() - 1:
            return None
        wanted = list(shape)
        if not whole:
            wanted[dim] = count
        rows = _geometry.levels(sizes, [to.stride(d) for d in dims])
        steps: Optional[Tuple[int, ...]] = None
        if len(rows) > 1:
            outer = 1 if whole else _geometry.product(shape[:dim])
            if blocks or len(rows) > 2 or rows[1][0] == 1:
                return None
            if outer not in (1, rows[0][0]):
                return None
            rest = [d for d in range(to.dim()) if d not in dims]
            try:
                placed = to.permute(dims + rest).view(wanted)
            except RuntimeError:
                return None
            steps = tuple(n * to.element_size() for n in placed.stride())
        # Without a conversion these are the file's bytes, whatever the program
        # takes them for.
        to_code = code
        if to.dtype != copy.view.dtype:
            to_code = _dtypes.find(to.dtype).code
        place = (to.data_ptr(), to_code, wanted, steps, to)
        gaps = not whole and _geometry.product(shape[:dim]) > 1
        return _Target(i, None if whole else part, place, whole or gaps)

    def _group(
        self, copies: Sequence[Copy]
    ) -> Tuple[Dict[Tuple[str, int], List[_Target]], List[Copy]]:
        """Targets by device and way, and the copies that no load can do."""
        groups: Dict[Tuple[str, int], List[_Target]] = {}
        rest: List[Copy] = []
        for copy in copies:
            target = self._target(copy) if self.reaches(copy.to) else None
            if target is None:
                rest.append(copy)
                continue
            way = self.way
            if self.shared and target.common:
                way = _weir.WAY_BUFFERED
            device = _root.device_name(copy.to.device)
            groups.setdefault((device, way), []).append(target)
        return groups, rest

    def run(self, copies: Sequence[Copy], numbers: Numbers) -> None:
        """Read the elements of all copies into their destinations."""
        groups, rest = self._group(copies)
        _into.settle({device for device, _ in groups})
        running = [
            _weir.Load(
                self.model,
                [t.i for t in targets],
                [t.part for t in targets],
                [t.place for t in targets],
                device=device,
                way=way,
            )
            for (device, way), targets in groups.items()
        ]
        for load in running:
            load.wait()
            numbers.add(load.report())
            load.close()
        for copy in rest:
            copy.to.copy_(self.read(copy.name, copy.view, numbers))

    def read(
        self, name: str, view: torch.Tensor, numbers: Numbers
    ) -> torch.Tensor:
        """Read the elements of a view into new host memory."""
        i = self._number[name]
        base = self.base(name)
        if not view.numel():
            return torch.empty(view.shape, dtype=view.dtype)
        maker = _frameworks.maker("torch")
        if tuple(base.shape) != self.model.entry(i)[1]:
            data, offset = maker(self.model.read(i)), 0
        else:
            # In elements of the file, whatever VIEW takes them for.
            scale = base.element_size(), view.element_size()
            ranges, offset = _geometry.hull(
                base.shape, _scaled(view_of(view), *scale)
            )
            block = [(start, n, 1) for start, n in ranges]
            data = maker(self.model.read_slice(i, block))
            offset = offset * scale[0] // scale[1]
        numbers.loads += 1
        numbers.read += data.numel() * data.element_size()
        return data.reshape(-1).view(view.dtype).as_strided(
            view.shape, view.stride(), int(view.storage_offset()) - offset
        )


def _scaled(view: View, element: int, seen: int) -> View:
    """A view in elements of ELEMENT bytes that contains VIEW, of SEEN bytes."""
    if element == seen:
        return view
    last = view.offset + sum(
        (n - 1) * stride for n, stride in zip(view.shape, view.strides)
    )
    low = view.offset * seen // element
    high = ((last + 1) * seen - 1) // element
    return View((high - low + 1,), (1,), low)


def _open_files(
    paths: Sequence[_model.Path], root: Optional[_weir.Root]
) -> _weir.Model:
    """Open the shards of a model that are the files PATHS, or at URLs."""
    wanted = _check.items("path", paths, "paths, or one path")
    if wanted and all(_model.is_url(path) for path in wanted):
        return _model.open_urls([str(path) for path in wanted], root)
    files = [
        os.open(_check.path("one of path", path), os.O_RDONLY | os.O_CLOEXEC)
        for path in wanted
    ]
    try:
        return _weir.Model(_root.given(root), None, files)
    finally:
        for file in files:
            os.close(file)
