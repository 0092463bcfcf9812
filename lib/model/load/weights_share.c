/* SPDX-License-Identifier: MIT */
/*
 * Weights that processes share. What passes between them is one end of a pair
 * of sockets, in which a message waits: the descriptors of the buffers, and
 * first that of a table, a sealed memfd with the tensors. Readers look at the
 * message and leave it in the socket, so any number of them can have it, also
 * when the process that made it has ended. The table:
 *
 *	struct table_head
 *	struct table_buf[n_bufs]
 *	struct table_tensor[n_tensors]
 *	text: the names, each with a NUL after it
 *
 * A reader trusts neither the message nor the table.
 */
#include <fcntl.h>
#include <string.h>

#include <weir/share.h>

#include "alloc/share.h"
#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/load/weights.h"

#define MAGIC "weirshr"
#define FORM 2u /* number of this form of message and table */
#define TABLE_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)
#define MAX_BUFS (WEIR__MESSAGE_FDS - 1u)

typedef unsigned long long ull; /* the type that printf writes */

struct message {
	char magic[8];
	uint32_t version;
	uint32_t reserved;
	uint64_t table; /* bytes of the table */
};

struct table_head {
	uint64_t n_bufs, n_tensors, text;
};

/*
 * A buffer of 0 bytes has no descriptor. Memory of a device is found by the
 * device's UUID, since another process may have other devices, in another
 * order. Of several parts of a device that have one UUID, the name tells.
 */
struct table_buf {
	uint64_t bytes;
	char uuid[40];   /* "": host memory */
	char device[32]; /* its name in the process that has shared it */
};

struct table_tensor {
	uint64_t name; /* offset in the text */
	uint32_t name_len;
	uint32_t buf;
	uint64_t offset; /* in the buffer */
	uint32_t dtype, ndim;
	int64_t shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
	/* The tensor in the file that it came from. */
	uint32_t entry_dtype, entry_ndim, shard, reserved;
	int64_t entry_shape[WEIR_MAX_DIMS];
	uint64_t entry_offset, entry_bytes;
};

/* What weir_weights_share() collects. */
struct sharing {
	struct weir_weights *w;
	struct weir_buf *buf[MAX_BUFS];
	size_t n_bufs;
	int fd[WEIR__MESSAGE_FDS]; /* the table, then the buffers */
	unsigned n_fds;
};

/* The number of @buf, which is added if it is new. */
static int number_of(struct sharing *s, struct weir_buf *buf,
		     uint32_t *ret_number)
{
	for (size_t i = s->n_bufs; i > 0; i--)
		if (s->buf[i - 1] == buf) {
			*ret_number = (uint32_t)(i - 1);
			return 0;
		}
	if (s->n_bufs == MAX_BUFS)
		return weir__fail(
			-E2BIG,
			"the weights have more than %u buffers, which are too many to share",
			MAX_BUFS);
	*ret_number = (uint32_t)s->n_bufs;
	s->buf[s->n_bufs++] = buf;
	return 0;
}

static void describe_entry(const struct weir_weights *w, size_t i,
			   struct table_tensor *t)
{
	const struct weir__record *rec =
		&w->model->rec[w->layout->placement[i].record];

	t->name_len = rec->name_len;
	t->entry_dtype = rec->dtype;
	t->entry_ndim = rec->ndim;
	t->shard = rec->shard;
	memcpy(t->entry_shape, w->model->dims + rec->shape,
	       rec->ndim * sizeof(t->entry_shape[0]));
	t->entry_offset = rec->off;
	t->entry_bytes = rec->bytes;
}

static int describe_tensor(struct sharing *s, size_t i, struct table_tensor *t)
{
	const struct weir_tensor *from = weir__weights_tensor(s->w, i);
	struct weir_buf *member;
	uint64_t bytes;
	int r;

	if (!from->buf)
		return weir__fail(-EINVAL,
				  "%s went to a sink: it is not in memory",
				  weir__tensor_label(from));
	if ((r = weir__tensor_bytes(from, &bytes)) < 0 ||
	    (r = weir__buf_range(from->buf, from->offset, bytes, &member,
				 &t->offset)) < 0 ||
	    (r = number_of(s, member, &t->buf)) < 0)
		return r;
	t->dtype = from->dtype;
	t->ndim = from->ndim;
	memcpy(t->shape, from->shape, from->ndim * sizeof(t->shape[0]));
	memcpy(t->stride, from->stride, from->ndim * sizeof(t->stride[0]));
	describe_entry(s->w, i, t);
	return 0;
}

