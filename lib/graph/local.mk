# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/graph.c %D%/graph.h %D%/bump.c %D%/bump.h \
	%D%/ops.c %D%/ops.h %D%/make.c %D%/builders.c %D%/op_info.c %D%/shapes.c %D%/views.c \
	%D%/compile/reach.c %D%/compile/reach.h \
	%D%/compile/assign.c %D%/compile/assign.h \
	%D%/compile/sync.c %D%/compile/sync.h \
	%D%/prefetch/prefetcher.c %D%/prefetch/prefetcher.h %D%/prefetch/imports.c %D%/prefetch/imports.h \
	%D%/prefetch/entry_reader.c %D%/prefetch/store.c \
	%D%/compile/place_results.c %D%/compile/place_results.h \
	%D%/compile/passes.c %D%/compile/passes.h %D%/compile/compiler.c %D%/compile/compiler.h %D%/compile/compiled.c %D%/compile/compiled.h %D%/compile/nodes.c \
	%D%/compile/leaves.c \
	%D%/exec/sched.c %D%/exec/sched.h %D%/exec/exec.c \
	%D%/exec/run.c %D%/exec/run.h %D%/exec/start.c %D%/exec/advance.c %D%/exec/graph_compute.c \
	%D%/exec/exec_races.h %D%/exec/exec_races.c %D%/exec/progress.c %D%/exec/progress.h \
	%D%/compare/graph_copy.c %D%/compare/compare.c
EXTRA_DIST += %D%/README.md %D%/NODE.md %D%/compare/README.md %D%/compile/README.md %D%/compile/PASSES.md %D%/exec/README.md %D%/prefetch/README.md
