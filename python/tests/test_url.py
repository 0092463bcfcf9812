# SPDX-License-Identifier: MIT
"""Models at URLs, by weir-http.so and the server of t/http.

Of the wheel, or else of the build folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest

import weir

pytest.importorskip("numpy")

MODULES = os.path.dirname(os.path.abspath(weir.__file__))
if not os.path.exists(os.path.join(MODULES, "weir-http.so")):
    MODULES = os.path.abspath(
        os.path.join(os.environ.get("builddir", "build"), "lib", "http", ".libs")
    )
SERVER = os.path.join(os.environ.get("srcdir", "."), "t", "http", "server.py")

if not os.path.exists(os.path.join(MODULES, "weir-http.so")):
    pytest.skip("weir-http.so was not built", allow_module_level=True)
if not os.path.exists(SERVER):
    pytest.skip("there is no t/http/server.py", allow_module_level=True)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the folder of the test."""
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = subprocess.Popen(
        [sys.executable, SERVER], cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    assert server.stdin and server.stdout
    port = server.stdout.readline().split()[0]
    yield f"http://127.0.0.1:{port}/file"
    server.stdin.close()
    server.wait()
    server.stdout.close()


@pytest.fixture
def root() -> Iterator[weir.Root]:
    """A root that finds the module."""
    with weir.Root(module_path=MODULES) as root:
        yield root


def in_bytes(tensor: Any) -> bytes:
    """Of NumPy, or of torch, which another test may have imported."""
    return bytes(memoryview(getattr(tensor, "numpy", lambda: tensor)()).cast("B"))


def shards(many: Path, folder: Path) -> None:
    """The tensors of MANY in a folder, in several files."""
    weir.save(weir.load(many), folder / "model.safetensors", shard_bytes=8 << 20)


def test_load(url: str, root: weir.Root, many: Path) -> None:
    """load() of a URL has the bytes of the file, and says that they are remote."""
    want = weir.load(many)
    found = weir.load(f"{url}/{many.name}", root=root)
    assert list(found) == list(want)
    assert all(in_bytes(found[name]) == in_bytes(want[name]) for name in want)
    assert found.report["remote"] == found.report["bytes"] > 0


def test_example(url: str, many: Path, tmp_path: Path) -> None:
    """examples/remote.py lists the tensors, and needs no request for bytes twice."""
    example = Path(os.environ.get("srcdir", "."), "examples", "remote.py")
    env = {**os.environ, "WEIR_MODULE_PATH": MODULES}

    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, example, *args], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    total = weir.load(many).report["bytes"]
    for remote in (total, 0):
        done = run(f"{url}/{many.name}", str(tmp_path / "kept"))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[-1] == f"{total} bytes, {remote} of them by URL"
        assert [line.split(" ", 1)[0] for line in lines[:-1]] == list(weir.load(many))
    assert "404" in run(f"{url}/none.safetensors").stderr
    assert "try again later" in run("http://127.0.0.1:1/m.safetensors").stderr


def test_folder(url: str, root: weir.Root, many: Path, tmp_path: Path) -> None:
    """load() and stream() of the URL of a folder read its shards."""
    (tmp_path / "m").mkdir()
    shards(many, tmp_path / "m")
    want = weir.load(many)
    assert len(list((tmp_path / "m").iterdir())) > 2
    found = dict(weir.stream(f"{url}/m", root=root))
    assert sorted(found) == sorted(want)
    assert all(in_bytes(found[name]) == in_bytes(want[name]) for name in want)
    assert sorted(weir.load(f"{url}/m/", root=root)) == sorted(want)


def ranges(url: str) -> "list[str]":
    """The requests for files since the last call."""
    base = url[: -len("/file")]
    log = urllib.request.urlopen(f"{base}/log").read().decode()
    return [line for line in log.splitlines() if "/file/" in line]


