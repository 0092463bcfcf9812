# SPDX-License-Identifier: MIT
# Tokenizers and sampling, for programs that link libweir too. Installs nothing.
noinst_LTLIBRARIES += %D%/libtext.la
%C%_libtext_la_SOURCES = \
	%D%/tokenizer.c %D%/tokenizer.h %D%/tokenizer_internal.h \
	%D%/error.c %D%/error.h %D%/table_memory.h \
	%D%/vocab.c %D%/vocab.h \
	%D%/merges.c %D%/merges.h \
	%D%/find_tokens.c %D%/find_tokens.h \
	%D%/chars.c %D%/chars.h %D%/chars_table.h %D%/utf8.h \
	%D%/pre_tokenizers.c %D%/pre_tokenizers.h \
	%D%/token_bytes.c %D%/encode.c %D%/decode.c \
	%D%/read_file.c %D%/read_file.h %D%/read_beside.c \
	%D%/tokenizer_open.c %D%/read_gguf.c %D%/read_sentencepiece.c \
	%D%/read_json.c %D%/read_json.h %D%/read_json_pipeline.c \
	%D%/json.c %D%/json.h \
	%D%/nfc.c %D%/nfc.h %D%/nfc_mappings.h %D%/nfc_order.h \
	%D%/written.c %D%/written.h %D%/write_gguf.c %D%/write_json.c \
	%D%/chat.c %D%/chat.h %D%/sampler.c %D%/sampler.h
%C%_libtext_la_LIBADD = -lm
EXTRA_DIST += %D%/README.md %D%/chars.py %D%/nfc.py
