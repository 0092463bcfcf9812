# SPDX-License-Identifier: MIT
# C tests are t/x.c, built to t/x.t; shell tests are t/x.sh. Tests link the core
# library unless they set LDADD.
TEST_EXTENSIONS = .t .sh
SH_LOG_DRIVER = $(T_LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL)
T_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
T_LOG_COMPILER = $(SHELL) $(top_srcdir)/t/run
AM_T_LOG_FLAGS =
AM_TESTS_ENVIRONMENT = \
	srcdir='$(abs_top_srcdir)'; export srcdir; \
	builddir='$(abs_top_builddir)'; export builddir; \
	PATH="$(abs_top_builddir)/tools:$$PATH"; export PATH; \
	CC='$(CC)'; export CC; \
	MAKE='$(MAKE)'; export MAKE; \
	WEIR_T_FAKECUDA='$(abs_top_builddir)/t/fakecuda/.libs'; \
	export WEIR_T_FAKECUDA; \
	WEIR_T_SANITIZER='$(enable_sanitizer)'; export WEIR_T_SANITIZER;

# Tests that replace functions or data of the library contain it: they set LDADD
# to T_STATIC.
LDADD = %D%/libtap.la lib/libweir-internal.la -lm
T_STATIC = %D%/libtap.la lib/libweir-core.la
noinst_LTLIBRARIES += %D%/libtap.la
%C%_libtap_la_SOURCES = %D%/tap.c %D%/tap.h
EXTRA_DIST += %D%/run %D%/prove %D%/exec %D%/README.md %D%/DEFECTS.md %D%/tap.inc \
	%D%/cli.inc %D%/safetensors.py %D%/gguf.py %D%/interop/main.py \
	%D%/interop/gguf_files.py %D%/interop/safetensors_files.py %D%/interop/text.py %D%/interop/chats.py \
	%D%/llama/main.py %D%/llama/models.py %D%/llama/reference.py \
	%D%/llama/refused.py %D%/llama/harness.py %D%/llama/run.py \
	%D%/llama/vocabularies.py %D%/llama/sparse.py \
	%D%/llama/variants.py

# In the order of the layers, one on each line.
T_C_TESTS = \
	%D%/errno-names.t \
	%D%/error.t \
	%D%/outcome.t \
	%D%/sort.t \
	%D%/slab.t \
	%D%/root.t \
	%D%/debug.t \
	%D%/dev.t \
	%D%/backend.t \
	%D%/module.t \
	%D%/module-sizes.t \
	%D%/dtype.t \
	%D%/convert.t \
	%D%/quants.t \
	%D%/tensor.t \
	%D%/cpus.t \
	%D%/avail.t \
	%D%/topology.t \
	%D%/far.t \
	%D%/arena.t \
	%D%/hugetlb.t \
	%D%/budget.t \
	%D%/share.t \
	%D%/share-faults.t \
	%D%/buf.t \
	%D%/data.t \
	%D%/trace.t \
	%D%/touch.t \
	%D%/touchers.t \
	%D%/partly.t %D%/resident.t \
	%D%/slots.t \
	%D%/pool.t \
	%D%/pool-gap.t \
	%D%/engine.t \
	%D%/engine-rows.t \
	%D%/owner.t \
	%D%/borrow.t \
	%D%/late-job.t \
	%D%/late-slots.t \
	%D%/source.t \
	%D%/stream.t \
	%D%/stream-order.t \
	%D%/stream-ranges.t \
	%D%/stream-io.t \
	%D%/alone.t \
	%D%/attend.t \
	%D%/stream-fail.t \
	%D%/stream-close.t \
	%D%/stream-race.t \
	%D%/races-map.t %D%/races-model.t \
	%D%/races.t %D%/races-loads.t %D%/races-runs.t %D%/races-lanes.t \
	%D%/event.t \
	%D%/heap.t %D%/heap-full.t %D%/heap-pieces.t %D%/heap-streams.t \
	%D%/heap-model.t %D%/heap-find.t %D%/heap-random.t \
	%D%/heap-order.t %D%/heap-shards.t %D%/heap-shards-random.t \
	%D%/heap-threads.t %D%/heap-faults.t %D%/heap-lock.t \
	%D%/fork.t \
	%D%/fork-calls.t \
	%D%/json.t \
	%D%/head.t \
	%D%/safetensors.t \
	%D%/gguf.t \
	%D%/index.t \
	%D%/model-open.t %D%/model-fds.t %D%/model-index.t \
	%D%/model-format.t %D%/model-gguf.t %D%/model-memory.t \
	%D%/every-byte.t \
	%D%/fuzz-st.t %D%/fuzz-gguf.t %D%/fuzz-index.t %D%/fuzz-plan.t \
	%D%/fuzz-text.t \
	%D%/plan-csv.t \
	%D%/close.t \
	%D%/load.t \
	%D%/load-next.t \
	%D%/load-fd.t \
	%D%/memory.t \
	%D%/plan.t %D%/cut.t %D%/target.t %D%/target-weights.t \
	%D%/load-writes.t \
	%D%/slice.t \
	%D%/sink.t %D%/sink-faults.t %D%/plan-random.t \
	%D%/refused.t %D%/null.t \
	%D%/place.t %D%/exact.t %D%/placement.t %D%/placement-apply.t \
	%D%/placement-random.t %D%/placement-graphs.t %D%/placement-many.t \
	%D%/placement-memory.t %D%/placement-optimum.t %D%/placement-simple.t \
	%D%/placement-stairs.t \
	%D%/team.t %D%/cpu-devices.t \
	%D%/vec.t %D%/compute.t \
	%D%/graph.t %D%/graph-ops.t %D%/graph-views.t \
	%D%/graph-equal.t %D%/graph-reach.t %D%/graph-assign.t \
	%D%/graph-assign-random.t %D%/graph-devices.t %D%/graph-memory.t \
	%D%/graph-place.t %D%/graph-lanes.t %D%/graph-constant.t \
	%D%/feed-imports.t %D%/feed.t %D%/feed-provider.t %D%/feed-restart.t \
	%D%/lease.t %D%/run-feed.t %D%/run-rows.t %D%/run-same.t \
	%D%/sched.t %D%/rates.t %D%/sched-pins.t %D%/pins-memory.t %D%/schedule.t \
	%D%/run-start.t %D%/run-events.t %D%/run-lanes.t \
	%D%/run-late.t %D%/run-close.t %D%/run-ends.t %D%/run-load.t %D%/sched-memory.t \
	%D%/ahead.t %D%/product.t %D%/product-ends.t %D%/invariant.t %D%/mul-mat.t \
	%D%/graph-copy.t %D%/graph-copy-memory.t %D%/graph-compare.t \
	%D%/graph-random.t %D%/graph-parts.t \
	%D%/kernel-elements.t %D%/kernel-rows.t %D%/kernel-copies.t \
	%D%/kernel-whole-rows.t %D%/kernel-rope.t %D%/kernel-attention.t \
	%D%/kernel-products.t %D%/data-begins.t %D%/load-faults.t \
	%D%/changed.t %D%/ring-dies.t %D%/ring-old.t %D%/ring-stuck.t \
	%D%/read-deadline.t %D%/reads.t %D%/load-ends.t %D%/eventfd.t %D%/low-memory.t \
	%D%/affinity.t \
	%D%/file-now.t \
	%D%/interrupted.t \
	%D%/sentences.t \
	%D%/signals.t \
	%D%/tokenizer.t \
	%D%/tokenizer-files.t \
	%D%/chat.t \
	%D%/sampler.t