static int describe_buf(const struct weir_buf *from, struct table_buf *b)
{
	const struct weir_backend_dev *dev = &from->buft->dev->desc;

	b->bytes = from->bytes;
	if (weir__buf_is_host(from))
		return 0;
	if (!dev->uuid[0])
		return weir__fail(
			-EOPNOTSUPP,
			"memory of %s cannot be shared: its driver does not know its UUID",
			dev->name);
	memcpy(b->uuid, dev->uuid, sizeof(b->uuid));
	memcpy(b->device, dev->name, sizeof(b->device));
	return 0;
}

static const char *name_of(const struct weir_weights *w, size_t i)
{
	return weir__record_name(w->model, w->layout->placement[i].record);
}

static int write_all(int fd, const void *data, size_t n, uint64_t off)
{
	while (n) {
		int64_t r = weir__sys_pwrite(fd, data, n, off);

		if (r <= 0)
			return r < 0 ? (int)r : -EIO;
		data = (const char *)data + r;
		n -= (size_t)r;
		off += (uint64_t)r;
	}
	return 0;
}

static int write_table(const void *table, size_t bytes, int *ret_fd)
{
	int fd = weir__sys_memfd("weir-weights", 0, bytes), r;

	if (fd < 0)
		return weir__fail_sys(fd, "a table of %zu bytes", bytes);
	r = write_all(fd, table, bytes, 0);
	if (r >= 0)
		r = weir__sys_add_seals(fd, TABLE_SEALS);
	if (r < 0) {
		weir__sys_close(fd);
		return weir__fail_sys(r, "a table of %zu bytes", bytes);
	}
	*ret_fd = fd;
	return 0;
}

/* Fill in the buffers and the text of a table whose tensors are described. */
static int fill_table(const struct sharing *s, struct table_head *head,
		      const struct table_tensor *tensor)
{
	struct table_buf *buf = (struct table_buf *)(head + 1);
	char *text = (char *)(buf + s->n_bufs);
	int r = 0;

	*head = (struct table_head){ s->n_bufs, s->w->layout->n, 0 };
	for (size_t i = 0; i < s->n_bufs && r >= 0; i++)
		r = describe_buf(s->buf[i], &buf[i]);
	memcpy(text, tensor, head->n_tensors * sizeof(*tensor));
	text += head->n_tensors * sizeof(*tensor);
	for (size_t i = 0; i < head->n_tensors; i++) {
		memcpy(text + head->text, name_of(s->w, i), tensor[i].name_len);
		head->text += tensor[i].name_len + 1u;
	}
	return r;
}

static int make_table(struct sharing *s, size_t *ret_bytes)
{
	size_t n = s->w->layout->n, bytes;
	struct table_tensor *tensor = weir__calloc(n + 1, sizeof(*tensor));
	struct table_head *head;
	uint64_t text = 0;
	int r = tensor ? 0
		       : weir__fail(-ENOMEM, "no memory for %zu tensors", n);

	for (size_t i = 0; i < n && r >= 0; i++) {
		r = describe_tensor(s, i, &tensor[i]);
		tensor[i].name = text;
		text += tensor[i].name_len + 1u;
	}
	if (r >= 0) {
		bytes = sizeof(*head) + s->n_bufs * sizeof(struct table_buf) +
			n * sizeof(*tensor) + text;
		head = weir__calloc(1, bytes);
		if (head) {
			r = fill_table(s, head, tensor);
			if (r >= 0)
				r = write_table(head, bytes, &s->fd[0]);
		} else {
			r = weir__fail(-ENOMEM, "no memory for %zu tensors", n);
		}
		weir__free(head);
		*ret_bytes = bytes;
	}
	weir__free(tensor);
	if (r >= 0)
		s->n_fds = 1;
	return r;
}

