# SPDX-License-Identifier: MIT
# The CUDA module: needs cuda.h to be built, and links neither the driver nor
# libweir. Not unloaded: its helpers may be on their way out of its code.
if HAVE_CUDA
pkglib_LTLIBRARIES += %D%/weir-cuda.la
%C%_weir_cuda_la_SOURCES = \
	%D%/cuda.c %D%/cuda.h %D%/driver.c %D%/driver.h %D%/context.c \
	%D%/memory.c %D%/memory.h %D%/virtual.c %D%/granules.c \
	%D%/queue.c %D%/queue.h \
	%D%/copy.c %D%/helper.c %D%/nvml.c lib/interop/cuda_ext.h
%C%_weir_cuda_la_SOURCES += %D%/compute.c %D%/image.c %D%/image.h \
	%D%/launches.c %D%/launches.h %D%/launch_graph.c %D%/launch_graph.h \
	%D%/rates.c %D%/found.c %D%/found.h %D%/fuse.c %D%/fuse.h \
	%D%/operations.c %D%/operations.h \
	%D%/operation_copies.c %D%/operation_products.c \
	%D%/operation_matvec.c %D%/operation_rows.c %D%/operation_sort.c \
	%D%/operation_tiles.c %D%/operation_elements.c \
	%D%/operation_attention.c %D%/kernels/params.h \
	%D%/cublaslt.c %D%/cublaslt.h %D%/cublaslt_api.h \
	%D%/operation_cublaslt.c
if HAVE_KERNELS
%C%_weir_cuda_la_SOURCES += %D%/unpack.c %D%/unpack.h
endif
%C%_weir_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	$(CUDA_KERNELS_CPPFLAGS)
%C%_weir_cuda_la_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
%C%_weir_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,-z,defs -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/%D%/module.map
%C%_weir_cuda_la_LIBADD = $(ZSTD_LIBS) -ldl -lm
EXTRA_%C%_weir_cuda_la_DEPENDENCIES = %D%/module.map libdirs.stamp
endif
EXTRA_DIST += %D%/module.map %D%/README.md %D%/CUBLASLT.md
include %D%/kernels/local.mk
