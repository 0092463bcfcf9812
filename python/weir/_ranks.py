# SPDX-License-Identifier: MIT
"""Several processes that load one model, each the parts that it needs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import _check, _errors

# Most bytes of one broadcast.
_PIECE = 64 << 20
_PAGE = 4096


class Ranks:
    """The ranks of a load, and what they use to talk to each other.

    weir has no transport of its own. It needs three things of the program's:

    rank and size: this process, and how many there are.
    agree: a function that is called on all ranks, each with a sentence or "",
    and returns the first sentence that is not "" in the order of the ranks, or
    "", the same on all.
    broadcast: a function (tensor, root) that fills the bytes of a contiguous
    tensor on all ranks with those of rank ``root``.

    ``Ranks.of_torch()`` and ``Ranks.of_mpi()`` make them of communicators.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        agree: Callable[[str], str],
        broadcast: Callable[[Any, int], None],
    ) -> None:
        rank, size = _check.whole("rank", rank), _check.whole("size", size, 1)
        if rank >= size:
            raise _errors.make(22, f"rank {rank} of {size} ranks")
        for name, call in (("agree", agree), ("broadcast", broadcast)):
            if not callable(call):
                raise _check.wrong(name, call, "a function")
        self.rank = rank
        self.size = size
        self._agree = agree
        self._broadcast = broadcast

    @classmethod
    def of_torch(cls, group: Any = None) -> "Ranks":
        """Ranks of a group of torch.distributed; None: of all processes."""
        import torch.distributed as dist

        def agree(sentence: str) -> str:
            said: List[Any] = [None] * dist.get_world_size(group)
            dist.all_gather_object(said, sentence, group=group)
            return next((s for s in said if s), "")

        def broadcast(tensor: Any, root: int) -> None:
            dist.broadcast(tensor, group=group, group_src=root)

        return cls(
            dist.get_rank(group), dist.get_world_size(group), agree, broadcast
        )

    @classmethod
    def of_mpi(cls, comm: Any) -> "Ranks":
        """Ranks of a communicator of mpi4py, for tensors in host memory."""
        if not hasattr(comm, "allgather"):
            raise _check.wrong("comm", comm, "a communicator of mpi4py")

        def agree(sentence: str) -> str:
            return next((s for s in comm.allgather(sentence) if s), "")

        def broadcast(tensor: Any, root: int) -> None:
            comm.Bcast(tensor.numpy(), root=root)

        return cls(comm.Get_rank(), comm.Get_size(), agree, broadcast)

    def agree(self, error: Optional[BaseException]) -> None:
        """Raise on all ranks if one of them has an error, the same sentence."""
        if self.size == 1:
            if error is not None:
                raise error
            return
        mine = ""
        if error is not None:
            mine = f"rank {self.rank} of {self.size}: {_sentence(error)}"
        try:
            said = self._agree(mine)
        except Exception as lost:
            raise _errors.fail(
                f"one of the {self.size} ranks ended before the load was done"
            ) from (error or lost)
        if not said:
            return
        raise _errors.make(getattr(error, "errno", None) or 0, said) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block that fails on all ranks if it fails on one of them."""
        error: Optional[BaseException] = None
        try:
            yield
        except Exception as failure:
            error = failure
        self.agree(error)

    def load(
        self,
        path: Any,
        *,
        device: object = "cpu",
        way: str = "auto",
        root: Any = None,
    ) -> Dict[str, Any]:
        """Load all tensors on all ranks, of which each reads an equal part.

        The parts are then broadcast. Returns torch tensors by name, as
        ``weir.load`` does. Each byte is read from the file once; where the
        page cache has the file, or each rank has disks of its own, it is
        faster that all ranks read it themselves.
        """
        with self.together():
            from ._source import Source

            source = Source(path, way=way, root=root)
            flat, tensors, ends = _read_part(source, device, self)
        first = 0
        with self.together():
            for owner, end in enumerate(ends):
                while first < end:
                    last = min(first + _PIECE, end)
                    self._broadcast(flat[first:last], owner)
                    first = last
        return tensors


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _place(at: int, offset: int, align: int) -> int:
    """The first place from AT on that suits a direct read of OFFSET."""
    if offset % align:
        return -(-at // align) * align
    return at + (offset - at) % _PAGE


def _read_part(
    source: Any, device: object, ranks: Ranks
) -> Tuple[Any, Dict[str, Any], List[int]]:
    """Memory for all tensors, with the bytes that this rank reads.

    Returns the memory, the tensors in it, and where the part of each rank
    ends.
    """
    import torch

    from ._source import Copy, Numbers

    model = source.model
    entries = [(name, model.entry(i)) for i, name in enumerate(source.names)]
    entries.sort(key=lambda item: (item[1][3], item[1][4]))
    places: List[int] = []
    end = 0
    for name, (_, _, nbytes, _, offset) in entries:
        base = source.base(name)
        places.append(_place(end, offset, max(base.element_size(), 1)))
        end = places[-1] + nbytes
    memory = torch.empty(end + _PAGE, dtype=torch.uint8, device=device)
    flat = memory[-memory.data_ptr() % _PAGE :][:end]
    tensors: Dict[str, Any] = {}
    ends = [0] * ranks.size
    copies: List[Copy] = []
    for (name, (_, _, nbytes, _, _)), place in zip(entries, places):
        base = source.base(name)
        tensor = flat[place : place + nbytes].view(base.dtype).view(base.shape)
        tensors[name] = tensor
        rows = base.shape[0] if base.dim() else 1
        for rank in range(ranks.size):
            low = _row(end * rank // ranks.size, place, nbytes, rows)
            high = _row(end * (rank + 1) // ranks.size, place, nbytes, rows)
            if low == high:
                continue
            ends[rank] = place + nbytes * high // rows
            if rank != ranks.rank:
                continue
            if base.dim():
                part, to = base[low:high], tensor[low:high]
            else:
                part, to = base, tensor
            copies.append(Copy(source, name, part, to))
    for rank in range(1, ranks.size):
        ends[rank] = max(ends[rank], ends[rank - 1])
    source.run(copies, Numbers())
    order = {name: tensors[name] for name in source.names}
    return flat, order, ends


def _row(cut: int, place: int, nbytes: int, rows: int) -> int:
    """The first row of a tensor that is not before the byte CUT."""
    if cut <= place or not nbytes:
        return 0
    return min(rows, -(-(cut - place) * rows // nbytes))
