/* SPDX-License-Identifier: MIT */
/* What a load reports: its weights, events, progress, failures and way. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "races/races.h"
#include "model/load/load.h"
#include "model/load/sink.h"
#include "stream/event.h"

static int check_tensor(const struct weir_load *l, size_t i)
{
	if (i < l->arrival->n || i == WEIR_ALL)
		return 0;
	return weir__fail(-EINVAL, "tensor %zu of %zu", i, l->arrival->n);
}

static uint64_t number_of(const struct weir_load *l, size_t i)
{
	return i == WEIR_ALL ? l->arrival->n : i;
}

int weir_load_weights(struct weir_load *load, struct weir_weights **ret_weights)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	*ret_weights = weir_weights_ref(load->weights);
	return 0;
}

int weir_load_find(struct weir_load *load, const char *name, size_t *ret_i)
{
	size_t i;
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	i = weir__weights_lookup(load->weights, name);
	if (i == WEIR__NONE)
		return weir__fail(-ENOENT, "no tensor '%s' in the load",
				  weir__quote(name, strlen(name)));
	*ret_i = i;
	return 0;
}

int weir_load_record(struct weir_load *load, size_t i, struct weir_event *event)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	r = check_tensor(load, i);
	if (r < 0)
		return r;
	return weir__event_record(event, &load->arrival->timeline,
				  number_of(load, i));
}

int weir_load_wait(struct weir_load *load, int64_t timeout_ns)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	return weir__timeline_block(&load->arrival->timeline, load->arrival->n,
				    timeout_ns);
}

int weir_load_next(struct weir_load *load, int64_t timeout_ns, size_t *ret_i)
{
	struct weir_failure failure;
	size_t i;
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	weir__unwaited = 0;
	r = weir__completions_take(&load->arrival->ended, timeout_ns, &i);
	if (r != 1)
		return r;
	weir__races_host_knows(&load->arrival->timeline, i);
	*ret_i = i;
	return weir__arrival_error(load->arrival, i, &failure) < 0
		       ? WEIR_NEXT_FAILED
		       : WEIR_NEXT_ARRIVED;
}

int weir_load_fd(struct weir_load *load)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	return weir__completions_fd(&load->arrival->ended);
}

int weir_load_cancel(struct weir_load *load)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	if (!atomic_load(&load->arrival->finished) && load->n_ext)
		weir__job_cancel(load->job);
	weir__sinks_cancel(load);
	return 0;
}

/* A tensor may arrive a moment before its bytes are counted here. */
static uint64_t arrived_bytes(struct weir_load *load)
{
	uint64_t bytes = atomic_load(&load->mapped);

	for (int i = 0; i < 3; i++)
		bytes += atomic_load(&load->way[i]);
	return bytes;
}

int weir_load_progress(struct weir_load *load,
		       struct weir_progress *ret_progress)
{
	struct weir__arrival *a = load->arrival;
	int64_t elapsed = atomic_load(&load->elapsed);
	/* Later failures may be counted in the second only: at most too few
	 * have arrived. */
	size_t ended = weir__completions_count(&a->ended);
	size_t failed = atomic_load(&a->failed);
	struct weir_progress p = {
		.bytes = arrived_bytes(load),
		.total = load->total,
		.tensors = ended > failed ? ended - failed : 0,
		.failed = failed,
		.count = a->n,
		.elapsed = elapsed ? elapsed : weir__now() - load->begun,
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	weir__load_arrival_seen(load);
	return weir__info_out(ret_progress, &p, sizeof(p));
}

int weir_load_error(struct weir_load *load, size_t i,
		    struct weir_failure *ret_failure)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	r = check_tensor(load, i);
	if (r < 0)
		return r;
	memset(ret_failure, 0, sizeof(*ret_failure));
	if (i != WEIR_ALL && atomic_load(&load->arrival->item[i].remaining))
		return 0;
	return weir__arrival_error(load->arrival, number_of(load, i),
				   ret_failure);
}

