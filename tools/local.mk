# SPDX-License-Identifier: MIT
# The command. It links the library that programs link, not the core.
bin_PROGRAMS += %D%/weir
%C%_weir_SOURCES = \
	%D%/main.c %D%/command.h \
	%D%/args.c %D%/args.h \
	%D%/output.c %D%/output.h \
	%D%/text.c %D%/text.h \
	%D%/outfile.c %D%/outfile_spare.c %D%/outfile.h \
	%D%/svg.c %D%/svg.h \
	%D%/progress.c %D%/progress.h \
	%D%/signals.c %D%/signals.h \
	%D%/kinds.c %D%/kinds.h %D%/reserved.c %D%/reserved.h \
	%D%/devices.c %D%/inspect.c \
	%D%/metadata.c %D%/metadata.h \
	%D%/load.c %D%/load.h %D%/load_args.c %D%/load_rules.c \
	%D%/load_plan.c %D%/load_estimate.c \
	%D%/load_report.c %D%/load_json.c %D%/load_facts.c \
	%D%/load_memory.c \
	%D%/load_map.c %D%/load_map.h %D%/load_map_svg.c \
	%D%/digest.c %D%/digest.h \
	%D%/synth.c %D%/synth_files.c %D%/synth_layout.c %D%/synth_gguf.c %D%/synth.h \
	%D%/presets.c %D%/presets.h \
	%D%/csv.c %D%/csv.h %D%/plan_csv.c %D%/plan_csv.h \
	%D%/plan.c %D%/plan.h %D%/plan_read.c %D%/infile.c %D%/infile.h %D%/plan_report.c \
	%D%/plan_live.c %D%/plan_draw.c %D%/plan_buffers.c \
	%D%/fail_llama.c %D%/fail_llama.h \
	%D%/run.c %D%/run.h %D%/run_args.c %D%/run_text.c \
	%D%/run_report.c %D%/run_json.c %D%/run_prompt.c \
	%D%/graph.c %D%/graph.h %D%/graph_model.c %D%/graph_splits.c \
	%D%/graph_schedule.c \
	%D%/graph_view.c %D%/graph_parts.c %D%/graph_text.c \
	%D%/graph_report.c %D%/graph_scene.c %D%/graph_dot.c \
	%D%/graph_svg.c %D%/graph_layout.c %D%/graph_layout.h
%C%_weir_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
%C%_weir_LDADD = llama/libllama.la text/libtext.la lib/libweir.la \
	$(JANSSON_LIBS) -lm
EXTRA_DIST += %D%/README.md
