/* SPDX-License-Identifier: MIT */
/* Opening model files in the folder of the test (files.h). */
#ifndef T_MODELS_H
#define T_MODELS_H

#include <weir.h>

/* Open and close it: the result of weir_model_open with @flags. */
int models_try(struct weir *weir, const char *name, uint32_t flags);
/* Bails out on failure. */
struct weir_model *models_open(struct weir *weir, const char *name);

#endif
