# SPDX-License-Identifier: MIT
T_TEXT_C = %D%/fuzz-text.t %D%/tokenizer.t %D%/tokenizer-files.t %D%/chat.t \
	%D%/sampler.t
T_TEXT_SH = %D%/tokenizers.sh
check_PROGRAMS += $(T_TEXT_C)
dist_check_SCRIPTS += $(T_TEXT_SH)
TESTS += $(T_TEXT_C) $(T_TEXT_SH)
%C%_tokenizer_t_SOURCES = %D%/tokenizer.c $(T_VOCABULARY)
%C%_tokenizer_t_LDADD = $(T_TEXT_LIBS)
%C%_tokenizer_files_t_SOURCES = %D%/tokenizer-files.c $(T_VOCABULARY) \
	$(T_FILES) $(T_LIMIT)
%C%_tokenizer_files_t_LDADD = $(T_TEXT_LIBS)
%C%_chat_t_SOURCES = %D%/chat.c
%C%_chat_t_LDADD = $(T_TEXT_LIBS)
%C%_sampler_t_SOURCES = %D%/sampler.c
%C%_sampler_t_LDADD = $(T_TEXT_LIBS) -lm
%C%_fuzz_text_t_SOURCES = t/fuzz/fz_text.c t/fuzz/replay.c $(T_LIMIT) $(T_FUZZ)
%C%_fuzz_text_t_LDADD = text/libtext.la $(LDADD)
