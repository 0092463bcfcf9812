#!/bin/sh
# SPDX-License-Identifier: MIT
# python/tests, by pytest, with the wheel: NumPy and safetensors are used if they are
# there.
. "${0%/*}/../tap.inc"
. "${0%/*}/python.inc"

find_python pytest setuptools auditwheel
build_python
pytest
