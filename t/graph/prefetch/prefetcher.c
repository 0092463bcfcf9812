/* SPDX-License-Identifier: MIT */
/* The prefetcher: which leaves are kept, and when the others are read. */
#include <errno.h>

#include "mem/buf.h"
#include "stream/stream.h"
#include "prefetching.h"
#include "files.h"
#include "streams.h"

static bool pass(struct run *run, struct weir__prefetch_list *list)
{
	bool held;

	start(run, list);
	held = steps(run, 0, list->n);
	end(run);
	return held;
}

static void keeps(void)
{
	struct weir__prefetch_list *list;
	struct run run = { 0 };

	begin(0);
	list = list_new(0, PARTS);
	is_int(count_prefetched(list), 0,
	       "without a limit all leaves are kept");
	ok(pass(&run, list), "each leaf that is kept is read before its step");
	start(&run, list);
	is_int(state(&run, PARTS - 1), 1,
	       "leaves that are kept are there when the next run starts");
	is_int(weir__prefetch_bytes(&run.prefetch), 0,
	       "a run with all leaves kept is prefetched no bytes");
	end(&run);
	list_end(list);
	list = list_new(0, PARTS);
	start(&run, list);
	is_int(state(&run, PARTS - 1), 1,
	       "another list finds the leaves that are kept");
	end(&run);
	list_end(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
}

/* Embeddings that are the output matrix too. */
static void keeps_once(void)
{
	struct weir__import twice[2] = { imports[3], imports[3] };
	struct weir__prefetch_list *list;

	begin(0);
	twice[1].first = twice[1].last = 9;
	must(weir__prefetch_list_new(prefetcher, twice, 2, &list));
	ok(list->entry[0].kept == list->entry[1].kept,
	   "two leaves with the same bytes of a file have one copy");
	is_int(weir__prefetch_list_sizes(list).kept, PART,
	       "a copy of two leaves is counted once");
	weir__prefetch_list_free(list);
	weir__prefetcher_free(prefetcher);
}

static void feeds(void)
{
	struct weir__prefetch_list *list;
	struct run run = { 0 };
	bool held = true;

	begin(10 * (PART + 4096));
	list = list_new(0, PARTS);
	ok(count_prefetched(list) > 10 &&
		   list->buffer->bytes < 4 * (PART + 4096),
	   "under a limit %u of %u leaves are prefetched",
	   count_prefetched(list), PARTS);
	for (unsigned i = 0; i < 20; i++)
		held = held && pass(&run, list);
	ok(held, "in 20 runs each leaf is there until its step is over");
	settle();
	start(&run, list);
	ok(state(&run, 0) == 1 && state(&run, 3) == 1,
	   "leaves were read ahead between two runs");
	is_int(state(&run, PARTS - 1), 0,
	       "leaves are read ahead as far as the buffer has room");
	ok(steps(&run, 0, PARTS), "leaves that were read ahead are right");
	is_int(weir__prefetch_bytes(&run.prefetch), list->prefetched_bytes,
	       "a run counts the bytes that were prefetched for it");
	end(&run);
	list_end(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
}

/* Runs that were started at the same time, of two lists that share a buffer. */
static void several(void)
{
	struct weir__prefetch_list *a, *b;
	struct run run[6] = { 0 };
	bool held = true;

	begin(8 * (PART + 4096));
	a = list_new(0, PARTS);
	b = list_new(4, PARTS - 4);
	ok(a->buffer && a->buffer == b->buffer, "two lists have one buffer");
	for (unsigned i = 0; i < 6; i++)
		start(&run[i], i % 2 ? b : a);
	for (unsigned i = 0; i < 6; i++) {
		held = held && steps(&run[i], 0, run[i].prefetch.list->n);
		end(&run[i]);
		finish(&run[i]);
	}
	ok(held, "six runs of two lists get their leaves one after another");
	list_end(a);
	list_end(b);
	weir__prefetcher_free(prefetcher);
}

static void cancels(void)
{
	struct weir__prefetch_list *list;
	struct run run[3] = { 0 };
	bool held = true;

	begin(6 * (PART + 4096));
	list = list_new(0, PARTS);
	for (unsigned i = 0; i < 3; i++)
		start(&run[i], list);
	held = steps(&run[0], 0, 5);
	end(&run[1]);
	held = held && steps(&run[0], 5, 9);
	end(&run[0]);
	held = held && steps(&run[2], 0, PARTS);
	end(&run[2]);
	ok(held, "a run gets its leaves after others were cancelled");
	start(&run[0], list);
	end(&run[0]);
	ok(pass(&run[1], list), "a run that ends at once harms no other");
	start(&run[0], list);
	end(&run[0]);
	list_end(list);
	for (unsigned i = 0; i < 3; i++)
		finish(&run[i]);
	weir__prefetcher_free(prefetcher);
}

static void fails(void)
{
	struct weir_file *whole = file;
	struct weir__prefetch_list *list;
	struct run run[3] = { 0 };
	struct weir__timeline *tl;

	file = file_new("short.bin");
	begin(6 * (PART + 4096));
	list = list_new(0, PARTS);
	ok(pass(&run[0], list), "a file is read");
	settle();
	files_truncate("short.bin", 12 * PART);
	start(&run[0], list);
	start(&run[1], list);
	steps(&run[0], 0, 12);
	tl = &run[0].prefetch.arrivals->timeline;
	is_err(weir__timeline_block(tl, run[0].prefetch.first + PARTS - 1, -1),
	       -ENODATA, "short.bin: ends before bytes",
	       "a file that is too short fails the run with its sentence");
	is_int(state(&run[1], 0), -ENODATA,
	       "runs that were started after a run that fails fail too");
	end(&run[0]);
	end(&run[1]);
	weir_file_close(file);
	weir_file_close(file_new("short.bin"));
	ok(pass(&run[2], list), "a run that is started afterwards works");
	list_end(list);
	for (unsigned i = 0; i < 3; i++)
		finish(&run[i]);
	weir__prefetcher_free(prefetcher);
	file = whole;
}

/* Between two reads that the prefetcher queues, the first one fails. */
static void until_failed(void)
{
	struct weir_stream *s = prefetcher->arrivals->stream;

	for (int ms = 0; prefetcher->n_out && ms < 5000; ms++) {
		if (weir__stream_check(s) < 0)
			return;
		usleep(1000);
	}
}

static void fails_between(void)
{
	struct weir_file *whole = file;
	struct weir__prefetch_list *list;
	struct run run = { 0 };

	file = file_new("between.bin");
	begin(6 * (PART + 4096));
	list = list_new(0, PARTS);
	files_truncate("between.bin", 0);
	run.progress = progress_new();
	run.progress->asked = until_failed;
	start(&run, list);
	is_err(weir__timeline_block(&run.prefetch.arrivals->timeline,
				    run.prefetch.first, -1),
	       -ENODATA, "between.bin: ends before bytes",
	       "a read that is refused since another failed is not the cause");
	run.progress->asked = NULL;
	end(&run);
	list_end(list);
	finish(&run);
	weir_file_close(file);
	weir__prefetcher_free(prefetcher);
	file = whole;
}

/* A new run is started while one that will fail still reads. */
static void fails_late(void)
{
	struct weir_file *whole = file;
	struct weir__prefetch_list *list;
	struct run run[2] = { 0 };

	file = file_new("late.bin");
	begin(6 * (PART + 4096));
	list = list_new(0, PARTS);
	files_truncate("late.bin", 2 * PART);
	start(&run[0], list);
	while (!atomic_load(&run[0].prefetch.arrivals->failed))
		usleep(100);
	weir_file_close(file);
	weir_file_close(file_new("late.bin"));
	start(&run[1], list);
	usleep(20000);
	is_int(state(&run[1], 0), 0,
	       "nothing is read into a buffer that a failed run may still read");
	end(&run[0]);
	ok(steps(&run[1], 0, PARTS),
	   "a buffer is read into when the failed run has ended");
	end(&run[1]);
	list_end(list);
	for (unsigned i = 0; i < 2; i++)
		finish(&run[i]);
	weir__prefetcher_free(prefetcher);
	file = whole;
}

static void frees(void)
{
	struct weir__prefetch_list *list;
	struct run run = { 0 };
	unsigned n = 0;

	for (; n < 50; n++) {
		begin(8 * (PART + 4096));
		list = list_new(0, PARTS);
		start(&run, list);
		if (n % 3)
			steps(&run, 0, n % 3);
		end(&run);
		list_end(list);
		weir__prefetcher_free(prefetcher);
		finish(&run);
	}
	is_int(n, 50, "a prefetcher is freed while its reads are in flight");
}

/* One placed leaf; its bytes change when no executable graph uses the list. */
static void placed(void)
{
	struct weir_tensor t = bytes(weir, PART);
	struct weir__import_src src = { .t = t };
	struct weir_stream *s = new_stream(weir, "late");
	struct weir__prefetch_list *list;
	struct run run = { 0 };
	struct hold hold;
	unsigned char *at = t.buf->mem.base + t.offset;

	src.event = new_event(weir, 0);
	hold_init(&hold, 0);
	begin(0);
	imports[0].file = NULL;
	imports[0].at = (uintptr_t)at;
	must(weir__prefetch_list_new(prefetcher, imports, 2, &list));
	weir__prefetch_list_use(list);
	hold_stream(s, &hold);
	must(weir_stream_record(s, src.event));
	run.prefetch.src = (struct weir__import_src[]){ src, src };
	start(&run, list);
	usleep(5000);
	is_int(state(&run, 0), 0, "a copy waits for the event of its leaf");
	pattern(at, PART, 7);
	release_stream(&hold);
	weir__timeline_block(&run.prefetch.arrivals->timeline,
			     run.prefetch.first, -1);
	ok(is_pattern(list->entry[0].buf->mem.base, PART, 7),
	   "a placed leaf is copied");
	end(&run);
	weir__prefetch_list_unuse(list, run.prefetch.src);
	pattern(at, PART, 8);
	weir__prefetch_list_use(list);
	start(&run, list);
	weir__timeline_block(&run.prefetch.arrivals->timeline,
			     run.prefetch.first, -1);
	ok(is_pattern(list->entry[0].buf->mem.base, PART, 8),
	   "a placed leaf is copied again for an executable graph that is made later");
	end(&run);
	weir__prefetch_list_unuse(list, run.prefetch.src);
	weir__prefetch_list_free(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
	weir_event_free(src.event);
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

/* Lists with other leaves come and go; the limit always holds. */
static void limits(void)
{
	const uint64_t limit = 9 * (PART + 4096);
	struct weir__prefetch_list *list, *other;
	struct run run = { 0 };
	bool held = true, within = true;

	begin(limit);
	for (unsigned i = 0; i < 30; i++) {
		uint32_t first = i * 5 % 16, n = 3 + i % 6;

		list = list_new(first, n);
		within = within && prefetcher->held <= limit;
		held = held && pass(&run, list);
		list_end(list);
	}
	ok(held && within, "lists of other leaves take the place of old ones");
	list = list_new(0, 8);
	is_int(weir__prefetch_list_new(prefetcher, imports + 8, 16, &other), 0,
	       "leaves of the list that are kept, but by none, make room");
	list_end(other);
	list_end(list);
	list = list_new(0, 9);
	is_int(weir__prefetch_list_new(prefetcher, imports + 9, 15, &other),
	       -ENOMEM, "a list is refused if lists in use have all bytes");
	has_str(weir_error(), "needs 65536 bytes of constant leaves",
		"the refusal has the bytes that are needed");
	list_end(list);
	list = list_new(9, 15);
	ok(pass(&run, list),
	   "a list that was refused is made when the others are freed");
	list_end(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
}

static void closes(void)
{
	struct weir__prefetch_list *list;
	struct run run = { 0 };
	int r;

	begin(6 * (PART + 4096));
	list = list_new(0, PARTS);
	start(&run, list);
	steps(&run, 0, 2);
	weir_file_close(file);
	weir_close(weir);
	advance(&run, run.prefetch.base + 10);
	r = weir__timeline_block(&run.prefetch.arrivals->timeline,
				 run.prefetch.first + PARTS - 1, -1);
	is_int(r, -ESHUTDOWN, "after weir_close nothing more is read");
	end(&run);
	list_end(list);
	finish(&run);
	weir__prefetcher_free(prefetcher);
	ok(true, "a prefetcher can be freed after weir_close");
}

int main(void)
{
	plan(35);
	prefetching_begin();
	keeps();
	keeps_once();
	feeds();
	several();
	cancels();
	fails();
	fails_between();
	fails_late();
	frees();
	placed();
	limits();
	closes();
	return done_testing();
}
