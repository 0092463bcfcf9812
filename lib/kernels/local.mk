# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/compute.c %D%/compute.h %D%/elementwise.c \
	%D%/floats.c %D%/floats.h \
	%D%/kernels.h %D%/table.c %D%/vec.c %D%/vec.h %D%/vec.inc \
	%D%/vec_x86.c %D%/walk.h
lib_libweir_core_la_SOURCES += %D%/team.c %D%/team.h
EXTRA_DIST += %D%/README.md
