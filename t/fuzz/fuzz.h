/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: LLVMFuzzerTestOneInput parses its bytes and checks the result.
 * It is linked with libFuzzer (make fuzz), or with replay.c (make check), which
 * passes it the files of t/corpus/<fz_corpus> and mutations of them. HACKING.md
 * has the commands.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

extern const char fz_corpus[];
/* A small file of the corpus, of which each prefix and byte is tried. */
extern const char fz_small[];
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
/* Change an input of this target (mutate.h). */
struct edit;
void fz_mutate(struct edit *e);
/* How many inputs were accepted in strict mode. */
extern unsigned long fz_accepted;
/* Named if a condition does not hold; "": libFuzzer knows it. */
extern char fz_input[300];

/* A condition that holds for every input; abort if it does not. */
#define must(held) fz_must(held, __FILE__, __LINE__, #held)
#define must_be(held, what) fz_must(held, __FILE__, __LINE__, what)
void fz_must(int held, const char *file, int line, const char *what);

/* Check what holds for every model that is accepted. */
struct weir_model;
void fz_check_model(const struct weir_model *m);
/* A refusal has one of two errnos, and a sentence. */
void fz_check_refusal(int r);

#endif
