# SPDX-License-Identifier: MIT
"""The command weir: python -m weir ARGUMENT..."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from . import _command, _errors


def main() -> NoReturn:
    """Become the command."""
    try:
        path = _command.path()
    except _errors.Error as error:
        sys.exit(f"weir: {error}")
    # Python ignores them, and the command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execv(path, ["weir", *sys.argv[1:]])


if __name__ == "__main__":
    main()
