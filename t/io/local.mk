# SPDX-License-Identifier: MIT
T_IO_C = %D%/resident.t %D%/pool.t %D%/pool-gap.t %D%/engine.t %D%/engine-fill.t \
	%D%/engine-rows.t %D%/owner.t %D%/borrow.t %D%/late-job.t \
	%D%/late-slots.t %D%/lease.t %D%/changed.t %D%/outcome.t %D%/ring-dies.t \
	%D%/ring-old.t %D%/ring-stuck.t %D%/read-deadline.t %D%/reads.t \
	%D%/load-ends.t %D%/eventfd.t %D%/affinity.t %D%/file-now.t \
	%D%/source.t %D%/source-late.t %D%/source-module.t %D%/source-mix.t \
	%D%/source-close.t %D%/url.t
T_IO_SH = %D%/env-ring.sh %D%/env-files.sh
check_PROGRAMS += $(T_IO_C)
dist_check_SCRIPTS += $(T_IO_SH)
TESTS += $(T_IO_C) $(T_IO_SH)
%C%_engine_t_SOURCES = %D%/engine.c
%C%_engine_fill_t_SOURCES = %D%/engine-fill.c $(T_FILES)
%C%_engine_rows_t_SOURCES = %D%/engine-rows.c $(T_ROWS)
%C%_lease_t_SOURCES = %D%/lease.c $(T_CACHED) $(T_FILES) $(T_STREAMS)
%C%_lease_t_LDFLAGS = $(T_CACHED_FLAGS) $(T_WRAP)sys_mincore
%C%_lease_t_LDADD = $(T_STATIC)
%C%_changed_t_SOURCES = %D%/changed.c $(T_SAMPLE) $(T_UNCACHED)
%C%_changed_t_LDADD = lib/libweir.la t/libtap.la
%C%_ring_dies_t_SOURCES = %D%/ring-dies.c $(T_SAMPLE)
%C%_ring_dies_t_LDADD = lib/libweir.la t/libtap.la
%C%_ring_old_t_SOURCES = %D%/ring-old.c $(T_SAMPLE)
%C%_ring_old_t_LDADD = $(LDADD) $(URING_LIBS) -ldl
%C%_ring_stuck_t_SOURCES = %D%/ring-stuck.c $(T_SAMPLE) $(T_LEAKS) $(T_UNCACHED)
%C%_ring_stuck_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__owner_release
%C%_ring_stuck_t_LDADD = $(T_STATIC) $(URING_LIBS) -ldl
%C%_eventfd_t_SOURCES = %D%/eventfd.c $(T_SAMPLE)
%C%_read_deadline_t_SOURCES = %D%/read-deadline.c $(T_SAMPLE) $(T_LEAKS) \
	$(T_UNCACHED)
%C%_read_deadline_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__thread_join
%C%_read_deadline_t_LDADD = $(T_STATIC) $(URING_LIBS) -ldl
%C%_reads_t_SOURCES = %D%/reads.c $(T_SAMPLE)
%C%_load_ends_t_SOURCES = %D%/load-ends.c $(T_SAMPLE) $(T_UNCACHED)
%C%_load_ends_t_LDADD = $(LDADD) $(URING_LIBS) -ldl
%C%_affinity_t_SOURCES = %D%/affinity.c $(T_SAMPLE)
%C%_file_now_t_SOURCES = %D%/file-now.c $(T_SAMPLE) $(T_FILES)
%C%_source_t_SOURCES = %D%/source.c $(T_MEM_SOURCE) $(T_SAMPLE) \
	$(T_SLICES)
%C%_source_module_t_SOURCES = %D%/source-module.c $(T_FILES)
%C%_source_mix_t_SOURCES = %D%/source-mix.c $(T_MEM_SOURCE) $(T_SAMPLE) \
	$(T_SLICES)
%C%_source_close_t_SOURCES = %D%/source-close.c $(T_MEM_SOURCE) $(T_SAMPLE)
%C%_source_close_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__reactor_post
%C%_source_close_t_LDADD = $(T_STATIC)
%C%_source_late_t_SOURCES = %D%/source-late.c $(T_MEM_SOURCE) \
	$(T_SAMPLE) $(T_LEAKS)
%C%_pool_t_SOURCES = %D%/pool.c
%C%_pool_gap_t_SOURCES = %D%/pool-gap.c
%C%_owner_t_SOURCES = %D%/owner.c
%C%_borrow_t_SOURCES = %D%/borrow.c $(T_FILES)
%C%_late_slots_t_SOURCES = %D%/late-slots.c $(T_FILES) $(T_LEAKS) $(T_UNCACHED)
%C%_late_job_t_SOURCES = %D%/late-job.c $(T_FILES)
%C%_late_job_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=weir__queues_prepare
%C%_late_job_t_LDADD = $(T_STATIC)
%C%_resident_t_SOURCES = %D%/resident.c $(T_FILES)
%C%_resident_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_cached
%C%_resident_t_LDADD = $(T_STATIC)
