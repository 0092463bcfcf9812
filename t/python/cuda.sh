#!/bin/sh
# SPDX-License-Identifier: MIT
# weir for Python with a CUDA device, on the stand-in driver.
. "${0%/*}/../tap.inc"
. "${0%/*}/../gpu.inc"
. "${0%/*}/python.inc"

find_python pytest setuptools auditwheel
build_python
unset WEIR_MODULE_PATH
with_gpu env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$site" \
	"$python" "$srcdir/python/tests/cuda_tests.py" "$tmp"
