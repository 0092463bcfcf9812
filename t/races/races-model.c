/* SPDX-License-Identifier: MIT */
/*
 * The race checker, compared with sets of operations: random waits, accesses
 * and functions in managed and native streams, of which two share a queue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "races/races.h"
#include "races/races_map.h"
#include "tap.h"

#define STREAMS 5u /* 1 and 2 share a queue; 3: another one; 0, 4: managed */
#define OPS 11u    /* operations of a stream; the checker keeps 16 clocks */
#define SHIFT 12u
#define BYTES 12u
#define STEPS 60u
#define REPORTS 60u /* the checker writes no more than 64 */

/* Operations that are known, a bit each: SHIFT bits for each stream. */
typedef uint64_t set;

struct reader {
	unsigned stream, number;
};

static struct weir *weir;
static struct weir__timeline src[STREAMS];
static char text[STREAMS * SHIFT][8]; /* the name of each operation */
static unsigned tail[STREAMS];
static set known[STREAMS][OPS + 1], next_knows[STREAMS], host;
static unsigned open_call[STREAMS];
static struct reader written[BYTES], reads[BYTES][STREAMS];
static unsigned n_reads[BYTES];

/*
 * (later operation, earlier one, with the remark), as they are expected and
 * are.
 */
static unsigned want[REPORTS], got[REPORTS + 8], n_want, n_got;

static unsigned some(unsigned below)
{
	return (unsigned)rand() % below;
}

static bool is_native(unsigned s)
{
	return s % 4 != 0;
}

static unsigned index_of(unsigned s, unsigned number)
{
	return s * SHIFT + number;
}

static set one(unsigned s, unsigned number)
{
	return (set)1 << index_of(s, number);
}

/* The operations that are known to whom knows that an operation is over. */
static set all_of(unsigned s, unsigned number)
{
	return number ? known[s][number] | one(s, number) : 0;
}

static void grow(unsigned s, unsigned from, set more)
{
	for (unsigned i = from; i <= tail[s]; i++)
		known[s][i] |= more;
}

/* "race: ... operation N (x17) writes ..., which ... (x3) reads, ...; ..." */
static void keep(void *arg, const char *line)
{
	const char *first = strstr(line, "(x"), *second;

	(void)arg;
	if (strncmp(line, "race: ", 6) || !first || n_got > REPORTS)
		return;
	second = strstr(first + 1, "(x");
	got[n_got++] = (unsigned)atoi(first + 2) << 16 |
		       (unsigned)atoi(second + 2) << 8 |
		       (strstr(line, "; orders of native") != NULL);
}

static int no_state(struct weir__timeline *source, uint64_t number,
		    struct weir_failure *cause)
{
	(void)source, (void)number, (void)cause;
	return 1;
}

static void no_free(struct weir__timeline *source)
{
	(void)source;
}

static const struct weir__timeline_ops ops = { .size = sizeof(ops),
					       .state = no_state,
					       .free = no_free };

static void begin(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.log = keep;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	for (unsigned s = 0; s < STREAMS; s++) {
		weir__timeline_init(&src[s], &ops, weir);
		weir__races_add(&src[s], "a stream", "operation");
		if (is_native(s))
			weir__races_native(&src[s]);
	}
	for (unsigned s = 1; is_native(s); s++)
		weir__races_queue(&src[s], src, &src[s == 2 ? 1 : s]);
	memset(tail, 0, sizeof(tail));
	memset(known, 0, sizeof(known));
	memset(next_knows, 0, sizeof(next_knows));
	memset(open_call, 0, sizeof(open_call));
	memset(written, 0, sizeof(written));
	memset(n_reads, 0, sizeof(n_reads));
	host = 0;
	n_want = n_got = 0;
}

static void end(void)
{
	for (unsigned s = 0; s < STREAMS; s++)
		weir__timeline_fini(&src[s]);
	weir_close(weir);
}

/* The next operation of a stream begins. Returns its number. */
static unsigned op_begin(unsigned s)
{
	struct weir__races_order order = { 0 };
	unsigned number = tail[s] + 1;
	set knows = all_of(s, tail[s]) | host | next_knows[s];

	if (s == 1 || s == 2)
		knows |= all_of(3 - s, tail[3 - s]);
	weir__races_queued(&src[s], &order);
	weir__races_begin(&src[s], number, &order);
	tail[s] = number;
	known[s][number] = knows;
	next_knows[s] = 0;
	return number;
}

/*
 * True if the function of a native stream has not returned, and this comes
 * after it.
 */
static bool is_open(unsigned s, unsigned number)
{
	for (unsigned i = 1; is_native(i); i++) {
		set at_or_after = 0;

		if (!open_call[i])
			continue;
		for (unsigned k = open_call[i]; k <= tail[i]; k++)
			at_or_after |= one(i, k);
		if (known[s][number] & at_or_after)
			return true;
	}
	return false;
}

static bool has_remark(unsigned s, unsigned other, set epoch)
{
	bool remark = is_native(s) || is_native(other);

	for (unsigned i = 1; is_native(i); i++)
		remark |= ((known[i][tail[i]] | next_knows[i]) & epoch) != 0;
	return remark;
}