T_SH_TESTS = \
	%D%/tap.sh \
	%D%/bootstrap.sh \
	%D%/headers.sh \
	%D%/layers.sh \
	%D%/races-others.sh \
	%D%/format.sh \
	%D%/exports.sh \
	%D%/pages.sh \
	%D%/cli-usage.sh \
	%D%/cli-synth.sh \
	%D%/cli-inspect.sh \
	%D%/cli-load.sh \
	%D%/cli-map.sh \
	%D%/cli-outfile.sh \
	%D%/cli-slice.sh \
	%D%/cli-gguf.sh \
	%D%/cli-devices.sh \
	%D%/cli-far.sh \
	%D%/cli-faults.sh \
	%D%/cli-plan.sh \
	%D%/cli-run.sh \
	%D%/cli-graph.sh \
	%D%/digest.sh \
	%D%/interop.sh \
	%D%/tokenizers.sh \
	%D%/llama.sh \
	%D%/gdb.sh \
	%D%/env-ring.sh \
	%D%/env-memory.sh \
	%D%/env-files.sh \
	%D%/valgrind.sh \
	%D%/examples.sh \
	%D%/install.sh \
	%D%/dist.sh

check_PROGRAMS += $(T_C_TESTS)
dist_check_SCRIPTS += $(T_SH_TESTS)
TESTS += $(T_C_TESTS) $(T_SH_TESTS)

# A module, and two that the registry refuses.
check_LTLIBRARIES += %D%/modules/weir-test.la %D%/modules/weir-none.la \
	%D%/modules/weir-unresolved.la
T_MODULE_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
%C%_modules_weir_test_la_SOURCES = %D%/modules/test.c
%C%_modules_weir_test_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_none_la_SOURCES = %D%/modules/none.c
%C%_modules_weir_none_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_unresolved_la_SOURCES = %D%/modules/unresolved.c
%C%_modules_weir_unresolved_la_LDFLAGS = $(T_MODULE_LDFLAGS)

