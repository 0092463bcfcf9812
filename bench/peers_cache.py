# SPDX-License-Identifier: MIT
"""The page cache: which part of a file is in it, filling and evicting.

Also other disturbances of a timing on a shared machine: memory that the host
has taken back, and CPU time of other programs.
"""
import contextlib
import ctypes
import mmap
import os
import time

PAGE = mmap.PAGESIZE
MADV_POPULATE_WRITE = 23

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                      ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


class CacheError(Exception):
    pass


def resident(path):
    """The share of the file's pages that mincore(2) finds in the cache."""
    size = os.path.getsize(path)
    pages = (size + PAGE - 1) // PAGE
    seen = (ctypes.c_ubyte * pages)()
    fd = os.open(path, os.O_RDONLY)
    at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    os.close(fd)
    if at == ctypes.c_void_p(-1).value:
        raise CacheError(f"{path}: mmap: {os.strerror(ctypes.get_errno())}")
    failed = libc.mincore(at, size, seen)
    libc.munmap(at, size)
    if failed:
        raise CacheError(f"{path}: mincore: "
                         f"{os.strerror(ctypes.get_errno())}")
    return bytes(seen).translate(None, b"\0").__len__() / pages


def evict(path):
    """Retried, since dirty pages and pages in use are not evicted at once."""
    fd = os.open(path, os.O_RDONLY)
    try:
        for attempt in range(25):
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if resident(path) == 0:
                return
            time.sleep(0.02 * attempt)
    finally:
        os.close(fd)
    raise CacheError(f"{path}: {100 * resident(path):.1f} % of it stays in "
                     "the page cache")


def fill(path):
    buffer = bytearray(4 << 20)
    for attempt in range(8):
        if resident(path) == 1:
            return
        time.sleep(0.1 * attempt)
        with open(path, "rb", buffering=0) as f:
            while f.readinto(buffer):
                pass
    if resident(path) < 0.999:
        raise CacheError(f"{path}: only {100 * resident(path):.1f} % of it "
                         "stays in the page cache")


def prepare(paths, state):
    """Bring the files into @state; returns the share that is resident."""
    for path in paths:
        (fill if state == "resident" else evict)(path)
    shares = [resident(path) for path in paths]
    return min(shares) if state == "resident" else max(shares)


@contextlib.contextmanager
def warm(nbytes, settle):
    """Keep @nbytes of memory that the host backs; free them at the end.

    Linux reports free memory to a hypervisor two seconds after some was freed,
    and the hypervisor takes it back. Touching it is slow then, for one loader
    or another by chance. So all other free memory is reported during @settle
    seconds, while this memory is kept; and what is freed at the end is not
    reported before the load is over.
    """
    with mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) \
            as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        try:
            memory.madvise(MADV_POPULATE_WRITE)
        except OSError:             # before Linux 5.14
            for at in range(0, nbytes, PAGE):
                memory[at] = 1
        time.sleep(settle)
        yield


def busy_seconds():
    """CPU time of all programs since boot, and stolen time."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(x) for x in f.readline().split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = ticks
    hz = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / hz


def await_quiet(patience):
    """Wait until other programs use under a tenth of the machine for 0.2 s."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        busy, begun = busy_seconds(), time.monotonic()
        time.sleep(0.2)
        share = (busy_seconds() - busy) / (time.monotonic() - begun)
        if share < 0.1 * os.cpu_count():
            return
