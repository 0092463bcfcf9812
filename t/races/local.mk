# SPDX-License-Identifier: MIT
T_RACES_C = %D%/races-map.t %D%/races-model.t %D%/races.t %D%/races-loads.t \
	%D%/races-runs.t %D%/races-lanes.t
T_RACES_SH = %D%/races-others.sh
check_PROGRAMS += $(T_RACES_C)
dist_check_SCRIPTS += $(T_RACES_SH)
TESTS += $(T_RACES_C) $(T_RACES_SH)
%C%_races_t_SOURCES = %D%/races.c $(T_RACING)
%C%_races_loads_t_SOURCES = %D%/races-loads.c $(T_RACING) $(T_SAMPLE) $(T_FILES)
%C%_races_lanes_t_SOURCES = %D%/races-lanes.c $(T_RACING)
%C%_races_runs_t_SOURCES = %D%/races-runs.c $(T_CACHED) $(T_RACING) $(T_FILES)
%C%_races_runs_t_LDFLAGS = $(T_CACHED_FLAGS)
%C%_races_runs_t_LDADD = $(T_STATIC)