# Helpers that tests share. T_LEAKS: LeakSanitizer does not run.
T_TESTMOD = %D%/testmod.c %D%/testmod.h
T_FILES = %D%/files.c %D%/files.h
T_MODELS = %D%/models.c %D%/models.h $(T_FILES)
T_KIND = %D%/kind.c %D%/kind.h
T_FED = %D%/fed.c %D%/fed.h $(T_FILES) $(T_KIND) $(T_STREAMS)
T_SAMPLE = %D%/sample.c %D%/sample.h
T_UNCACHED = %D%/uncached.c
T_HELD = %D%/held.c %D%/held.h $(T_SAMPLE) $(T_UNCACHED)
T_PLANS = %D%/plans.c %D%/plans.h $(T_SAMPLE)
T_CUTS = %D%/cuts.c %D%/cuts.h
T_SINKS = %D%/sinks.c %D%/sinks.h $(T_CUTS)
T_STREAMS = %D%/streams.c %D%/streams.h
T_GPU = %D%/gpu.c %D%/gpu.h $(T_STREAMS)
T_LEAKS = %D%/leaks.c
%C%_errno_names_t_SOURCES = %D%/errno-names.c
%C%_error_t_SOURCES = %D%/error.c
%C%_root_t_SOURCES = %D%/root.c $(T_KIND)
%C%_debug_t_SOURCES = %D%/debug.c
%C%_dev_t_SOURCES = %D%/dev.c $(T_TESTMOD)
%C%_backend_t_SOURCES = %D%/backend.c $(T_TESTMOD)
%C%_backend_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_module_t_SOURCES = %D%/module.c $(T_TESTMOD) $(T_UNCACHED)
%C%_module_t_LDADD = $(T_STATIC)
%C%_module_sizes_t_SOURCES = %D%/module-sizes.c $(T_TESTMOD)
%C%_dtype_t_SOURCES = %D%/dtype.c
%C%_tensor_t_SOURCES = %D%/tensor.c $(T_TESTMOD) $(T_KIND)
%C%_avail_t_SOURCES = %D%/avail.c $(T_FILES)
%C%_cpus_t_SOURCES = %D%/cpus.c $(T_FILES)
T_NODES = %D%/nodes.c %D%/nodes.h $(T_FILES)
%C%_topology_t_SOURCES = %D%/topology.c $(T_NODES)
%C%_far_t_SOURCES = %D%/far.c $(T_NODES) $(T_KIND) $(T_SAMPLE)
%C%_far_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_text
%C%_far_t_LDADD = $(T_STATIC)
%C%_arena_t_SOURCES = %D%/arena.c
T_RESERVE = %D%/reserve.c %D%/reserve.h
%C%_hugetlb_t_SOURCES = %D%/hugetlb.c $(T_RESERVE) $(T_KIND)
%C%_budget_t_SOURCES = %D%/budget.c $(T_SAMPLE) $(T_TESTMOD) $(T_KIND)
%C%_share_faults_t_SOURCES = %D%/share-faults.c $(T_KIND)
%C%_share_t_SOURCES = %D%/share.c $(T_RESERVE) $(T_SAMPLE) $(T_TESTMOD) $(T_KIND)
%C%_buf_t_SOURCES = %D%/buf.c $(T_TESTMOD) $(T_KIND)
%C%_data_t_SOURCES = %D%/data.c $(T_TESTMOD) $(T_KIND)
%C%_engine_t_SOURCES = %D%/engine.c
T_ROWS = %D%/rows.c %D%/rows.h
%C%_engine_rows_t_SOURCES = %D%/engine-rows.c $(T_ROWS)
%C%_source_t_SOURCES = %D%/source.c
%C%_cpu_devices_t_SOURCES = %D%/cpu-devices.c $(T_STREAMS)
%C%_compute_t_SOURCES = %D%/compute.c $(T_STREAMS)
%C%_stream_t_SOURCES = %D%/stream.c $(T_STREAMS)
%C%_stream_order_t_SOURCES = %D%/stream-order.c $(T_STREAMS)
%C%_stream_ranges_t_SOURCES = %D%/stream-ranges.c $(T_STREAMS)
%C%_stream_ranges_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)realloc
%C%_stream_ranges_t_LDADD = $(T_STATIC)
%C%_stream_io_t_SOURCES = %D%/stream-io.c $(T_STREAMS)
%C%_alone_t_SOURCES = %D%/alone.c $(T_FILES) $(T_SAMPLE) $(T_STREAMS)
%C%_stream_fail_t_SOURCES = %D%/stream-fail.c $(T_STREAMS)
%C%_stream_fail_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__thread_start
%C%_stream_fail_t_LDADD = $(T_STATIC)
%C%_stream_close_t_SOURCES = %D%/stream-close.c $(T_STREAMS)
%C%_stream_race_t_SOURCES = %D%/stream-race.c $(T_STREAMS)
T_RACING = %D%/racing.c %D%/racing.h $(T_STREAMS)
%C%_races_t_SOURCES = %D%/races.c $(T_RACING)
%C%_races_loads_t_SOURCES = %D%/races-loads.c $(T_RACING) $(T_SAMPLE) $(T_FILES)
%C%_races_lanes_t_SOURCES = %D%/races-lanes.c $(T_RACING)
%C%_races_runs_t_SOURCES = %D%/races-runs.c $(T_RACING) $(T_FILES)
T_CONVERSIONS = %D%/conversions.c %D%/conversions.h
%C%_convert_t_SOURCES = %D%/convert.c $(T_CONVERSIONS)
%C%_quants_t_SOURCES = %D%/quants.c $(T_CONVERSIONS)
%C%_event_t_SOURCES = %D%/event.c $(T_STREAMS)
%C%_heap_t_SOURCES = %D%/heap.c $(T_STREAMS)
%C%_heap_full_t_SOURCES = %D%/heap-full.c $(T_STREAMS)
%C%_heap_random_t_SOURCES = %D%/heap-random.c $(T_STREAMS)
%C%_heap_find_t_SOURCES = %D%/heap-find.c $(T_STREAMS)
%C%_heap_pieces_t_SOURCES = %D%/heap-pieces.c $(T_STREAMS)
%C%_heap_streams_t_SOURCES = %D%/heap-streams.c $(T_STREAMS)
%C%_heap_model_t_SOURCES = %D%/heap-model.c $(T_STREAMS)
%C%_heap_order_t_SOURCES = %D%/heap-order.c $(T_STREAMS)
%C%_heap_shards_t_SOURCES = %D%/heap-shards.c $(T_STREAMS)
%C%_heap_shards_random_t_SOURCES = %D%/heap-shards-random.c $(T_STREAMS)
%C%_heap_threads_t_SOURCES = %D%/heap-threads.c $(T_STREAMS)
%C%_heap_faults_t_SOURCES = %D%/heap-faults.c $(T_STREAMS) $(T_NOMEM)
%C%_heap_lock_t_SOURCES = %D%/heap-lock.c
%C%_heap_faults_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_heap_faults_t_LDADD = $(T_STATIC)
%C%_json_t_SOURCES = %D%/json.c
%C%_safetensors_t_SOURCES = %D%/safetensors.c %D%/files.h
%C%_head_t_SOURCES = %D%/head.c
%C%_gguf_t_SOURCES = %D%/gguf.c
%C%_index_t_SOURCES = %D%/index.c
%C%_model_open_t_SOURCES = %D%/model-open.c $(T_MODELS)
%C%_model_fds_t_SOURCES = %D%/model-fds.c $(T_SAMPLE) $(T_FILES)
%C%_model_fds_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_open
%C%_model_fds_t_LDADD = $(T_STATIC)
%C%_model_index_t_SOURCES = %D%/model-index.c $(T_MODELS)
%C%_model_gguf_t_SOURCES = %D%/model-gguf.c $(T_MODELS)
%C%_model_format_t_LDADD = $(T_STATIC)
%C%_model_memory_t_SOURCES = %D%/model-memory.c $(T_MODELS) $(T_KIND)
%C%_model_format_t_SOURCES = %D%/model-format.c %D%/toy.c %D%/toy.h \
	$(T_SAMPLE) $(T_MODELS)

