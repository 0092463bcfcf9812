/* SPDX-License-Identifier: MIT */
/* The metadata of a model, on stdout. */
#ifndef TOOLS_METADATA_H
#define TOOLS_METADATA_H

#include <weir.h>

/* A line for each key. Long strings and arrays are cut. */
void metadata_show(const struct weir_model *model);
/*
 * Two members of a JSON object: "metadata" with all values, and
 * "metadata_types" with "u32", "[str]" and the like. Numbers keep all digits;
 * those that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
 */
void metadata_put_json(const struct weir_model *model);

#endif
