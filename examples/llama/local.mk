# SPDX-License-Identifier: MIT
# A program around llama/: t/house/llama.sh compares its logits.
check_PROGRAMS += %D%/llama
%C%_llama_SOURCES = %D%/main.c
%C%_llama_LDADD = llama/libllama.la lib/libweir.la
EXTRA_DIST += %D%/README.md