# Tests of text/, which is no part of the library.
T_VOCABULARY = %D%/vocabulary.c %D%/vocabulary.h
T_TEXT_LIBS = text/libtext.la lib/libweir.la %D%/libtap.la
%C%_tokenizer_t_SOURCES = %D%/tokenizer.c $(T_VOCABULARY)
%C%_tokenizer_t_LDADD = $(T_TEXT_LIBS)
%C%_tokenizer_files_t_SOURCES = %D%/tokenizer-files.c $(T_VOCABULARY) \
	$(T_FILES) $(T_LIMIT)
%C%_tokenizer_files_t_LDADD = $(T_TEXT_LIBS)
%C%_chat_t_SOURCES = %D%/chat.c
%C%_chat_t_LDADD = $(T_TEXT_LIBS)
%C%_sampler_t_SOURCES = %D%/sampler.c
%C%_sampler_t_LDADD = $(T_TEXT_LIBS) -lm

T_PLAN_CSV = tools/csv.c tools/csv.h tools/plan_csv.c tools/plan_csv.h
%C%_plan_csv_t_SOURCES = %D%/plan-csv.c $(T_PLAN_CSV)

# Fuzz targets: `make check` replays the inputs of t/corpus, `make fuzz` links
# the same sources with libFuzzer (clang) into t/fuzz/.
T_FUZZ = %D%/fuzz/fuzz.h %D%/fuzz/check.c %D%/fuzz/mutate.h \
	%D%/fuzz/mutate.c %D%/fuzz/mutate_json.c %D%/fuzz/mutate_st.c \
	%D%/fuzz/mutate_gguf.c %D%/fuzz/mutate_csv.c $(T_SECOND)
T_SECOND = %D%/second.h %D%/second.c %D%/second_gguf.c %D%/second_st.c \
	%D%/second_values.c
%C%_data_begins_t_SOURCES = %D%/data-begins.c $(T_FILES)
T_LIMIT = %D%/limit.c %D%/limit.h
%C%_every_byte_t_SOURCES = %D%/every-byte.c $(T_FILES) $(T_LIMIT) $(T_SECOND)
%C%_fuzz_st_t_SOURCES = %D%/fuzz/fz_st.c %D%/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_gguf_t_SOURCES = %D%/fuzz/fz_gguf.c %D%/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_index_t_SOURCES = %D%/fuzz/fz_index.c %D%/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_plan_t_SOURCES = %D%/fuzz/fz_plan.c %D%/fuzz/replay.c $(T_LIMIT) $(T_FUZZ) \
	$(T_PLAN_CSV)
%C%_fuzz_text_t_SOURCES = %D%/fuzz/fz_text.c %D%/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_text_t_LDADD = text/libtext.la $(LDADD)
EXTRA_DIST += %D%/fuzz/st.dict %D%/fuzz/gguf.dict %D%/corpus
FUZZ_CC = clang
FUZZ_CFLAGS = -g -O1 -fno-omit-frame-pointer \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
fuzz:
	@$(MKDIR_P) %D%/fuzz; \
	for file in $(T_FUZZ) $(T_PLAN_CSV) $(text_libtext_la_SOURCES) \
			$(lib_libweir_core_la_SOURCES); do \
		case $$file in *.c) core="$$core $(top_srcdir)/$$file" ;; esac; \
	done; \
	for target in fz_st fz_gguf fz_index fz_plan fz_text; do \
		echo "  FUZZ     %D%/fuzz/$$target"; \
		$(FUZZ_CC) $(AM_CPPFLAGS) -DFUZZING -std=gnu11 -pthread \
			$(FUZZ_CFLAGS) -o %D%/fuzz/$$target \
			$(top_srcdir)/t/fuzz/$$target.c \
			$$core $(URING_LIBS) \
			$(XXHASH_LIBS) $(CRYPTO_LIBS) $(NUMA_LIBS) -ldl -lm || exit; \
	done
