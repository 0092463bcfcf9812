# SPDX-License-Identifier: MIT
T_GRAPH_COMPILE_C = %D%/graph-reach.t %D%/graph-assign.t \
	%D%/graph-assign-random.t %D%/graph-place.t \
	%D%/rates.t
check_PROGRAMS += $(T_GRAPH_COMPILE_C)
TESTS += $(T_GRAPH_COMPILE_C)
%C%_graph_reach_t_SOURCES = %D%/graph-reach.c $(T_LEAF)
%C%_graph_place_t_SOURCES = %D%/graph-place.c $(T_LEAF) $(T_STREAMS)
%C%_graph_assign_t_SOURCES = %D%/graph-assign.c $(T_NET)
%C%_graph_assign_random_t_SOURCES = %D%/graph-assign-random.c $(T_NET)
%C%_rates_t_SOURCES = %D%/rates.c $(T_GDEV)
