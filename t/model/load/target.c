/* SPDX-License-Identifier: MIT */
/*
 * Targets: tensors that are loaded into exactly the memory that the program
 * chose. In host memory, or that of the device WEIR_T_DEVICE.
 */
#include "slices.h"
#include "plans.h"

#define MANY 3000u

/* A contiguous tensor like tensor @i of the model, at @offset of @buf. */
static struct weir_tensor place(const struct weir_model *m, size_t i,
				struct weir_buf *buf, uint64_t offset)
{
	struct weir_entry e = entry_of(m, i);
	struct weir_tensor t;

	if (weir_tensor_init(&t, e.dtype, e.ndim, e.shape) < 0 ||
	    weir_tensor_place(&t, buf, offset) < 0)
		bail("%s", weir_error());
	return t;
}

static struct weir_target target(size_t i, const struct weir_tensor *dst)
{
	return (struct weir_target){ .size = sizeof(struct weir_target),
				     .tensor = i,
				     .dst = dst };
}

static int put_one(struct weir_plan *p, size_t i, const struct weir_tensor *dst,
		   const struct weir_slice *slice)
{
	struct weir_target t = target(i, dst);

	t.slice = slice;
	return weir_plan_add_tensors(p, &t, 1);
}

static void tensors_go_to_their_targets(void)
{
	struct weir_tensor dst[MANY];
	struct weir_target t[MANY];
	const struct weir_tensor *found;
	struct weir_buf *buf;
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;
	uint64_t end = 3;
	size_t wrong = 0;

	some_tensors(MANY, 3000);
	m = model();
	for (size_t i = 0; i < MANY; i++)
		end += bytes_of(i) + some(40);
	buf = buffer(end + 40 * MANY);
	/*
	 * In the order of the file, but from the last to the first in memory.
	 */
	for (size_t i = 0; i < MANY; i++) {
		end -= bytes_of(i);
		dst[i] = place(m, i, buf, end);
		t[i] = target(i, &dst[i]);
	}
	p = new_plan(m);
	is_int(weir_plan_add_tensors(p, t, MANY), 0,
	       "one call takes %u targets", MANY);
	w = load(p, NULL);
	is_int(w ? weir_weights_count(w) : 0, MANY,
	       "the weights have a tensor for each target");
	for (size_t i = 0; i < MANY && w; i++) {
		const struct weir_tensor *in = weir_weights_get(w, i);

		wrong += in->buf != buf || in->offset != dst[i].offset ||
			 (bytes_of(i) && slice_differs(in, m, i, 0, 0));
		i += some(40);
	}
	is_int(wrong, 0, "each target has the bytes of its tensor");
	found = weir_weights_find(w, "t1234");
	ok(found == weir_weights_get(w, 1234),
	   "a target is found by the name of its tensor");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/*
 * Tensors of 1000 bytes that are in another order in memory than in the file.
 */
static void small_targets_are_read_together(uint32_t way)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_tensor dst[MANY];
	struct weir_weights *w;
	struct weir_buf *buf;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_load *l;
	size_t wrong = 0;

	n_tensors = 0;
	while (n_tensors < MANY)
		add_tensor("U8", 1, 1000);
	m = model();
	buf = buffer(MANY * 1024);
	p = new_plan(m);
	for (size_t i = 0; i < MANY; i++) {
		struct weir_target t = target(i, &dst[i]);

		t.way = way;
		dst[i] = place(m, i, buf, (i * 7 % MANY) * 1024);
		if (weir_plan_add_tensors(p, &t, 1) < 0)
			bail("%s", weir_error());
	}
	if (weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_report(l, &rep) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < MANY; i += 1 + some(50))
		wrong += slice_differs(&dst[i], m, i, 0, 0);
	is_int(wrong, 0,
	       "targets in another order than the file, %s, have their bytes",
	       way == WEIR_WAY_DIRECT ? "read directly" : "cached");
	ok(rep.chunks < MANY / 50, "small targets, %s, share chunks",
	   way == WEIR_WAY_DIRECT ? "read directly" : "cached");
	is_int(rep.bytes, MANY * 1000,
	       "a load of small targets counts all bytes");
	weir_weights_free(w);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static void bytes_beside_a_target_do_not_change(void)
{
	struct weir_buf *buf = buffer(1u << 20);
	struct weir_weights *w;
	struct weir_tensor dst;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_tensor("U8", 1, 500001);
	add_tensor("U8", 1, 3);
	m = model();
	dst = place(m, 0, buf, 4097);
	p = new_plan(m);
	is_int(put_one(p, 0, &dst, NULL), 0, "a target may have any offset");
	w = load(p, NULL);
	ok(w && !slice_differs(weir_weights_get(w, 0), m, 0, 0, 0),
	   "a target at an odd address has its bytes");
	is_int(bytes_differ(buf, 4097, 0xa5), 0,
	       "bytes before a target do not change");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static void other_puts_leave_targets_out(void)
{
	struct weir_buf *buf = buffer(1u << 16);
	struct weir_weights *w;
	struct weir_tensor dst;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	for (int i = 0; i < 3; i++)
		add_tensor("F32", 4, 100);
	m = model();
	dst = place(m, 1, buf, 0);
	p = new_plan(m);
	if (put_one(p, 1, &dst, NULL) < 0)
		bail("%s", weir_error());
	is_int(plan_add(p, NULL, NULL, 0, 0), 2,
	       "a later selection does not choose the tensor of a target");
	w = load(p, NULL);
	is_str(w ? weir_weights_get(w, 2)->name : "", "t1",
	       "targets follow after the tensors of selections");
	ok(w && sample_wrong(w, 1) == 0,
	   "a plan of selections and targets loads all of them");
	weir_weights_free(w);
	w = load(p, NULL);
	ok(w && load(p, w), "weights with targets are loaded again");
	weir_weights_free(w);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/*
 * True if the @n tensors of @a have the digests of those of @b in reverse
 * order.
 */
static bool digests_reversed(struct weir_weights *a, struct weir_weights *b,
			     size_t n)
{
	uint8_t x[32], y[32];

	for (size_t i = 0; i < n; i++)
		if (weir_weights_digest(a, i, WEIR_DIGEST_SHA256, x) != 32 ||
		    weir_weights_digest(b, n - 1 - i, WEIR_DIGEST_SHA256, y) !=
			    32 ||
		    memcmp(x, y, 32))
			return false;
	return true;
}

/* A fused tensor of 64 rows: the columns of three tensors side by side. */
static void columns_of_a_fused_tensor_are_targets(void)
{
	const int64_t shape[] = { 64, 96 };
	struct weir_buf *buf = buffer(64 * 96 * 4 + 512);
	struct weir_estimate estimate = { .size = sizeof(estimate) };
	struct weir_tensor fused, part[3];
	struct weir_weights *w, *whole;
	struct weir_plan *p, *selected;
	struct weir_model *m;
	size_t wrong = 0;

	n_tensors = 0;
	for (int i = 0; i < 3; i++)
		add_shape("F32", 4, 64 * 32, "64,32");
	m = model();
	p = new_plan(m);
	selected = new_plan(m);
	if (weir_tensor_init(&fused, WEIR_DTYPE_F32, 2, shape) < 0 ||
	    weir_tensor_place(&fused, buf, 0) < 0)
		bail("%s", weir_error());
	for (int i = 2; i >= 0; i--)
		if (weir_tensor_view(&fused, 1, 32 * i, 32, &part[i]) < 0 ||
		    put_one(p, (size_t)i, &part[i], NULL) < 0)
			bail("%s", weir_error());
	if (weir_plan_estimate(p, &estimate, 1) != 1)
		bail("%s", weir_error());
	is_int(estimate.given, 64 * 96 * 4,
	       "an estimate counts the bytes of views without their gaps");
	w = load(p, NULL);
	if (!w)
		diag("%s", weir_error());
	for (size_t i = 0; i < 3 && w; i++)
		wrong += slice_differs(&part[i], m, i, 0, 0);
	ok(w && !wrong, "columns of one tensor are filled from three tensors");
	plan_add(selected, NULL, NULL, 0, 0);
	whole = load(selected, NULL);
	ok(w && whole && digests_reversed(w, whole, 3),
	   "the digest of a view is that of its elements");
	weir_weights_free(whole);
	weir_plan_free(selected);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static void slices_of_a_tensor_are_targets(void)
{
	struct weir_buf *buf[4];
	struct weir_tensor dst[4];
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;
	const int64_t shape[] = { 40, 25 };
	size_t wrong = 0;

	n_tensors = 0;
	add_shape("F16", 2, 4000, "40,100");
	m = model();
	p = new_plan(m);
	for (unsigned i = 0; i < 4; i++) {
		struct weir_slice s = { .dim = 1, .rank = i, .ranks = 4 };

		buf[i] = buffer(8192);
		if (weir_tensor_init(&dst[i], WEIR_DTYPE_F16, 2, shape) < 0 ||
		    weir_tensor_place(&dst[i], buf[i], 16) < 0 ||
		    put_one(p, 0, &dst[i], &s) < 0)
			bail("%s", weir_error());
	}
	w = load(p, NULL);
	for (unsigned i = 0; i < 4 && w; i++)
		wrong += slice_differs(&dst[i], m, 0, 1, 25 * (int64_t)i);
	ok(w && !wrong, "four slices of one tensor go to four buffers");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	for (unsigned i = 0; i < 4; i++)
		weir_buf_free(buf[i]);
}

/* One chunk at a time, so tensors arrive in the order of reading. */
static void greater_priorities_are_read_first(void)
{
	static const int32_t priority[] = { 0, -5, 7, 7, 3 };
	static const size_t order[] = { 2, 3, 4, 0, 1 };
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_buf *buf = buffer(5 << 20);
	struct weir_tensor dst[5];
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_load *l;
	size_t i, wrong = 0;

	n_tensors = 0;
	while (n_tensors < 5)
		add_tensor("U8", 1, 600000);
	m = model();
	p = new_plan(m);
	for (i = 0; i < 5; i++) {
		struct weir_target t = target(i, &dst[i]);

		dst[i] = place(m, i, buf, i << 20);
		t.priority = priority[i];
		t.way = WEIR_WAY_DIRECT;
		if (weir_plan_add_tensors(p, &t, 1) < 0)
			bail("%s", weir_error());
	}
	o.depth = 1;
	if (weir_load_start(p, &o, &l) < 0)
		bail("%s", weir_error());
	for (size_t k = 0; k < 5; k++) {
		if (weir_load_next(l, -1, &i) != 1)
			bail("%s", weir_error());
		wrong += i != order[k];
	}
	is_int(wrong, 0,
	       "tensors are read by priority, and equal ones in the order of the file");
	weir_load_wait(l, -1);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Each row would be stored three times, and the next one over it. */
static void rows_in_one_place_are_refused(void)
{
	struct weir_buf *buf = buffer(4096);
	struct weir_tensor t;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_shape("F32", 4, 24, "2,3,4");
	m = model();
	p = new_plan(m);
	t = place(m, 0, buf, 0);
	t.stride[1] = 0;
	is_err(put_one(p, 0, &t, NULL), -EINVAL, "equal distances",
	       "a view with a stride of 0 is refused");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static void wrong_targets_are_refused(void)
{
	const int64_t shape[] = { 10, 10 }, fewer[] = { 9, 10 };
	const struct weir_slice out = { .dim = 1, .start = 5, .n = 6 };
	const struct weir_slice rank = { .dim = 0, .rank = 1, .ranks = 3 };
	const struct weir_slice no_dim = { .dim = 2, .n = 1 };
	struct weir_buf *buf = buffer(4096);
	struct weir_tensor t, u;
	struct weir_target many[2];
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_shape("F32", 4, 100, "10,10");
	m = model();
	p = new_plan(m);
	t = place(m, 0, buf, 0);
	is_err(put_one(p, 1, &t, NULL), -EINVAL, "tensor 1 of 1",
	       "a target for a tensor that the model does not have is refused");
	u = t;
	u.buf = NULL;
	is_err(put_one(p, 0, &u, NULL), -EINVAL, "'t0': its destination is not",
	       "a target that is not placed is refused");
	weir_tensor_init(&u, WEIR_DTYPE_I32, 2, shape);
	weir_tensor_place(&u, buf, 0);
	is_err(put_one(p, 0, &u, NULL), -EINVAL, "F32",
	       "a target of another dtype that is no conversion is refused");
	weir_tensor_init(&u, WEIR_DTYPE_F32, 2, fewer);
	weir_tensor_place(&u, buf, 0);
	is_err(put_one(p, 0, &u, NULL), -EINVAL, "360 bytes, it needs 400",
	       "a target with fewer elements is refused");
	is_err(put_one(p, 0, &t, &out), -EINVAL, "6 elements from 5 on",
	       "a slice that ends after its dimension is refused");
	is_err(put_one(p, 0, &t, &rank), -EINVAL, "not 3 equal parts",
	       "a rank of ranks that do not divide the dimension is refused");
	is_err(put_one(p, 0, &t, &no_dim), -EINVAL, "no slice of dimension 2",
	       "a slice of a dimension that the tensor lacks is refused");
	u = t;
	u.dtype = 12345;
	is_err(put_one(p, 0, &u, NULL), -EINVAL, "12345 is not a dtype",
	       "a target of a dtype that does not exist is refused");
	many[0] = target(0, &t);
	is_err(weir_plan_add_tensors(p, many, SIZE_MAX), -EINVAL, "at most",
	       "2^64 - 1 targets are refused");
	many[1] = target(7, &t);
	is_err(weir_plan_add_tensors(p, many, 2), -EINVAL, "tensor 7 of 1",
	       "a call with one wrong target is refused");
	is_int(plan_add(p, NULL, NULL, 0, 0), 1,
	       "a call that was refused has chosen nothing");
	many[1] = target(0, &t);
	is_int(weir_plan_add_tensors(p, many, 2), 0,
	       "a tensor may be the target of two calls");
	ok(!load(p, NULL) && strstr(weir_error(), "'t0' and 't0'"),
	   "targets that overlap are refused before anything is read");
	is_int(bytes_differ(buf, 4096, 0xa5), 0,
	       "memory of targets that were refused does not change");
	is_err(weir_plan_estimate(p, NULL, 0), -EINVAL, "overlap",
	       "an estimate of targets that overlap is refused");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static struct weir_buf *wrap(void *mem, size_t bytes)
{
	struct weir_buf *buf;

	if (weir_buf_wrap(kind, mem, bytes, NULL, NULL, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

/*
 * A joined buffer of memory of the kind, and then of @bytes of the model's
 * file.
 */
static struct weir_buf *join_with_mapped(size_t bytes)
{
	struct weir_buf *m[2] = { buffer(bytes) }, *all;
	struct weir_file *file;

	if (weir_file_open(root, path, NULL, &file) < 0 ||
	    weir_buf_map(memory_of("CPU", WEIR_MEM_MAPPED), file, 0, bytes,
			 &m[1]) < 0 ||
	    weir_buf_join(m, 2, &all) < 0)
		bail("%s", weir_error());
	weir_file_close(file);
	weir_buf_free(m[0]);
	weir_buf_free(m[1]);
	return all;
}

static void read_only_targets_are_refused(void)
{
	struct weir_model *m;
	struct weir_tensor t;
	struct weir_plan *p;
	struct weir_buf *all;

	n_tensors = 0;
	add_tensor("U8", 1, 1000);
	m = model();
	p = new_plan(m);
	all = join_with_mapped(1000);
	t = place(m, 0, all, 1000);
	is_err(put_one(p, 0, &t, NULL), -EINVAL, "cannot be written",
	       "a target in a read-only member of a joined buffer is refused");
	t = place(m, 0, all, 0);
	is_int(put_one(p, 0, &t, NULL), 0,
	       "a target in another member of that buffer is taken");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(all);
}

/* Each target in memory of its own, in no order. */
static void targets_in_many_buffers(void)
{
	static unsigned char mem[MANY * 1024];
	struct weir_tensor dst[MANY];
	struct weir_buf *buf[MANY];
	struct weir_target t[MANY];
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_load *l;
	size_t wrong = 0;

	n_tensors = 0;
	while (n_tensors < MANY)
		add_tensor("U8", 1, 1000);
	m = model();
	p = new_plan(m);
	for (size_t i = 0; i < MANY; i++) {
		size_t tensor = i * 7 % MANY, at = i * 11 % MANY;

		buf[i] = wrap(mem + at * 1024, 1000);
		dst[i] = place(m, tensor, buf[i], 0);
		t[i] = target(tensor, &dst[i]);
	}
	if (weir_plan_add_tensors(p, t, MANY) < 0)
		bail("%s", weir_error());
	w = load(p, NULL);
	for (size_t i = 0; i < MANY; i += 1 + some(50))
		wrong += !w || weir_weights_get(w, i)->buf != buf[i] ||
			 slice_differs(weir_weights_get(w, i), m, t[i].tensor,
				       0, 0);
	is_int(wrong, 0, "targets in %u buffers have their bytes", MANY);
	weir_weights_free(w);
	weir_plan_free(p);
	p = new_plan(m);
	weir_buf_free(buf[MANY / 2]);
	buf[MANY / 2] =
		wrap((unsigned char *)weir_buf_data(buf[0]) + 999, 1000);
	dst[MANY / 2].buf = buf[MANY / 2];
	if (weir_plan_add_tensors(p, t, MANY) < 0)
		bail("%s", weir_error());
	is_err(weir_load_start(p, NULL, &l), -EINVAL, "would overlap",
	       "two of %u buffers that share a byte are found", MANY);
	weir_plan_free(p);
	for (size_t i = 0; i < MANY; i++)
		weir_buf_free(buf[i]);
	weir_model_close(m);
}

int main(void)
{
	plans_begin(0);
	tensors_go_to_their_targets();
	small_targets_are_read_together(WEIR_WAY_DIRECT);
	small_targets_are_read_together(WEIR_WAY_BUFFERED);
	bytes_beside_a_target_do_not_change();
	other_puts_leave_targets_out();
	columns_of_a_fused_tensor_are_targets();
	slices_of_a_tensor_are_targets();
	greater_priorities_are_read_first();
	rows_in_one_place_are_refused();
	wrong_targets_are_refused();
	if (!device) {
		read_only_targets_are_refused();
		targets_in_many_buffers();
	}
	return plans_end();
}
