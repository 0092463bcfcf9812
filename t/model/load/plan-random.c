/* SPDX-License-Identifier: MIT */
/*
 * Random plans: selections, targets, slices, views, conversions, priorities and
 * ways, compared with loops over elements. In host memory, or that of the
 * device WEIR_T_DEVICE. The chunks are small, so that rows and tensors have
 * several.
 */
#include "slices.h"
#include "plans.h"

#define ROUNDS 60
#define BUFFER_BYTES ((size_t)1 << 20)
#define MAX_PARTS 64u
/* Most bytes of a tensor, as it is or as F32. */
#define MOST_BYTES ((size_t)2 << 20)

/* Tensor i of the weights is part[i]. */
static struct part {
	size_t record;
	bool sliced;
	struct weir_slice slice;
} part[MAX_PARTS];
static size_t n_parts;

static struct weir_buf
	*buf[2]; /* buffers of targets, and of selections with a buffer */
static unsigned char *image[2];         /* what they should have */
static size_t used[2];                  /* bytes of them that have targets */
static unsigned char *want, *got, *raw; /* MOST_BYTES, in the elements' order */

/* An element, or a block, of a tensor. */
struct step {
	const struct weir_tensor *t;
	int64_t index[WEIR_MAX_DIMS]; /* in blocks in the last dimension */
	unsigned block, bytes;
};

static struct step first_step(const struct weir_tensor *t)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info(t->dtype, &info) < 0)
		bail("%s", weir_error());
	return (struct step){ .t = t,
			      .block = info.block,
			      .bytes = info.bytes };
}

static bool next_step(struct step *s)
{
	for (unsigned d = s->t->ndim; d-- > 0;) {
		unsigned block = d + 1 == s->t->ndim ? s->block : 1;

		if (++s->index[d] < s->t->shape[d] / block)
			return true;
		s->index[d] = 0;
	}
	return false;
}

static bool is_empty(const struct weir_tensor *t)
{
	for (unsigned d = 0; d < t->ndim; d++)
		if (!t->shape[d])
			return true;
	return false;
}

static uint64_t place_of(const struct step *s)
{
	uint64_t at = 0;

	for (unsigned d = 0; d < s->t->ndim; d++)
		at += (uint64_t)(s->index[d] * s->t->stride[d]);
	return at;
}

/* Where the element is in the file, if the whole tensor is @e. */
static uint64_t source_of(const struct step *s, const struct part *p,
			  const struct weir_entry *e)
{
	uint64_t from = 0;

	for (unsigned d = 0; d < e->ndim; d++) {
		unsigned block = d + 1 == e->ndim ? s->block : 1;
		int64_t start = p->sliced && p->slice.dim == d
					? p->slice.start / block
					: 0;

		from = from * (uint64_t)(e->shape[d] / block) +
		       (uint64_t)(s->index[d] + start);
	}
	return e->offset + from * s->bytes;
}

/* The elements that @t should have, to want. Returns their bytes. */
static size_t expect(const struct weir_model *m, const struct weir_tensor *t,
		     const struct part *p)
{
	struct weir_entry e = entry_of(m, p->record);
	struct weir_tensor source = *t;
	struct step s;
	size_t n = 0;

	source.dtype = e.dtype;
	s = first_step(&source);
	do
		for (unsigned k = 0; k < s.bytes; k++)
			raw[n++] = sample_byte(source_of(&s, p, &e) + k, 1);
	while (next_step(&s));
	if (t->dtype == e.dtype) {
		memcpy(want, raw, n);
		return n;
	}
	n /= s.bytes;
	if (weir_convert(t->dtype, want, e.dtype, raw, n) < 0)
		bail("%s", weir_error());
	return n * first_step(t).bytes;
}

/* The elements that @t has at @bytes, in their order, are those of want. */
static bool has_wanted(const struct weir_tensor *t, const unsigned char *bytes)
{
	struct step s = first_step(t);
	size_t n = 0;

	do {
		if (memcmp(bytes + place_of(&s), want + n, s.bytes))
			return false;
		n += s.bytes;
	} while (next_step(&s));
	return true;
}

static void get_bytes(struct weir_buf *from, uint64_t off, size_t n,
		      unsigned char *to)
{
	int64_t shape = (int64_t)n;
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape) < 0 ||
	    weir_tensor_place(&t, from, off) < 0 ||
	    weir_tensor_get(&t, 0, to, n) < 0)
		bail("%s", weir_error());
}

