# SPDX-License-Identifier: MIT
T_MODEL_SAVE_C = %D%/save.t
check_PROGRAMS += $(T_MODEL_SAVE_C)
TESTS += $(T_MODEL_SAVE_C)
%C%_save_t_SOURCES = %D%/save.c $(T_FILES)
