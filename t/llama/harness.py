# SPDX-License-Identifier: MIT
"""Runs tests written in Python; prints TAP."""
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
