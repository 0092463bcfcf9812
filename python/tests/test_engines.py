# SPDX-License-Identifier: MIT
"""The plug-ins for engines, in the real engines, and several ranks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

torch = pytest.importorskip("torch")

WORKER = Path(__file__).with_name("engine_worker.py")


def installed(engine: str, group: str) -> Any:
    """Skip unless an engine and weir's entry point for it are installed."""
    found = importlib.util.find_spec(engine)
    points = importlib.metadata.entry_points()
    names = [p.name for p in points.select(group=group)]
    return pytest.mark.skipif(
        found is None or "weir" not in names,
        reason=f"{engine}, or weir's entry point in {group}, is not installed; "
        "./bootstrap check-engines installs both",
    )


vllm = installed("vllm", "vllm.general_plugins")
sglang = installed("sglang", "sglang.srt.plugins")


def start(command: List[str], test: str, **env: str) -> subprocess.Popen[str]:
    """Start a worker."""
    return subprocess.Popen(
        command, env={**os.environ, "WEIR_TEST": test, **env}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def results_of(text: str) -> List[Any]:
    """The results in the output of workers."""
    return [
        json.loads(line[7:])
        for line in text.splitlines()
        if line.startswith("RESULT ")
    ]


def run(
    engine: str, folder: Path, world: int, test: str = "", **env: str
) -> List[Any]:
    """The results of all ranks of a worker; None for one that says nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        start([sys.executable, str(WORKER), engine, str(folder), str(world),
               str(rank), str(port)], test, **env)
        for rank in range(world)
    ]
    results: List[Any] = []
    try:
        for process in ranks:
            text, _ = process.communicate(timeout=1800)
            found = results_of(text)
            assert found or test == "die", text[-3000:]
            results.append(found[0] if found else None)
    finally:
        for process in ranks:
            process.kill()
    return results


def save(model: Any, path: Path, shard: str = "1MB") -> Path:
    """Save a model of transformers in shards, with a tokenizer."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    model.to(torch.bfloat16).save_pretrained(path, max_shard_size=shard)
    words = {f"w{i}": i for i in range(256)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="w0"
    ).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def llama(tmp_path_factory: Any) -> Path:
    """A tiny Llama."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    return save(transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=256, intermediate_size=512,
    )), tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def experts(tmp_path_factory: Any) -> Path:
    """A tiny Qwen3MoE."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(2)
    return save(transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, vocab_size=256,
        intermediate_size=512, moe_intermediate_size=128, num_experts=8,
        num_experts_per_tok=2,
    )), tmp_path_factory.mktemp("experts"))


@pytest.fixture(scope="session")
def wide_llama(tmp_path_factory: Any) -> Path:
    """A layer of Llama with rows as long as those of 8B."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    return save(transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=4096, num_hidden_layers=1, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=256, intermediate_size=4096,
    )), tmp_path_factory.mktemp("wide-llama"), "100MB")


@pytest.fixture(scope="session")
def wide_experts(tmp_path_factory: Any) -> Path:
    """A layer of Qwen3MoE with rows as long as those of 235B-A22B."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(4)
    return save(transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        hidden_size=4096, num_hidden_layers=1, num_attention_heads=32,
        num_key_value_heads=4, head_dim=128, vocab_size=256,
        intermediate_size=1536, moe_intermediate_size=1536, num_experts=2,
        num_experts_per_tok=1,
    )), tmp_path_factory.mktemp("wide-experts"), "100MB")


@pytest.fixture(scope="session")
def mamba(tmp_path_factory: Any) -> Path:
    """A tiny Mamba 2."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    return save(transformers.Mamba2ForCausalLM(transformers.Mamba2Config(
        hidden_size=256, num_heads=8, head_dim=64, n_groups=8, state_size=16,
        num_hidden_layers=2, vocab_size=256, tie_word_embeddings=False,
    )), tmp_path_factory.mktemp("mamba"))


def check(result: Dict[str, Any], early: str = "") -> None:
    """Everything is equal, noted, and read once; EARLY operations read it."""
    assert result["different"] == []
    assert result["plain"]
    assert result["copies"] > 0
    assert not result["fallbacks"], result["text"]
    assert sorted(result["early"]) == early.split(), result["text"]
    assert result["read"] == result["copied"]
    assert result["read"] <= result["needed"] * 1.02, result["text"]


def check_ranks(results: List[Any], folder: Path) -> None:
    """Each rank has read what it needs, which is its share of the files."""
    total = sum(
        file.stat().st_size for file in folder.glob("*.safetensors"))
    for result in results:
        check(result)
        assert result["read"] <= total / len(results) * 1.02


engines = pytest.mark.parametrize("engine", [
    pytest.param("vllm", marks=vllm), pytest.param("sglang", marks=sglang)])


@engines
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("kind", ["llama", "experts"])
def test_engine(engine: str, kind: str, world: int, request: Any) -> None:
    """an engine's parameters are those of safetensors, each byte read once"""
    folder = request.getfixturevalue(kind)
    check_ranks(run(engine, folder, world), folder)


@engines
def test_engine_llama_rows(engine: str, wide_llama: Path) -> None:
    """two ranks of an engine read nothing between long rows"""
    for result in run(engine, wide_llama, 2):
        check(result)
        read = result["read"] + result["over_read"]
        assert read <= result["needed"] * 1.02, result["text"]


