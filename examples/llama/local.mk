# SPDX-License-Identifier: MIT
# A model of the Llama architecture: t/llama.sh compares its logits.
EXAMPLES_LLAMA = %D%/llama.h %D%/error.c %D%/config.c %D%/config_gguf.c \
	%D%/config_hf.c %D%/weights.c %D%/cache.c %D%/graph.c %D%/llama.c
check_PROGRAMS += %D%/llama
%C%_llama_SOURCES = %D%/main.c $(EXAMPLES_LLAMA)
%C%_llama_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_llama_LDADD = lib/libweir.la $(JANSSON_LIBS) -lm
EXTRA_DIST += %D%/README.md
