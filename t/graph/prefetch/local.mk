# SPDX-License-Identifier: MIT
T_GRAPH_PREFETCH_C = %D%/feed.t %D%/feed-provider.t %D%/feed-restart.t \
	%D%/run-feed.t %D%/run-rows.t %D%/run-same.t
check_PROGRAMS += $(T_GRAPH_PREFETCH_C)
TESTS += $(T_GRAPH_PREFETCH_C)
%C%_feed_t_SOURCES = %D%/feed.c $(T_FED)
%C%_feed_restart_t_SOURCES = %D%/feed-restart.c $(T_FED)
%C%_feed_restart_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_mutex_unlock
%C%_feed_restart_t_LDADD = $(T_STATIC)
%C%_feed_provider_t_SOURCES = %D%/feed-provider.c $(T_FED)
%C%_run_feed_t_SOURCES = %D%/run-feed.c $(T_FILES) $(T_LEAF) $(T_NOMEM) \
	$(T_STREAMS)
%C%_run_feed_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_run_feed_t_LDADD = $(T_STATIC)
%C%_run_rows_t_SOURCES = %D%/run-rows.c $(T_FILES) $(T_LEAF) $(T_STREAMS)
%C%_run_rows_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_pread_nowait
%C%_run_rows_t_LDADD = $(T_STATIC)
%C%_run_same_t_SOURCES = %D%/run-same.c $(T_FILES) $(T_LEAF) $(T_STREAMS)
