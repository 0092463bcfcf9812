# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/attention.c %D%/attention.h \
	%D%/attention_unit.c %D%/call.c %D%/compute.c %D%/compute.h \
	%D%/copy.c %D%/elementwise.c %D%/floats.c %D%/floats.h %D%/kernels.h \
	%D%/norm.c %D%/quantise.c %D%/quantise.h %D%/reduce.c %D%/rope.c \
	%D%/rows.c %D%/slope.h %D%/table.c %D%/vec.c %D%/vec.h %D%/vec.inc \
	%D%/vec_x86.c %D%/walk.h
lib_libweir_core_la_SOURCES += %D%/team.c %D%/team.h
EXTRA_DIST += %D%/README.md
