# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/conflict_graph.c %D%/conflict_graph.h \
	%D%/exact.c %D%/exact.h \
	%D%/exact_component.c %D%/exact_component.h \
	%D%/exact_search.c %D%/exact_search.h \
	%D%/greedy.c %D%/greedy.h \
	%D%/placement.c %D%/placement.h %D%/planner.c %D%/planner.h \
	%D%/rects.c %D%/rects.h %D%/sweep.c %D%/sweep.h \
	%D%/tensors.c %D%/tensors.h
EXTRA_DIST += %D%/README.md
