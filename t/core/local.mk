# SPDX-License-Identifier: MIT
T_CORE_C = %D%/errno-names.t %D%/error.t %D%/sort.t %D%/slab.t \
	%D%/root.t %D%/debug.t %D%/cpus.t %D%/trace.t %D%/timeline.t %D%/fork.t \
	%D%/fork-calls.t %D%/close.t %D%/interrupted.t %D%/sentences.t
T_CORE_SH = %D%/gdb.sh
check_PROGRAMS += $(T_CORE_C)
dist_check_SCRIPTS += $(T_CORE_SH)
TESTS += $(T_CORE_C) $(T_CORE_SH)
%C%_errno_names_t_SOURCES = %D%/errno-names.c
%C%_error_t_SOURCES = %D%/error.c
%C%_root_t_SOURCES = %D%/root.c $(T_KIND)
%C%_debug_t_SOURCES = %D%/debug.c
%C%_cpus_t_SOURCES = %D%/cpus.c $(T_FILES)
%C%_timeline_t_SOURCES = %D%/timeline.c
%C%_close_t_SOURCES = %D%/close.c $(T_FILES)
%C%_sort_t_SOURCES = %D%/sort.c
%C%_slab_t_SOURCES = %D%/slab.c
%C%_fork_t_SOURCES = %D%/fork.c $(T_SAMPLE) $(T_KIND) $(T_UNCACHED)
%C%_fork_calls_t_SOURCES = %D%/fork-calls.c %D%/fork_calls.h %D%/fork_graphs.c \
	$(T_SAMPLE)
%C%_sentences_t_SOURCES = %D%/sentences.c $(T_SAMPLE) $(T_FILES)
%C%_interrupted_t_SOURCES = %D%/interrupted.c $(T_SAMPLE) $(T_UNCACHED)
%C%_trace_t_SOURCES = %D%/trace.c
