# SPDX-License-Identifier: MIT
"""One rank of a test: ENGINE FOLDER WORLD RANK PORT; prints JSON at the end.

Loads the model by weir and by the engine's own loader, and compares.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict

engine, folder, world, rank, port = sys.argv[1:6]
WORLD, RANK = int(world), int(rank)
TEST = os.environ.get("WEIR_TEST", "")
os.environ.update(
    VLLM_TARGET_DEVICE="cpu", RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world,
    MASTER_ADDR="127.0.0.1", MASTER_PORT=port, VLLM_LOGGING_LEVEL="ERROR",
    HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1",
)

import torch  # noqa: E402


def prepare_files() -> None:
    """Bring the files into the page cache: what is missing is read twice.

    In the test "break" rank 1 shortens them.
    """
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not name.endswith(".safetensors"):
            continue
        if TEST == "break" and RANK == 1:
            os.truncate(path, 5000)
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


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
        "over_read": report.over_read,
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
                if not models:
                    prepare_files()
                loader.load_weights(model, cfg.model_config)
            models.append(model)
            report = report or loader.report
    return describe(report, *models)


def sglang(record: bool) -> Dict[str, Any]:
    from sglang.srt.runtime_context import get_parallel
    from sglang.srt.server_args import (
        ServerArgs,
        set_global_server_args_for_scheduler,
    )

    args = ServerArgs(
        model_path=folder, device="cpu", load_format="private", tp_size=WORLD)
    set_global_server_args_for_scheduler(args)
    get_parallel().override_permanently(
        tp_rank=RANK, attn_tp_rank=RANK, moe_tp_rank=RANK, pp_rank=0,
        attn_dp_rank=0, attn_cp_rank=0, moe_ep_rank=0, moe_dp_rank=0)
    from sglang.srt.distributed import (
        init_distributed_environment,
        initialize_model_parallel,
    )
    from sglang.srt.distributed.device_communicators import pynccl
    from sglang.srt.layers.dp_attention import initialize_dp_attention

    # It is made for each group of ranks, and refuses the CPU.
    pynccl.PyNcclCommunicator = lambda **unused: None
    init_distributed_environment(
        backend="gloo", world_size=WORLD, rank=RANK, local_rank=RANK,
        distributed_init_method=f"tcp://127.0.0.1:{port}")
    initialize_model_parallel()
    initialize_dp_attention(args)
    from sglang.srt.configs.device_config import DeviceConfig
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_loader import loader as module
    from sglang.srt.plugins import load_plugins

    load_plugins()
    config = ModelConfig(model_path=folder, dtype="bfloat16")
    models = []
    report = None
    for format, extra in (
        ("private", {"loader": "weir", "record": record}),
        ("safetensors", {}),
    ):
        loader = module.get_model_loader(LoadConfig(
            load_format=format, model_loader_extra_config=extra), config)
        if not models:
            prepare_files()
        models.append(loader.load_model(
            model_config=config, device_config=DeviceConfig("cpu")))
        report = report or loader.report
    return describe(report, *models)


def gloo() -> Any:
    """The ranks of torch.distributed."""
    import datetime

    import torch.distributed as dist
    import weir

    dist.init_process_group(
        "gloo", rank=RANK, world_size=WORLD,
        timeout=datetime.timedelta(seconds=30))
    dist.barrier()
    return weir.Ranks.of_torch()


def mpi() -> Any:
    """The ranks of MPI."""
    import weir
    from mpi4py import MPI

    MPI.COMM_WORLD.Barrier()
    ranks = weir.Ranks.of_mpi(MPI.COMM_WORLD)
    assert (ranks.rank, ranks.size) == (RANK, WORLD)
    return ranks


def disk_bytes() -> int:
    """What this process has read from disks so far."""
    lines = open("/proc/self/io").read().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def load(ranks: Any) -> Dict[str, Any]:
    """weir.Ranks without an engine."""
    import weir

    path = folder
    if TEST == "die" and RANK == 1:
        os._exit(1)
    if TEST == "disagree" and RANK == 1:
        ranks.agree(OSError("the disk of this rank is gone"))
    if TEST == "break" and RANK == 1:
        path = f"{folder}.short"
    before = disk_bytes()
    got = ranks.load(path, way="direct")
    read = disk_bytes() - before
    own = weir.load(folder, framework="torch")
    return {
        "different": [n for n in own if not torch.equal(own[n], got[n])],
        "names": list(own) == list(got),
        "read": read,
        "needed": sum(t.numel() * t.element_size() for t in own.values()),
    }


start = time.monotonic()
try:
    kind, _, how = engine.partition(":")
    if kind in ("gloo", "mpi"):
        ranks = gloo() if kind == "gloo" else mpi()
        start = time.monotonic()
        result = load(ranks)
    else:
        result = {"vllm": vllm, "sglang": sglang}[kind](how != "off")
except Exception as error:
    if not TEST:
        raise
    result = {"error": str(error), "class": type(error).__name__}
result["seconds"] = time.monotonic() - start
# One write, since ranks of MPI share a pipe.
os.write(1, f"\nRESULT {json.dumps(result)}\n".encode())
if kind == "mpi":
    from mpi4py import MPI

    MPI.Finalize()
os._exit(0)
