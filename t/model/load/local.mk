# SPDX-License-Identifier: MIT
T_MODEL_LOAD_C = %D%/load.t %D%/load-next.t %D%/load-fd.t %D%/memory.t \
	%D%/plan.t %D%/slice-rows.t %D%/target.t %D%/target-weights.t \
	%D%/load-writes.t %D%/slice.t %D%/sink.t %D%/sink-faults.t \
	%D%/plan-random.t %D%/refused.t %D%/null.t %D%/place.t \
	%D%/data-begins.t %D%/park.t %D%/park-faults.t %D%/load-faults.t %D%/over-read.t \
	%D%/targets-layout.t %D%/verify.t %D%/verify-wait.t %D%/load-drop.t %D%/weights-share.t \
	%D%/weights-share-memory.t
T_MODEL_LOAD_SH = %D%/digest.sh
check_PROGRAMS += $(T_MODEL_LOAD_C)
dist_check_SCRIPTS += $(T_MODEL_LOAD_SH)
TESTS += $(T_MODEL_LOAD_C) $(T_MODEL_LOAD_SH)
%C%_data_begins_t_SOURCES = %D%/data-begins.c $(T_FILES)
%C%_load_t_SOURCES = %D%/load.c $(T_SAMPLE)
%C%_load_t_LDADD = lib/libweir.la t/libtap.la
%C%_load_drop_t_SOURCES = %D%/load-drop.c $(T_SAMPLE)
%C%_load_next_t_SOURCES = %D%/load-next.c $(T_PAUSED) $(T_LEAKS)
%C%_load_next_t_LDADD = lib/libweir.la t/libtap.la
%C%_load_fd_t_SOURCES = %D%/load-fd.c $(T_PAUSED)
%C%_load_fd_t_LDADD = lib/libweir.la t/libtap.la
%C%_load_faults_t_SOURCES = %D%/load-faults.c $(T_SAMPLE) $(T_UNCACHED)
%C%_load_faults_t_LDADD = lib/libweir.la t/libtap.la
%C%_memory_t_SOURCES = %D%/memory.c $(T_FILES) $(T_NOMEM)
%C%_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_memory_t_LDADD = $(T_STATIC)
%C%_refused_t_SOURCES = %D%/refused.c $(T_PLANS)
%C%_null_t_SOURCES = %D%/null.c $(T_PLANS)
%C%_plan_t_SOURCES = %D%/plan.c $(T_PLANS)
%C%_slice_rows_t_SOURCES = %D%/slice-rows.c
%C%_target_t_SOURCES = %D%/target.c $(T_SLICES) $(T_PLANS)
%C%_load_writes_t_SOURCES = %D%/load-writes.c $(T_SLICES) $(T_PLANS)
%C%_target_weights_t_SOURCES = %D%/target-weights.c $(T_SLICES) $(T_PLANS)
%C%_slice_t_SOURCES = %D%/slice.c $(T_SLICES) $(T_PLANS)
%C%_sink_t_SOURCES = %D%/sink.c $(T_SINKS) $(T_PLANS)
%C%_sink_faults_t_SOURCES = %D%/sink-faults.c $(T_LEAKS) $(T_SINKS) \
	$(T_PLANS) $(T_UNCACHED)
%C%_plan_random_t_SOURCES = %D%/plan-random.c $(T_SLICES) $(T_PLANS)
%C%_park_t_SOURCES = %D%/park.c $(T_PLANS)
%C%_park_faults_t_SOURCES = %D%/park-faults.c $(T_SINKS) $(T_PLANS)
%C%_park_faults_t_LDADD = lib/libweir.la t/libtap.la
%C%_over_read_t_SOURCES = %D%/over-read.c $(T_PLANS)
%C%_over_read_t_LDFLAGS = $(T_CACHED_FLAGS) $(T_WRAP)sys_peek
%C%_over_read_t_LDADD = $(T_STATIC)
%C%_place_t_SOURCES = %D%/place.c $(T_PLANS)
%C%_verify_wait_t_SOURCES = %D%/verify-wait.c $(T_SAMPLE)
%C%_verify_wait_t_LDADD = lib/libweir.la t/libtap.la
%C%_verify_t_SOURCES = %D%/verify.c $(T_SINKS) $(T_PLANS)
%C%_weights_share_t_SOURCES = %D%/weights-share.c $(T_SAMPLE) $(T_KIND)
%C%_weights_share_memory_t_SOURCES = %D%/weights-share-memory.c $(T_FILES) $(T_KIND) $(T_NOMEM)
%C%_weights_share_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_weights_share_memory_t_LDADD = $(T_STATIC)
%C%_targets_layout_t_SOURCES = %D%/targets-layout.c $(T_PLANS)
