/* SPDX-License-Identifier: MIT */
/*
 * The copies of parked weights. Those of a tensor that the program has changed
 * may be in a span that is read again: they are brought back after the load,
 * the others at the same time.
 */
#include "model/load/park_copies.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/file.h"
#include "mem/tensor.h"
#include "model/load/load.h"
#include "stream/event.h"
#include "stream/stream.h"

/* Copies are as far apart as O_DIRECT wants. */
#define COPY_ALIGN 4096u
/* The most padding between two tensors that are copied as one. */
#define MAX_PADDING 256u
/* Names to try for a file of copies, and bytes of one. */
#define NAMES 64u
#define NAME_ROOM 64u

void weir__parked_drop_copies(struct weir__parked *p)
{
	weir__buf_put(p->copy);
	weir_file_close(p->file);
	p->copy = NULL;
	p->file = NULL;
}

void weir__parked_put(struct weir__parked *p)
{
	if (!p || !weir__refs_drop(&p->refs))
		return;
	weir__parked_drop_copies(p);
	for (size_t i = 0; i < p->n_streams; i++)
		weir_stream_free(p->stream[i]);
	weir_event_free(p->event);
	weir__free(p->stream);
	weir__free(p->range);
	weir__free(p->keep);
	weir__free(p->mixed);
	weir__free(p);
}

int weir__parked_no_memory(const struct weir_weights *w)
{
	return weir__fail(-ENOMEM, "%s: no memory to park %zu tensors",
			  w->model->path, w->layout->n);
}

static bool file_unchanged(struct weir_file *file)
{
	struct weir__error_saved saved;
	bool same;

	weir__error_save(&saved);
	same = weir__file_unchanged(file) >= 0;
	weir__error_restore(&saved);
	return same;
}

/* Decide which tensors are not read again. */
static int choose_kept(struct weir__parked *p, const struct weir_weights *w,
		       const struct weir_park_opts *o)
{
	const struct weir__layout *layout = w->layout;
	const bool constant = o->flags & WEIR_PARK_CONSTANT;
	bool *changed = weir__calloc(w->model->n_files + 1, 1);

	p->keep = weir__calloc(layout->n + 1, 1);
	p->mixed = weir__calloc(layout->n + 1, 1);
	if (!changed || !p->keep || !p->mixed) {
		weir__free(changed);
		return weir__parked_no_memory(w);
	}
	for (uint32_t i = 0; constant && i < w->model->n_files; i++)
		changed[i] = !file_unchanged(w->model->file[i]);
	for (size_t i = 0; i < layout->n; i++) {
		const struct weir__tensor_placement *t = &layout->placement[i];

		p->keep[i] = !constant || t->buf == WEIR__NO_BUF ||
			     !weir__weights_park_buf(w, t->buf) ||
			     changed[w->model->rec[t->record].shard];
	}
	for (size_t i = 0; i < o->n_changed; i++)
		p->keep[o->changed[i]] = true;
	for (size_t i = 0; i < layout->n; i++)
		p->again += p->keep[i] ? 0 : layout->placement[i].data;
	weir__load_again_covers(layout, p->keep, p->mixed);
	weir__free(changed);
	return 0;
}

/* Get the number of the stream that copies bytes of @dev. */
static int stream_for(struct weir__parked *p, struct weir_dev *dev,
		      size_t *ret_i)
{
	struct weir_stream **list;
	size_t i = 0;
	int r;

	while (i < p->n_streams && p->stream[i]->dev != dev)
		i++;
	*ret_i = i;
	if (i < p->n_streams)
		return 0;
	list = weir__grow(p->stream, &p->max_streams, i,
			  sizeof(struct weir_stream *));
	if (!list)
		return weir__fail(-ENOMEM, "no memory for %zu streams", i + 1);
	p->stream = list;
	r = weir__stream_new(dev, 0, "park", &p->stream[i]);
	if (r >= 0)
		p->n_streams++;
	return r;
}

static int add_range(struct weir__parked *p, struct weir_buf *buf, uint64_t at,
		     uint64_t bytes, bool read_again)
{
	struct weir__kept_range *range = weir__grow(
		p->range, &p->max_ranges, p->n_ranges, sizeof(*range));
	int r;

	if (!range)
		return weir__fail(-ENOMEM, "no memory for %zu copies",
				  p->n_ranges + 1);
	p->range = range;
	range += p->n_ranges;
	*range = (struct weir__kept_range){ buf,     at, bytes,
					    p->room, 0,  read_again };
	r = stream_for(p, buf->buft->dev, &range->stream);
	if (r < 0)
		return r;
	p->n_ranges++;
	p->copied += bytes;
	p->room += weir__up(bytes, COPY_ALIGN);
	return 0;
}

