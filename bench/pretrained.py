# SPDX-License-Identifier: MIT
"""from_pretrained() of transformers, with weir in the place of safetensors.

pretrained.py DIR [ROUNDS]   (python: one that has weir, torch and transformers)

Writes a Llama of about 2 GB to DIR once. Each load runs in a child of its own,
with safetensors and with weir in turns, the files in the page cache or not.
`returned` is when from_pretrained() has returned, `used` when a byte of each
page of each parameter has been read, `cpu` the CPU time until then. Prints the
medians, and the ratios of the two loads of each round: above 1 weir is faster.
"""
import json
import os
import statistics
import sys
import time

import peers_cache
import torch
import transformers
from transformers.models.llama import modeling_llama  # noqa: F401: imports
import weir
import weir.torch  # noqa: F401

KINDS = ("safetensors", "weir")


def write(folder):
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=2048, num_hidden_layers=18, num_attention_heads=32,
        num_key_value_heads=4, vocab_size=32000, intermediate_size=5632))
    model.save_pretrained(folder, max_shard_size="1GB")


def load(folder, kind, check):
    """What one load took, and with CHECK a number of all its bytes."""
    if kind == "weir":
        weir.replace_safetensors()
    start, cpu = time.monotonic(), time.process_time()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16)
    returned = time.monotonic() - start
    for tensor in model.state_dict().values():
        tensor.view(-1).view(torch.uint8)[::4096].sum()
    used = time.monotonic() - start
    cpu = time.process_time() - cpu
    checksum = 0
    for tensor in model.state_dict().values() if check else ():
        words = tensor.view(-1).view(torch.int16)
        checksum = (checksum * 31 + int(words.sum(dtype=torch.int64))) % 2**61
    return {"returned": returned, "used": used, "cpu": cpu,
            "checksum": checksum}


def run(folder, kind, cold, check):
    """The result of a load in a child."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    peers_cache.prepare(paths, "cold" if cold else "resident")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, json.dumps(load(folder, kind, check)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def main(folder, rounds):
    if not os.path.exists(os.path.join(folder, "config.json")):
        child = os.fork()
        if not child:
            write(folder)
            os._exit(0)
        os.waitpid(child, 0)
    sums = set()
    for cold in (False, True):
        results = {kind: [] for kind in KINDS}
        for i in range(rounds):
            for kind in KINDS[::-1] if i % 2 else KINDS:
                results[kind].append(run(folder, kind, cold, not i))
        sums |= {results[kind][0]["checksum"] for kind in KINDS}
        for when in ("returned", "used", "cpu"):
            times = {k: [r[when] for r in results[k]] for k in KINDS}
            ratios = [a / b for a, b in zip(*times.values())]
            print(f"{'cold' if cold else 'resident'}, {when}: ",
                  ", ".join(f"{k} {statistics.median(times[k]):.3f} s"
                            for k in KINDS),
                  f", ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f}-{max(ratios):.2f})", flush=True)
    if len(sums) != 1:
        sys.exit("the parameters differ")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.utils.logging.disable_progress_bar()
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7)
