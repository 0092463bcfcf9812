/* SPDX-License-Identifier: MIT */
/*
 * A blocking call on memory that a load fills waits for the tensors in its
 * range, whatever buffers they are in. In host memory, or that of the device
 * WEIR_T_DEVICE.
 */
#include "slices.h"
#include "plans.h"

#define MANY 2000u
#define BYTES 10000u
#define ROOM 10240u

/* Tensors of @count bytes each. */
static struct weir_model *equal_tensors(size_t n, unsigned count)
{
	n_tensors = 0;
	while (n_tensors < n)
		add_tensor("U8", 1, count);
	return model();
}

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

static void put_one(struct weir_plan *p, size_t i,
		    const struct weir_tensor *dst)
{
	struct weir_target t = { .size = sizeof(t),
				 .tensor = i,
				 .dst = dst,
				 .way = WEIR_WAY_DIRECT };

	if (weir_plan_add_tensors(p, &t, 1) < 0)
		bail("%s", weir_error());
}

/*
 * Start the load, and compare tensors at once: the last of the file first.
 * Returns how many elements are wrong.
 */
static size_t wrong_at_once(struct weir_plan *p, const struct weir_model *m,
			    const struct weir_tensor *dst, size_t n)
{
	struct weir_weights *w;
	struct weir_load *l;
	size_t wrong = 0;

	if (weir_load_start(p, NULL, &l) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	for (size_t i = n; i-- > 0; i -= i > 100 ? some(100) : 0)
		wrong += slice_differs(dst ? &dst[i] : weir_weights_get(w, i),
				       m, i, 0, 0);
	weir_load_wait(l, -1);
	weir_weights_free(w);
	weir_load_free(l);
	return wrong;
}

static void a_read_waits_for_puts(bool given)
{
	struct weir_model *m = equal_tensors(MANY, BYTES);
	struct weir_buf *buf = given ? buffer((MANY + 8) * ROOM) : NULL;
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_plan *p = new_plan(m);

	o.buf = buf;
	o.way = WEIR_WAY_DIRECT;
	if (weir_plan_add(p, NULL, kind, &o) < 0)
		bail("%s", weir_error());
	is_int(wrong_at_once(p, m, NULL, MANY), 0,
	       "a read of tensors in %s waits for the load",
	       given ? "the caller's buffer" : "new memory");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* In one buffer, in another order than that of the file. */
static void a_read_waits_for_targets(void)
{
	struct weir_model *m = equal_tensors(MANY, BYTES);
	struct weir_buf *buf = buffer(MANY * ROOM);
	struct weir_plan *p = new_plan(m);
	struct weir_tensor dst[MANY];

	for (size_t i = 0; i < MANY; i++) {
		dst[i] = place(m, i, buf, i * 7 % MANY * ROOM);
		put_one(p, i, &dst[i]);
	}
	is_int(wrong_at_once(p, m, dst, MANY), 0,
	       "a read of targets in one buffer waits for the load");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static void a_read_waits_for_targets_in_many_buffers(void)
{
	struct weir_model *m = equal_tensors(MANY, BYTES);
	struct weir_plan *p = new_plan(m);
	struct weir_tensor dst[MANY];
	struct weir_buf *buf[MANY];
	size_t wrong = 0;

	for (size_t i = 0; i < MANY; i++) {
		buf[i] = buffer(ROOM);
		dst[i] = place(m, i, buf[i], some(200));
		put_one(p, i, &dst[i]);
	}
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < MANY; i++)
			weir_buf_clear(buf[i], 0xa5);
		wrong += wrong_at_once(p, m, dst, MANY);
	}
	is_int(wrong, 0,
	       "a read of targets in %u buffers waits for each of three loads",
	       MANY);
	weir_plan_free(p);
	for (size_t i = 0; i < MANY; i++)
		weir_buf_free(buf[i]);
	weir_model_close(m);
}

/*
 * Rows of one target are between those of another, which begins later and ends
 * earlier.
 */
static void a_read_waits_for_columns(void)
{
	enum {
		ROWS = 65536,
		LAST = (ROWS - 1) * 128 * 4
	};
	const int64_t shape[] = { ROWS, 128 };
	struct weir_buf *buf = buffer(ROWS * 128 * 4);
	unsigned char at_once[256], later[256];
	struct weir_tensor whole, few, part[2];
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	n_tensors = 0;
	add_shape("F32", 4, ROWS * 64, "65536,64");
	add_shape("F32", 4, 16 * 64, "16,64");
	m = model();
	p = new_plan(m);
	if (weir_tensor_init(&whole, WEIR_DTYPE_F32, 2, shape) < 0 ||
	    weir_tensor_place(&whole, buf, 0) < 0 ||
	    weir_tensor_view(&whole, 1, 0, 64, &part[0]) < 0 ||
	    weir_tensor_view(&whole, 0, 0, 16, &few) < 0 ||
	    weir_tensor_view(&few, 1, 64, 64, &part[1]) < 0)
		bail("%s", weir_error());
	put_one(p, 0, &part[0]);
	put_one(p, 1, &part[1]);
	if (weir_load_start(p, NULL, &l) < 0 ||
	    weir_tensor_get(&whole, LAST, at_once, 256) < 0 ||
	    weir_load_wait(l, -1) < 0 ||
	    weir_tensor_get(&whole, LAST, later, 256) < 0)
		bail("%s", weir_error());
	ok(!memcmp(at_once, later, 256) &&
		   !slice_differs(&part[0], m, 0, 0, 0) &&
		   !slice_differs(&part[1], m, 1, 0, 0),
	   "a read of the last row of a column waits for the load");
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* The plan keeps the places of a load: not when it gets more tensors. */
static void a_plan_gets_more_puts(void)
{
	struct weir_model *m = equal_tensors(9, BYTES);
	struct weir_buf *buf = buffer(16 * ROOM);
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;

	plan_add(p, "t3", buf, 0, 0);
	w = load(p, NULL);
	weir_weights_free(w);
	plan_add(p, NULL, buf, 4 * ROOM, 0);
	w = load(p, NULL);
	is_int(w ? weir_weights_count(w) : 0, 9,
	       "a load has the selections that came after an earlier load");
	weir_weights_free(w);
	ok(loads(p), "each tensor of it has its bytes");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

int main(void)
{
	plans_begin(0);
	a_read_waits_for_puts(false);
	a_read_waits_for_puts(true);
	a_read_waits_for_targets();
	a_read_waits_for_targets_in_many_buffers();
	a_read_waits_for_columns();
	a_plan_gets_more_puts();
	return plans_end();
}
