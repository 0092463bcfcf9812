# SPDX-License-Identifier: MIT
# Models like Llama, for programs that link libweir too. Installs nothing.
noinst_LTLIBRARIES += %D%/libllama.la
%C%_libllama_la_SOURCES = \
	%D%/llama.c %D%/llama.h \
	%D%/config.c %D%/config_gguf.c %D%/config_hf.c \
	%D%/keys_gguf.c %D%/keys_hf.c %D%/hf.h %D%/rope_hf.c %D%/rope.c \
	%D%/devices.c %D%/parts.c %D%/tensors.c %D%/weights.c %D%/cache.c %D%/graph.c \
	%D%/error.c %D%/export.c %D%/export_gguf.c %D%/export_hf.c
%C%_libllama_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_libllama_la_LIBADD = $(JANSSON_LIBS) -lm
EXTRA_DIST += %D%/README.md