static int share_bufs(struct sharing *s)
{
	for (size_t i = 0; i < s->n_bufs; i++) {
		int r;

		if (!s->buf[i]->bytes)
			continue;
		/* Readers of device memory keep to reading by themselves. */
		r = weir__buf_share(
			s->buf[i],
			weir__buf_is_host(s->buf[i]) ? 0 : WEIR_SHARE_WRITABLE,
			&s->fd[s->n_fds]);
		if (r < 0)
			return weir__fail_for(r, "buffer %zu of the weights",
					      i);
		s->n_fds++;
	}
	return 0;
}

/* Put the message into a socket, whose other end is closed. */
static int make_socket(const struct sharing *s, size_t table, int *ret_fd)
{
	struct message m = { .magic = MAGIC, .version = FORM, .table = table };
	int pair[2], r = weir__sys_socketpair(pair);

	if (r < 0)
		return weir__fail_sys(r, "a socket for shared weights");
	r = weir__sys_send_fds(pair[0], &m, sizeof(m), s->fd, s->n_fds);
	weir__sys_close(pair[0]);
	if (r < 0) {
		weir__sys_close(pair[1]);
		return weir__fail_sys(r, "%u descriptors for shared weights",
				      s->n_fds);
	}
	*ret_fd = pair[1];
	return 0;
}

/* 0 if all tensors have arrived. */
static int check_arrived(struct weir_weights *w)
{
	struct weir_failure failure;
	struct weir__arrival *a;
	int r = 0;

	pthread_mutex_lock(&w->lock);
	a = w->arrival;
	if (a && !atomic_load(&a->finished))
		r = weir__fail(-EBUSY, "a load is filling the weights");
	else if (a && weir__arrival_error(a, a->n, &failure) < 0)
		r = weir__fail_with(&failure);
	pthread_mutex_unlock(&w->lock);
	return r;
}

int weir_weights_share(struct weir_weights *weights, int *ret_fd)
{
	struct sharing *s;
	size_t table;
	int r;

	WEIR__ENTER();
	if ((r = weir__root_read(weights->model->weir)) < 0 ||
	    (r = check_arrived(weights)) < 0)
		return r;
	s = weir__calloc(1, sizeof(*s));
	if (!s)
		return weir__fail(-ENOMEM, "no memory to share weights");
	s->w = weights;
	if ((r = make_table(s, &table)) >= 0 && (r = share_bufs(s)) >= 0)
		r = make_socket(s, table, ret_fd);
	while (s->n_fds)
		weir__sys_close(s->fd[--s->n_fds]);
	weir__free(s);
	return r;
}

/* What weir_weights_open() has received and read. */
struct opening {
	struct weir *weir;
	struct weir_buft *mapped;
	int fd[WEIR__MESSAGE_FDS];
	unsigned n_fds, used; /* used: those of buffers before the next one */
	size_t bytes;         /* of the table */
	void *table;
	const struct table_head *head;
	const struct table_buf *buf;
	const struct table_tensor *tensor;
	const char *text;
};

static int damaged(const char *what)
{
	return weir__fail(-EBADMSG, "the table of shared weights: %s", what);
}

static int receive(struct opening *o, int fd)
{
	struct message m = { .table = 0 };
	int r = weir__sys_receive_fds(fd, true, &m, sizeof(m), o->fd,
				      &o->n_fds);

	if (r == -EBADF || r == -EMFILE)
		return weir__fail_sys(r, "descriptor %d", fd);
	if (r != sizeof(m) || memcmp(m.magic, MAGIC, sizeof(m.magic)))
		return weir__fail(
			-EINVAL,
			"descriptor %d is not one of weir_weights_share()", fd);
	if (m.version != FORM)
		return weir__fail(
			-EBADMSG,
			"the weights were shared by a weir of another version (%u, this one has %u)",
			m.version, FORM);
	if (!o->n_fds)
		return damaged("it is missing");
	o->used = 1;
	o->bytes = m.table;
	return 0;
}

