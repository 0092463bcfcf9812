/* SPDX-License-Identifier: MIT */
/*
 * Where tensors come to lie: puts that share buffers of the caller's,
 * alignments, estimates. In host memory, or that of the device WEIR_T_DEVICE.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>
#include <weir/cuda.h>

#include "model/plan.h"
#include "sample.h"
#include "tap.h"

#define MAX_TENSORS 5000u
#define ROUNDS 60

static char dir[] = "/var/tmp/weir-place-XXXXXX";
static char path[64];
static struct weir *root;
static const char *device; /* NULL: the CPU */
static struct weir_buft *kind;
static size_t kind_align;

static struct sample_tensor tensors[MAX_TENSORS];
static char names[MAX_TENSORS][16];
static size_t n_tensors;
static uint64_t seed = 1;

static uint64_t some(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static struct weir_buft *memory_of(const char *name, enum weir_mem which)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	if (weir_dev_find(root, name, &dev) < 0 ||
	    weir_dev_buft(dev, which, &buft) < 0)
		bail("%s", weir_error());
	return buft;
}

static struct weir_buf *buffer(size_t bytes)
{
	struct weir_buf *buf;

	if (weir_buf_alloc(kind, bytes, NULL, &buf) < 0 ||
	    weir_buf_clear(buf, 0xa5) < 0)
		bail("%s", weir_error());
	return buf;
}

static uint64_t address(struct weir_buf *buf)
{
	uint64_t at = (uintptr_t)weir_buf_data(buf);

	if (device && weir_cuda_buf_ptr(buf, &at) < 0)
		bail("%s", weir_error());
	return at;
}

static void add_tensor(const char *dtype, unsigned size, uint64_t count)
{
	snprintf(names[n_tensors], sizeof(names[0]), "t%zu", n_tensors);
	tensors[n_tensors] =
		(struct sample_tensor){ names[n_tensors], dtype, count, size };
	n_tensors++;
}

static void some_tensors(size_t n, uint64_t below)
{
	static const char *const dtypes[] = { "U8", "F16", "F32", "F64" };

	n_tensors = 0;
	while (n_tensors < n) {
		unsigned log = (unsigned)some(4);

		add_tensor(dtypes[log], 1u << log, some(below));
	}
}

static uint64_t bytes_of(size_t i)
{
	return tensors[i].count * tensors[i].size;
}

static struct weir_model *model(void)
{
	struct weir_model *m;

