# SPDX-License-Identifier: MIT
T_GRAPH_COMPARE_C = %D%/graph-compare.t
check_PROGRAMS += $(T_GRAPH_COMPARE_C)
TESTS += $(T_GRAPH_COMPARE_C)
%C%_graph_compare_t_SOURCES = %D%/graph-compare.c $(T_GDEV)
