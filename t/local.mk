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

# Streams and events.
check_PROGRAMS += %D%/source.t
%C%_source_t_SOURCES = %D%/source.c
TESTS += %D%/source.t
check_PROGRAMS += %D%/stream.t
%C%_stream_t_SOURCES = %D%/stream.c
TESTS += %D%/stream.t
check_PROGRAMS += %D%/event.t
%C%_event_t_SOURCES = %D%/event.c
TESTS += %D%/event.t
check_PROGRAMS += %D%/stream-io.t
%C%_stream_io_t_SOURCES = %D%/stream-io.c
TESTS += %D%/stream-io.t
check_PROGRAMS += %D%/stream-order.t
%C%_stream_order_t_SOURCES = %D%/stream-order.c
TESTS += %D%/stream-order.t
check_PROGRAMS += %D%/stream-fail.t
%C%_stream_fail_t_SOURCES = %D%/stream-fail.c
TESTS += %D%/stream-fail.t
check_PROGRAMS += %D%/stream-close.t
%C%_stream_close_t_SOURCES = %D%/stream-close.c
TESTS += %D%/stream-close.t
check_PROGRAMS += %D%/stream-race.t
%C%_stream_race_t_SOURCES = %D%/stream-race.c
TESTS += %D%/stream-race.t
EXTRA_DIST += %D%/stream.inc

# Memory, devices, modules.
check_LTLIBRARIES += %D%/modules/weir-test.la %D%/modules/weir-none.la \
	%D%/modules/weir-unresolved.la
T_MODULE_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
%C%_modules_weir_test_la_SOURCES = %D%/modules/test.c
%C%_modules_weir_test_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_none_la_SOURCES = %D%/modules/none.c
%C%_modules_weir_none_la_LDFLAGS = $(T_MODULE_LDFLAGS)
%C%_modules_weir_unresolved_la_SOURCES = %D%/modules/unresolved.c
%C%_modules_weir_unresolved_la_LDFLAGS = $(T_MODULE_LDFLAGS)
T_TESTMOD = %D%/testmod.c %D%/testmod.h

check_PROGRAMS += %D%/module.t
%C%_module_t_SOURCES = %D%/module.c $(T_TESTMOD)
TESTS += %D%/module.t
check_PROGRAMS += %D%/root.t
%C%_root_t_SOURCES = %D%/root.c
TESTS += %D%/root.t
check_PROGRAMS += %D%/dtype.t
%C%_dtype_t_SOURCES = %D%/dtype.c
TESTS += %D%/dtype.t
check_PROGRAMS += %D%/tensor.t
%C%_tensor_t_SOURCES = %D%/tensor.c $(T_TESTMOD)
TESTS += %D%/tensor.t
check_PROGRAMS += %D%/dev.t
%C%_dev_t_SOURCES = %D%/dev.c $(T_TESTMOD)
TESTS += %D%/dev.t
check_PROGRAMS += %D%/avail.t
%C%_avail_t_SOURCES = %D%/avail.c
TESTS += %D%/avail.t
check_PROGRAMS += %D%/arena.t
%C%_arena_t_SOURCES = %D%/arena.c
TESTS += %D%/arena.t
check_PROGRAMS += %D%/buf.t
%C%_buf_t_SOURCES = %D%/buf.c $(T_TESTMOD)
TESTS += %D%/buf.t
check_PROGRAMS += %D%/data.t
%C%_data_t_SOURCES = %D%/data.c $(T_TESTMOD)
TESTS += %D%/data.t

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
