/* SPDX-License-Identifier: MIT */
/*
 * The places of tensors: selections that share buffers of the caller, and
 * alignments. In host memory, or that of the device WEIR_T_DEVICE.
 */
#include "model/load/layout.h"
#include "plans.h"

#define ROUNDS 60

static void selections_share_a_buffer(void)
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
	plan_add(p, "t0", buf, 0, 0);
	plan_add(p, "t1", buf, 40192, 0);
	plan_add(p, "t2", buf, 120320, 0);
	ok(loads(p), "several selections fill one buffer at their offsets");
	ok(loads(p), "a plan of several selections is loaded again");
	weir_plan_free(p);
	p = new_plan(m);
	plan_add(p, "t2", buf, 120320, 0);
	plan_add(p, "t0", buf, 0, 0);
	plan_add(p, "t1", buf, 40192, 0);
	ok(loads(p),
	   "selections fill one buffer whatever the order of the calls");
	weir_plan_free(p);
	p = new_plan(m);
	plan_add(p, "t1", buf, 256, 0);
	plan_add(p, "t0", buf, 256, 0);
	plan_add(p, "t2", buf, 256, 0);
	ok(loads(p),
	   "selections at the same offset are placed one after the other");
	weir_plan_free(p);
	p = new_plan(m);
	plan_add(p, "t1", buf, 0, 0);
	plan_add(p, "t[02]", buf, 80000 - kind_align, 0);
	is_err(weir_plan_estimate(p, NULL, 0), -ENOSPC,
	       "another selection begins",
	       "a selection that does not fit before the next one is refused by the estimate");
	ok(!load(p, NULL),
	   "a selection that does not fit before the next one is refused by the load");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* The loads write the same bytes to the same memory. */
static void a_plan_is_loaded_twice_at_once(void)
{
	struct weir_buf *buf = buffer(1u << 20);
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;
	struct weir_load *a, *b;

	plan_add(p, "t0", buf, 0, 0);
	plan_add(p, NULL, buf, 65536, 0);
	if (weir_load_start(p, NULL, &a) < 0 ||
	    weir_load_start(p, NULL, &b) < 0 || weir_load_weights(a, &w) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(a, -1) | weir_load_wait(b, -1), 0,
	       "two loads of one plan at once succeed");
	is_int(sample_wrong(w, 1), 0,
	       "two loads of one plan at once leave the right bytes");
	weir_load_free(a);
	weir_load_free(b);
	weir_buf_clear(buf, 0);
	weir_weights_free(load(p, w));
	is_int(sample_wrong(w, 1), 0, "a plan loads again into its weights");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Memory that two buffers wrap, the second from byte 50001 on. */
static void buffers_share_memory(void)
{
	static unsigned char memory[400000];
	struct weir_buf *a, *b;
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);

	if (weir_buf_wrap(kind, memory, sizeof(memory), NULL, NULL, &a) < 0 ||
	    weir_buf_wrap(kind, memory + 50001, sizeof(memory) - 50001, NULL,
			  NULL, &b) < 0)
		bail("%s", weir_error());
	plan_add(p, "t0", a, 0, 0);
	plan_add(p, NULL, b, 0, 0);
	ok(loads(p),
	   "two buffers of the same memory are filled without overlap");
	weir_plan_free(p);
	p = new_plan(m);
	plan_add(p, "t1", a, 0, 0);
	plan_add(p, NULL, b, 0, 0);
	is_err(weir_plan_estimate(p, NULL, 0), -ENOSPC, "byte 50001",
	       "selections that would overlap in two buffers of the same memory are refused");
	weir_plan_free(p);
	p = new_plan(m);
	plan_add(p, "t2", b, 0, 0);
	plan_add(p, NULL, a, 50001, 0);
	ok(loads(p),
	   "selections at the same byte of two buffers are placed one after the other");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(a);
	weir_buf_free(b);
}

/* Layouts that placement never makes. */
static void overlaps_are_found(void)
{
	struct weir_buf *buf = buffer(1u << 20);
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);
	struct weir__layout *l;

	plan_add(p, "t0", buf, 0, 0);
	plan_add(p, NULL, buf, 65536, 0);
	if (weir__layout_get(p, &l) < 0)
		bail("%s", weir_error());
	is_int(weir__layout_check(m, l), 0,
	       "a layout without overlap passes the check");
	l->placement[2].at = l->placement[1].at + bytes_of(1) - 1;
	is_err(weir__layout_check(m, l), -EINVAL, "'t1' and 't2'",
	       "the check finds two tensors of one selection that share a byte");
	l->placement[2].at = buf->bytes;
	is_err(weir__layout_check(m, l), -EINVAL, "to byte",
	       "the check finds a tensor that ends after its buffer");
	weir__layout_forget(p);
	weir__layout_put(l);
	if (weir__layout_get(p, &l) < 0)
		bail("%s", weir_error());
	l->placement[0].at = l->placement[1].at - bytes_of(0) + 1;
	l->buf[0].bytes = l->placement[0].at + bytes_of(0);
	is_err(weir__layout_check(m, l), -EINVAL, "'t0' and 't1'",
	       "the check finds two tensors of different selections that share a byte");
	weir__layout_put(l);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* How many tensors of @w are not aligned, or end after their buffer. */
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

