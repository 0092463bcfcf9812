/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: LLVMFuzzerTestOneInput parses its bytes and checks the result.
 * It is linked with libFuzzer (make fuzz), or with replay.c, which passes the
 * files of t/corpus/<fz_corpus> to it (make check).
 *
 *	t/fuzz/fz_st -dict=$srcdir/t/fuzz/st.dict -timeout=2 \
 *		-malloc_limit_mb=64 NEW_FOLDER $srcdir/t/corpus/st
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

extern const char fz_corpus[];
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A condition that holds for every input; abort if it does not. */
#define must(held) fz_must(held, __FILE__, __LINE__, #held)
void fz_must(int held, const char *file, int line, const char *what);

/* Check what holds for every model that is accepted. */
struct weir_model;
void fz_check_model(const struct weir_model *m);
/* A refusal has one of two errnos, and a sentence. */
void fz_check_refusal(int r);

#endif