/* The ring would pass such reads to its workers, so copiers make them. */
static void note_nowait(const struct weir_model *m,
			struct weir_load_report *rep)
{
	if (rep->in_place + rep->staged == 0)
		return;
	for (uint32_t i = 0; i < m->n_files && !*rep->note; i++)
		if (m->file[i]->object)
			continue;
		else if (m->file[i]->fuse)
			snprintf(
				rep->note, sizeof(rep->note),
				"%.80s: is on FUSE, or statfs(2) fails: threads read it",
				m->file[i]->base);
		else if (!m->file[i]->nowait)
			snprintf(
				rep->note, sizeof(rep->note),
				"%.80s: its file system lacks reads that do not wait (RWF_NOWAIT): copiers make them",
				m->file[i]->base);
}

/* The reason, if there is one, why the load was slower than it could be. */
static void note_slow(const struct weir_load *l, struct weir_load_report *rep)
{
	const struct weir_model *m = l->model;
	struct weir_io_info io = { .method = WEIR_IO_SYNC };

	if (l->eng)
		weir__engine_info(l->eng, &io);
	rep->io = io.method;
	for (uint32_t i = 0; i < m->n_files; i++) {
		struct weir_file *f = m->file[i];

		if (atomic_load(&f->direct_ok) || rep->mapped == rep->bytes)
			continue;
		rep->fallbacks++;
		if (!*rep->note)
			snprintf(rep->note, sizeof(rep->note),
				 "%.80s: no direct reads: %s", f->base,
				 *f->why ? f->why : "a read was refused");
	}
	if (!*rep->note && io.method == WEIR_IO_URING)
		note_nowait(m, rep);
	if (!*rep->note && l->eng && io.method == WEIR_IO_SYNC &&
	    (!rep->remote || rep->remote < rep->bytes))
		snprintf(rep->note, sizeof(rep->note),
			 "threads instead of the ring: %.200s", io.why);
	if (!*rep->note && *io.why &&
	    (!rep->remote || rep->remote < rep->bytes))
		snprintf(rep->note, sizeof(rep->note), "the I/O engine: %.200s",
			 io.why);
}

int weir_load_report(struct weir_load *load,
		     struct weir_load_report *ret_report)
{
	const struct weir__job *job = load->job;
	struct weir_load_report rep = {
		.bytes = arrived_bytes(load),
		.in_place = atomic_load(&load->way[WEIR__CHUNK_IN_PLACE]),
		.staged = atomic_load(&load->way[WEIR__CHUNK_STAGED]),
		.buffered = atomic_load(&load->way[WEIR__CHUNK_BUFFERED]),
		.mapped = atomic_load(&load->mapped),
		.remote = atomic_load(&load->remote),
		.over_read = atomic_load(&load->gaps),
		.chunks = load->weights->layout->n_spans,
		.elapsed = atomic_load(&load->elapsed),
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(load->weir);
	if (r < 0)
		return r;
	if (job) {
		rep.over_read += atomic_load(&job->over_read);
		rep.chunks = job->n_chunks;
		rep.retries = atomic_load(&job->retries);
		rep.cached = atomic_load(&job->cached);
	}
	weir__sinks_report(load, &rep);
	/* What the cache had of objects that are not whole, with its gaps. */
	rep.remote -= rep.cached < rep.remote ? rep.cached : rep.remote;
	rep.cached += atomic_load(&load->cached);
	if (atomic_load(&load->arrival->finished)) {
		rep.enters = load->enters;
		rep.staging = load->staging;
		rep.prefault_ns = load->prefault_ns;
		rep.memory = load->memory;
		rep.memory_peak = load->memory_peak;
	}
	weir__load_arrival_seen(load);
	note_slow(load, &rep);
	return weir__info_out(ret_report, &rep, sizeof(rep));
}
