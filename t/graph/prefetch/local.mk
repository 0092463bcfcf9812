# SPDX-License-Identifier: MIT
T_GRAPH_PREFETCH_C = %D%/prefetcher.t %D%/prefetch-imports.t \
	%D%/prefetch-reader.t %D%/prefetch-restart.t \
	%D%/run-prefetch.t %D%/run-rows.t %D%/run-same.t %D%/thread-names.t
check_PROGRAMS += $(T_GRAPH_PREFETCH_C)
TESTS += $(T_GRAPH_PREFETCH_C)
%C%_prefetcher_t_SOURCES = %D%/prefetcher.c $(T_PREFETCHING)
%C%_prefetch_imports_t_SOURCES = %D%/prefetch-imports.c
%C%_prefetch_restart_t_SOURCES = %D%/prefetch-restart.c $(T_PREFETCHING)
%C%_prefetch_restart_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_mutex_unlock
%C%_prefetch_restart_t_LDADD = $(T_STATIC)
%C%_prefetch_reader_t_SOURCES = %D%/prefetch-reader.c $(T_CACHED) $(T_PREFETCHING)
%C%_prefetch_reader_t_LDFLAGS = $(T_CACHED_FLAGS)
%C%_prefetch_reader_t_LDADD = $(T_STATIC)
%C%_run_prefetch_t_SOURCES = %D%/run-prefetch.c $(T_FILES) $(T_LEAF) $(T_NOMEM) \
	$(T_STREAMS)
%C%_run_prefetch_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_run_prefetch_t_LDADD = $(T_STATIC)
%C%_run_rows_t_SOURCES = %D%/run-rows.c $(T_CACHED) $(T_FILES) $(T_LEAF) \
	$(T_STREAMS)
%C%_run_rows_t_LDFLAGS = $(T_CACHED_FLAGS) $(T_WRAP)sys_pread_nowait
%C%_run_rows_t_LDADD = $(T_STATIC)
%C%_run_same_t_SOURCES = %D%/run-same.c $(T_FILES) $(T_LEAF) $(T_STREAMS)
%C%_thread_names_t_SOURCES = %D%/thread-names.c $(T_FILES) $(T_LEAF) $(T_SAMPLE) \
	$(T_STREAMS)