/* In host memory without a call that could wait. */
static bool part_is_good(const struct weir_model *m,
			 const struct weir_tensor *t, const struct part *p)
{
	const unsigned char *bytes = weir_tensor_data(t);
	size_t n;

	if (is_empty(t))
		return true;
	expect(m, t, p);
	if (bytes)
		return has_wanted(t, bytes);
	if (weir_tensor_bytes(t, &n) < 0)
		bail("%s", weir_error());
	get_bytes(t->buf, t->offset, n, got);
	return has_wanted(t, got);
}

static void draw(const struct weir_model *m, const struct weir_tensor *t,
		 const struct part *p)
{
	struct step s = first_step(t);
	size_t n = 0;

	for (int b = 0; b < 2 && !is_empty(t); b++) {
		if (t->buf != buf[b])
			continue;
		expect(m, t, p);
		do {
			memcpy(image[b] + t->offset + place_of(&s), want + n,
			       s.bytes);
			n += s.bytes;
		} while (next_step(&s));
	}
}

static void random_model(void)
{
	static const struct {
		const char *name;
		unsigned size;
	} dtypes[] = { { "U8", 1 },  { "F16", 2 }, { "BF16", 2 },
		       { "F32", 4 }, { "F64", 8 }, { "F8_E4M3", 1 },
		       { "F4", 0 } };
	static char shapes[12][32];
	size_t n = 1 + some(12);

	n_tensors = 0;
	while (n_tensors < n) {
		size_t d = some(7);
		uint64_t a = 1 + some(9), b = some(12), c = 4 * some(40);
		uint64_t count;

		if (some(5) == 0) {
			c = 4 * some(1500 / (b + 1));
		} else if (some(4) == 0) { /* rows longer than chunks */
			a = 2 + some(2);
			b = 1;
			c = 4 * some(40000 / (dtypes[d].size + 1));
		}
		count = a * b * c;
		snprintf(shapes[n_tensors], sizeof(shapes[0]), "%u,%u,%u",
			 (unsigned)a, (unsigned)b, (unsigned)c);
		if (dtypes[d].size)
			add_shape(dtypes[d].name, dtypes[d].size, count,
				  shapes[n_tensors]);
		else /* two elements a byte */
			add_shape(dtypes[d].name, 1, count / 2,
				  shapes[n_tensors]);
	}
}

/* A part of tensor @i, or all of it. */
static struct part random_part(const struct weir_model *m, size_t i)
{
	struct weir_entry e = entry_of(m, i);
	struct part p = { .record = i, .sliced = some(2) };
	unsigned dim = (unsigned)some(3);
	uint64_t total = (uint64_t)e.shape[dim] / 4, start = some(total + 1);

	if (dim == 2)
		p.slice = slice_of(2, (int64_t)start * 4,
				   (int64_t)some(total - start + 1) * 4);
	else
		p.slice = slice_of(dim, (int64_t)start,
				   (int64_t)some(total - start + 1));
	return p;
}

static uint32_t random_way(void)
{
	static const uint32_t ways[] = { WEIR_WAY_AUTO, WEIR_WAY_BUFFERED,
					 WEIR_WAY_DIRECT };

	return ways[some(3)];
}

static uint32_t random_float(void)
{
	static const uint32_t to[] = { WEIR_DTYPE_F32, WEIR_DTYPE_F16,
				       WEIR_DTYPE_BF16 };

	return to[some(3)];
}

/* Each with options of its own; the parts are listed in the model's order. */
static void random_puts(struct weir_plan *p, const struct weir_model *m)
{
	for (size_t i = 0; i < n_tensors; i++) {
		struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
		struct part *to = &part[n_parts];

		if (some(3) == 0)
			continue;
		*to = random_part(m, i);
		o.slice = to->sliced ? &to->slice : NULL;
		o.dtype = some(2) ? random_float() : WEIR_DTYPE_NONE;
		o.way = random_way();
		o.priority = (int32_t)some(3) - 1;
		o.align = 1u << some(13);
		if (weir_plan_add(p, names[i], kind, &o) < 0)
			bail("%s", weir_error());
		n_parts++;
	}
}

/* The next place for @t in a buffer, or columns of a wider tensor there. */
static bool random_place(struct weir_tensor *t)
{
	size_t b = some(2), bytes;
	int64_t columns = t->shape[2], shape[3];
	struct weir_tensor wide;

	memcpy(shape, t->shape, sizeof(shape));
	if (some(2))
		shape[2] += 4 * (int64_t)some(30);
	if (weir_tensor_init(&wide, t->dtype, 3, shape) < 0 ||
	    weir_tensor_bytes(&wide, &bytes) < 0)
		bail("%s", weir_error());
	if (used[b] + bytes > BUFFER_BYTES)
		return false;
	if (weir_tensor_place(&wide, buf[b], used[b]) < 0 ||
	    weir_tensor_view(&wide, 2, shape[2] - columns, columns, t) < 0)
		bail("%s", weir_error());
	used[b] += bytes + some(some(2) ? 100 : 20000);
	return true;
}