static void conflict(unsigned s, struct reader other)
{
	unsigned number = tail[s];
	set epoch = one(other.stream, other.number);

	if (!other.number || other.stream == s || known[s][number] & epoch ||
	    is_open(s, number) || is_open(other.stream, other.number))
		return;
	if (n_want < REPORTS)
		want[n_want++] = index_of(s, number) << 16 |
				 index_of(other.stream, other.number) << 8 |
				 has_remark(s, other.stream, epoch);
	known[s][number] |= all_of(other.stream, other.number);
}

/* Forget an access that is old, or else the first, to make room for another. */
static unsigned read_forget(unsigned at)
{
	struct reader *r = reads[at];
	unsigned i = 0;

	while (i < n_reads[at] && !(host & one(r[i].stream, r[i].number)))
		i++;
	i = i < n_reads[at] ? i : 0;
	memmove(&r[i], &r[i + 1], (--n_reads[at] - i) * sizeof(*r));
	return n_reads[at];
}

static void byte_read(unsigned s, unsigned at)
{
	unsigned i = 0;

	while (i < n_reads[at] && reads[at][i].stream != s)
		i++;
	if (i == WEIR__RACES_READERS)
		i = read_forget(at);
	reads[at][i] = (struct reader){ s, tail[s] };
	n_reads[at] += i == n_reads[at];
}

static void access_bytes(unsigned s)
{
	unsigned number = op_begin(s), lo = some(BYTES);
	struct weir__races_bytes b = { .lo = lo, .rows = 1, .write = some(2) };

	b.width = 1 + some(some(2) ? 3 : BYTES - lo);
	if (b.width > BYTES - lo)
		b.width = BYTES - lo;
	weir__races_access(&src[s], number, text[index_of(s, number)], &b);
	for (unsigned at = lo; at < lo + b.width; at++) {
		conflict(s, written[at]);
		for (unsigned i = 0; b.write && i < n_reads[at]; i++)
			conflict(s, reads[at][i]);
	}
	for (unsigned at = lo; at < lo + b.width; at++) {
		if (!b.write) {
			byte_read(s, at);
			continue;
		}
		written[at] = (struct reader){ s, number };
		n_reads[at] = 0;
	}
}

/*
 * By an operation, also late, as if it had been issued before; or no operation.
 */
static void stream_waits(unsigned s)
{
	unsigned other = some(STREAMS), number = some(tail[other] + 1), at;

	if (!number || other == s)
		return;
	if (some(3) == 0) {
		weir__races_next_knows(&src[s], &src[other], number);
		next_knows[s] |= all_of(other, number);
		return;
	}
	op_begin(s);
	at = tail[s] - some(tail[s] < 3 ? 1 : 3);
	/* The operation that it waits for does not come after it. */
	while (all_of(other, number) & one(s, at))
		at++;
	weir__races_waited(&src[s], at, &src[other], number);
	grow(s, at, all_of(other, number));
}

static void host_waits(void)
{
	unsigned s = some(STREAMS), number = some(tail[s] + 1);

	if (!number)
		return;
	weir__races_host_knows(&src[s], number);
	host |= all_of(s, number);
}

static void call_give(unsigned s)
{
	if (open_call[s])
		return;
	open_call[s] = op_begin(s);
	weir__races_call_given(&src[s], open_call[s]);
}

static void call_run(unsigned s)
{
	unsigned at = open_call[s];

	if (!at)
		return;
	weir__races_call_begin(&src[s], at);
	host |= known[s][at];
	host_waits();
	host_waits();
	weir__races_call_end(&src[s], at);
	grow(s, at, host);
	weir__races_call_over(&src[s], at);
	open_call[s] = 0;
}

static void step(void)
{
	unsigned s = some(STREAMS), what = some(20);

	if (what < 2)
		host_waits();
	else if (what < 5)
		call_run(s);
	else if (tail[s] == OPS)
		return;
	else if (what < 7 && is_native(s))
		call_give(s);
	else if (what < 12)
		stream_waits(s);
	else
		access_bytes(s);
}

/* True if the reports are the same. */
static bool trial(unsigned seed, unsigned *ret_reports)
{
	bool same;

	srand(seed);
	begin();
	for (unsigned i = 0; i < STEPS; i++)
		step();
	weir__races_flush(weir);
	same = n_got == n_want && !memcmp(got, want, n_got * sizeof(*got));
	for (unsigned i = 0; !same && i < REPORTS; i++)
		diag("seed %u: report %u is %x, expected %x", seed, i,
		     i < n_got ? got[i] : 0, i < n_want ? want[i] : 0);
	*ret_reports = n_want;
	end();
	return same;
}

int main(void)
{
	const char *seed = getenv("WEIR_T_SEED");
	unsigned first = seed ? (unsigned)atoi(seed) : 1, wrong = 0, all = 0, n;

	plan(2);
	setenv("WEIR_DEBUG", "races", 1);
	for (unsigned i = 0; i < STREAMS * SHIFT; i++)
		snprintf(text[i], sizeof(text[i]), "x%u", i);
	for (unsigned i = 0; i < 500 && !wrong; i++) {
		wrong += !trial(first + i, &n);
		all += n;
	}
	is_int(wrong, 0,
	       "the race checker reports what sets of operations find");
	ok(all > 1000, "the random operations make races");
	return done_testing();
}
