# SPDX-License-Identifier: MIT
T_ALLOC_C = %D%/avail.t %D%/topology.t %D%/far.t %D%/arena.t %D%/hugetlb.t \
	%D%/budget.t %D%/share.t %D%/share-faults.t %D%/prefault.t %D%/prefault-threads.t \
	%D%/partly.t %D%/slots.t %D%/low-memory.t
T_ALLOC_SH = %D%/env-memory.sh
check_PROGRAMS += $(T_ALLOC_C)
dist_check_SCRIPTS += $(T_ALLOC_SH)
TESTS += $(T_ALLOC_C) $(T_ALLOC_SH)
%C%_avail_t_SOURCES = %D%/avail.c $(T_FILES)
%C%_topology_t_SOURCES = %D%/topology.c $(T_NODES)
%C%_far_t_SOURCES = %D%/far.c $(T_NODES) $(T_KIND) $(T_SAMPLE)
%C%_far_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_text
%C%_far_t_LDADD = $(T_STATIC)
%C%_arena_t_SOURCES = %D%/arena.c $(T_LIMIT)
%C%_hugetlb_t_SOURCES = %D%/hugetlb.c $(T_RESERVE) $(T_KIND)
%C%_budget_t_SOURCES = %D%/budget.c $(T_SAMPLE) $(T_TESTMOD) $(T_KIND)
%C%_share_faults_t_SOURCES = %D%/share-faults.c $(T_KIND)
%C%_share_t_SOURCES = %D%/share.c $(T_RESERVE) $(T_SAMPLE) $(T_TESTMOD) $(T_KIND)
%C%_low_memory_t_SOURCES = %D%/low-memory.c $(T_LIMIT) $(T_SINKS) $(T_PLANS)
%C%_low_memory_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__avail_ram
%C%_low_memory_t_LDADD = $(T_STATIC)
%C%_prefault_t_SOURCES = %D%/prefault.c $(T_FILES) $(T_SAMPLE)
%C%_prefault_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_populate \
	$(T_WRAP)sys_mlock
%C%_prefault_t_LDADD = $(T_STATIC)
%C%_prefault_threads_t_SOURCES = %D%/prefault-threads.c $(T_FILES)
%C%_prefault_threads_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__thread_start
%C%_prefault_threads_t_LDADD = $(T_STATIC)
%C%_partly_t_SOURCES = %D%/partly.c $(T_FILES) $(T_SAMPLE)
%C%_slots_t_SOURCES = %D%/slots.c
