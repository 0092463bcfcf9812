# SPDX-License-Identifier: MIT
"""Run a program with weir in the place of safetensors.

python -m weir.run SCRIPT ARGUMENT...
python -m weir.run -m MODULE ARGUMENT...
"""

from __future__ import annotations

import os
import runpy
import sys

from . import _replace


def main() -> None:
    """Run what the command line names."""
    arguments = sys.argv[1:]
    as_module = arguments[:1] == ["-m"]
    if as_module:
        arguments = arguments[1:]
    if not arguments:
        sys.exit(str(__doc__))
    _replace.replace_safetensors()
    sys.argv = arguments
    if as_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
