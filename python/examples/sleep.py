# SPDX-License-Identifier: MIT
"""A model that gives its memory back between two requests: sleep.py MODEL"""

import sys

import weir

tensors = weir.load(sys.argv[1], parkable=True, framework="weir")
print(tensors.report)
with tensors.parked(unchanged=True):
    info = tensors.park_info()
    print(f"{info['released']} bytes of memory are free for others")
print("all tensors are back at their addresses")