static int check_table(const struct opening *o)
{
	struct stat st;
	int r = weir__sys_seals(o->fd[0]);

	if (r < 0 || (r & TABLE_SEALS) != TABLE_SEALS)
		return damaged("it is not sealed");
	r = weir__sys_fstat(o->fd[0], &st);
	if (r < 0)
		return weir__fail_sys(r, "the table of shared weights");
	if (o->bytes < sizeof(*o->head) || (uint64_t)st.st_size != o->bytes)
		return damaged("it has another size");
	if (o->bytes > WEIR__MODEL_MEMORY)
		return weir__fail(
			-ENOMEM,
			"the table of shared weights has %zu bytes, %llu are allowed",
			o->bytes, (ull)WEIR__MODEL_MEMORY);
	return 0;
}

static int read_all(int fd, void *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		int64_t r = weir__sys_pread(fd, (char *)data + at, n - at, at);

		if (r <= 0)
			return r < 0 ? (int)r : -EIO;
		at += (size_t)r;
	}
	return 0;
}

/* Find the parts of the table, whose sizes must add up to that of the table. */
static int divide_table(struct opening *o)
{
	const struct table_head *h = o->table;
	uint64_t left = o->bytes - sizeof(*h);

	if (h->n_bufs > MAX_BUFS || h->n_bufs > left / sizeof(*o->buf))
		return damaged("it has too many buffers");
	left -= h->n_bufs * sizeof(*o->buf);
	if (h->n_tensors > left / sizeof(*o->tensor))
		return damaged("it has too many tensors");
	left -= h->n_tensors * sizeof(*o->tensor);
	if (h->text != left)
		return damaged("its names have another size");
	o->head = h;
	o->buf = (const struct table_buf *)(h + 1);
	o->tensor = (const struct table_tensor *)(o->buf + h->n_bufs);
	o->text = (const char *)(o->tensor + h->n_tensors);
	return 0;
}

static int read_table(struct opening *o)
{
	int r = check_table(o);

	if (r < 0)
		return r;
	o->table = weir__malloc(o->bytes);
	if (!o->table)
		return weir__fail(-ENOMEM, "no memory for a table of %zu bytes",
				  o->bytes);
	r = read_all(o->fd[0], o->table, o->bytes);
	if (r < 0)
		return weir__fail_sys(r, "the table of shared weights");
	return divide_table(o);
}

/* Add tensor @i of the table to the model. */
static int add_record(const struct opening *o, struct weir_model *m, size_t i)
{
	const struct table_tensor *t = &o->tensor[i];
	struct weir__record *rec = &m->rec[i];
	struct weir__str name;
	uint32_t other;

	if (t->name >= o->head->text ||
	    t->name_len >= o->head->text - t->name ||
	    o->text[t->name + t->name_len])
		return damaged("a name is not in it");
	if (!weir__dtype(t->entry_dtype) || t->entry_ndim > WEIR_MAX_DIMS)
		return damaged("the entry of a tensor is invalid");
	*rec = (struct weir__record){
		.name = t->name,
		.name_len = t->name_len,
		.shard = t->shard,
		.dtype = (uint16_t)t->entry_dtype,
		.ndim = (uint16_t)t->entry_ndim,
		.shape = (uint32_t)m->n_dims,
		.off = t->entry_offset,
		.bytes = t->entry_bytes,
	};
	memcpy(m->dims + m->n_dims, t->entry_shape,
	       t->entry_ndim * sizeof(*m->dims));
	m->n_dims += t->entry_ndim;
	/* Of several targets that have one name the first is found by it. */
	name = (struct weir__str){ m->text + rec->name, rec->name_len };
	if (weir__names_add(&m->names, &name, (uint32_t)i, &other) < 0)
		return weir__fail(-ENOMEM, "no memory for names");
	return 0;
}

