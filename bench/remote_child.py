# SPDX-License-Identifier: MIT
"""One load of an object by one loader, in a process that bench/remote starts.

With the argument "least" the loader opens as few connections as it can be
told to. The clock runs from "everything imported" to "all bytes in memory that the
process owns". Prints a line of JSON.
"""
import json
import os
import resource
import sys
import time


def runai(uri, least):
    if least:
        os.environ["RUNAI_STREAMER_CONCURRENCY"] = "1"
    from runai_model_streamer import SafetensorsStreamer
    with SafetensorsStreamer() as streamer:
        streamer.stream_files([uri])
        tensors = dict(streamer.get_tensors())
    return sum(t.nbytes for t in tensors.values()), tensors


def s3torchconnector(uri, least):
    from s3torchconnector import S3Checkpoint, S3ClientConfig
    store = S3Checkpoint(os.environ["AWS_REGION"],
                         os.environ["AWS_ENDPOINT_URL"],
                         S3ClientConfig(
                             force_path_style=True,
                             throughput_target_gbps=1.0 if least else 10.0))
    with store.reader(uri) as reader:
        data = reader.read()
    return len(data), data


LOADERS = {"runai": (runai, "runai_model_streamer"),
           "s3torchconnector": (s3torchconnector, "s3torchconnector")}


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    load, module = LOADERS[sys.argv[1]]
    __import__(module)
    cpu_before, begun = cpu(), time.perf_counter()
    count, kept = load(sys.argv[2], "least" in sys.argv[3:])
    seconds = time.perf_counter() - begun
    used = cpu() - cpu_before
    print(json.dumps({"seconds": seconds, "cpu": used, "bytes": count}))
    del kept


main()
