/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Report the option that getopt_long() refused; @why is what it returned. */
static int report_option(const struct args *args, int why)
{
	const char *word = args->argv[optind - 1];

	if (why == ':')
		fail_usage(args->command, "option '%s' needs a value", word);
	else if (optopt && optopt < ARGS_OPTION && optopt != 'h')
		fail_usage(args->command, "unknown option '-%c'", optopt);
	else if (optopt)
		fail_usage(args->command, "option '%s' takes no value", word);
	else
		fail_usage(args->command, "unknown option '%s'", word);
	return EXIT_USAGE;
}

/* The short options, as getopt(3) takes them. */
static void list_letters(const struct args *args, char *letters, size_t size)
{
	size_t n = (size_t)snprintf(letters, size, ":%s",
				    args->letters ? args->letters : "");

	for (const struct option *o = args->options; o->name; o++)
		if (o->val < ARGS_OPTION && n + 2 < size)
			n += (size_t)snprintf(letters + n, size - n, "%c%s",
					      o->val, o->has_arg ? ":" : "");
}

#define OPTIONS_MAX 64

static const struct option cache_options[] = {
	{ "cache-dir", required_argument, NULL, ARGS_CACHE_DIR },
	{ "cache-size", required_argument, NULL, ARGS_CACHE_SIZE },
};

static const char cache_help[] =
	"\n"
	"For models at URLs:\n"
	"  --cache-dir DIR  keep what is read in the folder DIR [WEIR_CACHE]\n"
	"  --cache-size N   keep at most N bytes, or NK, NM, NG, NT; 0: no limit\n";

/* The subcommand's options, and those that it shares with others. */
static void list_options(const struct args *args, struct option *to)
{
	const struct option *o = args->options;
	size_t n = 0;

	while (o->name && n < OPTIONS_MAX - 3)
		to[n++] = *o++;
	for (size_t i = 0; args->root && i < 2; i++)
		to[n++] = cache_options[i];
	to[n] = (struct option){ 0 };
}

static int take_cache(const struct args *args, int c)
{
	if (c == ARGS_CACHE_SIZE)
		return args_size(args, "--cache-size", 0, UINT64_MAX,
				 &args->root->cache_bytes);
	if (!*optarg)
		return fail_usage(args->command, "--cache-dir is empty");
	args->root->cache = optarg;
	return 0;
}

int args_options(const struct args *args,
		 int (*take)(const struct args *, int, void *), void *to)
{
	struct option options[OPTIONS_MAX];
	char letters[32];
	int c, r = 0;

	opterr = 0;
	list_letters(args, letters, sizeof(letters));
	list_options(args, options);
	while (r == 0 && (c = getopt_long(args->argc, args->argv, letters,
					  options, NULL)) != -1) {
		if (c == '?' || c == ':')
			return report_option(args, c);
		if (c == 'h') {
			fputs(args->help, stdout);
			fputs(args->root ? cache_help : "", stdout);
			return ARGS_HELP;
		}
		r = c >= ARGS_CACHE_DIR ? take_cache(args, c)
					: take(args, c, to);
	}
	return r;
}

int args_operands(const struct args *args, int n, const char *const *names)
{
	int given = args->argc - optind;

	if (given < n)
		return fail_usage(args->command, "%s is missing", names[given]);
	if (given > n)
		return fail_usage(args->command,
				  "'%s' is one argument too many",
				  args->argv[optind + n]);
	return 0;
}

/*
 * Parse the digits at the start of @text. Returns false if there are none, or
 * the number is over 2^64 - 1.
 */
static bool parse_digits(const char *text, char **ret_end, uint64_t *ret_number)
{
	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*ret_number = strtoull(text, ret_end, 10);
	return errno == 0;
}

static int bad_range(const struct args *args, const char *option, uint64_t min,
		     uint64_t max)
{
	return fail_usage(args->command,
			  "%s is '%s', not a number of %llu to %llu", option,
			  optarg, (unsigned long long)min,
			  (unsigned long long)max);
}

