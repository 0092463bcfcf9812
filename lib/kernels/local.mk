# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/ahead.h %D%/attention.c %D%/attention.h \
	%D%/attention_unit.c %D%/call.c %D%/compute.c %D%/compute.h \
	%D%/copy.c %D%/elementwise.c %D%/floats.c %D%/floats.h %D%/kernels.h \
	%D%/norm.c %D%/quantise.c %D%/quantise.h %D%/reduce.c %D%/rope.c \
	%D%/rows.c %D%/softmax.h %D%/table.c %D%/vec.c %D%/vec.h %D%/vec.inc \
	%D%/vec_x86.c %D%/walk.h
lib_libweir_core_la_SOURCES += %D%/team.c %D%/team.h
lib_libweir_core_la_SOURCES += %D%/dot.c %D%/dot.h %D%/dot_avx2.c \
	%D%/dot_avx2.h %D%/dot_avx2_low.c %D%/dot_avx512.c \
	%D%/dot_avx512.h %D%/dot_avx512_low.c %D%/dot_low.h \
	%D%/dot_float.inc %D%/dot_q8.inc %D%/mul_mat.c \
	%D%/panel.c %D%/panel.h %D%/dot_panel.inc \
	%D%/product.c %D%/product.h %D%/tiles.c %D%/tiles.h
EXTRA_DIST += %D%/README.md
