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

# Poor and hostile environments.
check_PROGRAMS += %D%/close.t %D%/deny
%C%_close_t_SOURCES = %D%/close.c
%C%_deny_SOURCES = %D%/deny.c
%C%_deny_LDADD =
dist_check_SCRIPTS += %D%/env-ring.sh %D%/env-memory.sh %D%/env-files.sh
EXTRA_DIST += %D%/env.inc
TESTS += %D%/close.t %D%/env-ring.sh %D%/env-memory.sh %D%/env-files.sh

# The whole suite under prove: `make prove PROVEFLAGS=-v`.
prove: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	@$(AM_TESTS_ENVIRONMENT) PROVE_TESTS='$(TESTS)' $(SHELL) \
		$(top_srcdir)/t/prove $(PROVEFLAGS)
EXTRA_DIST += %D%/prove %D%/exec
.PHONY: prove
