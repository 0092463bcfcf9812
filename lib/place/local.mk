# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/apply.c \
	%D%/exact.c %D%/exact.h %D%/exact_part.c %D%/exact_part.h \
	%D%/exact_team.c %D%/exact_team.h \
	%D%/exact_search.c %D%/exact_search.h \
	%D%/exact_state.c %D%/exact_bounds.c %D%/exact_order.c \
	%D%/field.c %D%/field.h %D%/gaps.c %D%/gaps.h \
	%D%/greedy.c %D%/greedy.h %D%/pieces.c %D%/pieces.h \
	%D%/placement.c %D%/placement.h %D%/planner.c %D%/planner.h \
	%D%/scan.c %D%/scan.h \
	%D%/sections.c %D%/sections.h %D%/skyline.c %D%/skyline.h \
	%D%/sweep.c %D%/sweep.h \
	%D%/tensors.c %D%/tensors.h %D%/place_views.c
EXTRA_DIST += %D%/README.md
