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

check_PROGRAMS += %D%/json.t %D%/safetensors.t
%C%_json_t_SOURCES = %D%/json.c
%C%_safetensors_t_SOURCES = %D%/safetensors.c
TESTS += %D%/json.t %D%/safetensors.t

# The whole suite under prove: `make prove PROVEFLAGS=-v`.
prove: all $(check_PROGRAMS) $(check_LTLIBRARIES)
	@$(AM_TESTS_ENVIRONMENT) PROVE_TESTS='$(TESTS)' $(SHELL) \
		$(top_srcdir)/t/prove $(PROVEFLAGS)
EXTRA_DIST += %D%/prove %D%/exec
.PHONY: prove
