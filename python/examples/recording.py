# SPDX-License-Identifier: MIT
"""A rank that reads only what it keeps: recording.py MODEL RANK RANKS

Its part of each tensor is a range of rows. The copies are noted, and then read by
one load, straight into their places.
"""

import sys

import torch

import weir

model, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
parts = {}
with weir.recording(model) as tensors:
    for name, tensor in tensors.items():
        if tensor.dim():
            rows = tensor.shape[0]
            tensor = tensor[rows * rank // ranks : rows * (rank + 1) // ranks]
        parts[name] = torch.empty_like(tensor)
        parts[name].copy_(tensor)
print(tensors.report)
print(sum(part.nbytes for part in parts.values()), "bytes are kept")