/* Add the bytes of a tensor: to the range before, if it ends there. */
static int add_tensor(struct weir__parked *p, struct weir_buf *buf,
		      const struct weir__tensor_placement *t, bool read_again)
{
	struct weir__kept_range *last = p->n_ranges ? &p->range[p->n_ranges - 1]
						    : NULL;
	uint64_t end = last ? last->at + last->bytes : 0;

	if (!last || last->buf != buf || last->read_again != read_again ||
	    t->at < end || t->at - end > MAX_PADDING)
		return add_range(p, buf, t->at, t->bytes, read_again);
	last->bytes = t->at + t->bytes - last->at;
	p->copied += t->at + t->bytes - end;
	p->room = last->copy_at + weir__up(last->bytes, COPY_ALIGN);
	return 0;
}

/* List the bytes that are copied: whole buffers, or tensors. */
static int list_ranges(struct weir__parked *p, const struct weir_weights *w,
		       bool constant)
{
	const struct weir__layout *layout = w->layout;
	int r = 0;

	for (size_t i = 0; i < layout->n_bufs && r >= 0; i++) {
		const struct weir__layout_buf *b = &layout->buf[i];

		if (!weir__weights_park_buf(w, i))
			continue;
		if (weir__weights_first(w, i))
			p->released += w->buf[i]->bytes;
		if (!constant && weir__weights_first(w, i))
			r = add_range(p, w->buf[i], 0, w->buf[i]->bytes, false);
		for (size_t k = 0; constant && k < b->n && r >= 0; k++) {
			size_t t = layout->order[b->first + k];

			if (p->keep[t] && layout->placement[t].bytes)
				r = add_tensor(p, w->buf[i],
					       &layout->placement[t],
					       p->mixed[t]);
		}
	}
	return r;
}

/* Make a file and remove its name. @path gets the name. */
static int open_named(const char *folder, char *path, size_t room)
{
	static _Atomic uint32_t serial;
	int fd = -EEXIST;

	for (unsigned i = 0; i < NAMES && fd == -EEXIST; i++) {
		snprintf(path, room, "%s/.weir-parked-%ld-%u", folder,
			 (long)getpid(), atomic_fetch_add(&serial, 1));
		fd = weir__sys_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	}
	if (fd >= 0)
		weir__sys_unlink(AT_FDCWD, path);
	return fd;
}

/*
 * Make a file without a name in @folder: nobody can replace or remove it, and
 * it is gone when the process ends.
 */
static int make_file(struct weir__parked *p, const char *folder)
{
	const size_t room = strlen(folder) + NAME_ROOM;
	char *path = weir__malloc(room);
	int fd, r;

	if (!path)
		return weir__fail(-ENOMEM, "no memory for a path of %zu bytes",
				  room);
	snprintf(path, room, "%s/parked weights", folder);
	/* O_EXCL: it cannot get a name later. */
	fd = weir__sys_open(folder, O_RDWR | O_TMPFILE | O_EXCL, 0600);
	/* The file system has no files without names. */
	if (fd == -EOPNOTSUPP || fd == -EISDIR)
		fd = open_named(folder, path, room);
	r = fd < 0 ? weir__fail_sys(fd, "%s: a file for parked weights", folder)
		   : weir__file_take(p->weir, fd, path, &p->file);
	weir__free(path);
	if (r < 0)
		return r;
	r = weir__sys_reserve(p->file->fd, p->room);
	/* Other file systems cannot reserve: writes fail there. */
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return weir__fail_sys(r, "%s: %llu bytes of parked weights",
				      folder, (unsigned long long)p->room);
	return 0;
}

/* The page-locked memory of the first device with copies. */
static struct weir_buft *pinned_of(const struct weir__parked *p)
{
	for (size_t i = 0; i < p->n_ranges; i++) {
		struct weir_dev *dev = p->range[i].buf->buft->dev;

		for (unsigned k = 0; k < dev->desc.n_bufts; k++)
			if (dev->buft[k].desc.kind == WEIR_MEM_PINNED &&
			    !weir__buf_is_host(p->range[i].buf))
				return &dev->buft[k];
	}
	return NULL;
}

static int make_memory(struct weir__parked *p, struct weir_buft *buft)
{
	if (!buft)
		buft = pinned_of(p);
	if (!buft)
		return weir__fail(
			-EINVAL,
			"no device has page-locked memory for copies: name a folder or a kind of memory");
	return weir__buf_alloc(buft, p->room, NULL, &p->copy);
}

int weir__parked_new(struct weir_weights *w, const struct weir_park_opts *o,
		     struct weir__parked **ret_parked)
{
	struct weir__parked *p = weir__calloc(1, sizeof(*p));
	size_t any;
	int r;