.PHONY: fuzz

installcheck-local:
	@$(AM_TESTS_ENVIRONMENT) WEIR_T_DEST='$(DESTDIR)' \
		$(SHELL) $(top_srcdir)/t/install.sh

# Limited and hostile environments.
check_PROGRAMS += %D%/deny %D%/misbehave %D%/tokenize
%C%_misbehave_SOURCES = %D%/misbehave.c
%C%_misbehave_LDADD = %D%/libtap.la
%C%_deny_SOURCES = %D%/deny.c
%C%_deny_LDADD =
%C%_tokenize_SOURCES = %D%/tokenize.c
%C%_tokenize_LDADD = text/libtext.la lib/libweir.la
EXTRA_DIST += %D%/env.inc

# Plans, loads and weights, the engine and memory.
%C%_load_t_SOURCES = %D%/load.c $(T_SAMPLE)
%C%_load_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_load_next_t_SOURCES = %D%/load-next.c $(T_HELD) $(T_LEAKS)
%C%_load_next_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_load_fd_t_SOURCES = %D%/load-fd.c $(T_HELD)
%C%_load_fd_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_load_faults_t_SOURCES = %D%/load-faults.c $(T_SAMPLE) $(T_UNCACHED)
%C%_load_faults_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_close_t_SOURCES = %D%/close.c $(T_FILES)
T_NOMEM = %D%/nomem.c %D%/nomem.h
T_WRAP = -Wl,--wrap=weir__
T_NOMEM_FLAGS = $(AM_LDFLAGS) $(T_WRAP)malloc $(T_WRAP)calloc \
	$(T_WRAP)calloc_aligned $(T_WRAP)realloc $(T_WRAP)malloc_pages \
	$(T_WRAP)strdup
%C%_memory_t_SOURCES = %D%/memory.c $(T_FILES) $(T_NOMEM)
%C%_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_memory_t_LDADD = $(T_STATIC)
T_LEAF = %D%/leaf.c %D%/leaf.h
%C%_graph_copy_t_SOURCES = %D%/graph-copy.c $(T_LEAF) $(T_NAIVE) \
	$(T_KIND)
%C%_graph_random_t_SOURCES = %D%/graph-random.c %D%/random_gen.h \
	%D%/random_graph.c %D%/random_graph.h %D%/random_find.c \
	%D%/random_ops.c \
	$(T_NAIVE) $(T_KIND)
T_NAIVE = %D%/naive.c %D%/naive.h %D%/naive_model.c %D%/naive_ops.c \
	%D%/naive_ops.h %D%/naive_store.c %D%/naive_store.h
T_TRIAL = %D%/trial.c %D%/trial.h %D%/dtypes.h %D%/trial_ways.c %D%/trial_ways.h \
	$(T_KIND) $(T_NAIVE)
%C%_kernel_elements_t_SOURCES = %D%/kernel-elements.c $(T_TRIAL)
%C%_kernel_rows_t_SOURCES = %D%/kernel-rows.c $(T_TRIAL)
%C%_kernel_copies_t_SOURCES = %D%/kernel-copies.c $(T_TRIAL)
%C%_kernel_whole_rows_t_SOURCES = %D%/kernel-whole-rows.c $(T_TRIAL)
%C%_kernel_attention_t_SOURCES = %D%/kernel-attention.c $(T_TRIAL)
%C%_kernel_products_t_SOURCES = %D%/kernel-products.c $(T_TRIAL)
%C%_kernel_rope_t_SOURCES = %D%/kernel-rope.c $(T_TRIAL)
%C%_mul_mat_t_SOURCES = %D%/mul-mat.c $(T_TRIAL)
%C%_graph_t_SOURCES = %D%/graph.c $(T_LEAF) $(T_KIND)
%C%_graph_ops_t_SOURCES = %D%/graph-ops.c $(T_LEAF)
%C%_graph_views_t_SOURCES = %D%/graph-views.c $(T_LEAF)
%C%_graph_equal_t_SOURCES = %D%/graph-equal.c $(T_LEAF) $(T_KIND)
%C%_graph_reach_t_SOURCES = %D%/graph-reach.c $(T_LEAF)
%C%_graph_memory_t_SOURCES = %D%/graph-memory.c $(T_LEAF) $(T_NOMEM)
%C%_graph_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_graph_memory_t_LDADD = $(T_STATIC)
T_GDEV = %D%/gdev.c %D%/gdev.h $(T_STREAMS)
%C%_graph_copy_memory_t_SOURCES = %D%/graph-copy-memory.c $(T_GDEV) \
	$(T_NOMEM)
%C%_graph_copy_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_graph_copy_memory_t_LDADD = $(T_STATIC)
%C%_graph_place_t_SOURCES = %D%/graph-place.c $(T_LEAF) $(T_STREAMS)
%C%_graph_constant_t_SOURCES = %D%/graph-constant.c $(T_LEAF) $(T_KIND) \
	$(T_FILES) $(T_STREAMS)
