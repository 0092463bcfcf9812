# SPDX-License-Identifier: MIT
# Everything is in libweir-core (hidden symbols, for tests of internals);
# libweir exports what libweir.map names.
noinst_LTLIBRARIES += %D%/libweir-core.la
lib_LTLIBRARIES += %D%/libweir.la

%C%_libweir_core_la_SOURCES = \
	%D%/error.c %D%/error.h %D%/outcome.c %D%/outcome.h \
	%D%/compat.c %D%/compat.h %D%/debug.c %D%/debug.h \
	%D%/sys.c %D%/sys_host.c %D%/sys.h \
	%D%/root.c %D%/root.h %D%/host.c %D%/dev.c %D%/registry.c %D%/module.c \
	%D%/module.h %D%/elf.c %D%/trust.c \
	%D%/backend.h %D%/source.c %D%/source.h \
	%D%/dtype.c %D%/dtype.h %D%/tensor.c %D%/buf.c %D%/join.c \
	%D%/access.c \
	%D%/buf.h %D%/data.c %D%/runs.c %D%/trace.c %D%/trace.h
%C%_libweir_core_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(CRYPTO_CFLAGS)
%C%_libweir_core_la_LIBADD = $(URING_LIBS) $(XXHASH_LIBS) $(CRYPTO_LIBS) \
	$(NUMA_LIBS) -ldl

include lib/alloc/local.mk
include lib/io/local.mk
include lib/stream/local.mk
include lib/cpu/local.mk
include lib/model/local.mk
include lib/cuda/local.mk

%C%_libweir_la_SOURCES =
%C%_libweir_la_LIBADD = %D%/libweir-core.la
%C%_libweir_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(WEIR_LIBVERSION) \
	-no-undefined -Wl,-z,defs -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/%D%/libweir.map
EXTRA_%C%_libweir_la_DEPENDENCIES = %D%/libweir.map
EXTRA_DIST += %D%/libweir.map %D%/README.md
