# SPDX-License-Identifier: MIT
T_CLI_C = %D%/fuzz-plan.t %D%/plan-csv.t %D%/signals.t
T_CLI_SH = %D%/cli-usage.sh %D%/cli-synth.sh %D%/cli-inspect.sh \
	%D%/cli-load.sh %D%/cli-map.sh %D%/cli-outfile.sh %D%/cli-slice.sh \
	%D%/cli-gguf.sh %D%/cli-devices.sh %D%/cli-far.sh %D%/cli-faults.sh \
	%D%/cli-convert.sh %D%/cli-convert-model.sh %D%/cli-convert-real.sh \
	%D%/cli-digest.sh %D%/cli-plan.sh %D%/cli-run.sh %D%/cli-graph.sh \
	%D%/cli-url.sh %D%/cli-fetch.sh %D%/cli-cache.sh
check_PROGRAMS += $(T_CLI_C)
dist_check_SCRIPTS += $(T_CLI_SH)
TESTS += $(T_CLI_C) $(T_CLI_SH)
%C%_plan_csv_t_SOURCES = %D%/plan-csv.c $(T_PLAN_CSV)
%C%_fuzz_plan_t_SOURCES = t/fuzz/fz_plan.c t/fuzz/replay.c $(T_LIMIT) $(T_FUZZ) \
	$(T_PLAN_CSV)
%C%_signals_t_SOURCES = %D%/signals.c tools/signals.c tools/signals.h