/* A small buffer first, so that the next is not aligned to more than 256. */
static void new_memory_is_aligned(void)
{
	for (uint64_t align = 512; align <= 4096; align *= 2) {
		struct weir_buf *small = buffer(100);
		struct weir_plan *p;
		struct weir_weights *w;
		struct weir_model *m;

		some_tensors(40, 2000);
		m = model();
		p = new_plan(m);
		plan_add(p, NULL, NULL, 0, align);
		w = load(p, NULL);
		is_int(w ? crooked(w, align) : 1, 0,
		       "tensors in new memory are aligned to %d", (int)align);
		is_int(w ? sample_wrong(w, 1) : 1, 0,
		       "tensors aligned to %d have the right bytes",
		       (int)align);
		weir_weights_free(load(p, w));
		is_int(sample_wrong(w, 1), 0,
		       "tensors aligned to %d are loaded again", (int)align);
		weir_weights_free(w);
		weir_plan_free(p);
		weir_model_close(m);
		weir_buf_free(small);
	}
}

/*
 * The selections of a round: offset, alignment, end, and whether they have
 * bytes.
 */
static struct {
	uint64_t offset, align, end;
	bool bytes;
} bounds[6];
#define SELECTIONS (sizeof(bounds) / sizeof(bounds[0]))
static size_t selection_of[MAX_TENSORS];

static uint64_t align_of(size_t i)
{
	uint64_t align = bounds[selection_of[i]].align;

	return align ? align : device ? kind_align : tensors[i].size;
}

/* One selection after the other, the tensors of each in order and packed. */
static void pack(uint64_t base)
{
	uint64_t at = some(2) ? 0 : some(5000);

	for (size_t k = 0; k < SELECTIONS; k++) {
		bounds[k].offset = at;
		bounds[k].bytes = false;
		for (size_t i = 0; i < n_tensors; i++) {
			if (selection_of[i] != k || !bytes_of(i))
				continue;
			at += -(base + at) % align_of(i) + bytes_of(i);
			bounds[k].bytes = true;
		}
		bounds[k].end = at;
		at += some(2) ? 0 : some(300);
	}
}

static void some_selections(void)
{
	for (size_t k = 0; k < SELECTIONS; k++)
		bounds[k].align = some(3) ? 0 : (uint64_t)1 << some(13);
	some_tensors(1 + some(40), some(2) ? 3000 : 60);
	for (size_t i = 0; i < n_tensors; i++) {
		selection_of[i] = some(SELECTIONS);
		snprintf(names[i], sizeof(names[i]), "p%zu.%zu",
			 selection_of[i], i);
	}
}

/* The selections of a round, beginning with any of them. */
static struct weir_plan *plan_selections(struct weir_model *m,
					 struct weir_buf *buf)
{
	struct weir_plan *p = new_plan(m);
	size_t first = some(SELECTIONS);

	for (size_t i = 0; i < SELECTIONS; i++) {
		size_t k = (first + i) % SELECTIONS;
		char glob[32];

		snprintf(glob, sizeof(glob), "p%zu.*", k);
		if (bounds[k].bytes)
			plan_add(p, glob, buf, bounds[k].offset,
				 bounds[k].align);
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
	/* Exactly as large as the selections need. */
	if (weir_buf_wrap(kind, memory, bounds[SELECTIONS - 1].end, NULL, NULL,
			  &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

/* Where the bounds of selection @k end. */
static uint64_t limit_of(size_t k)
{
	for (size_t i = k + 1; i < SELECTIONS; i++)
		if (bounds[i].bytes)
			return bounds[i].offset;
	return UINT64_MAX;
}

/*
 * How many tensors are not aligned, or not within the bounds of their
 * selection.
 */
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
			     t->offset < bounds[selection_of[i]].offset ||
			     t->offset + bytes_of(i) >
				     limit_of(selection_of[i]);
	}
	return n;
}

/* How many bytes outside of the tensors of @w have changed. */
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

/* 1: a selection is accepted although it lacks one byte before the next. */
static size_t too_short(struct weir_model *m, struct weir_buf *buf)
{
	struct weir_plan *p;
	size_t k = 0, wrong;

	while (k < SELECTIONS - 1 &&
	       (!bounds[k].bytes || !bounds[k + 1].bytes ||
		bounds[k + 1].offset != bounds[k].end))
		k++;
	if (k == SELECTIONS - 1)
		return 0;
	bounds[k + 1].offset--;
	p = plan_selections(m, buf);
	wrong = weir_plan_estimate(p, NULL, 0) != -ENOSPC;
	weir_plan_free(p);
	return wrong;
}

static void random_puts_are_placed(void)
{
	const size_t room = 40 * (3000 * 8 + 4096) + SELECTIONS * 300 + 5000;
	unsigned char *memory = malloc(room + 4096);
	size_t refused = 0, wrong = 0, beside = 0, accepted = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct weir_model *m;
		struct weir_weights *w;
		struct weir_plan *p;
		struct weir_buf *buf;

		some_selections();
		m = model();
		buf = some_buffer(memory, room);
		p = plan_selections(m, buf);
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
	is_int(refused, 0, "selections that just fit are accepted");
	is_int(wrong, 0,
	       "random selections leave each tensor whole, aligned and within its bounds");
	is_int(beside, 0, "random selections write no byte outside of tensors");
	is_int(accepted, 0, "selections that lack one byte are refused");
}

int main(void)
{
	bool host = !getenv("WEIR_T_DEVICE");

	plans_begin(6 + 3 + 4 + (host ? 3 : 0) + 12 + 4);
	selections_share_a_buffer();
	a_plan_is_loaded_twice_at_once();
	overlaps_are_found();
	if (host) /* memory of the program's */
		buffers_share_memory();
	new_memory_is_aligned();
	random_puts_are_placed();
	return plans_end();
}
