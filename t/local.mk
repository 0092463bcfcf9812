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
%C%_libtap_la_SOURCES = t/tap.c t/tap.h
EXTRA_DIST += %D%/run %D%/prove %D%/exec %D%/README.md %D%/DEFECTS.md t/tap.inc \
	t/cli.inc t/serving.inc %D%/safetensors.py %D%/gguf.py %D%/interop/main.py \
	%D%/interop/gguf_files.py %D%/interop/safetensors_files.py %D%/interop/text.py %D%/interop/chats.py \
	%D%/llama/main.py %D%/llama/models.py %D%/llama/reference.py \
	%D%/llama/convert.py %D%/llama/real.py %D%/llama/trained.py \
	%D%/llama/refused.py %D%/llama/harness.py %D%/llama/run.py \
	%D%/llama/vocabularies.py %D%/llama/sparse.py \
	%D%/llama/variants.py

# A module, and two that the registry refuses.
check_LTLIBRARIES += %D%/modules/weir-test.la %D%/modules/weir-none.la \
	%D%/modules/weir-unresolved.la %D%/modules/weir-source-x.la
T_MODULE_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
%C%_modules_weir_test_la_SOURCES = t/modules/test.c
%C%_modules_weir_test_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_source_x_la_SOURCES = t/modules/source.c
%C%_modules_weir_source_x_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_none_la_SOURCES = t/modules/none.c
%C%_modules_weir_none_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_unresolved_la_SOURCES = t/modules/unresolved.c
%C%_modules_weir_unresolved_la_LDFLAGS = $(T_MODULE_LDFLAGS)

# Helpers that tests share. T_LEAKS: LeakSanitizer does not run.
T_TESTMOD = t/testmod.c t/testmod.h
T_FILES = t/files.c t/files.h
T_MODELS = t/model/format/models.c t/model/format/models.h $(T_FILES)
T_KIND = t/kind.c t/kind.h
T_PREFETCHING = t/prefetching.c t/prefetching.h $(T_FILES) $(T_KIND) $(T_STREAMS)
T_SAMPLE = t/sample.c t/sample.h
T_UNCACHED = t/uncached.c
T_CACHED = t/cached.c t/cached.h
T_PAUSED = t/paused.c t/paused.h $(T_SAMPLE) $(T_UNCACHED)
T_PLANS = t/plans.c t/plans.h $(T_SAMPLE)
T_SLICES = t/slices.c t/slices.h
T_SINKS = t/sinks.c t/sinks.h $(T_SLICES)
T_MEM_SOURCE = t/mem_source.c t/mem_source.h
T_STREAMS = t/streams.c t/streams.h
T_GPU = t/gpu.c t/gpu.h $(T_STREAMS)
T_LEAKS = t/leaks.c
T_NODES = t/alloc/nodes.c t/alloc/nodes.h $(T_FILES)
T_RESERVE = t/reserve.c t/reserve.h
T_ROWS = t/rows.c t/rows.h
T_RACING = t/racing.c t/racing.h $(T_STREAMS)
T_CONVERSIONS = t/mem/conversions.c t/mem/conversions.h

# Tests of text/, which is no part of the library.
T_VOCABULARY = t/text/vocabulary.c t/text/vocabulary.h
T_TEXT_LIBS = text/libtext.la lib/libweir.la %D%/libtap.la

T_PLAN_CSV = tools/csv.c tools/csv.h tools/plan_csv.c tools/plan_csv.h

# Fuzz targets: `make check` replays the inputs of t/corpus, `make fuzz` links
# the same sources with libFuzzer (clang) into t/fuzz/.
T_FUZZ = t/fuzz/fuzz.h t/fuzz/check.c t/fuzz/mutate.h \
	t/fuzz/mutate.c t/fuzz/mutate_json.c t/fuzz/mutate_st.c \
	t/fuzz/mutate_gguf.c t/fuzz/mutate_csv.c $(T_SECOND)
T_SECOND = t/second.h t/second.c t/second_gguf.c t/second_st.c \
	t/second_values.c
T_LIMIT = t/limit.c t/limit.h
T_SAID = t/said.c t/said.h
T_DRAWS = t/heap/draws.c t/heap/draws.h
T_NUMBERS = t/kernels/numbers.c t/kernels/numbers.h
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
	for target in fz_st fz_gguf fz_index fz_manifest fz_plan fz_text; do \
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
		$(SHELL) $(top_srcdir)/t/house/install.sh

# Limited and hostile environments.
check_PROGRAMS += %D%/deny %D%/misbehave %D%/tokenize
%C%_misbehave_SOURCES = t/misbehave.c
%C%_misbehave_LDADD = %D%/libtap.la
%C%_deny_SOURCES = t/deny.c
%C%_deny_LDADD =
%C%_tokenize_SOURCES = t/tokenize.c
%C%_tokenize_LDADD = text/libtext.la lib/libweir.la
EXTRA_DIST += t/env.inc

