# SPDX-License-Identifier: MIT
"""Load a model by its URL, and keep what is read in a folder.

    python3 remote.py s3://bucket/model/ [FOLDER]

weir-http(7) has the forms of URLs, and where credentials come from.
"""
import sys

import weir


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: remote.py URL [FOLDER]")
    folder = sys.argv[2] if len(sys.argv) == 3 else None
    with weir.Root(cache=folder) as root:
        try:
            tensors = weir.load(sys.argv[1], root=root)
        except ConnectionError as why:  # no answer, while others may do
            sys.exit(f"try again later: {why}")
        except weir.Error as why:
            sys.exit(str(why))
        for name, tensor in tensors.items():
            print(name, tuple(tensor.shape))
        print(f"{tensors.report['bytes']} bytes, "
              f"{tensors.report['remote']} of them by URL")


main()
