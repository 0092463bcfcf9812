# SPDX-License-Identifier: MIT
T_GRAPH_EXEC_C = %D%/graph-devices.t %D%/graph-lanes.t %D%/graph-constant.t \
	%D%/graph-parked.t \
	%D%/sched.t %D%/exec.t %D%/run-start.t %D%/run-events.t \
	%D%/run-lanes.t %D%/run-late.t %D%/run-close.t %D%/run-ends.t \
	%D%/run-load.t %D%/sched-memory.t %D%/sched-exact.t %D%/sched-pins.t \
	%D%/pins-memory.t %D%/compute-once.t %D%/graph-random.t %D%/graph-parts.t
check_PROGRAMS += $(T_GRAPH_EXEC_C)
TESTS += $(T_GRAPH_EXEC_C)
%C%_graph_random_t_SOURCES = %D%/graph-random.c $(T_RANDOM)
%C%_graph_constant_t_SOURCES = %D%/graph-constant.c $(T_LEAF) $(T_KIND) \
	$(T_FILES) $(T_STREAMS)
%C%_graph_parked_t_SOURCES = %D%/graph-parked.c $(T_GDEV) $(T_SAMPLE)
%C%_sched_t_SOURCES = %D%/sched.c $(T_GDEV) $(T_FILES)
%C%_run_ends_t_SOURCES = %D%/run-ends.c $(T_STREAMS)
%C%_graph_devices_t_SOURCES = %D%/graph-devices.c $(T_GDEV)
%C%_exec_t_SOURCES = %D%/exec.c $(T_GDEV) $(T_LEAF)
%C%_run_start_t_SOURCES = %D%/run-start.c $(T_GDEV) $(T_LEAF)
%C%_graph_parts_t_SOURCES = %D%/graph-parts.c $(T_LEAF) $(T_STREAMS)
%C%_run_lanes_t_SOURCES = %D%/run-lanes.c $(T_GDEV)
%C%_run_lanes_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)tensor_set
%C%_run_lanes_t_LDADD = $(T_STATIC)
%C%_run_events_t_SOURCES = %D%/run-events.c $(T_GDEV)
%C%_run_late_t_SOURCES = %D%/run-late.c $(T_LEAF) $(T_STREAMS)
%C%_run_late_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)progress_to
%C%_run_late_t_LDADD = $(T_STATIC)
%C%_run_close_t_SOURCES = %D%/run-close.c $(T_GDEV)
%C%_run_load_t_SOURCES = %D%/run-load.c $(T_PAUSED)
%C%_run_load_t_LDADD = lib/libweir.la t/libtap.la
%C%_sched_memory_t_SOURCES = %D%/sched-memory.c $(T_GDEV) $(T_NOMEM)
%C%_sched_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_sched_memory_t_LDADD = $(T_STATIC)
%C%_sched_exact_t_SOURCES = %D%/sched-exact.c $(T_LEAF) $(T_STREAMS)
%C%_compute_once_t_SOURCES = %D%/compute-once.c $(T_GDEV)
%C%_pins_memory_t_SOURCES = %D%/pins-memory.c $(T_LEAF) $(T_STREAMS) $(T_NOMEM)
%C%_pins_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_pins_memory_t_LDADD = $(T_STATIC)
%C%_sched_pins_t_SOURCES = %D%/sched-pins.c $(T_LEAF) $(T_STREAMS)
