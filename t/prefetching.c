/* SPDX-License-Identifier: MIT */
#include "prefetching.h"

#include <stdlib.h>
#include <unistd.h>

#include "files.h"
#include "kind.h"
#include "mem/buf.h"
#include "streams.h"

struct weir *weir;
struct weir_buft *buft;
struct weir_file *file;
struct weir__import imports[PARTS];
struct weir__prefetcher *prefetcher;

static int progress_state(struct weir__timeline *tl, uint64_t number,
			  struct weir_failure *cause)
{
	struct progress *p = (struct progress *)tl;

	(void)cause;
	if (p->asked)
		p->asked();
	return number <= atomic_load(&p->done);
}

static void progress_free(struct weir__timeline *tl)
{
	weir__timeline_fini(tl);
	free(tl);
}

static const struct weir__timeline_ops progress_ops = {
	.size = sizeof(progress_ops),
	.state = progress_state,
	.free = progress_free,
};

struct progress *progress_new(void)
{
	struct progress *p = calloc(1, sizeof(*p));

	weir__timeline_init(&p->timeline, &progress_ops, weir);
	return p;
}

void advance(struct run *run, uint64_t number)
{
	atomic_store(&run->progress->done, number);
	weir__timeline_complete(&run->progress->timeline, number);
}

struct weir_file *file_new(const char *name)
{
	unsigned char *part = malloc(PARTS * PART);
	struct weir_file *ret;

	for (unsigned i = 0; i < PARTS; i++)
		pattern(part + i * PART, PART, i);
	files_bytes(name, part, PARTS * PART);
	free(part);
	must(weir_file_open(weir, files_path(name), NULL, &ret));
	return ret;
}

void begin(uint64_t limit)
{
	must(weir__prefetcher_new(cpu_of(weir), buft, limit, &prefetcher));
	for (uint32_t i = 0; i < PARTS; i++)
		imports[i] = (struct weir__import){ .bytes = PART,
						    .first = i,
						    .last = i,
						    .file = file,
						    .at = i * PART };
}

struct weir__prefetch_list *list_new(uint32_t first, uint32_t n)
{
	struct weir__prefetch_list *list;

	must(weir__prefetch_list_new(prefetcher, imports + first, n, &list));
	weir__prefetch_list_use(list);
	return list;
}

void list_end(struct weir__prefetch_list *list)
{
	weir__prefetch_list_unuse(list, NULL);
	weir__prefetch_list_free(list);
}

void start(struct run *run, struct weir__prefetch_list *list)
{
	if (!run->progress)
		run->progress = progress_new();
	run->prefetch.list = list;
	run->prefetch.progress = &run->progress->timeline;
	run->prefetch.base = atomic_load(&run->progress->done);
	must(weir__prefetch_start(&run->prefetch));
}

void end(struct run *run)
{
	/* A run that ends completes all of its numbers. */
	advance(run, run->prefetch.base + PARTS);
	weir__prefetch_end(&run->prefetch);
}

void finish(struct run *run)
{
	weir__timeline_put(&run->progress->timeline);
	run->progress = NULL;
}

int state(const struct run *run, uint32_t k)
{
	struct weir__timeline *tl = &run->prefetch.arrivals->timeline;

	return tl->ops->state(tl, run->prefetch.first + k, NULL);
}

bool arrives(const struct run *run, uint32_t k)
{
	const struct weir__prefetch_entry *entry =
		&run->prefetch.list->entry[k];
	unsigned part = (unsigned)(entry->import.at / PART);
	int r = weir__timeline_block(&run->prefetch.arrivals->timeline,
				     run->prefetch.first + k, -1);

	if (r < 0)
		diag("entry %u: %s", k, weir_error());
	return r == 0 &&
	       is_pattern(entry->buf->mem.base + entry->offset, PART, part);
}

bool steps(struct run *run, uint32_t k, uint32_t to)
{
	for (; k < to; k++) {
		if (!arrives(run, k))
			return false;
		advance(run, run->prefetch.base + 1 +
				     run->prefetch.list->entry[k].import.last);
	}
	return true;
}

uint32_t count_prefetched(const struct weir__prefetch_list *list)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < list->n; i++)
		n += !list->entry[i].kept;
	return n;
}

void settle(void)
{
	bool idle = false;

	while (!idle) {
		pthread_mutex_lock(&prefetcher->lock);
		idle = !prefetcher->n_out;
		pthread_mutex_unlock(&prefetcher->lock);
		usleep(100);
	}
}

void prefetching_begin(void)
{
	files_begin();
	weir = open_root(WEIR_IO_AUTO);
	buft = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	file = file_new("parts.bin");
}
