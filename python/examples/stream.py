# SPDX-License-Identifier: MIT
"""Tensors in the order in which they arrive: stream.py MODEL"""

import sys

import weir

for name, tensor in weir.stream(sys.argv[1], framework="weir"):
    print(name, tensor.dtype, list(tensor.shape))
