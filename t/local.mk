# SPDX-License-Identifier: MIT
# C tests are t/x.c, built to t/x.t; shell tests are t/x.sh. Tests link the
# core unless they set LDADD.
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
	WEIR_T_SANITIZER='$(enable_sanitizer)'; export WEIR_T_SANITIZER;

LDADD = %D%/libtap.la lib/libweir-core.la
noinst_LTLIBRARIES += %D%/libtap.la
%C%_libtap_la_SOURCES = %D%/tap.c %D%/tap.h
EXTRA_DIST += %D%/run %D%/README.md

check_PROGRAMS += %D%/error.t
%C%_error_t_SOURCES = %D%/error.c
TESTS += %D%/error.t

check_PROGRAMS += %D%/json.t %D%/safetensors.t %D%/index.t \
	%D%/model-open.t %D%/model-index.t
%C%_json_t_SOURCES = %D%/json.c
%C%_safetensors_t_SOURCES = %D%/safetensors.c %D%/files.h
%C%_index_t_SOURCES = %D%/index.c
%C%_model_open_t_SOURCES = %D%/model-open.c %D%/files.c %D%/files.h
%C%_model_index_t_SOURCES = %D%/model-index.c %D%/files.c %D%/files.h
TESTS += %D%/json.t %D%/safetensors.t %D%/index.t %D%/model-open.t \
	%D%/model-index.t

# Fuzz targets: `make check` replays the kept inputs, `make fuzz` links the
# same with libFuzzer (clang) into t/fuzz/.
check_PROGRAMS += %D%/fuzz-st.t %D%/fuzz-index.t
%C%_fuzz_st_t_SOURCES = %D%/fuzz/fz_st.c %D%/fuzz/fuzz.h \
	%D%/fuzz/check.c %D%/fuzz/replay.c
%C%_fuzz_index_t_SOURCES = %D%/fuzz/fz_index.c %D%/fuzz/fuzz.h \
	%D%/fuzz/check.c %D%/fuzz/replay.c
TESTS += %D%/fuzz-st.t %D%/fuzz-index.t
EXTRA_DIST += %D%/fuzz/st.dict %D%/corpus
FUZZ_CC = clang
FUZZ_CFLAGS = -g -O1 -fno-omit-frame-pointer \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
fuzz:
	@$(MKDIR_P) %D%/fuzz; \
	for file in $(lib_libweir_core_la_SOURCES); do \
		case $$file in *.c) core="$$core $(top_srcdir)/$$file" ;; esac; \
	done; \
	for target in fz_st fz_index; do \
		echo "  FUZZ     %D%/fuzz/$$target"; \
		$(FUZZ_CC) $(AM_CPPFLAGS) -DFUZZING -std=gnu11 -pthread \
			$(FUZZ_CFLAGS) -o %D%/fuzz/$$target \
			$(top_srcdir)/t/fuzz/$$target.c \
			$(top_srcdir)/t/fuzz/check.c $$core $(URING_LIBS) \
			$(XXHASH_LIBS) $(CRYPTO_LIBS) $(NUMA_LIBS) -ldl || exit; \
	done
.PHONY: fuzz

check_PROGRAMS += %D%/engine.t
%C%_engine_t_SOURCES = %D%/engine.c
TESTS += %D%/engine.t

# The command.
dist_check_SCRIPTS += %D%/cli-usage.sh
dist_check_SCRIPTS += %D%/cli-synth.sh
dist_check_SCRIPTS += %D%/cli-inspect.sh
dist_check_SCRIPTS += %D%/cli-load.sh
dist_check_SCRIPTS += %D%/cli-devices.sh
dist_check_SCRIPTS += %D%/cli-faults.sh
dist_check_SCRIPTS += %D%/digest.sh
EXTRA_DIST += %D%/cli.inc %D%/safetensors.py
TESTS += %D%/cli-usage.sh %D%/cli-synth.sh %D%/cli-inspect.sh \
	%D%/cli-load.sh %D%/cli-devices.sh %D%/cli-faults.sh %D%/digest.sh

# What a stranger meets: headers, pages, the installed tree.
dist_check_SCRIPTS += %D%/headers.sh %D%/layers.sh %D%/format.sh \
	%D%/exports.sh %D%/pages.sh %D%/examples.sh %D%/install.sh
TESTS += %D%/headers.sh %D%/layers.sh %D%/format.sh \
	%D%/exports.sh %D%/pages.sh %D%/examples.sh %D%/install.sh
EXTRA_DIST += %D%/tap.inc
installcheck-local:
	@$(AM_TESTS_ENVIRONMENT) WEIR_T_DEST='$(DESTDIR)' \
		$(SHELL) $(top_srcdir)/t/install.sh

# The whole suite under prove: `make prove PROVEFLAGS=-v`.
prove: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	@$(AM_TESTS_ENVIRONMENT) PROVE_TESTS='$(TESTS)' $(SHELL) \
		$(top_srcdir)/t/prove $(PROVEFLAGS)
EXTRA_DIST += %D%/prove %D%/exec
.PHONY: prove
