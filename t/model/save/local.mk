# SPDX-License-Identifier: MIT
T_MODEL_SAVE_C = %D%/save.t %D%/save-calls.t %D%/save-paths.t \
	%D%/save-ends.t
T_MODEL_SAVE_SH = %D%/reference.sh
check_PROGRAMS += $(T_MODEL_SAVE_C) %D%/random-model
dist_check_SCRIPTS += $(T_MODEL_SAVE_SH)
EXTRA_DIST += %D%/reference.py
TESTS += $(T_MODEL_SAVE_C) $(T_MODEL_SAVE_SH)
%C%_save_t_SOURCES = %D%/save.c $(T_FILES)
%C%_save_calls_t_SOURCES = %D%/save-calls.c $(T_FILES)
%C%_save_calls_t_LDADD = lib/libweir.la t/libtap.la
%C%_save_paths_t_SOURCES = %D%/save-paths.c $(T_FILES)
%C%_save_paths_t_LDADD = lib/libweir.la t/libtap.la
%C%_save_ends_t_SOURCES = %D%/save-ends.c $(T_STREAMS) $(T_FILES) $(T_NOMEM)
%C%_save_ends_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_save_ends_t_LDADD = $(T_STATIC)
%C%_random_model_SOURCES = %D%/random-model.c
%C%_random_model_LDADD = lib/libweir.la
