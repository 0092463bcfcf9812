# SPDX-License-Identifier: MIT
"""decode_llama.py REPACK MODEL THREADS: llama.cpp's side of bench/decode.

REPACK "gpu": the model is on the GPU, for bench/decode_gpu. Without MODEL it
only finds out whether llama.cpp can do that.

The commands of decode_weir.c, without read and load. REPACK 1: weights are
repacked where llama.cpp chooses to, which is its default; 0: they are not.
"""
import ctypes
import sys
import time

from peers_llama import silence

CONTEXT, BATCH, START = 1024, 512, 240


class Llama:
    def __init__(self, repack, path, threads):
        from llama_cpp import llama_cpp
        self.c = llama_cpp
        silence(llama_cpp)
        llama_cpp.llama_backend_init()
        self.gpu = repack == "gpu"
        if self.gpu and not llama_cpp.llama_supports_gpu_offload():
            raise SystemExit("llama.cpp was built without a GPU")
        self.repack = repack == "1"
        self.path = path.encode()
        self.threads = threads
        self.model = self.context = None
        self.batch = llama_cpp.llama_batch_init(BATCH, 0, 1)

    def close(self):
        if self.context:
            self.c.llama_free(self.context)
            self.c.llama_model_free(self.model)

    def open(self):
        self.close()
        params = self.c.llama_model_default_params()
        params.n_gpu_layers = 999 if self.gpu else 0
        params.use_extra_bufts = self.repack
        self.model = self.c.llama_model_load_from_file(self.path, params)
        params = self.c.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, BATCH, BATCH
        params.n_threads = params.n_threads_batch = self.threads
        self.context = self.c.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp does not load the file")

    def read(self, tokens, at):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i] = token, at + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = i + 1 == len(tokens)
        if self.c.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode has failed")
        self.c.llama_get_logits_ith(self.context, len(tokens) - 1)

    def forget(self, at):
        """All tokens from position @at on."""
        self.c.llama_memory_seq_rm(self.c.llama_get_memory(self.context), 0,
                                   at, -1)

    def prompt(self, n):
        self.forget(0)
        self.read([i * 7 % 320 for i in range(n)], 0)

    def first(self, n):
        self.open()
        self.prompt(n)

    def decode(self, n):
        """Positions are read in order; those until START are not timed."""
        if n + START > BATCH:
            raise ValueError(n)
        self.prompt(START)
        begun = time.perf_counter()
        for i in range(n):
            self.read([i * 7 % 320], START + i)
        return time.perf_counter() - begun


def main(repack, path="", threads="1"):
    llama = Llama(repack, path, int(threads))
    if not path:
        return
    for line in sys.stdin:
        name, n = line.split()
        begun = time.perf_counter()
        seconds = getattr(llama, name)(int(n))
        if seconds is None:
            seconds = time.perf_counter() - begun
        print(f"{seconds:.9f} 0 0", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