%C%_feed_t_SOURCES = %D%/feed.c $(T_FED)
%C%_feed_restart_t_SOURCES = %D%/feed-restart.c $(T_FED)
%C%_feed_restart_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_mutex_unlock
%C%_feed_restart_t_LDADD = $(T_STATIC)
%C%_feed_provider_t_SOURCES = %D%/feed-provider.c $(T_FED)
%C%_lease_t_SOURCES = %D%/lease.c $(T_FILES) $(T_STREAMS)
%C%_run_feed_t_SOURCES = %D%/run-feed.c $(T_FILES) $(T_LEAF) $(T_NOMEM) \
	$(T_STREAMS)
%C%_run_feed_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_run_feed_t_LDADD = $(T_STATIC)
%C%_run_rows_t_SOURCES = %D%/run-rows.c $(T_FILES) $(T_LEAF) $(T_STREAMS)
%C%_run_rows_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_pread_nowait
%C%_run_rows_t_LDADD = $(T_STATIC)
%C%_run_same_t_SOURCES = %D%/run-same.c $(T_FILES) $(T_LEAF) $(T_STREAMS)
%C%_feed_imports_t_SOURCES = %D%/feed-imports.c
%C%_graph_compare_t_SOURCES = %D%/graph-compare.c $(T_GDEV)
%C%_sched_t_SOURCES = %D%/sched.c $(T_GDEV) $(T_FILES)
T_NET = %D%/net.c %D%/net.h
%C%_graph_assign_t_SOURCES = %D%/graph-assign.c $(T_NET)
%C%_graph_assign_random_t_SOURCES = %D%/graph-assign-random.c $(T_NET)
%C%_pins_memory_t_SOURCES = %D%/pins-memory.c $(T_LEAF) $(T_STREAMS) $(T_NOMEM)
%C%_pins_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_pins_memory_t_LDADD = $(T_STATIC)
%C%_rates_t_SOURCES = %D%/rates.c $(T_GDEV)
%C%_run_ends_t_SOURCES = %D%/run-ends.c $(T_STREAMS)
%C%_graph_devices_t_SOURCES = %D%/graph-devices.c $(T_GDEV)
%C%_sched_pins_t_SOURCES = %D%/sched-pins.c $(T_LEAF) $(T_STREAMS)
%C%_schedule_t_SOURCES = %D%/schedule.c $(T_GDEV) $(T_LEAF)
%C%_run_start_t_SOURCES = %D%/run-start.c $(T_GDEV) $(T_LEAF)
%C%_graph_parts_t_SOURCES = %D%/graph-parts.c $(T_LEAF) $(T_STREAMS)
%C%_run_lanes_t_SOURCES = %D%/run-lanes.c $(T_GDEV)
%C%_run_lanes_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)tensor_set
%C%_run_lanes_t_LDADD = $(T_STATIC)
%C%_run_events_t_SOURCES = %D%/run-events.c $(T_GDEV)
%C%_run_late_t_SOURCES = %D%/run-late.c $(T_LEAF) $(T_STREAMS)
%C%_run_late_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)progress_to
%C%_run_late_t_LDADD = $(T_STATIC)
%C%_run_close_t_SOURCES = %D%/run-close.c $(T_GDEV)
%C%_run_load_t_SOURCES = %D%/run-load.c $(T_HELD)
%C%_run_load_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_sched_memory_t_SOURCES = %D%/sched-memory.c $(T_GDEV) $(T_NOMEM)
%C%_sched_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_sched_memory_t_LDADD = $(T_STATIC)
%C%_placement_optimum_t_SOURCES = %D%/placement-optimum.c $(T_PLACED)
%C%_placement_memory_t_SOURCES = %D%/placement-memory.c $(T_KIND) $(T_NOMEM)
%C%_placement_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_placement_memory_t_LDADD = $(T_STATIC)
%C%_refused_t_SOURCES = %D%/refused.c $(T_PLANS)
%C%_null_t_SOURCES = %D%/null.c $(T_PLANS)
%C%_plan_t_SOURCES = %D%/plan.c $(T_PLANS)
%C%_sort_t_SOURCES = %D%/sort.c
%C%_slab_t_SOURCES = %D%/slab.c
%C%_cut_t_SOURCES = %D%/cut.c
%C%_target_t_SOURCES = %D%/target.c $(T_CUTS) $(T_PLANS)
%C%_load_writes_t_SOURCES = %D%/load-writes.c $(T_CUTS) $(T_PLANS)
%C%_target_weights_t_SOURCES = %D%/target-weights.c $(T_CUTS) $(T_PLANS)
%C%_slice_t_SOURCES = %D%/slice.c $(T_CUTS) $(T_PLANS)
%C%_sink_t_SOURCES = %D%/sink.c $(T_SINKS) $(T_PLANS)
%C%_sink_faults_t_SOURCES = %D%/sink-faults.c $(T_LEAKS) $(T_SINKS) \
	$(T_PLANS) $(T_UNCACHED)
%C%_plan_random_t_SOURCES = %D%/plan-random.c $(T_CUTS) $(T_PLANS)
%C%_exact_t_SOURCES = %D%/exact.c %D%/exact_made.c %D%/exact_made.h
T_PLACED = %D%/placed.c %D%/placed.h
T_LIFETIMES = $(T_PLACED) %D%/lifetimes.c %D%/lifetimes.h
%C%_placement_simple_t_SOURCES = %D%/placement-simple.c $(T_LIFETIMES)
%C%_placement_stairs_t_SOURCES = %D%/placement-stairs.c $(T_PLACED)
%C%_placement_many_t_SOURCES = %D%/placement-many.c $(T_LIFETIMES)
%C%_placement_t_SOURCES = %D%/placement.c $(T_PLACED)
%C%_placement_apply_t_SOURCES = %D%/placement-apply.c $(T_PLACED) $(T_KIND)
%C%_placement_graphs_t_SOURCES = %D%/placement-graphs.c \
	bench/graphs.c bench/graphs.h
