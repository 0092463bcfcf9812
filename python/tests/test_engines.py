# SPDX-License-Identifier: MIT
"""The plug-ins for engines, in the real engines, and several ranks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
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


def run(engine: str, folder: Path, world: int, test: str = "") -> List[Any]:
    """The results of all ranks of a worker; None for one that says nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = dict(os.environ)
    if test:
        env["WEIR_TEST"] = test
    ranks = [
        subprocess.Popen(
            [sys.executable, str(WORKER), engine, str(folder), str(world),
             str(rank), str(port)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    results: List[Any] = []
    try:
        for process in ranks:
            text, _ = process.communicate(timeout=400)
            lines = [s for s in text.splitlines() if s.startswith("RESULT ")]
            assert lines or test == "die", text[-3000:]
            results.append(json.loads(lines[0][7:]) if lines else None)
    finally:
        for process in ranks:
            process.kill()
    return results


def save(model: Any, path: Path) -> Path:
    """Save a model of transformers in shards, with a tokenizer."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    model.to(torch.bfloat16).save_pretrained(path, max_shard_size="1MB")
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


def check(result: Dict[str, Any]) -> None:
    """Everything is equal, noted, and read once."""
    print(result["text"])
    assert result["different"] == []
    assert result["plain"]
    assert result["copies"] > 0
    assert not result["fallbacks"], result["text"]
    assert not result["early"], result["text"]
    assert result["read"] == result["copied"]
    assert result["read"] <= result["needed"] * 1.02, result["text"]


@vllm
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("kind", ["llama", "experts"])
def test_vllm(kind: str, world: int, request: Any) -> None:
    """vLLM's parameters are those of safetensors, and each byte is read once"""
    folder = request.getfixturevalue(kind)
    results = run("vllm", folder, world)
    for result in results:
        check(result)
    total = sum(
        file.stat().st_size for file in folder.glob("*.safetensors"))
    for result in results:
        assert result["read"] <= total / world * 1.02


@vllm
def test_vllm_switched_off(llama: Path) -> None:
    """vLLM with record false gets ordinary tensors"""
    (result,) = run("vllm:off", llama, 1)
    assert result["different"] == []
    assert result["copies"] == 0


@vllm
def test_vllm_broken_file(llama: Path, tmp_path: Path) -> None:
    """a file that fails on one rank of vLLM ends both, with one sentence"""
    folder = tmp_path / "broken"
    folder.mkdir()
    for file in llama.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    results = run("vllm", folder, 2, "break")
    assert results[0]["error"] == results[1]["error"]
    assert "rank" in results[0]["error"]


@sglang
@pytest.mark.parametrize("how", ["sglang", "sglang:off"])
def test_sglang(llama: Path, how: str) -> None:
    """SGLang's loader for private fills parameters as safetensors does"""
    (result,) = run(how, llama, 1)
    if how == "sglang":
        check(result)
    assert result["different"] == []


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
    write(tmp_path / "model.safetensors", tensors)
    return tmp_path / "model.safetensors"


@needs_gloo()
@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks(model: Path, world: int) -> None:
    """ranks read equal parts and get all tensors"""
    for result in run("gloo", model, world):
        assert result["different"] == []
        assert result["names"]
        assert result["needed"] > 0


@needs_gloo()
def test_rank_fails(model: Path) -> None:
    """a failure of one rank is the same sentence on all"""
    results = run("gloo", model, 3, "break")
    assert {r["error"] for r in results} == {
        "rank 1 of 3: the disk of this rank is gone"}


@needs_gloo()
def test_rank_dies(model: Path) -> None:
    """a rank that dies ends the others with the same sentence"""
    results = run("gloo", model, 3, "die")
    assert results[1] is None
    assert results[0] == results[2]
    assert results[0]["error"] == (
        "one of the 3 ranks ended before the load was done")
