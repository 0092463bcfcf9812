# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/ahead.h %D%/attention.c %D%/call_op.c \
	%D%/copy_ops.c %D%/dot.c %D%/dot.h %D%/dot_avx2.c %D%/dot_avx2.h \
	%D%/dot_avx2_low.c %D%/dot_avx512.c %D%/dot_avx512.h \
	%D%/dot_avx512_low.c %D%/dot_float.inc %D%/dot_low.h \
	%D%/dot_panel.inc %D%/dot_q8.inc %D%/elementwise.c %D%/floats.c \
	%D%/floats.h %D%/kernel_table.c %D%/kernels.h %D%/mul_mat.c \
	%D%/norm.c %D%/product.c %D%/product.h %D%/reduce.c %D%/rope.c \
	%D%/row_ops.c %D%/segment.c %D%/segment.h %D%/sequences.h \
	%D%/softmax.h %D%/team.c %D%/team.h %D%/tiles.c %D%/tiles.h \
	%D%/vec.c %D%/vec.h %D%/vec.inc %D%/walk.h
EXTRA_DIST += %D%/README.md
