# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/buf.c %D%/buf.h %D%/reserved.c %D%/access.c %D%/access.h \
	%D%/tensor.c %D%/tensor.h %D%/data.c \
	%D%/dtype.c %D%/dtype.h %D%/dtype_table.h \
	%D%/convert.c %D%/convert_via.c %D%/convert_x86.c %D%/convert.h \
	%D%/fpenv.h %D%/quantise.c %D%/quantise_x86.c %D%/quantise.h \
	%D%/quantise_groups.inc \
	%D%/quants.c %D%/quants_grids.c %D%/quants_grids.h \
	%D%/quants_grids.inc
EXTRA_DIST += %D%/README.md