def test_cache(url: str, many: Path, tmp_path: Path) -> None:
    """A second load() with a cache folder asks for changes only: one request."""
    want = weir.load(many)
    folder = tmp_path / "kept"
    for kept in (False, True):
        with weir.Root(module_path=MODULES, cache=folder) as root:
            found = weir.load(f"{url}/{many.name}", root=root)
        assert all(in_bytes(found[name]) == in_bytes(want[name]) for name in want)
        assert found.report["remote"] == (0 if kept else found.report["bytes"])
        requested = ranges(url)
        assert len(requested) == 1 if kept else len(requested) > 1
    assert [path.suffix for path in folder.iterdir()].count(".url") == 1
    small = str(tmp_path / "small")
    with weir.Root(module_path=MODULES, cache=small, cache_bytes=1000) as root:
        assert list(weir.load(f"{url}/{many.name}", root=root)) == list(want)
    assert not os.listdir(small)


def test_cache_arguments() -> None:
    """Arguments that are no folder, or no size, are refused."""
    with pytest.raises(TypeError, match="cache"):
        weir.Root(cache=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cache_bytes"):
        weir.Root(cache_bytes=-1)


def test_safe_open(url: str, root: weir.Root, many: Path) -> None:
    """safe_open() of a URL reads tensors, all of them, and slices."""
    numpy = pytest.importorskip("numpy")
    with weir.safe_open(many, "np") as file:
        want = file.get_tensors()
    with weir.safe_open(f"{url}/{many.name}", "np", root=root) as file:
        assert file.keys() == sorted(want)
        name = file.keys()[1]
        assert numpy.array_equal(file.get_tensor(name), want[name])
        part = file.get_slice(name)[8:24, 3:5]
        assert numpy.array_equal(part, want[name][8:24, 3:5])
        found = file.get_tensors()
        assert all(numpy.array_equal(found[n], want[n]) for n in want)


def test_torch(url: str, small: Path) -> None:
    """weir.torch.load_file() of a URL finds the module by WEIR_MODULE_PATH."""
    pytest.importorskip("torch")
    run = subprocess.run(
        [sys.executable, "-c",
         "import sys, torch, weir.torch\n"
         "a = weir.torch.load_file(sys.argv[1])\n"
         "b = weir.torch.load_file(sys.argv[2])\n"
         "assert sorted(a) == sorted(b) and len(a)\n"
         "assert all(torch.equal(a[n], b[n]) for n in a)\n"
         "c = weir.recording([sys.argv[1]])\n"
         "assert all(torch.equal(torch.empty_like(b[n]).copy_(c[n]), b[n])\n"
         "           for n in b)\n",
         f"{url}/{small.name}", str(small)],
        env={**os.environ, "WEIR_MODULE_PATH": MODULES},
        capture_output=True, text=True, check=False,
    )
    assert run.returncode == 0, run.stderr


def test_recording(url: str, root: weir.Root, many: Path, tmp_path: Path) -> None:
    """recording() takes the URLs of the files of a model."""
    torch = pytest.importorskip("torch")
    (tmp_path / "m").mkdir()
    shards(many, tmp_path / "m")
    files = sorted(p.name for p in (tmp_path / "m").glob("*.safetensors"))
    assert len(files) > 1
    want = weir.load(many, framework="torch")
    urls = [f"{url}/m/{name}" for name in files]
    with weir.recording(urls, root=root) as tensors:
        assert sorted(tensors) == sorted(want)
        found = {name: torch.empty_like(want[name]) for name in want}
        for name, tensor in tensors.items():
            found[name].copy_(tensor)
    assert all(torch.equal(found[name], want[name]) for name in want)


def test_digest(url: str, root: weir.Root, small: Path, tmp_path: Path) -> None:
    """digest() and verify() of a URL, also against SHA-256 sums."""
    at = f"{url}/{small.name}"
    digests = weir.digest(at, root=root)
    assert digests == weir.digest(small)
    weir.verify(at, digests, root=root)
    sums = tmp_path / "SHA256SUMS"
    text = hashlib.sha256(small.read_bytes()).hexdigest()
    sums.write_text(f"{text}  {small.name}\n")
    assert weir.verify(at, sums, root=root)["bytes"] == small.stat().st_size
    sums.write_text(f"{'0' * 64}  {small.name}\n")
    with pytest.raises(weir.FormatError, match=f"SHA-256 is {text}, not 0000"):
        weir.verify(at, sums, root=root)


def test_published(
    url: str, root: weir.Root, small: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """verify() without sums compares a file with what a hub publishes."""
    monkeypatch.setenv("HF_ENDPOINT", url[: -len("/file")])
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE",
                 "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    at = f"hf://me/files/{small.name}"
    with pytest.raises(weir.FormatError, match="no SHA-256 is published"):
        weir.verify(at, root=root)
    good = hashlib.sha256(small.read_bytes()).hexdigest()
    published = small.with_name(small.name + ".published")
    published.write_text(good)
    assert weir.verify(at, root=root)["bytes"] == small.stat().st_size
    published.write_text("0" * 64)
    with pytest.raises(weir.FormatError, match=f"{at}: SHA-256 is {good}, not 0000"):
        weir.verify(at, root=root)
    with pytest.raises(weir.FormatError, match="no SHA-256 is published"):
        weir.verify(small)


def test_convert(
    url: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """convert() reads a URL."""
    monkeypatch.setenv("WEIR_MODULE_PATH", MODULES)
    weir.convert(f"{url}/{small.name}", tmp_path / "a.safetensors")
    weir.convert(small, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == \
        (tmp_path / "b.safetensors").read_bytes()


SILENT = """
import signal, sys, weir
# A shell lets its background jobs ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
call, at = sys.argv[1:]
try:
    if call == "safe_open":
        weir.safe_open(at, "np")
    elif call == "stream":
        list(weir.stream(at))
    elif call == "load_async":
        import asyncio
        asyncio.run(weir.load_async(at))
    else:
        getattr(weir, call)(at)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call, when",
    [
        ("load", "open"), ("safe_open", "open"), ("stream", "open"),
        ("load_async", "open"), ("load", "read"), ("digest", "read"),
    ],
)
def test_silent(url: str, many: Path, call: str, when: str) -> None:
    """Ctrl-C ends a call that waits for a server without an answer."""
    base = url[: -len("/file")]
    at = f"{base}/silent/{when}/{many.name}"
    log = ""
    with subprocess.Popen(
        [sys.executable, "-c", SILENT, call, at],
        env={**os.environ, "WEIR_MODULE_PATH": MODULES},
        stdout=subprocess.PIPE, text=True,
    ) as process:
        try:
            while f"silent-{when}" not in log and process.poll() is None:
                log += urllib.request.urlopen(f"{base}/log").read().decode()
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            # The library would wait for 60 s, and the server waits for 120 s.
            assert process.communicate(timeout=30)[0] == "interrupted\n"
        finally:
            process.kill()


def test_missing(url: str, root: weir.Root) -> None:
    """An object that does not exist is a FileNotFoundError with its URL."""
    for call in (
        lambda at: weir.load(at, root=root),
        lambda at: weir.safe_open(at, "np", root=root),
        lambda at: weir.digest(at, root=root),
    ):
        with pytest.raises(FileNotFoundError, match="none.safetensors: 404"):
            call(f"{url}/none.safetensors")


def test_no_server(root: weir.Root) -> None:
    """A server that is not there is a ConnectionError, and an OSError."""
    with pytest.raises(ConnectionError, match="http://127.0.0.1:1/") as caught:
        weir.load("http://127.0.0.1:1/m.safetensors", root=root)
    assert isinstance(caught.value, weir.FileError)


# Calls that refuse a URL: URL, what the sentences have, and a file.
REFUSED = '''
import sys, weir
url, part, target = sys.argv[1:]
for call in (
    weir.load, weir.digest, lambda at: weir.safe_open(at, "np"),
    lambda at: weir.convert(at, target),
):
    try:
        call(url)
    except weir.Error as error:
        assert part in str(error), error
    else:
        raise AssertionError("a URL was opened")
'''


def refused(url: str, tmp_path: Path, modules: Path, part: str) -> None:
    """All calls refuse a URL if no modules are there but those in a folder."""
    site = tmp_path / "site"
    own = os.path.dirname(os.path.abspath(weir.__file__))
    shutil.copytree(
        own, site / "weir",
        ignore=shutil.ignore_patterns("weir-*.so", "__pycache__"),
    )
    run = subprocess.run(
        [sys.executable, "-c", REFUSED, f"{url}/m.safetensors", part,
         str(tmp_path / "out.safetensors")],
        env={**os.environ, "PYTHONPATH": str(site), "WEIR_MODULE_PATH": str(modules),
             "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )
    assert run.returncode == 0, run.stderr


def test_no_module(url: str, tmp_path: Path) -> None:
    """Without the module the exception says where to get it."""
    refused(
        url, tmp_path, tmp_path,
        "weir-http.so: install it, or name its directory in WEIR_MODULE_PATH. "
        "This weir was built without libcurl",
    )


def test_no_libcurl(url: str, tmp_path: Path) -> None:
    """Without libcurl the exception names its packages."""
    module = Path(MODULES, "weir-http.so").read_bytes()
    # A version of it that no system has.
    module = module.replace(b"libcurl.so.4", b"libcurl.so.0")
    (tmp_path / "weir-http.so").write_bytes(module)
    refused(
        url, tmp_path, tmp_path,
        "; install the package that has it (Debian, Ubuntu: libcurl4; "
        "Fedora, RHEL: libcurl)",
    )


# What the plug-in uses of vLLM, which needs packages that are not here.
VLLM = '''
import sys, types
def module(name, **members):
    found = sys.modules[name] = types.ModuleType(name)
    found.__dict__.update(members)
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, found)
class Logger:
    info = print
class Default:
    counter_before_loading_weights = 0.0
    def __init__(self, config):
        self.config = config
    def download_model(self, config):
        raise RuntimeError("downloads")
    def _get_weights_iterator(self, source):
        return iter([(source.prefix + "theirs", None)])
    def load_weights(self, model, config):
        for source in (Source(config.model, ""), Source("adapter", "a.")):
            model.load_weights(self._get_weights_iterator(source))
class Source:
    def __init__(self, path, prefix):
        self.model_or_path, self.prefix = path, prefix
class Group:
    world_size, cpu_group = 1, None
for name in ("vllm", "vllm.model_executor"):
    module(name)
module("vllm.distributed", get_tp_group=Group)
module("vllm.logger", init_logger=lambda name: Logger)
module("vllm.model_executor.model_loader", register_model_loader=None)
module("vllm.model_executor.model_loader.default_loader",
       DefaultModelLoader=Default, safetensors_weights_iterator=None)
module("vllm.model_executor.model_loader.ep_weight_filter",
       should_skip_weight=lambda name, ids: False)

import dataclasses, torch, weir
from weir.engines import vllm
vllm.Ranks.of_torch = lambda group: vllm.Ranks(
    0, 1, lambda sentence: sentence, lambda *unused: None)
@dataclasses.dataclass
class Config:
    model_loader_extra_config: dict
    load_format: str = "weir"
want = weir.load(sys.argv[2], framework="torch")
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.found = {n: torch.empty_like(t) for n, t in want.items()}
        self.names = []
    def load_weights(self, weights):
        for name, tensor in weights:
            self.names.append(name)
            if tensor is not None:
                self.found[name].copy_(tensor)
loader = vllm.WeirModelLoader(Config({"url": sys.argv[1]}))
loader.download_model(types.SimpleNamespace(model="m"))
model = Model()
loader.load_weights(model, types.SimpleNamespace(model="m"))
assert sorted(model.names) == sorted([*want, "a.theirs"]), model.names
assert all(torch.equal(model.found[n], want[n]) for n in want)
try:
    vllm.WeirModelLoader(Config({"url": "/folder"}))
except weir.InvalidError as error:
    assert "a URL is needed" in str(error)
else:
    raise AssertionError("a folder is no URL")
'''


def test_vllm(url: str, many: Path, tmp_path: Path) -> None:
    """The plug-in for vLLM reads the weights from the URL of a folder."""
    pytest.importorskip("torch")
    (tmp_path / "m").mkdir()
    shards(many, tmp_path / "m")
    run = subprocess.run(
        [sys.executable, "-c", VLLM, f"{url}/m", str(tmp_path / "m")],
        env={**os.environ, "WEIR_MODULE_PATH": MODULES},
        capture_output=True, text=True, check=False,
    )
    assert run.returncode == 0, run.stderr