%C%_place_t_SOURCES = %D%/place.c $(T_PLANS)
%C%_changed_t_SOURCES = %D%/changed.c $(T_SAMPLE) $(T_UNCACHED)
%C%_changed_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_ring_dies_t_SOURCES = %D%/ring-dies.c $(T_SAMPLE)
%C%_ring_dies_t_LDADD = lib/libweir.la %D%/libtap.la
%C%_ring_old_t_SOURCES = %D%/ring-old.c $(T_SAMPLE)
%C%_ring_old_t_LDADD = $(LDADD) $(URING_LIBS) -ldl
%C%_ring_stuck_t_SOURCES = %D%/ring-stuck.c $(T_SAMPLE) $(T_LEAKS)
%C%_ring_stuck_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__owner_release
%C%_ring_stuck_t_LDADD = $(T_STATIC) $(URING_LIBS) -ldl
%C%_eventfd_t_SOURCES = %D%/eventfd.c $(T_SAMPLE)
%C%_read_deadline_t_SOURCES = %D%/read-deadline.c $(T_SAMPLE) $(T_LEAKS) \
	$(T_UNCACHED)
%C%_read_deadline_t_LDADD = $(LDADD) $(URING_LIBS) -ldl
%C%_reads_t_SOURCES = %D%/reads.c $(T_SAMPLE)
%C%_load_ends_t_SOURCES = %D%/load-ends.c $(T_SAMPLE) $(T_UNCACHED)
%C%_load_ends_t_LDADD = $(LDADD) $(URING_LIBS) -ldl
%C%_affinity_t_SOURCES = %D%/affinity.c $(T_SAMPLE)
%C%_low_memory_t_SOURCES = %D%/low-memory.c $(T_SINKS) $(T_PLANS)
%C%_low_memory_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__avail_ram
%C%_low_memory_t_LDADD = $(T_STATIC)
%C%_fork_t_SOURCES = %D%/fork.c $(T_SAMPLE) $(T_KIND) $(T_UNCACHED)
%C%_fork_calls_t_SOURCES = %D%/fork-calls.c %D%/fork_calls.h %D%/fork_graphs.c \
	$(T_SAMPLE)
%C%_signals_t_SOURCES = %D%/signals.c tools/signals.c tools/signals.h
%C%_attend_t_SOURCES = %D%/attend.c
%C%_file_now_t_SOURCES = %D%/file-now.c $(T_SAMPLE) $(T_FILES)
%C%_sentences_t_SOURCES = %D%/sentences.c $(T_SAMPLE) $(T_FILES)
%C%_interrupted_t_SOURCES = %D%/interrupted.c $(T_SAMPLE) $(T_UNCACHED)
%C%_pool_t_SOURCES = %D%/pool.c
%C%_pool_gap_t_SOURCES = %D%/pool-gap.c
%C%_touch_t_SOURCES = %D%/touch.c $(T_FILES) $(T_SAMPLE)
%C%_touch_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_populate \
	$(T_WRAP)sys_mlock
%C%_touch_t_LDADD = $(T_STATIC)
%C%_touchers_t_SOURCES = %D%/touchers.c $(T_FILES)
%C%_touchers_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__thread_start
%C%_touchers_t_LDADD = $(T_STATIC)
%C%_owner_t_SOURCES = %D%/owner.c
%C%_borrow_t_SOURCES = %D%/borrow.c $(T_FILES)
%C%_late_slots_t_SOURCES = %D%/late-slots.c $(T_FILES) $(T_LEAKS) $(T_UNCACHED)
%C%_late_job_t_SOURCES = %D%/late-job.c $(T_FILES)
%C%_late_job_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__queues_prepare
%C%_late_job_t_LDADD = $(T_STATIC)
%C%_partly_t_SOURCES = %D%/partly.c $(T_FILES) $(T_SAMPLE)
%C%_resident_t_SOURCES = %D%/resident.c $(T_FILES)
%C%_resident_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_cached
%C%_resident_t_LDADD = $(T_STATIC)
%C%_slots_t_SOURCES = %D%/slots.c
%C%_trace_t_SOURCES = %D%/trace.c

# The CUDA backend, on the stand-in driver.
dist_check_SCRIPTS += %D%/cuda.sh %D%/cuda-driver.sh
if HAVE_CUDA
T_CUDA_TESTS = %D%/cuda-abi.t %D%/cuda-batch.t %D%/cuda-block.t %D%/cuda-budget.t \
	%D%/cuda-calls.t %D%/cuda-ends.t %D%/cuda-faults.t %D%/cuda-files.t \
	%D%/cuda-foreign.t %D%/cuda-free.t %D%/cuda-heap.t %D%/cuda-heap-ends.t %D%/cuda-held.t %D%/cuda-lanes.t %D%/cuda-late.t %D%/cuda-memory.t \
	%D%/cuda-native.t %D%/cuda-native-io.t %D%/cuda-opening.t %D%/cuda-peer.t %D%/cuda-races.t \
	%D%/cuda-races-runs.t %D%/cuda-rows.t \
	%D%/cuda-stream.t %D%/cuda-torch.t %D%/cuda-torch-inside.t %D%/cuda-traps.t %D%/cuda-wrong.t
