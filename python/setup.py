# SPDX-License-Identifier: MIT
"""Builds weir._weir against a libweir that pkg-config finds.

WEIR_CFLAGS and WEIR_LIBS take the place of pkg-config; `make wheel` sets them.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup

HERE = os.path.dirname(os.path.abspath(__file__))
# Free-threaded interpreters have no stable ABI: they get a build of their own.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


def ask(variable, *options):
    """Words of a variable of the environment, or what pkg-config says."""
    given = os.environ.get(variable)
    if given is None:
        try:
            given = subprocess.check_output(
                ["pkg-config", *options, "weir"], text=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"setup.py: libweir was not found: {error}\n"
                     "Install it, or set PKG_CONFIG_PATH to the folder of its "
                     "weir.pc.")
    return shlex.split(given)


def library_version():
    """The version of the package is that of the library."""
    header = os.path.join(HERE, "..", "include", "weir", "base.h")
    if not os.path.exists(header):
        return ask("WEIR_VERSION", "--modversion")[0]
    with open(header, encoding="utf-8") as file:
        numbers = re.findall(
            r"#define WEIR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read()
        )
    return ".".join(numbers)


libs = ask("WEIR_LIBS", "--libs")
# A library outside of the system's folders is found where it was linked.
runtime = [] if "WEIR_LIBS" in os.environ else [
    "-Wl,-rpath," + word[2:] for word in libs if word.startswith("-L")
]
sources = sorted(
    os.path.join("glue", name)
    for name in os.listdir(os.path.join(HERE, "glue"))
    if name.endswith(".c")
)

setup(
    version=library_version(),
    ext_modules=[
        Extension(
            "weir._weir",
            sources,
            depends=["glue/glue.h", "glue/request.h", "glue/dlpack.h",
                     "glue/part.h"],
            define_macros=[("Py_LIMITED_API", "0x03090000")] if LIMITED else [],
            extra_compile_args=["-std=gnu11", "-fvisibility=hidden",
                                *ask("WEIR_CFLAGS", "--cflags")],
            extra_link_args=[*libs, *runtime],
            py_limited_api=LIMITED,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp39"}} if LIMITED else {},
)
