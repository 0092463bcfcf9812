# SPDX-License-Identifier: MIT
"""The private Python environment with the other loaders, from PyPI."""
import os
import shutil
import subprocess
import sys

# What is installed, in this order: names, and the space that it takes (GB).
BASE = (["numpy", "ml_dtypes", "xxhash", "safetensors"], 0.2)
TORCH = (["torch"], 7)
WITH_TORCH = (["fastsafetensors"], ["runai-model-streamer"])
RC = "next"     # folder for a release of safetensors that is not final yet


def free_gb(folder):
    return shutil.disk_usage(folder).free / 1e9


class Environment:
    """Packages that could not be installed are in @missing, with the why."""

    def __init__(self, folder, torch):
        self.folder = folder
        self.python = os.path.join(folder, "bin", "python")
        self.next = os.path.join(folder, RC)
        self.torch = torch
        self.missing = {}

    def make(self):
        if not os.path.exists(self.python):
            print(f"making a Python environment in {self.folder}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", self.folder],
                           check=True)
        self.install(*BASE)
        if not self.torch:
            why = "--no-torch"
        elif self.install(*TORCH):
            for names in WITH_TORCH:
                self.install(names, 0.1)
            why = None
        else:
            why = "it needs torch"
        if why:
            self.missing.setdefault("torch", why)
            for names in WITH_TORCH:
                self.missing[names[0]] = why
        self.install_next()

    def have(self, name):
        return not subprocess.run(
            [self.python, "-m", "pip", "show", "-q", name],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def install(self, names, gigabytes):
        """True if all of @names are there afterwards."""
        names = [name for name in names if not self.have(name)]
        if not names:
            return True
        room = free_gb(self.folder)
        print(f"installing {', '.join(names)} from PyPI: about {gigabytes} GB "
              f"of {room:.0f} GB that are free", flush=True)
        if room < gigabytes + 1:
            why = f"needs {gigabytes} GB of disk, {room:.1f} GB are free"
        else:
            why = self.pip(names)
        if why:
            print(f"  not installed: {why}", flush=True)
            self.missing.update((name, why) for name in names)
        return not why

    def pip(self, args):
        """Why it failed, or None."""
        done = subprocess.run(
            ["nice", self.python, "-m", "pip", "install", "--no-cache-dir",
             "--disable-pip-version-check", "-q", *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not done.returncode:
            return None
        lines = [x for x in done.stderr.splitlines() if x.startswith("ERROR")]
        return (lines or ["pip failed"])[-1][:160]

    def install_next(self):
        """safetensors has releases ahead of the final one; beside it."""
        if os.path.exists(self.next):
            return
        print("installing safetensors (newest, not final) beside it",
              flush=True)
        why = self.pip(["--pre", "--no-deps", "--target", self.next,
                        "safetensors"])
        if why:
            self.missing["safetensors --pre"] = why
