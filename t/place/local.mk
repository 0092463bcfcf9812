# SPDX-License-Identifier: MIT
T_PLACE_C = %D%/exact.t %D%/placement.t %D%/placement-apply.t \
	%D%/placement-random.t %D%/placement-graphs.t %D%/placement-many.t \
	%D%/placement-memory.t %D%/placement-optimum.t %D%/placement-simple.t \
	%D%/placement-stairs.t
check_PROGRAMS += $(T_PLACE_C)
TESTS += $(T_PLACE_C)
%C%_placement_optimum_t_SOURCES = %D%/placement-optimum.c $(T_PLACED)
%C%_placement_memory_t_SOURCES = %D%/placement-memory.c $(T_KIND) $(T_NOMEM)
%C%_placement_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_placement_memory_t_LDADD = $(T_STATIC)
%C%_exact_t_SOURCES = %D%/exact.c %D%/exact_made.c %D%/exact_made.h
%C%_placement_simple_t_SOURCES = %D%/placement-simple.c $(T_LIFETIMES)
%C%_placement_stairs_t_SOURCES = %D%/placement-stairs.c $(T_PLACED)
%C%_placement_many_t_SOURCES = %D%/placement-many.c $(T_LIFETIMES)
%C%_placement_t_SOURCES = %D%/placement.c $(T_PLACED)
%C%_placement_apply_t_SOURCES = %D%/placement-apply.c $(T_PLACED) $(T_KIND)
%C%_placement_graphs_t_SOURCES = %D%/placement-graphs.c \
	bench/graphs.c bench/graphs.h
