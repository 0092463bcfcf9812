# SPDX-License-Identifier: MIT
T_GRAPH_C = %D%/graph.t %D%/graph-ops.t %D%/graph-views.t %D%/graph-equal.t \
	%D%/graph-memory.t %D%/op-info.t %D%/ops-symbols.t
check_PROGRAMS += $(T_GRAPH_C)
TESTS += $(T_GRAPH_C)
%C%_graph_t_SOURCES = %D%/graph.c $(T_LEAF) $(T_KIND)
%C%_graph_ops_t_SOURCES = %D%/graph-ops.c $(T_LEAF)
%C%_graph_views_t_SOURCES = %D%/graph-views.c $(T_LEAF)
%C%_graph_equal_t_SOURCES = %D%/graph-equal.c $(T_LEAF) $(T_KIND)
%C%_graph_memory_t_SOURCES = %D%/graph-memory.c $(T_LEAF) $(T_NOMEM)
%C%_graph_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_graph_memory_t_LDADD = $(T_STATIC)
%C%_ops_symbols_t_LDADD = lib/libweir.la t/libtap.la -ldl
