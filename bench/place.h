/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

/*
 * The path of @name in the build folder, derived from the path of this program,
 * so that it works in a tree that was moved. Not to be freed.
 */
const char *place(const char *name);

/* The folder of this build's module; NULL: WEIR_MODULE_PATH has it. */
const char *place_modules(void);

#define BENCH_WEIR place("tools/weir")
#define BENCH_DIR place("bench-models")

#endif