int args_number(const struct args *args, const char *option, uint64_t min,
		uint64_t max, uint64_t *ret_number)
{
	uint64_t number;
	char *end;

	if (!parse_digits(optarg, &end, &number) || *end || number < min ||
	    number > max)
		return bad_range(args, option, min, max);
	*ret_number = number;
	return 0;
}

static const char size_letters[] = "KMGTkmgt";

/* True if @text is digits, and at most a letter after them. */
static bool is_size(const char *text)
{
	const char *letter = text + strspn(text, "0123456789");

	return letter > text &&
	       (!*letter || (strchr(size_letters, *letter) && !letter[1]));
}

/*
 * Parse a text for which is_size() is true. Returns false if it is over 2^64 -
 * 1.
 */
static bool parse_size(const char *text, uint64_t *ret_bytes)
{
	unsigned shift = 0;
	char *end;

	if (!parse_digits(text, &end, ret_bytes))
		return false;
	if (*end)
		shift = (unsigned)(strchr(size_letters, *end) - size_letters) %
				4 * 10 +
			10;
	return !__builtin_mul_overflow(*ret_bytes, UINT64_C(1) << shift,
				       ret_bytes);
}

int args_size(const struct args *args, const char *option, uint64_t min,
	      uint64_t max, uint64_t *ret_bytes)
{
	uint64_t bytes;

	if (!is_size(optarg))
		return fail_usage(args->command,
				  "%s is '%s', not a whole number of at least "
				  "%llu, with K, M, G or T at most",
				  option, optarg, (unsigned long long)min);
	if (!parse_size(optarg, &bytes) || bytes < min || bytes > max)
		return bad_range(args, option, min, max);
	*ret_bytes = bytes;
	return 0;
}

int args_out(const struct args *args, const char *what, const char *path)
{
	if (strcmp(path, "-") != 0)
		return 0;
	return fail_usage(args->command,
			  "%s is '-', which is no name of an output; write "
			  "/dev/stdout, or ./- for a file of that name",
			  what);
}

/* Parse a finite number in decimal; not "inf", "nan" or hexadecimal. */
static bool parse_real(const char *text, double *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtod(text, &end);
	return !text[strspn(text, "0123456789.eE+-")] && end != text && !*end &&
	       !errno && isfinite(*ret_number);
}

int args_factor(const struct args *args, const char *option, double *ret_factor)
{
	double factor;

	if (!parse_real(optarg, &factor) || !(factor > 0))
		return fail_usage(args->command,
				  "%s is '%s', not a number greater than 0",
				  option, optarg);
	*ret_factor = factor;
	return 0;
}

int args_real(const struct args *args, const char *option, double min,
	      double *ret_number)
{
	double number;

	if (!parse_real(optarg, &number) || !(number >= min))
		return fail_usage(args->command,
				  "%s is '%s', not a number of at least %g",
				  option, optarg, min);
	*ret_number = number;
	return 0;
}

int args_fraction(const struct args *args, const char *option,
		  double *ret_number)
{
	double number;

	if (!parse_real(optarg, &number) || !(number >= 0 && number <= 1))
		return fail_usage(args->command,
				  "%s is '%s', not a number of 0 to 1", option,
				  optarg);
	*ret_number = number;
	return 0;
}

int args_seconds(const struct args *args, const char *option, int64_t *ret_ns)
{
	double seconds;

	if (!parse_real(optarg, &seconds) || !(seconds >= 0))
		return fail_usage(args->command,
				  "%s is '%s', not a number of seconds", option,
				  optarg);
	*ret_ns = seconds < 9.2e9 ? (int64_t)(seconds * 1e9) : INT64_MAX;
	return 0;
}

int args_choice(const struct args *args, const char *option,
		const char *const *names, unsigned *ret_index)
{
	char list[128] = "";
	unsigned i;

	for (i = 0; names[i]; i++) {
		if (!strcasecmp(optarg, names[i])) {
			*ret_index = i;
			return 0;
		}
		snprintf(list + strlen(list), sizeof(list) - strlen(list),
			 "%s%s", i ? ", " : "", names[i]);
	}
	return fail_usage(args->command, "%s is '%s', not one of %s", option,
			  optarg, list);
}
