/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Seconds that may pass for each second of CPU time that a test may use. */
#define PATIENCE 5

/* ThreadSanitizer delays handlers until a call, which a hanging test omits. */
#ifdef __SANITIZE_THREAD__
#define HANDLERS_LATE true
#else
#define HANDLERS_LATE false
#endif

static unsigned planned, ran, failed, limit;
static const char *prefix = "";

static void on_limit(int sig)
{
	static const char text[] = "not ok - the test hangs\n";

	(void)sig;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(98);
	abort();
}

void tap_renew(void)
{
	struct itimerval cpu = { .it_value.tv_sec = limit };

	setitimer(ITIMER_PROF, &cpu, NULL);
	alarm(PATIENCE * limit);
}

void plan(unsigned n)
{
	const char *text = getenv("WEIR_T_TIMEOUT");

	setvbuf(stdout, NULL, _IOLBF, 0);
	limit = text ? (unsigned)strtoul(text, NULL, 10) : 60;
	if (!HANDLERS_LATE) {
		signal(SIGALRM, on_limit);
		signal(SIGPROF, on_limit);
	}
	tap_renew();
	planned = n;
	if (n)
		printf("1..%u\n", n);
}

int done_testing(void)
{
	if (!planned)
		printf("1..%u\n", ran);
	else if (ran != planned)
		diag("planned %u tests but ran %u", planned, ran);
	if (failed)
		diag("%u of %u tests failed", failed, ran);
	fflush(stdout);
	return failed || (planned && ran != planned);
}

__attribute__((format(printf, 2, 0))) static void
say(const char *start, const char *fmt, va_list ap)
{
	fputs(start, stdout);
	vprintf(fmt, ap);
	putchar('\n');
}

void skip_all(const char *why, ...)
{
	va_list ap;

	va_start(ap, why);
	say("1..0 # SKIP ", why, ap);
	va_end(ap);
	exit(0);
}

void bail(const char *why, ...)
{
	va_list ap;

	/* Not "Bail out!", which would end all other tests as well. */
	printf("not ok %u - ", ++ran);
	va_start(ap, why);
	say("", why, ap);
	va_end(ap);
	diag("the test ends here");
	exit(255);
}

void diag(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("# ", fmt, ap);
	va_end(ap);
}

void tap_prefix(const char *text)
{
	prefix = text ? text : "";
}

__attribute__((format(printf, 4, 0))) static bool
result(bool held, const char *file, int line, const char *fmt, va_list ap)
{
	tap_renew();
	printf("%sok %u - %s", held ? "" : "not ", ++ran, prefix);
	vprintf(fmt, ap);
	putchar('\n');
	if (!held) {
		failed++;
		diag("at %s:%d", file, line);
	}
	return held;
}

void skip(unsigned n, const char *why, ...)
{
	va_list ap;

	while (n--) {
		va_start(ap, why);
		printf("ok %u # SKIP %s", ++ran, prefix);
		vprintf(why, ap);
		putchar('\n');
		va_end(ap);
	}
}

bool tap_ok(bool held, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result(held, file, line, fmt, ap);
	va_end(ap);
	return held;
}

bool tap_int(long long got, long long want, const char *file, int line,
	     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!result(got == want, file, line, fmt, ap))
		diag("got %lld, want %lld", got, want);
	va_end(ap);
	return got == want;
}

bool tap_str(const char *got, const char *want, const char *file, int line,
	     const char *fmt, ...)
{
	bool held = got && want ? !strcmp(got, want) : got == want;
	va_list ap;

	va_start(ap, fmt);
	if (!result(held, file, line, fmt, ap))
		diag("got '%s', want '%s'", got ? got : "(null)",
		     want ? want : "(null)");
	va_end(ap);
	return held;
}

bool tap_has(const char *got, const char *part, const char *file, int line,
	     const char *fmt, ...)
{
	bool held = got && strstr(got, part);
	va_list ap;

	va_start(ap, fmt);
	if (!result(held, file, line, fmt, ap))
		diag("'%s' does not contain '%s'", got ? got : "(null)", part);
	va_end(ap);
	return held;
}

bool tap_mem(const void *got, const void *want, size_t n, const char *file,
	     int line, const char *fmt, ...)
{
	const unsigned char *g = got, *w = want;
	bool held = !memcmp(got, want, n);
	va_list ap;
	size_t i;

	va_start(ap, fmt);
	if (!result(held, file, line, fmt, ap)) {
		for (i = 0; g[i] == w[i]; i++)
			;
		diag("byte %zu of %zu is %#x, not %#x", i, n, g[i], w[i]);
	}
	va_end(ap);
	return held;
}

bool tap_err(int got, int want, const char *sentence, const char *part,
	     const char *file, int line, const char *fmt, ...)
{
	bool held = got == want && strstr(sentence, part);
	va_list ap;

	va_start(ap, fmt);
	if (!result(held, file, line, fmt, ap))
		diag("got %d '%s', want %d and '%s'", got, sentence, want,
		     part);
	va_end(ap);
	return held;
}