check_PROGRAMS += $(T_CUDA_TESTS)
TESTS += $(T_CUDA_TESTS)
%C%_cuda_stream_t_SOURCES = %D%/cuda-stream.c $(T_GPU)
TESTS += %D%/cuda.sh %D%/cuda-driver.sh
%C%_cuda_stream_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_abi_t_SOURCES = %D%/cuda-abi.c
%C%_cuda_batch_t_SOURCES = %D%/cuda-batch.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_peer_t_SOURCES = %D%/cuda-peer.c $(T_GPU)
%C%_cuda_peer_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_calls_t_SOURCES = %D%/cuda-calls.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_calls_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_ends_t_SOURCES = %D%/cuda-ends.c $(T_GPU) $(T_SAMPLE) $(T_LEAKS)
%C%_cuda_ends_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_faults_t_SOURCES = %D%/cuda-faults.c $(T_GPU) $(T_SAMPLE) $(T_LEAKS)
%C%_cuda_faults_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_budget_t_SOURCES = %D%/cuda-budget.c $(T_GPU) $(T_RESERVE)
%C%_cuda_budget_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_block_t_SOURCES = %D%/cuda-block.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_block_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_heap_t_SOURCES = %D%/cuda-heap.c $(T_GPU)
%C%_cuda_heap_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_heap_ends_t_SOURCES = %D%/cuda-heap-ends.c $(T_GPU) $(T_NOMEM)
%C%_cuda_heap_ends_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_cuda_heap_ends_t_LDADD = $(T_STATIC) -ldl
%C%_cuda_held_t_SOURCES = %D%/cuda-held.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_held_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_late_t_SOURCES = %D%/cuda-late.c $(T_GPU) $(T_UNCACHED)
%C%_cuda_late_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_lanes_t_SOURCES = %D%/cuda-lanes.c $(T_GPU) $(T_LEAKS)
%C%_cuda_memory_t_SOURCES = %D%/cuda-memory.c $(T_GPU) $(T_NOMEM)
%C%_cuda_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_cuda_memory_t_LDADD = $(T_STATIC)
%C%_cuda_native_t_SOURCES = %D%/cuda-native.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_native_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_native_io_t_SOURCES = %D%/cuda-native-io.c $(T_GPU)
%C%_cuda_native_io_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_races_t_SOURCES = %D%/cuda-races.c %D%/racing.c %D%/racing.h \
	$(T_GPU) $(T_SAMPLE)
%C%_cuda_races_runs_t_SOURCES = %D%/cuda-races-runs.c %D%/racing.c \
	%D%/racing.h $(T_GPU)
%C%_cuda_rows_t_SOURCES = %D%/cuda-rows.c $(T_GPU) $(T_ROWS)
%C%_cuda_torch_t_SOURCES = %D%/cuda-torch.c $(T_GPU) $(T_LEAKS)
%C%_cuda_torch_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_torch_inside_t_SOURCES = %D%/cuda-torch-inside.c $(T_GPU) $(T_LEAKS)
%C%_cuda_torch_inside_t_LDADD = $(LDADD) -ldl
%C%_cuda_traps_t_SOURCES = %D%/cuda-traps.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_traps_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_wrong_t_SOURCES = %D%/cuda-wrong.c $(T_GPU)
%C%_cuda_wrong_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_foreign_t_SOURCES = %D%/cuda-foreign.c $(T_GPU)
%C%_cuda_free_t_SOURCES = %D%/cuda-free.c $(T_GPU) $(T_LEAKS)
%C%_cuda_free_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_files_t_SOURCES = %D%/cuda-files.c $(T_GPU)
%C%_cuda_files_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
%C%_cuda_opening_t_SOURCES = %D%/cuda-opening.c $(T_GPU)
%C%_cuda_opening_t_LDADD = lib/libweir.la %D%/libtap.la -ldl
endif

# Heaps in PyTorch and RMM.
dist_check_SCRIPTS += %D%/hooks.sh
if HAVE_CUDA
TESTS += %D%/hooks.sh
endif
EXTRA_DIST += %D%/hooks

# Counts of instructions: bench/instructions.txt.
dist_check_SCRIPTS += %D%/instructions.sh
TESTS += %D%/instructions.sh

# The rows of a bench run.
dist_check_SCRIPTS += %D%/bench.sh %D%/bench-heap.sh
TESTS += %D%/bench-heap.sh
if HAVE_CUDA
TESTS += %D%/bench.sh
endif

# Contracts, also on a real GPU; and the bundle for such machines.
EXTRA_DIST += %D%/gpu.inc
dist_check_SCRIPTS += %D%/cuda-contract.sh
if HAVE_CUDA
TESTS += %D%/cuda-contract.sh
endif
dist_check_SCRIPTS += %D%/bundle.sh
TESTS += %D%/bundle.sh
EXTRA_DIST += %D%/wheels.py

# All tests under prove: `make prove PROVEFLAGS=-v`.
prove: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	@$(AM_TESTS_ENVIRONMENT) PROVE_TESTS='$(TESTS)' $(SHELL) \
		$(top_srcdir)/t/prove $(PROVEFLAGS)
.PHONY: prove