	if (!p)
		return weir__parked_no_memory(w);
	atomic_init(&p->refs, 1);
	p->weir = w->model->weir;
	r = weir_event_new(p->weir, 0, &p->event);
	if (r >= 0)
		r = choose_kept(p, w, o);
	if (r >= 0)
		r = list_ranges(p, w, o->flags & WEIR_PARK_CONSTANT);
	/* If there is nothing to do, a stream ends the way back. */
	if (r >= 0 && !p->n_ranges && !p->again)
		r = stream_for(p, weir_dev_get(p->weir, 0), &any);
	if (r >= 0 && p->n_ranges)
		r = o->folder ? make_file(p, o->folder)
			      : make_memory(p, o->buft);
	if (r < 0) {
		weir__parked_put(p);
		return r;
	}
	*ret_parked = p;
	return 0;
}

/* Queue the copy of a range to the memory or the file, or back. */
static int queue_range(struct weir__parked *p,
		       const struct weir__kept_range *range, bool back)
{
	struct weir_stream *s = p->stream[range->stream];
	struct weir_tensor t =
		weir__flat_tensor(range->buf, range->at, range->bytes);
	struct weir_tensor copy =
		weir__flat_tensor(p->copy, range->copy_at, range->bytes);

	t.name = "weights";
	copy.name = "the copy of weights";
	if (p->file)
		return back ? weir_stream_read(s, p->file, range->copy_at, &t,
					       0, range->bytes)
			    : weir_stream_write(s, p->file, range->copy_at, &t,
						0, range->bytes);
	return back ? weir_stream_copy(s, &t, &copy)
		    : weir_stream_copy(s, &copy, &t);
}

/* Wait until nothing that was queued is running any more. */
int weir__parked_sync(struct weir__parked *p)
{
	int r = 0;

	for (size_t i = 0; i < p->n_streams; i++) {
		int k = weir_stream_sync(p->stream[i], -1);

		if (r >= 0)
			r = k;
	}
	return r;
}

static int fail_write(const struct weir__parked *p, int err)
{
	char why[WEIR__ERROR_MAX];

	snprintf(why, sizeof(why), "%s", weir__error_text());
	return weir__fail(err, "%s: %s", p->file->path, why);
}

int weir__parked_copy_out(struct weir__parked *p)
{
	struct weir__error_saved saved;
	int r = 0, k;

	for (size_t i = 0; i < p->n_ranges && r >= 0; i++)
		r = queue_range(p, &p->range[i], false);
	if (r < 0) {
		weir__error_save(&saved);
		weir__parked_sync(p);
		weir__error_restore(&saved);
		return r;
	}
	r = weir__parked_sync(p);
	if (!p->file)
		return r;
	if (r < 0)
		return fail_write(p, r);
	/* Bytes that the disk loses later must not have been the only ones. */
	k = weir__sys_sync(p->file->fd);
	return k < 0 ? weir__fail_sys(k, "%s", p->file->path) : 0;
}

/* Start to read what the files of the model have. p->event is its end. */
static int read_again(struct weir__parked *p, struct weir_weights *w)
{
	struct weir_load *load;
	int r = weir__load_again(w, p->keep, &load);

	if (r < 0)
		return r;
	r = weir_load_record(load, WEIR_ALL, p->event);
	if (r < 0)
		weir_load_cancel(load);
	weir_load_free(load);
	return r;
}

/* Queue the way back of the copies that wait for the load, or of the others. */
static int bring_back(struct weir__parked *p, bool read_again)
{
	int r = 0;

	for (size_t i = 0; i < p->n_ranges && r >= 0; i++)
		if (p->range[i].read_again == read_again)
			r = queue_range(p, &p->range[i], true);
	return r;
}

/* Record the end of all streams in p->event. */
static int join_streams(struct weir__parked *p)
{
	int r = 0;

	for (size_t i = 1; i < p->n_streams && r >= 0; i++) {
		r = weir_stream_record(p->stream[i], p->event);
		if (r >= 0)
			r = weir_stream_wait(p->stream[0], p->event);
	}
	return p->n_streams && r >= 0
		       ? weir_stream_record(p->stream[0], p->event)
		       : r;
}

/* Queue all that fills the memory, and record its end. */
int weir__parked_fill(struct weir__parked *p, struct weir_weights *w)
{
	int r = 0;

	for (size_t i = 0; i < p->n_streams && r >= 0; i++)
		if (weir__stream_has_failed(p->stream[i]))
			r = weir_stream_reset(p->stream[i]);
	if (r >= 0 && p->again)
		r = read_again(p, w);
	if (r >= 0)
		r = bring_back(p, false);
	for (size_t i = 0; i < p->n_streams && p->again && r >= 0; i++)
		r = weir_stream_wait(p->stream[i], p->event);
	if (r >= 0)
		r = bring_back(p, true);
	return r < 0 ? r : join_streams(p);
}