	sample_write(path, tensors, n_tensors, 8 * (unsigned)some(8), 1);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static struct weir_plan *new_plan(struct weir_model *m)
{
	struct weir_plan *p;

	if (weir_plan_new(m, &p) < 0)
		bail("%s", weir_error());
	return p;
}

static int put(struct weir_plan *p, const char *glob, struct weir_buf *buf,
	       uint64_t offset, uint64_t align)
{
	struct weir_put_opts o = WEIR_PUT_OPTS_INIT;
	int r;

	o.buf = buf;
	o.offset = offset;
	o.align = align;
	o.way = some(2) ? WEIR_WAY_DIRECT : WEIR_WAY_AUTO;
	r = weir_plan_put(p, glob, kind, &o);
	if (r < 0)
		bail("%s", weir_error());
	return r;
}

/* The weights of a load that has ended; NULL: it was refused. */
static struct weir_weights *load(struct weir_plan *p, struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_weights *w;
	struct weir_load *l;

	o.into = into;
	if (weir_load_start(p, &o, &l) < 0)
		return NULL;
	if (weir_load_wait(l, -1) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	return w;
}

static bool loads(struct weir_plan *p)
{
	struct weir_weights *w = load(p, NULL);
	bool good = w && sample_wrong(w, 1) == 0;

	if (!w)
		diag("%s", weir_error());
	weir_weights_free(w);
	return good;
}

/* Two tensors of which the second is put before the first, and the like. */
static void shared(void)
{
	struct weir_buf *buf = buffer(1u << 20);
	struct weir_model *m;
	struct weir_plan *p;

	n_tensors = 0;
	add_tensor("F32", 4, 10000);
	add_tensor("F32", 4, 20000);
	add_tensor("F32", 4, 30000);
	m = model();
	p = new_plan(m);
	put(p, "t0", buf, 0, 0);
	put(p, "t1", buf, 40192, 0);
	put(p, "t2", buf, 120320, 0);
	ok(loads(p), "puts at their offsets in one buffer have their bytes");
	ok(loads(p), "... again, by the same plan");
	weir_plan_free(p);
	p = new_plan(m);
	put(p, "t2", buf, 120320, 0);
	put(p, "t0", buf, 0, 0);
	put(p, "t1", buf, 40192, 0);
	ok(loads(p), "... in whatever order the calls are");
	weir_plan_free(p);
	p = new_plan(m);
	put(p, "t1", buf, 256, 0);
	put(p, "t0", buf, 256, 0);
	put(p, "t2", buf, 256, 0);
	ok(loads(p), "puts at the same offset follow each other");
	weir_plan_free(p);
	p = new_plan(m);
	put(p, "t1", buf, 0, 0);
	put(p, "t[02]", buf, 80000 - kind_align, 0);
	is_err(weir_plan_estimate(p, NULL, 0), -ENOSPC, "another put begins",
	       "a put that does not fit before the next one is refused");
	ok(!load(p, NULL), "... by the load as well");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Two loads of one plan at once write the same to the same bytes. */
static void twice(void)
{
	struct weir_buf *buf = buffer(1u << 20);
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;
	struct weir_load *a, *b;

	put(p, "t0", buf, 0, 0);
	put(p, NULL, buf, 65536, 0);
	if (weir_load_start(p, NULL, &a) < 0 ||
	    weir_load_start(p, NULL, &b) < 0 || weir_load_weights(a, &w) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(a, -1) | weir_load_wait(b, -1), 0,
	       "a plan is used twice at the same time");
	is_int(sample_wrong(w, 1), 0, "... with the right bytes");
	weir_load_free(a);
	weir_load_free(b);
	weir_buf_clear(buf, 0);
	weir_weights_free(load(p, w));
	is_int(sample_wrong(w, 1), 0, "... and into the weights it made");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Memory that two buffers wrap, the second from byte 50001 on. */
static void aliases(void)
{
	static unsigned char memory[400000];
	struct weir_buf *a, *b;
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);

	if (weir_buf_wrap(kind, memory, sizeof(memory), NULL, NULL, &a) < 0 ||
	    weir_buf_wrap(kind, memory + 50001, sizeof(memory) - 50001, NULL,
			  NULL, &b) < 0)
		bail("%s", weir_error());
	put(p, "t0", a, 0, 0);
	put(p, NULL, b, 0, 0);
	ok(loads(p), "two buffers of the same memory are filled side by side");
	weir_plan_free(p);
	p = new_plan(m);
	put(p, "t1", a, 0, 0);
	put(p, NULL, b, 0, 0);
	is_err(weir_plan_estimate(p, NULL, 0), -ENOSPC, "byte 50001",
	       "... and what would lie over each other is refused");
	weir_plan_free(p);
	p = new_plan(m);
	put(p, "t2", b, 0, 0);
	put(p, NULL, a, 50001, 0);
	ok(loads(p), "... follows, where it begins at the same byte");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(a);
	weir_buf_free(b);
}

/* What placement would have to do wrong for this to be needed. */
static void checked(void)
{
	struct weir_buf *buf = buffer(1u << 20);
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);
	struct weir__layout l;

	put(p, "t0", buf, 0, 0);
	put(p, NULL, buf, 65536, 0);
	if (weir__layout_make(p, &l) < 0)
		bail("%s", weir_error());
	is_int(weir__layout_check(m, &l), 0, "tensors apart are no overlap");
	l.spot[2].at = l.spot[1].at + bytes_of(1) - 1;
	is_err(weir__layout_check(m, &l), -EINVAL, "'t1' and 't2'",
	       "two of a put that share a byte are found");
	l.spot[2].at = buf->bytes;
	is_err(weir__layout_check(m, &l), -EINVAL, "to byte",
	       "a tensor beyond its buffer is found");
	weir__layout_free(&l);
	if (weir__layout_make(p, &l) < 0)
		bail("%s", weir_error());
	l.spot[0].at = l.spot[1].at - bytes_of(0) + 1;
	l.buf[0].bytes = l.spot[0].at + bytes_of(0);
	is_err(weir__layout_check(m, &l), -EINVAL, "'t0' and 't1'",
	       "two of different puts that share a byte are found");
	weir__layout_free(&l);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Tensors of @w that are not at a multiple of @align, or out of @buf. */
static size_t crooked(const struct weir_weights *w, uint64_t align)
{
	size_t n = 0;

	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		struct weir_buf_info info = { .size = sizeof(info) };
		size_t bytes;

		if (weir_tensor_bytes(t, &bytes) < 0 ||
		    weir_buf_info(t->buf, &info) < 0)
			bail("%s", weir_error());
		if (bytes)
			n += (address(t->buf) + t->offset) % align != 0 ||
			     t->offset > info.bytes ||
			     bytes > info.bytes - t->offset;
	}
	return n;
}

/* Buffers of a device begin at multiples of 256, so one is taken before. */
static void aligned(void)
{
	for (uint64_t align = 512; align <= 4096; align *= 2) {
		struct weir_buf *small = buffer(100);
		struct weir_plan *p;
		struct weir_weights *w;
		struct weir_model *m;

		some_tensors(40, 2000);
		m = model();
		p = new_plan(m);
		put(p, NULL, NULL, 0, align);
		w = load(p, NULL);
		is_int(w ? crooked(w, align) : 1, 0,
		       "an alignment of %d is kept in new memory", (int)align);
		is_int(w ? sample_wrong(w, 1) : 1, 0,
		       "... with the right bytes");
		weir_weights_free(load(p, w));
		is_int(sample_wrong(w, 1), 0, "... loaded again, too");
		weir_weights_free(w);
		weir_plan_free(p);
		weir_model_close(m);
		weir_buf_free(small);
	}
}

/* Puts of a round: which tensors, where, and the first byte behind them. */
static struct {
	uint64_t offset, align, end;
	bool bytes;
} rooms[6];
#define PUTS (sizeof(rooms) / sizeof(rooms[0]))
static size_t put_of[MAX_TENSORS];

static uint64_t align_of(size_t i)
{
	uint64_t align = rooms[put_of[i]].align;

	return align ? align : device ? kind_align : tensors[i].size;
}

/* One put behind the other, the tensors of each in order and close together. */
static void pack(uint64_t base)
{
	uint64_t at = some(2) ? 0 : some(5000);

	for (size_t k = 0; k < PUTS; k++) {
		rooms[k].offset = at;
		rooms[k].bytes = false;
		for (size_t i = 0; i < n_tensors; i++) {
			if (put_of[i] != k || !bytes_of(i))
				continue;
			at += -(base + at) % align_of(i) + bytes_of(i);
			rooms[k].bytes = true;
		}
		rooms[k].end = at;
		at += some(2) ? 0 : some(300);
	}
}

static void some_puts(void)
{
	for (size_t k = 0; k < PUTS; k++)
		rooms[k].align = some(3) ? 0 : (uint64_t)1 << some(13);
	some_tensors(1 + some(40), some(2) ? 3000 : 60);
	for (size_t i = 0; i < n_tensors; i++) {
		put_of[i] = some(PUTS);
		snprintf(names[i], sizeof(names[i]), "p%zu.%zu", put_of[i], i);
	}
}

/* Those of a round, the first of them anywhere among the calls. */
static struct weir_plan *plan_puts(struct weir_model *m, struct weir_buf *buf)
{
	struct weir_plan *p = new_plan(m);
	size_t first = some(PUTS);

	for (size_t i = 0; i < PUTS; i++) {
		size_t k = (first + i) % PUTS;
		char glob[16];

		snprintf(glob, sizeof(glob), "p%zu.*", k);
		if (rooms[k].bytes)
			put(p, glob, buf, rooms[k].offset, rooms[k].align);
	}
	return p;
}

static struct weir_buf *some_buffer(unsigned char *memory, size_t room)
{
	struct weir_buf *buf;

	if (device) {
		buf = buffer(room);
		pack(address(buf));
		return buf;
	}
	memory += some(4096);
	memset(memory, 0xa5, room);
	pack((uintptr_t)memory);
	/* Not a byte more than it takes. */
	if (weir_buf_wrap(kind, memory, rooms[PUTS - 1].end, NULL, NULL, &buf) <
	    0)
		bail("%s", weir_error());
	return buf;
}

/* Where the room of put @k ends. */
static uint64_t limit_of(size_t k)
{
	for (size_t i = k + 1; i < PUTS; i++)
		if (rooms[i].bytes)
			return rooms[i].offset;
	return UINT64_MAX;
}

/* Tensors that are not aligned, or not between their put and the next one. */
static size_t misplaced(struct weir_buf *buf, const struct weir_weights *w)
{
	uint64_t base = address(buf);
	size_t n = 0;

	for (size_t i = 0; i < n_tensors; i++) {
		const struct weir_tensor *t = weir_weights_find(w, names[i]);

		if (!t)
			n += bytes_of(i) != 0;
		else if (bytes_of(i))
			n += (base + t->offset) % align_of(i) != 0 ||
			     t->offset < rooms[put_of[i]].offset ||
			     t->offset + bytes_of(i) > limit_of(put_of[i]);
	}
	return n;
}

/* Bytes beside the tensors of @w that are other than before. */
static size_t written_beside(struct weir_buf *buf, struct weir_weights *w)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	int64_t shape;
	struct weir_tensor all;
	unsigned char *p;
	size_t n = 0;

	weir_buf_info(buf, &info);
	shape = (int64_t)info.bytes;
	p = malloc(info.bytes + 1);
	if (weir_tensor_init(&all, WEIR_DTYPE_U8, 1, &shape) < 0 ||
	    weir_tensor_place(&all, buf, 0) < 0 ||
	    weir_tensor_get(&all, 0, p, info.bytes) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		size_t bytes;

		weir_tensor_bytes(t, &bytes);
		if (bytes)
			memset(p + t->offset, 0xa5, bytes);
	}
	for (size_t i = 0; i < info.bytes; i++)
		n += p[i] != 0xa5;
	free(p);
	return n;
}

/* The next put begins a byte too early for the one before it. */
static size_t too_short(struct weir_model *m, struct weir_buf *buf)
{
	struct weir_plan *p;
	size_t k = 0, wrong;

	while (k < PUTS - 1 && (!rooms[k].bytes || !rooms[k + 1].bytes ||
				rooms[k + 1].offset != rooms[k].end))
		k++;
	if (k == PUTS - 1)
		return 0;
	rooms[k + 1].offset--;
	p = plan_puts(m, buf);
	wrong = weir_plan_estimate(p, NULL, 0) != -ENOSPC;
	weir_plan_free(p);
	return wrong;
}

static void at_random(void)
{
	const size_t room = 40 * (3000 * 8 + 4096) + PUTS * 300 + 5000;
	unsigned char *memory = malloc(room + 4096);
	size_t refused = 0, wrong = 0, beside = 0, accepted = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct weir_model *m;
		struct weir_weights *w;
		struct weir_plan *p;
		struct weir_buf *buf;

		some_puts();
		m = model();
		buf = some_buffer(memory, room);
		p = plan_puts(m, buf);
		w = load(p, NULL);
		if (!w)
			diag("round %d: %s", i, weir_error());
		refused += !w;
		wrong += w ? sample_wrong(w, 1) + misplaced(buf, w) : 0;
		beside += w ? written_beside(buf, w) : 0;
		accepted += too_short(m, buf);
		weir_weights_free(w);
		weir_plan_free(p);
		weir_model_close(m);
		weir_buf_free(buf);
	}
	free(memory);
	is_int(refused, 0, "puts that just fit beside each other are taken");
	is_int(wrong, 0,
	       "... each tensor whole, aligned, and where its put may have it");
	is_int(beside, 0, "... no byte beside them being written");
	is_int(accepted, 0, "... and refused, where a byte is missing");
}

