/* SPDX-License-Identifier: MIT */
/*
 * Parsing of options and their values. The functions return 0, or print one
 * line about the error on stderr and return EXIT_USAGE.
 */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <weir.h>
#include "output.h"

struct args {
	const char *command;
	const char *help; /* printed for --help */
	/* A val below ARGS_OPTION is a letter: the option's short name. */
	const struct option *options;
	int argc;
	char **argv;
	/* Letters of options without a long name, as for getopt(3), or NULL. */
	const char *letters;
	/*
	 * Of a command that opens a model, else NULL: --cache-dir and
	 * --cache-size are options, too, and set it.
	 */
	struct weir_opts *root;
};

/* The first value of struct option.val that a subcommand may use. */
enum {
	ARGS_OPTION = 256,
	ARGS_CACHE_DIR = 1 << 16, /* not for subcommands */
	ARGS_CACHE_SIZE
};
/* A result of args_options(). */
enum {
	ARGS_HELP = -1 /* the help was printed: exit with 0 */
};

/*
 * Call @take with the val of each option, and with @to; optarg is the option's
 * value. A result of @take other than 0 is returned at once. For -h and --help
 * print the help and return ARGS_HELP.
 */
int args_options(const struct args *args,
		 int (*take)(const struct args *args, int val, void *to),
		 void *to);
/*
 * After the options: check that exactly @n operands follow. @names has theirs.
 */
int args_operands(const struct args *args, int n, const char *const *names);

/* Parse optarg as a whole decimal number from @min to @max. */
int args_number(const struct args *args, const char *option, uint64_t min,
		uint64_t max, uint64_t *ret_number);
/*
 * Parse it as a size: a number, optionally with the suffix K, M, G or T (of
 * 1024).
 */
int args_size(const struct args *args, const char *option, uint64_t min,
	      uint64_t max, uint64_t *ret_bytes);
/* Refuse "-" as @path, the name of the output @what. */
int args_out(const struct args *args, const char *what, const char *path);
/* Parse it as a decimal number greater than 0, which may have a fraction. */
int args_factor(const struct args *args, const char *option,
		double *ret_factor);
/* Parse it as a decimal number of at least @min, which may have a fraction. */
int args_real(const struct args *args, const char *option, double min,
	      double *ret_number);
/* Parse it as a decimal number of 0 to 1. */
int args_fraction(const struct args *args, const char *option,
		  double *ret_number);
/*
 * Parse it as seconds, 0 or more, which may have a fraction; at most 292 years.
 */
int args_seconds(const struct args *args, const char *option, int64_t *ret_ns);
/* Parse it as one of @names, in any case; they end with NULL. Its index. */
int args_choice(const struct args *args, const char *option,
		const char *const *names, unsigned *ret_index);

#endif
