# SPDX-License-Identifier: MIT
T_GRAPH_COMPARE_C = %D%/graph-compare.t %D%/graph-copy.t \
	%D%/graph-copy-memory.t
check_PROGRAMS += $(T_GRAPH_COMPARE_C)
TESTS += $(T_GRAPH_COMPARE_C)
%C%_graph_compare_t_SOURCES = %D%/graph-compare.c $(T_GDEV)
%C%_graph_copy_t_SOURCES = %D%/graph-copy.c $(T_LEAF) $(T_NAIVE) \
	$(T_KIND)
%C%_graph_copy_memory_t_SOURCES = %D%/graph-copy-memory.c $(T_GDEV) \
	$(T_NOMEM)
%C%_graph_copy_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_graph_copy_memory_t_LDADD = $(T_STATIC)
