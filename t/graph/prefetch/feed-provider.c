/* SPDX-License-Identifier: MIT */
/* Fed leaves that are left to the nodes that read them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fed.h"
#include "files.h"
#include "streams.h"

/* Let the nodes of all fed leaves read them. */
static uint32_t leave_all(struct weir__feed_list *list)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < list->n; k++)
		n += weir__feed_provider(list, k, 100 + k) != NULL;
	return n;
}

/* All bytes of a leaf, as a node gets them. */
static int part_get(struct weir__fed_provider *p, uint64_t at,
		    unsigned char *part, char why[240])
{
	const unsigned char *got;
	size_t n = PART;
	int r = 0;

	got = p->of.get(&p->of, at, &n, p->of.place, PART, why, &r);
	if (!got)
		return r;
	memcpy(part, got, n);
	if (got != p->of.place)
		p->of.put(&p->of, got);
	return n == PART ? 0 : -EIO;
}

/* The steps of a run whose nodes read what is missing; counts those entries. */
static bool reads(struct run *run, uint32_t *ret_missing)
{
	const struct weir__feed_list *list = run->pass.list;
	unsigned char got[PART];
	bool held = true;
	char why[240];

	for (uint32_t k = 0; held && k < list->n; k++) {
		struct weir__fed_provider *p = list->fed[k].provider;

		held = weir__timeline_block(&run->pass.feed->timeline,
					    run->pass.first + k, -1) == 0;
		if (!p || !p->of.missing) {
			held = held && arrives(run, k);
		} else {
			held = held && !part_get(p, 0, got, why) &&
			       is_pattern(got, PART, k);
			memset(p->of.place, 0xee, PART);
			++*ret_missing;
		}
		advance(run, run->pass.base + 1 + list->fed[k].import.last);
	}
	return held;
}

static bool reading_pass(struct run *run, struct weir__feed_list *list,
			 uint32_t *ret_missing)
{
	bool held;

	*ret_missing = 0;
	start(run, list);
	held = reads(run, ret_missing);
	end(run);
	return held;
}

/* Out of the page cache; false: it stays there. */
static bool evict(struct weir_file *f)
{
	fsync(f->fd);
	posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
	return !weir__file_is_cached(f, 0, PARTS * PART);
}

static void left_to_nodes(void)
{
	struct weir__feed_list *list;
	struct weir__fed_out *out;
	const struct weir__fed *fed;
	struct run run = { 0 };
	uint32_t missing, n;
	bool held = true;
	unsigned char part[PART];
	char why[240];
	/* Without a lease: leaves are read, and can be evicted. */
	int fd = open(files_path("parts.bin"), O_RDWR);

	begin(8 * (PART + 4096));
	list = list_new(0, PARTS);
	n = leave_all(list);
	close(fd);
	is_int(n, count_fed(list), "nodes may read all leaves that are fed");
	for (unsigned i = 0; i < 5; i++)
		held = held && reading_pass(&run, list, &missing) &&
		       missing == n;
	ok(held, "leaves in the page cache are left to their nodes");
	is_int(weir__pass_bytes(&run.pass), list->fed_bytes,
	       "leaves that are left to nodes count as fed");
	settle();
	weir__feeder_forget(feeder, list);
	if (evict(file)) {
		ok(reading_pass(&run, list, &missing) && missing == 0,
		   "leaves out of the page cache are read to their places");
	} else {
		skip(1, "the file system keeps all files in memory");
	}
	settle();
	ok(reading_pass(&run, list, &missing),
	   "a pass after one that was read to places has all bytes");
	settle();
	/* A read that nobody needs any more is in flight. */
	for (fed = list->fed; !fed->provider; fed++)
		;
	memset(feeder->out, 0, sizeof(feeder->out));
	out = &feeder->out[feeder->first_out];
	*out = (struct weir__fed_out){
		.place = fed->provider->of.place + PART - 1, .bytes = 1
	};
	ok(!part_get(fed->provider, 0, part, why) &&
		   is_pattern(part, PART, (unsigned)(fed->import.at / PART)),
	   "a node's read waits for bytes that are not in the page cache");
	if (pread(file->fd, part, PART, (off_t)fed->import.at) != (ssize_t)PART)
		bail("pread: %s", strerror(errno));
	ok(weir__fed_may_leave(feeder, fed),
	   "a leaf is left to its node if nothing else writes to its place");
	feeder->n_out = 1;
	ok(!weir__fed_may_leave(feeder, fed),
	   "a leaf is not left to its node while its place is written");
	feeder->n_out = 0;
	is_int(part_get(fed->provider, PARTS * PART, part, why), -ENODATA,
	       "a node's read after the end of the file fails");
	has_str(why, "parts.bin: ends before bytes",
		"a node's read that fails has a sentence");
	list_end(list);
	finish(&run);
	weir__feeder_free(feeder);
}

static void pwrite_part(const char *name, unsigned i, const void *part)
{
	int fd = open(files_path(name), O_WRONLY);

	if (fd < 0 || pwrite(fd, part, PART, (off_t)i * PART) != PART)
		bail("%s cannot be written", name);
	close(fd);
}

/* A feed fails, and the next one leaves entries to nodes again. */
static void after_failure(void)
{
	struct weir_file *whole = file;
	struct weir__feed_list *list;
	struct run run = { 0 };
	uint32_t missing, n;
	bool held;

	file = file_new("short.bin");
	begin(8 * (PART + 4096));
	list = list_new(0, PARTS);
	files_truncate("short.bin", 2 * PART);
	start(&run, list);
	is_int(weir__timeline_block(&run.pass.feed->timeline,
				    run.pass.first + PARTS - 1, -1),
	       -ENODATA, "a feed fails");
	end(&run);
	files_truncate("short.bin", PARTS * PART);
	for (unsigned i = 0; i < PARTS; i++) {
		unsigned char part[PART];

		pattern(part, PART, i);
		pwrite_part("short.bin", i, part);
	}
	n = leave_all(list);
	held = reading_pass(&run, list, &missing);
	settle();
	ok(held && reading_pass(&run, list, &missing) && missing == n,
	   "the feed after one that failed leaves leaves to nodes");
	list_end(list);
	finish(&run);
	weir__feeder_free(feeder);
	weir_file_close(file);
	file = whole;
}

int main(void)
{
	plan(12);
	fed_begin();
	left_to_nodes();
	after_failure();
	weir_file_close(file);
	weir_close(weir);
	return done_testing();
}
