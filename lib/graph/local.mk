# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/graph.c %D%/graph.h %D%/node.c %D%/bump.c %D%/bump.h \
	%D%/ops.c %D%/ops.h %D%/make.c %D%/shapes.c %D%/arrange.c %D%/views.c \
	%D%/overlap.c %D%/overlap.h \
	%D%/reach.c %D%/reach.h %D%/reach_order.c %D%/reach_graph.c \
	%D%/assign.c %D%/assign.h %D%/assign_graph.c %D%/pins.c %D%/pins.h \
	%D%/order.c %D%/order.h %D%/imports.c %D%/imports.h \
	%D%/feed.c %D%/feed.h %D%/feed_source.c %D%/provider.c %D%/store.c \
	%D%/passes.c %D%/unchanged.c \
	%D%/place.c %D%/place.h \
	%D%/draft.c %D%/draft.h %D%/plan.c %D%/plan.h %D%/where.c %D%/nodes.c \
	%D%/leaves.c %D%/split.c \
	%D%/sched.c %D%/sched.h %D%/schedule.c %D%/explain.c \
	%D%/run.c %D%/run.h %D%/start.c %D%/advance.c %D%/end.c \
	%D%/transfer.c %D%/races.h %D%/races.c %D%/progress.c %D%/progress.h \
	%D%/copy.c %D%/compare.c %D%/difference.c %D%/difference.h
EXTRA_DIST += %D%/README.md %D%/PASSES.md %D%/RUN.md %D%/FEED.md