/* Make a model without files: record i is tensor i of the weights. */
static int make_model(const struct opening *o, struct weir_model **ret_model)
{
	size_t n = o->head->n_tensors;
	struct weir_model *m;
	int r = weir__model_new(o->weir, &m);

	if (r < 0)
		return weir__fail(r, "no memory for shared weights");
	r = weir__model_hold(m, o->bytes);
	weir__free(m->dims);
	m->path = weir__strdup("shared weights");
	m->text = weir__malloc(o->head->text + 1);
	m->dims = weir__calloc(n + 1, WEIR_MAX_DIMS * sizeof(*m->dims));
	m->rec = weir__calloc(n + 1, sizeof(*m->rec));
	if (r >= 0 && (!m->path || !m->text || !m->dims || !m->rec ||
		       weir__names_init(&m->names, n, m, weir__record_str) < 0))
		r = weir__fail(-ENOMEM, "no memory for %zu shared tensors", n);
	if (r >= 0)
		memcpy(m->text, o->text, o->head->text);
	for (; m->n_recs < n && r >= 0; m->n_recs++)
		r = add_record(o, m, m->n_recs);
	if (r < 0)
		weir__model_put(m);
	else
		*ret_model = m;
	return r;
}

static int make_layout(const struct opening *o,
		       struct weir__layout **ret_layout)
{
	struct weir__layout *l = weir__calloc(1, sizeof(*l));
	size_t n = o->head->n_tensors;

	if (l) {
		atomic_init(&l->refs, 1);
		l->placement = weir__array_alloc(
			n + 1, sizeof(struct weir__layout_places));
		l->buf =
			weir__array_alloc(o->head->n_bufs + 1, sizeof(*l->buf));
	}
	if (!l || !l->placement || !l->buf) {
		weir__layout_put(l);
		return weir__fail(-ENOMEM, "no memory for %zu shared tensors",
				  n);
	}
	l->n = n;
	*ret_layout = l;
	return 0;
}

