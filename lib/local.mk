# SPDX-License-Identifier: MIT
# Everything is in libweir-core. libweir exports what libweir.map names;
# libweir-internal, which is not installed, exports all of it, for tests and
# benches of internals. `make` builds it too: a test that was built before then
# runs with the library as it is now.
noinst_LTLIBRARIES += %D%/libweir-core.la
lib_LTLIBRARIES += %D%/libweir.la
noinst_LTLIBRARIES += %D%/libweir-internal.la

%C%_libweir_core_la_SOURCES = %D%/weir.c
%C%_libweir_core_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(CRYPTO_CFLAGS)
%C%_libweir_core_la_LIBADD = $(URING_LIBS) $(XXHASH_LIBS) $(CRYPTO_LIBS) \
	$(NUMA_LIBS) -ldl -lm

include lib/core/local.mk
include lib/races/local.mk
include lib/dev/local.mk
include lib/mem/local.mk
include lib/place/local.mk
include lib/alloc/local.mk
include lib/cache/local.mk
include lib/io/local.mk
include lib/stream/local.mk
include lib/heap/local.mk
include lib/interop/local.mk
include lib/graph/local.mk
include lib/kernels/local.mk
include lib/cpu/local.mk
include lib/model/local.mk
include lib/cuda/local.mk
include lib/http/local.mk

%C%_libweir_la_SOURCES =
%C%_libweir_la_LIBADD = %D%/libweir-core.la
%C%_libweir_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(WEIR_LIBVERSION) \
	-no-undefined -Wl,-z,defs -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/%D%/libweir.map
%C%_libweir_internal_la_SOURCES =
%C%_libweir_internal_la_LIBADD = %D%/libweir-core.la
%C%_libweir_internal_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version \
	-rpath '$(libdir)' -no-undefined -Wl,-z,defs -Wl,-z,nodelete \
	-Wl,-Bsymbolic
EXTRA_%C%_libweir_la_DEPENDENCIES = %D%/libweir.map libdirs.stamp
EXTRA_DIST += %D%/libweir.map %D%/README.md
