# SPDX-License-Identifier: MIT
"""Processes that read a model once, together: ranks.py MODEL [PROCESSES]

Each reads an equal part of the file and sends it to the others. If one of them
fails, all fail with its sentence.
"""

import os
import sys

import torch.distributed as dist
import torch.multiprocessing as mp

import weir


def work(rank: int, size: int, model: str) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=size)
    ranks = weir.Ranks.of_torch()
    tensors = ranks.load(model)
    with ranks.together():
        # What has to succeed on all ranks, a check for example.
        assert tensors
    print(f"rank {rank} has {sum(t.nbytes for t in tensors.values())} bytes")
    dist.destroy_process_group()


if __name__ == "__main__":
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(work, (size, sys.argv[1]), nprocs=size)