static void random_targets(struct weir_plan *p, const struct weir_model *m)
{
	for (size_t k = some(20); k > 0; k--) {
		struct part *to = &part[n_parts];
		struct weir_target target = { .size = sizeof(target) };
		struct weir_entry e;
		struct weir_tensor t;

		*to = random_part(m, some(n_tensors));
		e = entry_of(m, to->record);
		if (to->sliced)
			e.shape[to->slice.dim] = to->slice.n;
		if (e.dtype >= WEIR_DTYPE_F16 && e.dtype <= WEIR_DTYPE_F64 &&
		    some(2))
			e.dtype = random_float();
		if (weir_tensor_init(&t, e.dtype, 3, e.shape) < 0)
			bail("%s", weir_error());
		if (!random_place(&t))
			continue;
		target.tensor = to->record;
		target.dst = &t;
		target.slice = to->sliced ? &to->slice : NULL;
		target.way = random_way();
		target.priority = (int32_t)some(3) - 1;
		/* A view is no place for rows of other lengths in the file. */
		if (weir_plan_add_tensors(p, &target, 1) == 0)
			n_parts++;
	}
}

static size_t not_good_on_arrival(struct weir_load *l, struct weir_weights *w,
				  const struct weir_model *m)
{
	size_t bad = 0, i;

	while (weir_load_next(l, -1, &i) == 1)
		bad += !part_is_good(m, weir_weights_get(w, i), &part[i]);
	return bad;
}

static bool counts_bytes(struct weir_load *l)
{
	struct weir_progress progress = { .size = sizeof(progress) };
	struct weir_load_report rep = { .size = sizeof(rep) };

	return weir_load_wait(l, -1) == 0 &&
	       weir_load_progress(l, &progress) == 0 &&
	       weir_load_report(l, &rep) == 0 && rep.bytes == progress.total &&
	       progress.tensors == n_parts;
}

static bool has_image(int b)
{
	bool same;
	unsigned char *copy = malloc(BUFFER_BYTES);

	get_bytes(buf[b], 0, BUFFER_BYTES, copy);
	same = !memcmp(copy, image[b], BUFFER_BYTES);
	free(copy);
	return same;
}

struct sums {
	size_t late, counts, images;
};

static void one_plan(struct sums *wrong)
{
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_load *l;

	random_model();
	m = model();
	p = new_plan(m);
	n_parts = 0;
	for (int b = 0; b < 2; b++) {
		weir_buf_clear(buf[b], 0xa5);
		memset(image[b], 0xa5, BUFFER_BYTES);
		used[b] = some(5000);
	}
	random_puts(p, m);
	random_targets(p, m);
	if (weir_load_start(p, NULL, &l) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < n_parts; i++)
		draw(m, weir_weights_get(w, i), &part[i]);
	wrong->late += not_good_on_arrival(l, w, m);
	wrong->counts += !counts_bytes(l);
	for (int b = 0; b < 2; b++)
		wrong->images += !has_image(b);
	weir_load_free(l);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

static void random_plans_load(void)
{
	struct sums wrong = { 0 };

	want = malloc(3 * MOST_BYTES);
	got = want + MOST_BYTES;
	raw = got + MOST_BYTES;
	for (int b = 0; b < 2; b++) {
		buf[b] = buffer(BUFFER_BYTES);
		image[b] = malloc(BUFFER_BYTES);
	}
	for (int i = 0; i < ROUNDS; i++)
		one_plan(&wrong);
	is_int(wrong.late, 0,
	       "each tensor of %d random plans has its bytes when it arrives",
	       ROUNDS);
	is_int(wrong.counts, 0, "loads of random plans count each byte once");
	is_int(wrong.images, 0,
	       "loads of random plans change no byte beside their targets");
	for (int b = 0; b < 2; b++) {
		weir_buf_free(buf[b]);
		free(image[b]);
	}
	free(want);
}

int main(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	plans_begin(3);
	weir_close(root);
	o.chunk = 64u << 10;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	kind = device ? memory_of(device, WEIR_MEM_DEVICE)
		      : memory_of("CPU", WEIR_MEM_HUGE);
	random_plans_load();
	return plans_end();
}
