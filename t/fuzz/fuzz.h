/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: fz_one() is given bytes and looks what the library makes of
 * them. It is linked with libFuzzer (make fuzz), or with replay.c, which gives
 * it the files of t/corpus/<fz_corpus> (make check).
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

extern const char fz_corpus[];
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A promise that every input keeps; broken, it is a crash. */
#define must(held) fz_must(held, __FILE__, __LINE__, #held)
void fz_must(int held, const char *file, int line, const char *what);

/* What a model must be that was accepted, whatever was in it. */
struct weir_model;
void fz_check_model(const struct weir_model *m);
/* What a refusal must be: one of two errnos, and a sentence. */
void fz_check_refusal(int r);

#endif
