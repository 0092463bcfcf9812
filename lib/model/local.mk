# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/README.md %D%/LOAD.md %D%/RULES.md
lib_libweir_core_la_SOURCES += \
	%D%/model.h %D%/model.c %D%/open.c %D%/directory.c \
	%D%/json.c %D%/json.h %D%/utf8.h %D%/table.c %D%/table.h \
	%D%/meta.c %D%/meta.h \
	%D%/format.c %D%/format.h %D%/formats.c %D%/header.c \
	%D%/safetensors.c %D%/safetensors.h %D%/head.c %D%/ranges.c \
	%D%/gguf.c %D%/gguf.h %D%/gguf_in.c %D%/gguf_in.h \
	%D%/gguf_meta.c %D%/gguf_text.c %D%/values.c %D%/strings.c %D%/held.c \
	%D%/index.c %D%/index.h %D%/shards.c \
	%D%/split.c %D%/split.h \
	%D%/plan.c %D%/plan.h %D%/estimate.c %D%/layout.c %D%/runs.c \
	%D%/cut.c %D%/cut.h %D%/layers.c %D%/layers.h %D%/target.c \
	%D%/place.c %D%/place.h %D%/place_target.c %D%/place_sink.c \
	%D%/overlap.c %D%/overlap.h \
	%D%/arrival.c %D%/arrival.h %D%/ended.c %D%/ended.h \
	%D%/portion.c %D%/portion.h %D%/races.c \
	%D%/weights.c %D%/weights.h %D%/digest.c \
	%D%/load.c %D%/load.h %D%/arrays.c %D%/writes.c %D%/fresh.c %D%/extents.c %D%/small.c %D%/status.c \
	%D%/sink.c %D%/sink.h
