# SPDX-License-Identifier: MIT
"""Compares weir with the packages safetensors and gguf; prints TAP.

Each file that they write is opened and loaded by the command weir. Names, dtypes,
shapes, metadata and the SHA-256 of the bytes in memory are those that were given
to the writer. Runs in an empty folder of its own, with weir in PATH.
"""
import hashlib
import json
import subprocess
import sys
import traceback

import numpy

import gguf_files
import safetensors_files


class Wrong(Exception):
    pass


def weir(*args):
    done = subprocess.run(["weir", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    if done.returncode:
        raise Wrong(f"weir {' '.join(args)}: status {done.returncode}, "
                    + done.stderr.decode(errors="replace"))
    return json.loads(done.stdout)


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what}\ngot:  {str(got)[:500]}\nwant: {str(want)[:500]}")


def same_tables(what, got, want):
    """Dictionaries; the sentence names the first key that differs."""
    same(f"the names of {what}", sorted(got), sorted(want))
    for key, value in want.items():
        same(f"{what}: {key!r}", got[key], value)


def rounded(values, types):
    """F32 are written in as few digits as tell them apart; NaN as a string."""
    def one(key, value):
        f32 = types and types[key] in ("f32", "[f32]")
        return numpy.float32(value).tolist() if f32 and not isinstance(
            value, str) else value
    return {key: one(key, value) for key, value in values.items()}


def as_weir(model, *options):
    """{name: (dtype, shape, SHA-256)} of a model as weir loads it."""
    loaded = weir("load", "--json", "--digest=sha256", *options, model)
    return {t["name"]: (t["dtype"], t["shape"], t["digest"])
            for t in loaded["tensors"]}


def sums(tensors):
    return {name: (dtype, list(shape), hashlib.sha256(data).hexdigest())
            for name, (dtype, shape, data) in tensors.items()}


def compare(case):
    """A case: its model, its tensors {name: (dtype, shape, bytes)}, its metadata,
    and the types of these as weir writes them; perhaps {dtype: the tensors
    converted to it}."""
    shown = weir("inspect", "--json", case.model)
    same("the number of tensors", shown["count"], len(case.tensors))
    same("the number of warnings", len(shown["warnings"]), case.warnings)
    types = shown.get("metadata_types")
    same_tables("metadata", rounded(shown["metadata"], types),
                rounded(case.metadata, case.types))
    if case.types:
        same_tables("the types of metadata", types, case.types)
    same_tables("tensors", as_weir(case.model), sums(case.tensors))
    for dtype, tensors in getattr(case, "converted", {}).items():
        same_tables(f"tensors as {dtype}",
                    as_weir(case.model, "--dtype", dtype), sums(tensors))


def main():
    cases = [*safetensors_files.CASES, *gguf_files.CASES]
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    for i, make in enumerate(cases):
        why = None
        try:
            compare(make())
        except Wrong as wrong:
            why = str(wrong)
        except Exception:
            why = traceback.format_exc()
        print("not ok" if why else "ok", i + 1, "-", make.__doc__)
        for line in (why or "").splitlines():
            print("#", line)
        failed += bool(why)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
