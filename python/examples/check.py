# SPDX-License-Identifier: MIT
"""Writes a manifest of a model, or checks the model: check.py MODEL MANIFEST"""

import os
import sys

import weir

model, manifest = sys.argv[1:]
if os.path.exists(manifest):
    weir.verify(model, manifest, progress=True)
    print("the model has the bytes of the manifest")
else:
    weir.digest(model, progress=True).save(manifest)
