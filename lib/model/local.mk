# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/README.md %D%/save/README.md %D%/load/README.md %D%/load/LOAD.md %D%/format/README.md %D%/format/RULES.md \
	%D%/fetch/README.md
lib_libweir_core_la_SOURCES += \
	%D%/format/model.h %D%/format/model.c %D%/format/open.c %D%/format/directory.c \
	%D%/format/beside.c \
	%D%/format/json.c %D%/format/json.h %D%/format/utf8.h %D%/format/name_table.c %D%/format/name_table.h \
	%D%/format/meta.c %D%/format/meta.h \
	%D%/format/format.c %D%/format/format.h %D%/format/formats.c %D%/format/header.c \
	%D%/format/safetensors_read.c %D%/format/safetensors.h \
	%D%/format/gguf_read.c %D%/format/gguf.h %D%/format/gguf_bytes.c %D%/format/gguf_bytes.h \
	%D%/format/gguf_meta.c %D%/format/gguf_text.c \
	%D%/format/shard_index.c %D%/format/shard_index.h \
	%D%/format/shards_ahead.c %D%/format/shards_ahead.h \
	%D%/format/split_files.c %D%/format/split_files.h \
	%D%/format/bytes.c %D%/format/bytes.h \
	%D%/format/safetensors_write.c %D%/format/gguf_write.c \
	%D%/format/manifest.c %D%/format/manifest.h %D%/format/manifest_write.c \
	%D%/load/slice.c %D%/load/slice.h %D%/load/plan.c %D%/load/plan.h %D%/load/target.c \
	%D%/load/layout.c %D%/load/layout.h %D%/load/layout_place.c %D%/load/layout_sink.c %D%/load/estimate.c \
	%D%/load/arrival.c %D%/load/arrival.h %D%/load/completions.c %D%/load/completions.h \
	%D%/load/weights.c %D%/load/weights.h %D%/load/digest.c %D%/load/weights_share.c \
	%D%/load/verify.c %D%/load/verify.h \
	%D%/load/load.c %D%/load/load.h %D%/load/park.c \
	%D%/load/park_copies.c %D%/load/park_copies.h %D%/load/extents.c %D%/load/chunk_tensors.c \
	%D%/load/chunk_tensors.h %D%/load/load_prefault.c %D%/load/load_writes.c \
	%D%/load/sink.c %D%/load/sink.h %D%/load/status.c \
	%D%/save/save.c %D%/save/save.h %D%/save/save_item.c %D%/save/save_item.h \
	%D%/save/save_layout.c %D%/save/save_fill.c %D%/save/save_files.c \
	%D%/save/save_meta.c %D%/save/save_earlier.c \
	%D%/fetch/fetch.c %D%/fetch/fetch.h %D%/fetch/files.c %D%/fetch/place.c \
	%D%/fetch/transfer.c