/* True if @text, of @room bytes, is a word of letters, digits, '_' and '-'. */
static bool is_word(const char *text, size_t room)
{
	static const char all[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

	return memchr(text, 0, room) && !text[strspn(text, all)];
}

/* Find the memory of the device in which the buffer is. */
static int find_memory(const struct opening *o, const struct table_buf *b,
		       struct weir_buft **ret_buft)
{
	struct weir_dev *dev, *found = NULL;

	if (!is_word(b->uuid, sizeof(b->uuid)) ||
	    !is_word(b->device, sizeof(b->device)))
		return damaged("the name of a device is invalid");
	for (unsigned i = 0; i < weir_dev_count(o->weir); i++) {
		dev = weir_dev_get(o->weir, i);
		if (!strcmp(dev->desc.uuid, b->uuid) &&
		    (!found || !strcmp(dev->desc.name, b->device)))
			found = dev;
	}
	if (!found)
		return weir__fail(
			-ENODEV,
			"it is memory of a device that this process does not have: UUID %s, which was %s for the process that has shared it",
			b->uuid, b->device);
	for (unsigned i = 0; i < found->desc.n_bufts; i++)
		if (found->buft[i].desc.kind == WEIR_MEM_DEVICE) {
			*ret_buft = &found->buft[i];
			return 0;
		}
	return weir__fail(-EOPNOTSUPP, "%s has no memory of its own",
			  found->desc.name);
}

/* The kind of memory and the descriptor of the next buffer; map it. */
static int open_buf(struct opening *o, const struct table_buf *b,
		    struct weir_buf **ret_buf)
{
	struct weir_buft *buft = o->mapped;
	int r = b->uuid[0] ? find_memory(o, b, &buft) : 0;

	if (r < 0)
		return r;
	if (!b->bytes)
		return weir__buf_foreign(buft, NULL, 0, NULL, NULL, ret_buf);
	if (o->used == o->n_fds)
		return damaged("a descriptor is missing");
	return weir__buf_wrap_fd(buft, o->fd[o->used++], 0, b->bytes,
				 WEIR_WRAP_READONLY, ret_buf);
}

static int open_bufs(struct opening *o, struct weir_weights *w)
{
	struct weir__layout *l = w->layout;

	for (size_t i = 0; i < o->head->n_bufs; i++) {
		int r = open_buf(o, &o->buf[i], &w->buf[i]);

		if (r < 0)
			return weir__fail_for(r, "buffer %zu of the weights",
					      i);
		l->buf[i] = (struct weir__layout_buf){
			.buft = w->buf[i]->buft,
			.given = w->buf[i],
			.base = w->buf[i]->mem.base,
			.room = w->buf[i]->bytes,
			.bytes = w->buf[i]->bytes,
			.align = 1,
			.foreign = true,
		};
		l->n_bufs = l->n_selected_bufs = i + 1;
	}
	return 0;
}

static int place_tensor(const struct opening *o, struct weir_weights *w,
			size_t i)
{
	const struct table_tensor *from = &o->tensor[i];
	struct weir_tensor *t = &w->tensor[i];
	struct weir_buf *member;
	uint64_t bytes, off;
	int r;

	if (from->buf >= w->layout->n_bufs)
		return damaged("a tensor is in a buffer that it lacks");
	t->name = weir__record_name(w->model, i);
	t->dtype = from->dtype;
	t->ndim = from->ndim;
	memcpy(t->shape, from->shape, sizeof(t->shape));
	memcpy(t->stride, from->stride, sizeof(t->stride));
	t->buf = w->buf[from->buf];
	t->offset = from->offset;
	r = weir__tensor_bytes(t, &bytes);
	if (r >= 0)
		r = weir__buf_range(t->buf, t->offset, bytes, &member, &off);
	if (r < 0)
		return weir__fail_for(-EBADMSG, "the table of shared weights");
	w->layout->placement[i] = (struct weir__tensor_placement){
		.record = i,
		.buf = from->buf,
		.slice = WEIR__NO_SLICE,
		.at = from->offset,
		.off = from->entry_offset,
		.bytes = bytes,
		.data = from->entry_bytes,
	};
	return 0;
}

static int make_weights(struct opening *o, struct weir_weights **ret_weights)
{
	size_t n = o->head->n_tensors;
	struct weir_weights *w =
		weir__calloc(1, sizeof(*w) + n * sizeof(w->tensor[0]) +
					o->head->n_bufs * sizeof(w->buf[0]));
	int r;

	if (!w)
		return weir__fail(-ENOMEM, "no memory for %zu shared tensors",
				  n);
	r = make_model(o, &w->model);
	if (r >= 0) {
		r = make_layout(o, &w->layout);
		if (r < 0)
			weir__model_put(w->model);
	}
	if (r < 0) {
		weir__free(w);
		return r;
	}
	atomic_init(&w->refs, 1);
	pthread_mutex_init(&w->lock, NULL);
	w->n_selected = n;
	w->buf = (struct weir_buf **)(w->tensor + n);
	r = open_bufs(o, w);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = place_tensor(o, w, i);
	if (r < 0)
		weir_weights_free(w);
	else
		*ret_weights = w;
	return r;
}

/* The memory of the CPU of kind MAPPED, or what the caller has chosen. */
static int choose_mapped(struct opening *o, struct weir_buft *mapped)
{
	struct weir_dev *cpu = weir_dev_get(o->weir, 0);

	for (unsigned i = 0; !mapped && i < cpu->desc.n_bufts; i++)
		if (cpu->buft[i].desc.kind == WEIR_MEM_MAPPED)
			mapped = &cpu->buft[i];
	if (!mapped)
		return weir__fail(-EOPNOTSUPP,
				  "%s has no memory of kind MAPPED",
				  cpu->desc.name);
	o->mapped = mapped;
	if (mapped->dev->weir != o->weir)
		return weir__fail(-EINVAL, "%s is of another root",
				  mapped->desc.name);
	if (mapped->desc.kind != WEIR_MEM_MAPPED)
		return weir__fail(-EINVAL, "%s is not of kind MAPPED",
				  mapped->desc.name);
	return 0;
}

int weir_weights_open(struct weir *weir, int fd, struct weir_buft *mapped,
		      struct weir_weights **ret_weights)
{
	struct opening o = { .weir = weir };
	int r;

	WEIR__ENTER();
	if ((r = weir__root_enter(weir)) < 0 ||
	    (r = choose_mapped(&o, mapped)) < 0)
		return r;
	if ((r = receive(&o, fd)) >= 0 && (r = read_table(&o)) >= 0)
		r = make_weights(&o, ret_weights);
	while (o.n_fds)
		weir__sys_close(o.fd[--o.n_fds]);
	weir__free(o.table);
	return r;
}
