/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races and loads: each tensor is known once its event, or the load,
 * was waited for. The loads are so small that they have ended before anything
 * uses them.
 */
#include <poll.h>

#include "racing.h"
#include "sample.h"

static const struct sample_tensor model_tensors[] = {
	{ "first", "U8", 100, 1 },
	{ "second", "U8", 100, 1 },
};
static char path[] = "races-load-XXXXXX";
static unsigned char host[400];
static struct weir_weights *weights;
static struct weir_load *load;
static struct weir_plan *plan_of;
static size_t first, second; /* numbers of the tensors in the weights */

static size_t number_of(const char *name)
{
	const struct weir_tensor *want = weir_weights_find(weights, name);
	size_t i = 0;

	while (weir_weights_get(weights, i) != want)
		i++;
	return i;
}

static void load_start(void)
{
	struct weir_model *m;
	struct weir_buft *plain;

	set_up();
	must(weir_model_open(weir, path, NULL, &m));
	must(weir_plan_new(m, &plan_of));
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	must(weir_plan_add(plan_of, NULL, plain, NULL));
	must(weir_load_start(plan_of, NULL, &load));
	must(weir_load_weights(load, &weights));
	weir_model_close(m);
	first = number_of("first");
	second = number_of("second");
}

static void load_free(void)
{
	must(weir_stream_sync(a, -1));
	must(weir_stream_sync(b, -1));
	weir_load_free(load);
	weir_weights_free(weights);
	weir_plan_free(plan_of);
}

static void get(struct weir_stream *s, const char *name)
{
	must(weir_stream_get(s, weir_weights_find(weights, name), 0,
			     host + 100 * (s == b), 100));
}

static void missing_wait(void)
{
	char want[600];

	load_start();
	get(b, "first");
	load_free();
	snprintf(
		want, sizeof(want),
		"stream 'b' operation 1 (get) reads bytes [0, 100) of 'first', which tensor %zu of the load of '%s' (load) writes, and nothing orders the two: stream 'b' needs to wait for tensor %zu of the load of '%s'",
		first, path, first, path);
	expect_race(want, "a tensor that is used without a wait for it");
}

static void other_tensor(void)
{
	load_start();
	must(weir_load_record(load, second, ev));
	must(weir_stream_wait(b, ev));
	get(b, "second");
	get(b, "first");
	load_free();
	is_int(reports(1), 1, "a wait for one tensor does not order another");
	has_str(said, "reads bytes [0, 100) of 'first'",
		"a wait for one tensor orders that one");
	tear_down();
}

static void load_again(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *again;

	load_start();
	must(weir_load_wait(load, -1));
	get(a, "second");
	o.into = weights;
	must(weir_load_start(plan_of, &o, &again));
	reports(1);
	has_str(said,
		"(load) writes bytes [0, 100) of 'second', which stream 'a' operation 1 (get) reads",
		"a load into memory that a stream may still read is reported");
	has_str(said,
		"the program needs to wait for stream 'a' operation 1 before it starts the load of",
		"the report of a load says what the program needs to wait for");
	is_int(reports(1), 1, "a load that races is reported once");
	must(weir_load_wait(again, -1));
	weir_load_free(again);
	load_free();
	tear_down();
}

static void stream_waits(void)
{
	load_start();
	must(weir_load_record(load, WEIR_ALL, ev));
	must(weir_stream_wait(a, ev));
	get(a, "first");
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	get(b, "second");
	load_free();
	expect_no_race(
		"a stream that waits for a load, and one that waits for it, do not race");
}

static void by_wait(void)
{
	must(weir_load_wait(load, -1));
}

static void by_next(void)
{
	size_t i;

	while (weir_load_next(load, -1, &i) == 1)
		;
}

static void by_descriptor(void)
{
	struct pollfd p = { .fd = weir_load_fd(load), .events = POLLIN };
	size_t i, n = 0;

	must(p.fd);
	while (n < 2 && poll(&p, 1, -1) == 1)
		n += weir_load_next(load, 0, &i) == 1;
}

static void by_progress(void)
{
	struct weir_progress p = { .size = sizeof(p) };

	while (weir_load_progress(load, &p) == 0 && p.tensors < p.count)
		usleep(100);
}

static void by_event(void)
{
	must(weir_load_record(load, WEIR_ALL, ev));
	while (weir_event_query(ev) == 0)
		usleep(100);
}

static void by_digest(void)
{
	uint8_t digest[32];

	for (size_t i = 0; i < 2; i++)
		must(weir_weights_digest(weights, i, WEIR_DIGEST_XXH3, digest));
}

static void by_blocking_get(void)
{
	must(weir_tensor_get(weir_weights_find(weights, "first"), 0, host + 200,
			     100));
	must(weir_tensor_get(weir_weights_find(weights, "second"), 0,
			     host + 200, 100));
}

static void program_waits(void (*wait)(void), const char *how)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *again;
	char text[120];

	load_start();
	wait();
	get(a, "first");
	get(b, "second");
	must(weir_stream_sync(a, -1));
	must(weir_stream_sync(b, -1));
	o.into = weights;
	must(weir_load_wait(load, -1));
	must(weir_load_start(plan_of, &o, &again));
	must(weir_load_wait(again, -1));
	weir_load_free(again);
	load_free();
	snprintf(text, sizeof(text), "no race is reported if %s", how);
	expect_no_race(text);
}

/* More loads than the checker has room for, none of them waited for. */
static void many_loads(void)
{
	struct weir_load *l[100];

	load_start();
	must(weir_load_wait(load, -1));
	for (int i = 0; i < 100; i++) {
		must(weir_load_start(plan_of, NULL, &l[i]));
		must(weir_load_record(l[i], WEIR_ALL, ev));
		must(weir_stream_wait(a, ev));
	}
	get(a, "first");
	load_free();
	for (int i = 0; i < 100; i++)
		weir_load_free(l[i]);
	expect_no_race(
		"loads beyond the number that is told apart are not reported");
}

static void racing(void)
{
	missing_wait();
	other_tensor();
	load_again();
}

int main(void)
{
	int fd = mkstemp(path);

	plan(0);
	setenv("WEIR_DEBUG", "races", 1);
	close(fd);
	sample_write(path, model_tensors, 2, 0, 1);
	if (may_race())
		racing();
	stream_waits();
	program_waits(by_wait, "the program waits for a load");
	program_waits(by_next, "the program takes each tensor of a load");
	program_waits(by_descriptor, "the program polls a load's descriptor");
	program_waits(by_progress, "the program asks for a load's progress");
	program_waits(by_event, "the program asks for a load's event");
	program_waits(by_digest, "the program asks for digests of tensors");
	program_waits(by_blocking_get, "the program reads tensors");
	many_loads();
	unlink(path);
	return done_testing();
}
