# SPDX-License-Identifier: MIT
"""Runs tests written in Python; prints TAP."""
import os
import subprocess
import sys
import traceback


class Wrong(Exception):
    """What a test has found."""


def failure(test):
    try:
        if test:
            test()
    except Wrong as wrong:
        return str(wrong)
    except Exception:
        return traceback.format_exc()
    return None


def stand_in():
    """The environment in which programs find two GPUs of the stand-in
    driver, or None. A program ends with status 99 if a kernel was wrong."""
    build = os.environ["builddir"]
    driver = os.environ.get("WEIR_T_FAKECUDA", f"{build}/t/fakecuda/.libs")
    module = f"{build}/lib/cuda/.libs"
    if not (os.path.exists(f"{driver}/libcuda.so.1") and
            os.path.exists(f"{module}/weir-cuda.so")):
        return None
    paths = (driver, os.environ.get("LD_LIBRARY_PATH", ""))
    return {"WEIR_MODULE_PATH": module, "FAKECUDA_DEVICES": "2",
            "FAKECUDA_STRICT": "1",
            "LD_LIBRARY_PATH": ":".join(p for p in paths if p)}


def have_kernels():
    return any(os.path.exists(f"{os.environ[top]}/lib/cuda/kernels/rows.ptx")
               for top in ("builddir", "srcdir"))


def main(tests, *made):
    """@tests: pairs of a title and a function; None: skipped, and the title is
    the reason. @made: files and folders to be removed before each test."""
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for i, (title, test) in enumerate(tests):
        subprocess.run(["rm", "-rf", *made], check=True)
        why = failure(test)
        print("not ok" if why else "ok", i + 1,
              f"- {title}" if test else f"# SKIP {title}", flush=True)
        for line in (why or "").splitlines():
            print("#", line)
        failed += bool(why)
    sys.exit(failed != 0)
