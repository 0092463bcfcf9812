# SPDX-License-Identifier: MIT
# `make bench` builds the benchmarks; see bench/README.md.

# Times of raw loops, ratios to them, and a picture of the result.
BENCH_RESULT = %D%/result.c %D%/result.h %D%/picture.c %D%/raw.c %D%/raw.h \
	%D%/must.h
check_PROGRAMS += %D%/load %D%/engine
%C%_load_SOURCES = %D%/load.c %D%/bench.h %D%/rows.c %D%/sink.c %D%/verify.c %D%/map.c \
	%D%/many.c %D%/small.c %D%/target.c %D%/slice.c %D%/dtype.c \
	%D%/plans.c %D%/prefault.c %D%/memory.c %D%/pair.c %D%/use.c \
	%D%/models.c %D%/models.h \
	$(BENCH_RESULT) \
	%D%/device.c %D%/device_lock.c %D%/device_null.c %D%/device.h \
	%D%/bus.c %D%/bus.h \
	%D%/null.c %D%/null.h %D%/null_run.c %D%/place.c %D%/place.h
%C%_load_LDADD = lib/libweir-core.la
%C%_engine_SOURCES = %D%/engine.c %D%/null.c %D%/null.h %D%/null_run.c \
	$(BENCH_RESULT)
%C%_engine_LDADD = lib/libweir-core.la
bench: %D%/load %D%/engine tools/weir
.PHONY: bench
EXTRA_DIST += %D%/README.md %D%/PEERS.md %D%/HEAP.md %D%/RESULTS.md \
	%D%/MEMORY.md %D%/COMPUTE.md %D%/EPYC.md %D%/results/engine.svg \
	%D%/results/device.svg \
	%D%/results/load.svg %D%/results/peers.svg

# The cost of opening a model; and the records of t/kernels/instructions.sh.
EXTRA_PROGRAMS += %D%/open
%C%_open_SOURCES = %D%/open.c %D%/raw.c %D%/raw.h
%C%_open_LDADD = lib/libweir-core.la
EXTRA_PROGRAMS += %D%/gguf
%C%_gguf_SOURCES = %D%/gguf.c %D%/raw.c %D%/raw.h
%C%_gguf_LDADD = lib/libweir-core.la
bench: %D%/open %D%/gguf
EXTRA_DIST += %D%/convert_files.py %D%/header.py %D%/open_gguf.py %D%/instructions.txt
CLEANFILES += %D%/open %D%/gguf

# Parked weights that come back, against the bus and a load.
EXTRA_PROGRAMS += %D%/park
%C%_park_SOURCES = %D%/park.c $(BENCH_RESULT)
%C%_park_LDADD = lib/libweir-core.la -lm
bench: %D%/park
CLEANFILES += %D%/park

# Saving, against direct writes and other writers.
EXTRA_PROGRAMS += %D%/save
%C%_save_SOURCES = %D%/save.c $(BENCH_RESULT)
%C%_save_LDADD = lib/libweir-core.la -lm
bench: %D%/save
EXTRA_DIST += %D%/save_peers.py %D%/pretrained.py
CLEANFILES += %D%/save

# Conversions of elements, against memcpy.
EXTRA_PROGRAMS += %D%/convert
%C%_convert_SOURCES = %D%/convert.c %D%/raw.c %D%/raw.h
%C%_convert_LDADD = lib/libweir-core.la
bench: %D%/convert
CLEANFILES += %D%/convert

# Products on the CPU, against reading and OpenBLAS.
EXTRA_PROGRAMS += %D%/matmul
%C%_matmul_SOURCES = %D%/matmul.c %D%/reading.c %D%/reading.h \
	$(BENCH_RESULT)
%C%_matmul_LDADD = lib/libweir-core.la -ldl
bench: %D%/matmul
CLEANFILES += %D%/matmul

# Products on a GPU, against a kernel that only reads.
EXTRA_PROGRAMS += %D%/products
%C%_products_SOURCES = %D%/products.c %D%/read_gpu.c %D%/read_gpu.h \
	%D%/bus.c %D%/bus.h %D%/place.c %D%/place.h $(BENCH_RESULT)
%C%_products_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREAD_PTX='"$(abs_top_srcdir)/bench/read.ptx"'
%C%_products_LDADD = lib/libweir.la $(URING_LIBS) -ldl
bench: %D%/products
EXTRA_DIST += %D%/read.cu %D%/read.ptx
CLEANFILES += %D%/products

# Heaps, against other allocators.
check_PROGRAMS += %D%/heap
%C%_heap_SOURCES = %D%/heap.c %D%/calls.c %D%/calls.h %D%/calls_text.c \
	%D%/shapes.c %D%/fit.c %D%/fit.h %D%/users.c %D%/users.h %D%/syscalls.c \
	$(BENCH_RESULT)
