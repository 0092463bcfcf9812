# SPDX-License-Identifier: MIT
"""One rank of a test: ENGINE FOLDER WORLD RANK PORT; prints JSON at the end.

Loads the model by weir and by the engine's own loader, and compares.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict

engine, folder, world, rank, port = sys.argv[1:6]
WORLD, RANK = int(world), int(rank)
os.environ.update(
    VLLM_TARGET_DEVICE="cpu", RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world,
    MASTER_ADDR="127.0.0.1", MASTER_PORT=port, VLLM_LOGGING_LEVEL="ERROR",
    HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1",
)

import torch  # noqa: E402


def describe(report: Any, weir_model: Any, own_model: Any) -> Dict[str, Any]:
    """What a test asks about: the report, and whether all is equal."""
    mine = dict(weir_model.named_parameters())
    own = dict(own_model.named_parameters())
    storages = {p.untyped_storage().data_ptr(): p for p in mine.values()}
    return {
        "parameters": len(mine),
        "plain": all(type(p.data) is torch.Tensor for p in mine.values()),
        "different": sorted(
            name for name in {*mine, *own}
            if name not in mine or name not in own
            or not torch.equal(mine[name].data, own[name].data)
        ),
        "needed": sum(p.untyped_storage().nbytes() for p in storages.values()),
        "copies": report.copies,
        "copied": report.copied,
        "read": report.read,
        "loads": report.loads,
        "fallbacks": dict(report.fallbacks),
        "early": dict(report.early),
        "text": str(report),
    }


def vllm(record: bool) -> Dict[str, Any]:
    from vllm.config import set_current_vllm_config
    from vllm.distributed import (
        init_distributed_environment,
        initialize_model_parallel,
    )
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader import get_model_loader
    from vllm.plugins import load_general_plugins
    from vllm.utils.torch_utils import set_default_torch_dtype

    load_general_plugins()
    models = []
    report = None
    for format, extra in (
        ("weir", {"record": record, "way": "auto"}), ("safetensors", {})
    ):
        cfg = EngineArgs(
            model=folder, load_format=format, enforce_eager=True,
            max_model_len=64, model_loader_extra_config=extra,
            tensor_parallel_size=WORLD,
            distributed_executor_backend=(
                "external_launcher" if WORLD > 1 else None),
        ).create_engine_config()
        with set_current_vllm_config(cfg):
            if report is None:
                init_distributed_environment(
                    WORLD, RANK, f"tcp://127.0.0.1:{port}", RANK, "gloo")
                initialize_model_parallel(WORLD)
            loader = get_model_loader(cfg.load_config)
            with set_default_torch_dtype(cfg.model_config.dtype), \
                    torch.device("cpu"):
                model = loader.create_model(cfg, cfg.model_config)
                if "break" in os.environ.get("WEIR_TEST", "") and RANK == 1:
                    for name in os.listdir(folder):
                        if name.endswith(".safetensors"):
                            os.truncate(os.path.join(folder, name), 5000)
                loader.load_weights(model, cfg.model_config)
            models.append(model)
            report = report or loader.report
    return describe(report, *models)


def sglang(record: bool) -> Dict[str, Any]:
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import (
        ServerArgs,
        set_global_server_args_for_scheduler,
    )

    set_global_server_args_for_scheduler(
        ServerArgs(model_path=folder, device="cpu", load_format="private"))
    load_plugins()
    from sglang.srt.model_loader import loader as module

    loader = module.get_model_loader(LoadConfig(
        load_format="private",
        model_loader_extra_config={"loader": "weir", "record": record},
    ), None)
    source = module.DefaultModelLoader.Source(folder, None)

    class Model(torch.nn.Module):
        """A model as engines have them: it narrows what it is given."""

        def __init__(self) -> None:
            super().__init__()
            from safetensors.torch import load_file
            for name in sorted(os.listdir(folder)):
                if name.endswith(".safetensors"):
                    for key, tensor in load_file(f"{folder}/{name}").items():
                        half = tensor.shape[0] // WORLD
                        self.register_parameter(
                            key.replace(".", "_"),
                            torch.nn.Parameter(torch.zeros(
                                half, *tensor.shape[1:], dtype=tensor.dtype)))

        def load_weights(self, weights: Any) -> None:
            own = dict(self.named_parameters())
            for name, tensor in weights:
                to = own[name.replace(".", "_")]
                n = to.shape[0]
                to.data.copy_(tensor.narrow(0, RANK * n, n))

    model, own = Model(), Model()
    loader.load_weights_and_postprocess(
        model, loader._get_weights_iterator(source), torch.device("cpu"))
    from safetensors.torch import load_file
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            own.load_weights(load_file(f"{folder}/{name}").items())
    return describe(loader.report, model, own)


def gloo(record: bool) -> Dict[str, Any]:
    """weir.Ranks without an engine."""
    import datetime

    import torch.distributed as dist
    import weir

    dist.init_process_group(
        "gloo", rank=RANK, world_size=WORLD,
        timeout=datetime.timedelta(seconds=30))
    ranks = weir.Ranks.of_torch()
    test = os.environ.get("WEIR_TEST", "")
    if test == "die":
        dist.barrier()
        if RANK == 1:
            os._exit(0)
    if test == "break" and RANK == 1:
        ranks.agree(OSError("the disk of this rank is gone"))
    own = weir.load(folder, framework="torch")
    before = int(open("/proc/self/io").read().split()[1])
    got = ranks.load(folder)
    after = int(open("/proc/self/io").read().split()[1])
    return {
        "different": [n for n in own if not torch.equal(own[n], got[n])],
        "names": list(own) == list(got),
        "rchar": after - before,
        "needed": sum(t.numel() * t.element_size() for t in own.values()),
    }


try:
    kind, _, how = engine.partition(":")
    result = {"vllm": vllm, "sglang": sglang, "gloo": gloo}[kind](how != "off")
except Exception as error:
    if "WEIR_TEST" not in os.environ:
        raise
    result = {"error": str(error), "class": type(error).__name__}
print("RESULT " + json.dumps(result), flush=True)
os._exit(0)