/* A put for each tensor, into one buffer, the last of the file first. */
static void many(void)
{
	const uint64_t step = device ? kind_align : 16;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_buf *buf;
	int chosen = 0;

	n_tensors = 0;
	while (n_tensors < MAX_TENSORS)
		add_tensor("U8", 1, 1 + some(16));
	m = model();
	buf = buffer(MAX_TENSORS * step);
	p = new_plan(m);
	for (size_t i = n_tensors; i-- > 0;)
		chosen += put(p, names[i], buf, i * step, 0);
	is_int(chosen, MAX_TENSORS,
	       "a plan may have a put for each of %u tensors", MAX_TENSORS);
	ok(loads(p), "... which get their bytes");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* A file of @bytes in two tensors and one that is empty, without the bytes. */
static struct weir_model *hollow(uint64_t bytes)
{
	struct weir_model *m;
	char text[512];
	uint64_t len;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	bytes &= ~(uint64_t)63;
	len = (uint64_t)sprintf(
		text,
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[0,%llu]},"
		"\"b\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]},"
		"\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
		(unsigned long long)bytes, (unsigned long long)bytes,
		(unsigned long long)bytes, (unsigned long long)bytes,
		(unsigned long long)(2 * bytes));
	if (fd < 0 || write(fd, &len, 8) != 8 ||
	    write(fd, text, len) != (ssize_t)len ||
	    ftruncate(fd, (off_t)(8 + len + 2 * bytes)) < 0)
		bail("%s: %s", path, strerror(errno));
	close(fd);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static void estimates(void)
{
	struct weir_buft *plain = memory_of("CPU", WEIR_MEM_PLAIN);
	struct weir_buft *huge = memory_of("CPU", WEIR_MEM_HUGE);
	struct weir_estimate e[2] = { { .size = sizeof(e[0]) } };
	uint64_t free_bytes, total;
	struct weir_dev *cpu;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_buf *buf;

	if (weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_memory(cpu, &free_bytes, &total) < 0)
		bail("%s", weir_error());
	m = hollow(free_bytes / 10 * 6);
	p = new_plan(m);
	if (weir_plan_put(p, "a", plain, NULL) < 0)
		bail("%s", weir_error());
	is_int(weir_plan_estimate(p, e, 2) == 1 && e[0].fits, 1,
	       "six tenths of the free memory fit");
	if (weir_plan_put(p, NULL, huge, NULL) < 0)
		bail("%s", weir_error());
	is_int(weir_plan_estimate(p, e, 2), 2, "two kinds make two entries");
	is_int(e[0].fits + e[1].fits, 0,
	       "... that do not fit, since they share one memory");
	is_int(e[0].tensors + e[1].tensors, 3, "... empty tensors count, too");
	weir_plan_free(p);
	weir_model_close(m);
	m = hollow(64);
	p = new_plan(m);
	buf = buffer(1000);
	put(p, "[ae]", buf, 0, 0);
	put(p, "b", NULL, 0, 0);
	is_int(weir_plan_estimate(p, e, 1), 1, "a kind is one entry");
	ok(e[0].bytes >= 64 && e[0].bytes < 64 + 4096,
	   "... of what is to be allocated");
	is_int(e[0].given, 64, "... and what lies in given buffers");
	is_int(e[0].tensors, 3, "... of all tensors");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Shapes of empty tensors, whose other dimensions are beyond any memory. */
static void empties(void)
{
	static const char text[] =
		"{\"a\":{\"dtype\":\"F64\",\"shape\":[3,4611686018427387904,0],\"data_offsets\":[0,0]},"
		"\"b\":{\"dtype\":\"F4\",\"shape\":[0,18446744073709551615,7],\"data_offsets\":[0,0]}}";
	uint64_t len = sizeof(text) - 1;
	struct weir_tensor view;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, &len, 8) != 8 ||
	    write(fd, text, len) != (ssize_t)len)
		bail("%s: %s", path, strerror(errno));
	close(fd);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	put(p, NULL, NULL, 0, 0);
	w = load(p, NULL);
	ok(w, "empty tensors are loaded, whatever their other dimensions are");
	is_int(w ? weir_weights_get(w, 0)->shape[1] : 0,
	       INT64_C(4611686018427387904), "... and have them");
	is_int(w ? weir_tensor_view(weir_weights_get(w, 0), 0, 1, 2, &view) : 1,
	       0, "... and views");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

/* In a child after fork nothing is planned. */
static int in_child(void)
{
	struct weir_model *m;
	struct weir_plan *p, *other;
	int status = -1;
	pid_t pid;

	n_tensors = 0;
	add_tensor("U8", 1, 1);
	m = model();
	p = new_plan(m);
	pid = fork();
	if (!pid)
		_exit(weir_plan_new(m, &other) != -EPERM ||
		      weir_plan_put(p, NULL, kind, NULL) != -EPERM ||
		      weir_plan_estimate(p, NULL, 0) != -EPERM);
	waitpid(pid, &status, 0);
	weir_plan_free(p);
	weir_model_close(m);
	return status;
}

/* A name is matched as a whole, also where it has a NUL inside. */
static void whole_names(void)
{
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_tensor("U8", 1, 1);
	strcpy(names[0], "a\\u0000b");
	add_tensor("U8", 1, 1);
	strcpy(names[1], "a[0]");
	m = model();
	p = new_plan(m);
	is_err(weir_plan_put(p, "a", kind, NULL), -ENOENT, "'a'",
	       "the part of a name before a NUL is not the name");
	is_err(weir_plan_put(p, "?", kind, NULL), -ENOENT, "'?'",
	       "... nor what a pattern matches");
	is_int(weir_plan_put(p, "a\\[0]", kind, NULL), 1,
	       "a name with a bracket is matched by a pattern that quotes it");
	is_int(weir_plan_put(p, "*", kind, NULL), 1, "a star matches all");
	weir_plan_free(p);
	weir_model_close(m);
}

int main(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	device = getenv("WEIR_T_DEVICE");
	plan(6 + 3 + 4 + (device ? 0 : 3) + 12 + 4 + 2 + 8 + 3 + 4 + 1);
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	kind = device ? memory_of(device, WEIR_MEM_DEVICE)
		      : memory_of("CPU", WEIR_MEM_HUGE);
	weir_buft_info(kind, &info);
	kind_align = info.align;
	shared();
	twice();
	checked();
	if (!device) /* no memory of the program's */
		aliases();
	aligned();
	at_random();
	many();
	estimates();
	empties();
	whole_names();
	is_int(in_child(), 0, "a child after fork may plan nothing");
	weir_close(root);
	unlink(path);
	rmdir(dir);
	return done_testing();
}
