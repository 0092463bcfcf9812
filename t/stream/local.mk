# SPDX-License-Identifier: MIT
T_STREAM_C = %D%/stream.t %D%/stream-order.t %D%/stream-ranges.t \
	%D%/stream-io.t %D%/alone.t %D%/attend.t %D%/stream-fail.t \
	%D%/stream-close.t %D%/stream-race.t %D%/event.t
check_PROGRAMS += $(T_STREAM_C)
TESTS += $(T_STREAM_C)
%C%_stream_t_SOURCES = %D%/stream.c $(T_STREAMS)
%C%_stream_order_t_SOURCES = %D%/stream-order.c $(T_STREAMS)
%C%_stream_ranges_t_SOURCES = %D%/stream-ranges.c $(T_STREAMS)
%C%_stream_ranges_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)realloc
%C%_stream_ranges_t_LDADD = $(T_STATIC)
%C%_stream_io_t_SOURCES = %D%/stream-io.c $(T_STREAMS)
%C%_alone_t_SOURCES = %D%/alone.c $(T_CACHED) $(T_FILES) $(T_SAMPLE) $(T_STREAMS)
%C%_alone_t_LDFLAGS = $(T_CACHED_FLAGS)
%C%_alone_t_LDADD = $(T_STATIC)
%C%_stream_fail_t_SOURCES = %D%/stream-fail.c $(T_STREAMS)
%C%_stream_fail_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__thread_start
%C%_stream_fail_t_LDADD = $(T_STATIC)
%C%_stream_close_t_SOURCES = %D%/stream-close.c $(T_STREAMS)
%C%_stream_race_t_SOURCES = %D%/stream-race.c $(T_STREAMS)
%C%_event_t_SOURCES = %D%/event.c $(T_STREAMS)
%C%_attend_t_SOURCES = %D%/attend.c
