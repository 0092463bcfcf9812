# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/buf.c %D%/buf.h %D%/join.c %D%/access.c %D%/access.h \
	%D%/tensor.c %D%/tensor.h %D%/rows.c %D%/data.c \
	%D%/dtype.c %D%/dtype.h \
	%D%/convert.c %D%/convert_x86.c %D%/convert.h %D%/fpenv.h \
	%D%/quants.c %D%/quants_grid.c %D%/quants_grids.c %D%/quants_k.c \
	%D%/quants_plain.c %D%/quants.h
EXTRA_DIST += %D%/README.md
