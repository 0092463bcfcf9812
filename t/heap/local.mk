# SPDX-License-Identifier: MIT
T_HEAP_C = %D%/heap.t %D%/heap-full.t %D%/heap-blocks.t %D%/heap-streams.t \
	%D%/heap-model.t %D%/heap-find.t %D%/heap-random.t %D%/heap-order.t \
	%D%/heap-shards.t %D%/heap-shards-random.t %D%/heap-threads.t \
	%D%/heap-faults.t %D%/heap-lock.t %D%/heap-region.t %D%/heap-unused.t
T_STEPS = %D%/steps.c %D%/steps.h
check_LTLIBRARIES += %D%/libsteps.la
%C%_libsteps_la_SOURCES = $(LIB_HEAP) $(LIB_STREAM) $(LIB_CORE)
%C%_libsteps_la_CFLAGS = $(lib_libweir_core_la_CFLAGS) -fsanitize-coverage=trace-pc
check_PROGRAMS += $(T_HEAP_C)
TESTS += $(T_HEAP_C)
%C%_heap_t_SOURCES = %D%/heap.c $(T_STREAMS)
%C%_heap_full_t_SOURCES = %D%/heap-full.c $(T_STREAMS)
%C%_heap_random_t_SOURCES = %D%/heap-random.c $(T_STEPS) $(T_DRAWS) $(T_STREAMS)
%C%_heap_random_t_LDADD = %D%/libsteps.la $(T_STATIC)
%C%_heap_find_t_SOURCES = %D%/heap-find.c $(T_STREAMS)
%C%_heap_blocks_t_SOURCES = %D%/heap-blocks.c $(T_STEPS) $(T_DRAWS) $(T_STREAMS)
%C%_heap_blocks_t_LDADD = %D%/libsteps.la $(T_STATIC)
%C%_heap_streams_t_SOURCES = %D%/heap-streams.c $(T_STEPS) $(T_DRAWS) $(T_STREAMS)
%C%_heap_streams_t_LDADD = %D%/libsteps.la $(T_STATIC)
%C%_heap_model_t_SOURCES = %D%/heap-model.c $(T_DRAWS) $(T_STREAMS)
%C%_heap_order_t_SOURCES = %D%/heap-order.c $(T_STREAMS)
%C%_heap_shards_t_SOURCES = %D%/heap-shards.c $(T_STREAMS)
%C%_heap_shards_random_t_SOURCES = %D%/heap-shards-random.c $(T_STREAMS)
%C%_heap_threads_t_SOURCES = %D%/heap-threads.c $(T_STREAMS)
%C%_heap_faults_t_SOURCES = %D%/heap-faults.c $(T_STREAMS) $(T_NOMEM)
%C%_heap_region_t_SOURCES = %D%/heap-region.c $(T_DRAWS) $(T_STREAMS)
%C%_heap_unused_t_SOURCES = %D%/heap-unused.c $(T_DRAWS) $(T_STREAMS)
%C%_heap_lock_t_SOURCES = %D%/heap-lock.c
%C%_heap_faults_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_heap_faults_t_LDADD = $(T_STATIC)
