/* SPDX-License-Identifier: MIT */
/*
 * Options and their values. Every function that finds something wrong says so
 * on stderr, in one line, and returns EXIT_USAGE; 0 is success.
 */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include "output.h"

struct args {
	const char *command;
	const char *help; /* printed for --help */
	const struct option *options;
	int argc;
	char **argv;
};

/* Values of struct option.val that are the command's own begin here. */
enum {
	ARGS_OPTION = 256
};
/* What args_next() returns besides: no more, and EXIT_USAGE is due. */
enum {
	ARGS_END = -1,
	ARGS_BAD = -2,
	ARGS_HELP = -3
};

/*
 * The next option; optarg is its value. -h and --help print the help and give
 * ARGS_HELP; the command then returns 0.
 */
int args_next(const struct args *args);
/* The options are over: exactly @n operands, named in @names, must follow. */
int args_operands(const struct args *args, int n, const char *const *names);

/* A whole decimal number of @min..@max. */
int args_number(const struct args *args, const char *option, uint64_t min,
		uint64_t max, uint64_t *ret_number);
/* Bytes: a number, and perhaps K, M, G or T for its power of 1024. */
int args_size(const struct args *args, const char *option, uint64_t min,
	      uint64_t max, uint64_t *ret_bytes);
/* A number greater than 0, with a fraction perhaps. */
int args_factor(const struct args *args, const char *option,
		double *ret_factor);
/* One of @names, which ends with NULL: its index. */
int args_choice(const struct args *args, const char *option,
		const char *const *names, unsigned *ret_index);

#endif