@engines
def test_engine_experts_rows(engine: str, wide_experts: Path) -> None:
    """two ranks of an engine read between rows of experts that are short"""
    # Half a row of down_proj is 1536 bytes, with as many before the next. Out of
    # the page cache they are read together: without them each row is a call,
    # which takes 3 times the CPU time (bench/RESULTS.md).
    gaps = 2 * 4096 * 1536
    for result in run(engine, wide_experts, 2):
        check(result)
        assert result["over_read"] <= gaps + result["needed"] * 0.02, (
            result["text"])


@vllm
@pytest.mark.parametrize("world", [1, 2])
def test_mamba(mamba: Path, world: int) -> None:
    """vLLM's A of Mamba, which it changes after the copy, is read before"""
    for result in run("vllm", mamba, world):
        check(result, "exp")


@engines
def test_switched_off(engine: str, llama: Path) -> None:
    """an engine with WEIR_RECORD=0 gets ordinary tensors"""
    (result,) = run(engine, llama, 1, WEIR_RECORD="0")
    check_off(result)


@vllm
def test_switched_off_by_option(llama: Path) -> None:
    """vLLM with "record": false gets ordinary tensors"""
    (result,) = run("vllm:off", llama, 1)
    check_off(result)


def check_off(result: Any) -> None:
    assert result["different"] == []
    assert result["copies"] == 0
    assert result["loads"] == 0


@engines
def test_broken_file(engine: str, llama: Path, tmp_path: Path) -> None:
    """a file that fails on one rank of an engine ends both, with one sentence"""
    folder = tmp_path / "broken"
    shutil.copytree(llama, folder)
    results = run(engine, folder, 2, "break")
    assert results[0]["error"] == results[1]["error"]
    assert "rank" in results[0]["error"]


def needs_gloo() -> Any:
    return pytest.mark.skipif(
        not torch.distributed.is_available(), reason="torch has no distributed"
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file with tensors of all kinds of sizes."""
    from test_recording import write

    tensors = {f"t{i}": torch.randn(i * 37 + 1, 64) for i in range(40)}
    tensors["scalar"] = torch.randn(())
    tensors["large"] = torch.randn(3000, 1000).half()
    tensors["odd"] = torch.arange(7, dtype=torch.uint8)
    tensors["none"] = torch.empty(0, 4)
    path = tmp_path / "model.safetensors"
    write(path, tensors)
    # A copy of which the end is missing.
    short = path.with_name("model.safetensors.short")
    short.write_bytes(path.read_bytes()[:-1000])
    return path


def check_loaded(results: List[Any], world: int) -> None:
    """Each rank has all tensors, and has read an equal part of the file."""
    assert len(results) == world
    for result in results:
        assert result["different"] == []
        assert result["names"]
        # Nothing is read from the disk where files are in memory.
        assert result["read"] <= result["needed"] / world * 1.02 + (64 << 10)


def check_failed(results: List[Any], world: int, sentence: str) -> None:
    """All ranks have failed within seconds, with the same sentence."""
    assert len(results) == world
    for result in results:
        assert re.search(sentence, result["error"])
        assert result["error"] == results[0]["error"]
        assert result["seconds"] < 20


# What fails on one of the ranks, and what all say.
FAILURES = {
    "disagree": "rank 1 of {}: the disk of this rank is gone",
    "break": r"rank 1 of {}: .*model\.safetensors\.short: .*bytes",
}


@needs_gloo()
@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks(model: Path, world: int) -> None:
    """ranks read equal parts and get all tensors"""
    check_loaded(run("gloo", model, world), world)


@needs_gloo()
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("test", FAILURES)
def test_rank_fails(model: Path, test: str, world: int) -> None:
    """a failure of one rank is the same sentence on all"""
    check_failed(
        run("gloo", model, world, test), world, FAILURES[test].format(world))


@needs_gloo()
@pytest.mark.parametrize("world", [2, 4])
def test_rank_dies(model: Path, world: int) -> None:
    """a rank that dies ends the others with the same sentence"""
    results = run("gloo", model, world, "die")
    assert results.pop(1) is None
    check_failed(results, world - 1, (
        f"^one of the {world} ranks ended before the load was done$"))


def run_mpi(folder: Path, world: int, test: str = "") -> Any:
    """The results of all ranks of MPI, and the status of mpiexec."""
    command = [str(MPIEXEC)]
    for rank in range(world):
        command += [":"] * (rank > 0) + [
            "-n", "1", sys.executable, str(WORKER), "mpi", str(folder),
            str(world), str(rank), "0"]
    process = start(command, test)
    try:
        text, _ = process.communicate(timeout=100)
    finally:
        process.kill()
    return results_of(text), process.returncode


MPIEXEC = Path(sys.executable).with_name("mpiexec")
mpi = pytest.mark.skipif(
    not MPIEXEC.exists() or importlib.util.find_spec("mpi4py") is None,
    reason="mpi4py, or an mpiexec beside Python, is not installed; "
    "./bootstrap check-engines installs both",
)


@mpi
@pytest.mark.parametrize("world", [1, 2, 4])
def test_mpi(model: Path, world: int) -> None:
    """ranks of MPI read equal parts and get all tensors"""
    results, status = run_mpi(model, world)
    check_loaded(results, world)
    assert status == 0


@mpi
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("test", FAILURES)
def test_mpi_fails(model: Path, test: str, world: int) -> None:
    """a failure of one rank of MPI is the same sentence on all"""
    results, _ = run_mpi(model, world, test)
    check_failed(results, world, FAILURES[test].format(world))


@mpi
def test_mpi_dies(model: Path) -> None:
    """a rank of MPI that dies ends the others: mpiexec does it"""
    results, status = run_mpi(model, 4, "die")
    assert results == []
    assert status != 0
