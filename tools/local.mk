# SPDX-License-Identifier: MIT
# The command. It links the library that programs link, not the core.
bin_PROGRAMS += %D%/weir
%C%_weir_SOURCES = \
	%D%/main.c %D%/command.h \
	%D%/args.c %D%/args.h %D%/output.c %D%/output.h \
	%D%/text.c %D%/text.h %D%/svg.c %D%/svg.h \
	%D%/infile.c %D%/infile.h %D%/outfile.c %D%/outfile.h \
	%D%/progress.c %D%/progress.h %D%/signals.c %D%/signals.h \
	%D%/kinds.c %D%/kinds.h %D%/slices.c %D%/slices.h %D%/usage.c %D%/usage.h \
	%D%/fail_llama.c %D%/fail_llama.h \
	%D%/devices.c %D%/fetch.c %D%/inspect.c \
	%D%/convert.c %D%/convert.h %D%/convert_args.c %D%/convert_tensors.c \
	%D%/convert_meta.c %D%/convert_model.c %D%/convert_folder.c %D%/convert_beside.c \
	%D%/graph.c %D%/graph.h %D%/graph_model.c %D%/graph_view.c \
	%D%/graph_text.c %D%/graph_report.c %D%/graph_dot.c %D%/graph_svg.c \
	%D%/graph_layout.c %D%/graph_layout.h \
	%D%/load.c %D%/load.h %D%/load_args.c %D%/load_plan.c \
	%D%/load_report.c %D%/load_map.c %D%/digest.c %D%/digest.h %D%/manifest.c %D%/sums.c %D%/sums.h \
	%D%/plan.c %D%/plan.h %D%/plan_report.c %D%/plan_draw.c \
	%D%/csv.c %D%/csv.h %D%/plan_csv.c %D%/plan_csv.h \
	%D%/run.c %D%/run.h %D%/run_args.c %D%/run_report.c \
	%D%/synth.c %D%/synth.h %D%/synth_files.c %D%/presets.c %D%/presets.h
%C%_weir_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
%C%_weir_LDADD = llama/libllama.la text/libtext.la lib/libweir.la \
	$(JANSSON_LIBS) -lm
EXTRA_DIST += %D%/README.md
