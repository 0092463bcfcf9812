# SPDX-License-Identifier: MIT
# libweir-torch.so, which programs open with dlopen(3); so it has no version.
if HAVE_CUDA
lib_LTLIBRARIES += %D%/libweir-torch.la
%C%_libweir_torch_la_SOURCES = %D%/torch.c
%C%_libweir_torch_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,-z,defs -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/%D%/torch.map
%C%_libweir_torch_la_LIBADD = lib/libweir.la
EXTRA_%C%_libweir_torch_la_DEPENDENCIES = %D%/torch.map libdirs.stamp
endif
EXTRA_DIST += %D%/torch.map %D%/README.md
