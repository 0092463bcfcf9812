/* SPDX-License-Identifier: MIT */
/* Fed leaves that are left to the nodes that read them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "prefetching.h"
#include "cached.h"
#include "files.h"
#include "streams.h"

/* Let the nodes of all prefetched leaves read them. */
static uint32_t leave_all(struct weir__prefetch_list *list)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < list->n; k++)
		n += weir__prefetch_list_reader(list, k, 100 + k) != NULL;
	return n;
}

/* All bytes of a leaf, as a node gets them. */
static int part_get(struct weir__entry_reader *p, uint64_t at,
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
	const struct weir__prefetch_list *list = run->prefetch.list;
	unsigned char got[PART];
	bool held = true;
	char why[240];

	for (uint32_t k = 0; held && k < list->n; k++) {
		struct weir__entry_reader *p = list->entry[k].reader;

		held = weir__timeline_block(&run->prefetch.arrivals->timeline,
					    run->prefetch.first + k, -1) == 0;
		if (!p || !p->of.active) {
			held = held && arrives(run, k);
		} else {
			held = held && !part_get(p, 0, got, why) &&
			       is_pattern(got, PART, k);
			memset(p->of.place, 0xee, PART);
			++*ret_missing;
		}
		advance(run,
			run->prefetch.base + 1 + list->entry[k].import.last);
	}
	return held;
}

static bool reading_pass(struct run *run, struct weir__prefetch_list *list,
			 uint32_t *ret_missing)
{
	bool held;

	*ret_missing = 0;
	start(run, list);
	held = reads(run, ret_missing);
	end(run);
	return held;
}

static void left_to_nodes(void)
{
	struct weir__prefetch_list *list;
	struct weir__prefetch_op *out;
	const struct weir__prefetch_entry *entry;
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
	is_int(n, count_prefetched(list),
	       "nodes may read all leaves that are prefetched");
	for (unsigned i = 0; i < 5; i++)
		held = held && reading_pass(&run, list, &missing) &&
		       missing == n;
	ok(held, "leaves in the page cache are left to their nodes");
	is_int(weir__prefetch_bytes(&run.prefetch), list->prefetched_bytes,
	       "leaves that are left to nodes count as prefetched");
	settle();
	weir__prefetcher_forget(prefetcher, list);
	cached = false;
	ok(reading_pass(&run, list, &missing) && missing == 0,
	   "leaves out of the page cache are read to their places");
	settle();
	ok(reading_pass(&run, list, &missing),
	   "a pass after one that was read to places has all bytes");
	settle();
	/* A read that nobody needs any more is in flight. */
	for (entry = list->entry; !entry->reader; entry++)
		;
	memset(prefetcher->out, 0, sizeof(prefetcher->out));
	out = &prefetcher->out[prefetcher->first_out];
	*out = (struct weir__prefetch_op){
		.place = entry->reader->of.place + PART - 1, .bytes = 1
	};
	ok(!part_get(entry->reader, 0, part, why) &&
		   is_pattern(part, PART, (unsigned)(entry->import.at / PART)),
	   "a node's read waits for bytes that are not in the page cache");
	cached = true;
	ok(weir__entry_may_read_through(prefetcher, entry),
	   "a leaf is left to its node if nothing else writes to its place");
	prefetcher->n_out = 1;
	ok(!weir__entry_may_read_through(prefetcher, entry),
	   "a leaf is not left to its node while its place is written");
	prefetcher->n_out = 0;
	is_int(part_get(entry->reader, PARTS * PART, part, why), -ENODATA,
	       "a node's read after the end of the file fails");
	has_str(why, "parts.bin: ends before bytes",
		"a node's read that fails has a sentence");
	list_end(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
}

static void pwrite_part(const char *name, unsigned i, const void *part)
{
	int fd = open(files_path(name), O_WRONLY);

	if (fd < 0 || pwrite(fd, part, PART, (off_t)i * PART) != PART)
		bail("%s cannot be written", name);
	close(fd);
}

/* A prefetch fails, and the next one leaves entries to nodes again. */
static void after_failure(void)
{
	struct weir_file *whole = file;
	struct weir__prefetch_list *list;
	struct run run = { 0 };
	uint32_t missing, n;
	bool held;

	file = file_new("short.bin");
	begin(8 * (PART + 4096));
	list = list_new(0, PARTS);
	files_truncate("short.bin", 2 * PART);
	start(&run, list);
	is_int(weir__timeline_block(&run.prefetch.arrivals->timeline,
				    run.prefetch.first + PARTS - 1, -1),
	       -ENODATA, "a prefetch fails");
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
	   "the prefetch after one that failed leaves leaves to nodes");
	list_end(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
	weir_file_close(file);
	file = whole;
}

int main(void)
{
	plan(12);
	prefetching_begin();
	left_to_nodes();
	after_failure();
	weir_file_close(file);
	weir_close(weir);
	return done_testing();
}
