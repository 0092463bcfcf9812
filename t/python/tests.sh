#!/bin/sh
# SPDX-License-Identifier: MIT
# python/tests, by pytest: with NumPy and safetensors if they are there.
. "${0%/*}/../tap.inc"
. "${0%/*}/python.inc"

find_python pytest setuptools
build_python
cd "$srcdir/python/tests" || exit 99
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$site "$python" -m pytest --tap \
	-p no:cacheprovider --basetemp "$tmp/pytest"
