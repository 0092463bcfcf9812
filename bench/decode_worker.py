# SPDX-License-Identifier: MIT
"""Processes that compute, for bench/decode and bench/decode_gpu."""
import subprocess


class Failed(Exception):
    pass


class Worker:
    """A process that computes: decode_weir.c or decode_llama.py."""

    def __init__(self, argv):
        self.process = subprocess.Popen(argv, text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def do(self, command, n=1):
        """Seconds, of them in kernels, bytes that were read."""
        try:
            self.process.stdin.write(f"{command} {n}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"{command} {n} has failed, with status "
                         f"{self.process.wait()}")
        seconds, kernels, size = line.split()
        return float(seconds), float(kernels), int(size)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
