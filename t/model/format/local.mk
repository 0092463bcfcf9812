# SPDX-License-Identifier: MIT
T_MODEL_FORMAT_C = %D%/json.t %D%/head.t %D%/safetensors.t %D%/gguf.t \
	%D%/index.t %D%/model-open.t %D%/model-fds.t %D%/model-index.t \
	%D%/model-format.t %D%/model-gguf.t %D%/model-memory.t \
	%D%/model-url.t %D%/every-byte.t %D%/fuzz-st.t %D%/fuzz-gguf.t %D%/fuzz-index.t %D%/fuzz-manifest.t
T_MODEL_FORMAT_SH = %D%/interop.sh
check_PROGRAMS += $(T_MODEL_FORMAT_C)
dist_check_SCRIPTS += $(T_MODEL_FORMAT_SH)
TESTS += $(T_MODEL_FORMAT_C) $(T_MODEL_FORMAT_SH)
%C%_json_t_SOURCES = %D%/json.c
%C%_safetensors_t_SOURCES = %D%/safetensors.c t/files.h
%C%_head_t_SOURCES = %D%/head.c
%C%_gguf_t_SOURCES = %D%/gguf.c
%C%_index_t_SOURCES = %D%/index.c
%C%_model_open_t_SOURCES = %D%/model-open.c $(T_MODELS)
%C%_model_url_t_SOURCES = %D%/model-url.c $(T_MEM_SOURCE) $(T_SAMPLE) \
	$(T_FILES)
%C%_model_fds_t_SOURCES = %D%/model-fds.c $(T_SAMPLE) $(T_FILES)
%C%_model_fds_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_open
%C%_model_fds_t_LDADD = $(T_STATIC)
%C%_model_index_t_SOURCES = %D%/model-index.c $(T_MODELS)
%C%_model_gguf_t_SOURCES = %D%/model-gguf.c $(T_MODELS)
%C%_model_format_t_LDADD = $(T_STATIC)
%C%_model_memory_t_SOURCES = %D%/model-memory.c $(T_MODELS) $(T_KIND)
%C%_model_format_t_SOURCES = %D%/model-format.c %D%/toy.c %D%/toy.h \
	$(T_SAMPLE) $(T_MODELS)
%C%_every_byte_t_SOURCES = %D%/every-byte.c $(T_FILES) $(T_LIMIT) $(T_SECOND)
%C%_fuzz_st_t_SOURCES = t/fuzz/fz_st.c t/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_gguf_t_SOURCES = t/fuzz/fz_gguf.c t/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_manifest_t_SOURCES = t/fuzz/fz_manifest.c t/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_index_t_SOURCES = t/fuzz/fz_index.c t/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