# Plans, loads and weights, the engine and memory.
T_NOMEM = t/nomem.c t/nomem.h
T_WRAP = -Wl,--wrap=weir__
T_CACHED_FLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_cached
T_NOMEM_FLAGS = $(AM_LDFLAGS) $(T_WRAP)malloc $(T_WRAP)calloc \
	$(T_WRAP)calloc_aligned $(T_WRAP)realloc $(T_WRAP)malloc_pages \
	$(T_WRAP)strdup
T_LEAF = t/leaf.c t/leaf.h
T_NAIVE = t/naive.c t/naive.h t/naive_model.c t/naive_ops.c \
	t/naive_ops.h t/naive_store.c t/naive_store.h
T_RANDOM = t/graph/exec/random_run.c t/graph/exec/random_run.h \
	t/graph/exec/random_gen.h t/graph/exec/random_graph.c \
	t/graph/exec/random_graph.h t/graph/exec/random_find.c \
	t/graph/exec/random_later.c t/graph/exec/random_later.h \
	t/graph/exec/random_ops.c $(T_NAIVE)
T_TRIALS = t/kernels/trial.c t/kernels/trial.h t/dtypes.h t/kernels/trial_ways.h \
	$(T_KIND) $(T_NAIVE)
T_TRIAL = $(T_TRIALS) t/kernels/trial_ways.c
T_CUDA_TRIAL = $(T_TRIALS) t/cuda/ways_cuda.c $(T_GPU)
T_ATTEND = t/cuda/attend.c t/cuda/attend.h $(T_CUDA_TRIAL)
T_GDEV = t/gdev.c t/gdev.h $(T_STREAMS)
T_NET = t/graph/compile/net.c t/graph/compile/net.h
T_PLACED = t/place/placed.c t/place/placed.h
T_LIFETIMES = $(T_PLACED) t/place/lifetimes.c t/place/lifetimes.h

EXTRA_DIST += %D%/hooks

EXTRA_DIST += t/gpu.inc %D%/wheels.py

# In the order of the layers.
include t/core/local.mk
include t/races/local.mk
include t/dev/local.mk
include t/mem/local.mk
include t/alloc/local.mk
include t/cache/local.mk
include t/io/local.mk
include t/stream/local.mk
include t/heap/local.mk
include t/model/format/local.mk
include t/model/load/local.mk
include t/model/save/local.mk
include t/place/local.mk
include t/cpu/local.mk
include t/kernels/local.mk
include t/graph/local.mk
include t/graph/compile/local.mk
include t/graph/prefetch/local.mk
include t/graph/exec/local.mk
include t/graph/compare/local.mk
include t/text/local.mk
include t/cli/local.mk
include t/house/local.mk
include t/cuda/local.mk
include t/http/local.mk
include t/python/local.mk

# The tests of one folder and of those in it, and nothing else, are built and run:
# `make check-heap`, `make check-load`. Single tests: `make check-tests TESTS=...`.
CHECK_AREAS = check-alloc check-cli check-compare check-compile check-core \
	check-cpu check-cuda check-dev check-exec check-fakecuda check-format \
	check-cache check-graph check-heap check-house check-http check-io check-kernels check-load \
	check-mem check-model check-place check-prefetch check-python \
	check-races \
	check-stream check-text
T_COMMANDS = %D%/deny %D%/misbehave %D%/tokenize tools/weir
# Tests of the house run the examples and two benches.
T_EXAMPLES = examples/load examples/arrive examples/queue examples/engine \
	examples/share examples/llama/llama
check-house: $(T_EXAMPLES) bench/load bench/heap
$(CHECK_AREAS) check-tests: $(check_LTLIBRARIES) $(pkglib_LTLIBRARIES) \
		$(T_COMMANDS)
	@area=$@; area=$${area#check-}; test $$area != tests || area='.*'; \
	tests=`printf '%s\n' $(TESTS) | grep -E "^t/(.*/)?$$area/"`; \
	programs=`printf '%s\n' $$tests | grep '[.]t$$'`; \
	{ test -z "$$programs" || $(MAKE) $$programs; } && \
	$(AM_TESTS_ENVIRONMENT) PROVE_TESTS="$$tests" $(SHELL) \
		$(top_srcdir)/t/prove $(PROVEFLAGS)
.PHONY: $(CHECK_AREAS) check-tests

# All tests under prove: `make prove PROVEFLAGS=-v`.
prove: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	@$(AM_TESTS_ENVIRONMENT) PROVE_TESTS='$(TESTS)' $(SHELL) \
		$(top_srcdir)/t/prove $(PROVEFLAGS)
.PHONY: prove

