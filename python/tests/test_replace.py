# SPDX-License-Identifier: MIT
"""transformers and diffusers with weir in the place of safetensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
theirs = pytest.importorskip("safetensors.torch")
import weir  # noqa: E402

load_file = theirs.load_file  # safetensors' own


@pytest.fixture
def opened(monkeypatch: Any) -> Iterator[List[str]]:
    """weir in the place of safetensors, and the names of files it opens."""
    names: List[str] = []
    init = weir.safe_open.__init__

    def __init__(self: Any, filename: Any, *args: Any, **kwargs: Any) -> None:
        names.append(os.path.basename(filename))
        init(self, filename, *args, **kwargs)

    monkeypatch.setattr(weir.safe_open, "__init__", __init__)
    weir.replace_safetensors()
    try:
        yield names
    finally:
        weir.restore_safetensors()


def plain(module: Any) -> Dict[str, Any]:
    return {name: t.clone() for name, t in module.state_dict().items()}


def same(a: Dict[str, Any], b: Dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [False, True])
def test_transformers(
    opened: List[str], tmp_path: Path, dtype: str, tied: bool
) -> None:
    """from_pretrained() of transformers loads all shards through weir"""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=256, intermediate_size=512,
        tie_word_embeddings=tied)).to(torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size="1MB")
    files = sorted(file.name for file in tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    wanted = {name: t.to(getattr(torch, dtype))
              for name, t in plain(model).items()}
    opened.clear()
    found = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=getattr(torch, dtype))
    assert sorted(set(opened)) == files
    assert same(plain(found), wanted)
    # Files of weir are those of safetensors.
    for file in files:
        for name, tensor in load_file(tmp_path / file).items():
            assert torch.equal(tensor, model.state_dict()[name])


def test_diffusers(opened: List[str], tmp_path: Path) -> None:
    """a pipeline of diffusers is saved and loaded through weir"""
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(2)
    unet = diffusers.UNet2DModel(
        sample_size=16, block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), layers_per_block=1
    ).eval()
    pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler())
    pipeline.save_pretrained(tmp_path)
    opened.clear()
    found = diffusers.DDPMPipeline.from_pretrained(tmp_path)
    assert opened == ["diffusion_pytorch_model.safetensors"]
    assert same(plain(found.unet), plain(unet))

    def image(pipe: Any) -> Any:
        return pipe(
            generator=torch.Generator().manual_seed(3), num_inference_steps=2,
            output_type="np").images

    # Where memory begins can change how products are summed up.
    assert np.allclose(image(found), image(pipeline), atol=1e-3)