%C%_heap_LDADD = lib/libweir-core.la -ldl -lm
bench: %D%/heap


# weir's side of the comparison with other loaders, bench/peers.
EXTRA_PROGRAMS += %D%/peer_weir
%C%_peer_weir_SOURCES = %D%/peer_weir.c %D%/raw.c %D%/raw.h %D%/must.h \
	%D%/bus.c %D%/bus.h
%C%_peer_weir_LDADD = lib/libweir.la $(URING_LIBS) -ldl
bench: %D%/peer_weir
EXTRA_DIST += $(BENCH_PEERS)
BENCH_PEERS = %D%/peers %D%/peers_cache.py %D%/peers_child.py \
	%D%/peers_device.py %D%/peers_env.py %D%/peers_gguf.py \
	%D%/peers_list.py %D%/peers_llama.py \
	%D%/peers_models.py %D%/peers_show.py %D%/peers_turns.py
CLEANFILES += %D%/peer_weir

# Models by URL, against a loop of recv(2) and loaders from S3.
EXTRA_PROGRAMS += %D%/recv
%C%_recv_SOURCES = %D%/recv.c %D%/raw.c %D%/raw.h
%C%_recv_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
%C%_recv_LDADD = lib/libweir-core.la $(CRYPTO_LIBS) -lssl
bench: %D%/recv
EXTRA_DIST += %D%/remote %D%/remote_child.py %D%/REMOTE.md
CLEANFILES += %D%/recv

# The planners of placements.
EXTRA_PROGRAMS += %D%/placement
%C%_placement_SOURCES = %D%/placement.c %D%/graphs.c %D%/graphs.h \
	$(BENCH_RESULT)
%C%_placement_LDADD = lib/libweir-core.la
bench: %D%/placement
CLEANFILES += %D%/placement

# The exact planner, on problems whose optimum is known.
EXTRA_PROGRAMS += %D%/exact
%C%_exact_SOURCES = %D%/exact.c t/place/exact_made.c t/place/exact_made.h
%C%_exact_LDADD = lib/libweir-core.la
bench: %D%/exact
CLEANFILES += %D%/exact

# Building graphs.
EXTRA_PROGRAMS += %D%/graph
%C%_graph_SOURCES = %D%/graph.c %D%/layers.c %D%/layers.h $(BENCH_RESULT)
%C%_graph_LDADD = lib/libweir-core.la
bench: %D%/graph
CLEANFILES += %D%/graph

# Executable graphs and runs.
EXTRA_PROGRAMS += %D%/assign
%C%_assign_SOURCES = %D%/assign.c %D%/layers.c %D%/layers.h $(BENCH_RESULT)
%C%_assign_LDADD = lib/libweir-core.la
bench: %D%/assign
CLEANFILES += %D%/assign

EXTRA_PROGRAMS += %D%/prefetch %D%/devices
%C%_prefetch_SOURCES = %D%/prefetch.c $(BENCH_RESULT)
%C%_prefetch_LDADD = lib/libweir.la $(URING_LIBS)
%C%_devices_SOURCES = %D%/devices.c $(BENCH_RESULT)
%C%_devices_LDADD = lib/libweir.la $(URING_LIBS)
bench: %D%/prefetch %D%/devices
CLEANFILES += %D%/prefetch %D%/devices

EXTRA_PROGRAMS += %D%/sched
%C%_sched_SOURCES = %D%/sched.c %D%/layers.c %D%/layers.h $(BENCH_RESULT)
%C%_sched_LDADD = lib/libweir-core.la
bench: %D%/sched
CLEANFILES += %D%/sched

# A model that computes, with the code of llama/.
EXTRA_PROGRAMS += %D%/decode_weir
%C%_decode_weir_SOURCES = %D%/decode_weir.c %D%/raw.c %D%/raw.h \
	%D%/reading.c %D%/reading.h
%C%_decode_weir_LDADD = llama/libllama.la lib/libweir.la $(URING_LIBS) -lm
bench: %D%/decode_weir
EXTRA_PROGRAMS += %D%/step
%C%_step_SOURCES = %D%/step.c %D%/place.c %D%/place.h $(BENCH_RESULT)
%C%_step_LDADD = llama/libllama.la lib/libweir.la $(URING_LIBS) -lm
bench: %D%/step
CLEANFILES += %D%/step
EXTRA_DIST += %D%/decode %D%/decode_llama.py %D%/decode_gpu \
	%D%/decode_worker.py %D%/DECODE.md
CLEANFILES += %D%/decode_weir
