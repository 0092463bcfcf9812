# SPDX-License-Identifier: MIT
"""The source of the other loaders: PyPI, or a folder of wheels."""
import glob
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile

# Installed in this order: names, and the space that they need (GB).
BASE = (["numpy", "ml_dtypes", "xxhash", "safetensors"], 0.2)
TORCH = (["torch"], 7)
WITH_TORCH = (["fastsafetensors"], ["runai-model-streamer"])
# Only for GGUF files; built from source, in 5 minutes on two CPUs.
LLAMA = (["gguf", "llama-cpp-python"], 0.5)
RC = "next"     # folder for a release of safetensors that is not final yet


def free_gb(folder):
    return shutil.disk_usage(folder).free / 1e9


class Environment:
    """A private environment with packages from PyPI.

    Packages that could not be installed are in @missing, with the reason.
    """

    def __init__(self, folder, torch, gguf, dist):
        self.folder = folder
        self.python = os.path.join(folder, "bin", "python")
        self.next = os.path.join(folder, RC)
        self.torch = torch
        self.gguf = gguf
        self.dist = dist            # folder with the wheel of weir, or None
        self.missing = {}

    def path(self, ahead):
        """PYTHONPATH of a loader; @ahead: with the pre-release."""
        return [self.next] if ahead else []

    def make(self):
        if not os.path.exists(self.python):
            print(f"making a Python environment in {self.folder}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", self.folder],
                           check=True)
        self.install(*BASE)
        if self.gguf:
            self.install(*LLAMA)
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
        if self.dist:
            self.install_weir()

    def install_weir(self):
        """The wheel that `make wheel` has made last."""
        found = glob.glob(os.path.join(self.dist, "weir-*.whl"))
        why = f"no wheel in {self.dist}: run `make wheel`"
        if found:
            why = self.pip(["--no-deps", "--force-reinstall",
                            max(found, key=os.path.getmtime)])
        if why:
            self.missing["weir"] = why

    def have(self, name):
        return not subprocess.run(
            [self.python, "-m", "pip", "show", "-q", name],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def install(self, names, gigabytes):
        """Install @names; whether all are installed afterwards."""
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
        """Run pip; the reason of a failure, or None."""
        done = subprocess.run(
            ["nice", self.python, "-m", "pip", "install", "--no-cache-dir",
             "--disable-pip-version-check", "-q", *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not done.returncode:
            return None
        lines = [x for x in done.stderr.splitlines() if x.startswith("ERROR")]
        return (lines or ["pip failed"])[-1][:160]

    def install_next(self):
        """Install the pre-release of safetensors beside the final one."""
        if os.path.exists(self.next):
            return
        print("installing safetensors (newest, not final) beside it",
              flush=True)
        why = self.pip(["--pre", "--no-deps", "--target", self.next,
                        "safetensors"])
        if why:
            self.missing["safetensors --pre"] = why


class Wheels:
    """Packages from wheels, for a machine without network, pip or root.

    Wheels of @source and of its folder "next" are unpacked into "unpacked" in
    @folder, for the Python that runs this. Packages that it has itself (torch,
    and those of the folder "also") are used from there.
    """

    def __init__(self, source, folder):
        self.source = source
        self.folder = os.path.join(folder, "unpacked")
        self.python = sys.executable
        self.next = os.path.join(self.folder, RC)
        self.missing = {}

    def path(self, ahead):
        return [self.next] * ahead + [self.folder]

    def make(self):
        # An interrupted run may have left incomplete files.
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.next)
        self.unpack(self.source, self.folder)
        self.unpack(os.path.join(self.source, RC), self.next, " --pre")
        for name, path in self.found(os.path.join(self.source, "also")):
            have = importlib.util.find_spec(name.replace("-", "_"))
            if not have and wheel_fits(os.path.basename(path)):
                unpack_wheel(path, self.folder)

    @staticmethod
    def found(folder):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [(name.split("-")[0].replace("_", "-"),
                 os.path.join(folder, name))
                for name in sorted(names) if name.endswith(".whl")]

    def unpack(self, folder, to, suffix=""):
        for name, path in self.found(folder):
            if wheel_fits(os.path.basename(path)):
                unpack_wheel(path, to)
            else:
                self.missing[name + suffix] = (
                    f"{os.path.basename(path)} is not for Python "
                    f"{platform.python_version()} on {platform.machine()}")


def wheel_fits(name):
    """Whether the tags of a wheel name this Python and processor."""
    python, abi, where = name[:-len(".whl")].split("-")[-3:]
    major, minor = sys.version_info[:2]
    mine = re.fullmatch(rf"cp{major}(\d+)", python)
    return (where == "any" or where.endswith(platform.machine())) and (
        f"py{major}" in python.split(".") or mine and (
            int(mine[1]) == minor or abi == "abi3" and int(mine[1]) < minor))


def unpack_wheel(path, to):
    """The files that pip would install in site-packages."""
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            name = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "",
                          entry.filename)
            if re.match(r"[^/]+\.data/", name):
                continue                # scripts, headers
            entry.filename = name
            wheel.extract(entry, to)
