/* SPDX-License-Identifier: MIT */
/*
 * Slices of tensors, and capacities and alignments of plans. In host memory, or
 * that of the device WEIR_T_DEVICE.
 */
#include "slices.h"
#include "plans.h"

#define ROUNDS 40

static struct weir_load_report report;

/* Load all tensors with @o, and keep the report. */
static struct weir_weights *load_with(struct weir_model *m, const char *glob,
				      struct weir_buft *buft,
				      const struct weir_select_opts *o)
{
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;
	struct weir_load *l;

	report = (struct weir_load_report){ .size = sizeof(report) };
	if (weir_plan_add(p, glob, buft, o) < 0 ||
	    weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_weights(l, &w) < 0 || weir_load_report(l, &report) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	weir_plan_free(p);
	return w;
}

static size_t slice_wrong(struct weir_model *m, const struct weir_slice *s,
			  uint32_t way)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	size_t wrong = 0;

	o.slice = s;
	o.way = way;
	w = load_with(m, NULL, kind, &o);
	for (size_t i = 0; i < weir_weights_count(w); i++)
		wrong += slice_differs(weir_weights_get(w, i), m, i, s->dim,
				       s->start) != 0;
	weir_weights_free(w);
	return wrong;
}

static void some_shapes(void)
{
	n_tensors = 0;
	add_shape("F32", 4, 37 * 29 * 31, "37,29,31");
	add_shape("U8", 1, 29 * 33 * 40, "29,33,40");
	add_shape("F16", 2, 200 * 30 * 64, "200,30,64");
	add_shape("F64", 8, 30 * 29 * 29, "30,29,29");
}

static void each_slice_has_its_bytes(void)
{
	static const uint32_t ways[] = { WEIR_WAY_AUTO, WEIR_WAY_BUFFERED,
					 WEIR_WAY_DIRECT };
	size_t wrong = 0;

	some_shapes();
	for (int round = 0; round < ROUNDS; round++) {
		struct weir_model *m = model();
		int64_t start = (int64_t)some(29);
		struct weir_slice s =
			slice_of((unsigned)some(3), start,
				 (int64_t)some(30 - (uint64_t)start));

		wrong += slice_wrong(m, &s, ways[round % 3]);
		weir_model_close(m);
	}
	is_int(wrong, 0, "%d random slices of four tensors have their bytes",
	       ROUNDS);
}

static void slices_of_long_rows(void)
{
	struct weir_model *m;
	struct weir_slice s;

	n_tensors = 0;
	add_shape("U8", 1, 6 * 800000, "6,800000");
	m = model();
	s = slice_of(1, 100001, 100000);
	is_int(slice_wrong(m, &s, WEIR_WAY_DIRECT), 0,
	       "slices of rows that are far apart have their bytes");
	s = slice_of(1, 7, 799000);
	is_int(slice_wrong(m, &s, WEIR_WAY_DIRECT), 0,
	       "slices of nearly all of long rows have their bytes");
	weir_model_close(m);
}

/* Each of these rows is read in several chunks. */
static void long_rows_are_counted_once(void)
{
	static const uint32_t ways[] = { WEIR_WAY_BUFFERED, WEIR_WAY_DIRECT };
	struct weir_slice s = slice_of(1, 100001, 18000000);
	struct weir_model *m;

	n_tensors = 0;
	add_shape("U8", 1, 2 * 20000000, "2,20000000");
	m = model();
	for (size_t i = 0; i < 2; i++) {
		is_int(slice_wrong(m, &s, ways[i]), 0,
		       "slices of rows longer than chunks have their bytes");
		is_int(report.bytes, 2 * 18000000,
		       "bytes of rows longer than chunks are counted once");
	}
	weir_model_close(m);
}

static void only_the_slice_is_read(void)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_slice rows = { .dim = 0, .rank = 3, .ranks = 8 };
	struct weir_slice inner = { .dim = 1, .rank = 3, .ranks = 8 };
	struct weir_model *m;

	n_tensors = 0;
	add_shape("U8", 1, 16 << 20, "32,524288");
	m = model();
	o.slice = &rows;
	weir_weights_free(load_with(m, NULL, kind, &o));
	is_int(report.bytes, 2 << 20, "an eighth of the rows is loaded");
	ok(report.over_read <= (2 << 20) / 50,
	   "an eighth of the rows reads at most 1.02 eighths of the bytes");
	o.slice = &inner;
	weir_weights_free(load_with(m, NULL, kind, &o));
	is_int(report.bytes, 2 << 20, "an eighth of each row is loaded");
	ok(report.over_read <= 32 * 2 * 4096,
	   "of rows of 512 KiB no more than the blocks of a slice are read");
	weir_model_close(m);
}

/* Its bytes are apart in the mapping, and together in other memory. */
static bool same_digest(struct weir_weights *a, struct weir_weights *b)
{
	uint8_t x[32], y[32];

	if (weir_weights_digest(a, 0, WEIR_DIGEST_SHA256, x) < 0 ||
	    weir_weights_digest(b, 0, WEIR_DIGEST_SHA256, y) < 0) {
		diag("%s", weir_error());
		return false;
	}
	return !memcmp(x, y, sizeof(x));
}

static void mapped_slices_are_views(void)
{
	struct weir_weights *other;
	struct weir_buft *mapped = memory_of("CPU", WEIR_MEM_MAPPED);
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_slice s = slice_of(1, 5, 11);
	const struct weir_tensor *t;
	struct weir_weights *w;
	struct weir_model *m;

	some_shapes();
	m = model();
	o.way = WEIR_WAY_MAP;
	o.slice = &s;
	w = load_with(m, "t2", mapped, &o);
	t = weir_weights_get(w, 0);
	is_int(t->shape[1], 11, "a mapped slice has the shape of the slice");
	is_int(t->stride[0], 30 * 64 * 2,
	       "a mapped slice has the strides of the whole tensor");
	is_int(slice_differs(t, m, 2, 1, 5), 0, "a mapped slice has its bytes");
	o.way = WEIR_WAY_AUTO;
	other = load_with(m, "t2", kind, &o);
	ok(same_digest(w, other),
	   "the digest of a mapped slice is that of the same slice in other memory");
	weir_weights_free(other);
	weir_weights_free(w);
	weir_model_close(m);
}

/* Tensor @i converted by weir_convert(), in memory of the host. */
static bool is_converted(const struct weir_tensor *t,
			 const struct weir_tensor *from)
{
	size_t bytes, from_bytes, elements = 1;
	unsigned char *got, *want, *raw;
	bool same;

	for (unsigned i = 0; i < t->ndim; i++)
		elements *= (size_t)t->shape[i];

	if (weir_tensor_bytes(t, &bytes) < 0 ||
	    weir_tensor_bytes(from, &from_bytes) < 0)
		bail("%s", weir_error());
	got = malloc(bytes + 1);
	want = malloc(bytes + 1);
	raw = malloc(from_bytes + 1);
	if (weir_tensor_get(t, 0, got, bytes) < 0 ||
	    weir_tensor_get(from, 0, raw, from_bytes) < 0 ||
	    weir_convert(t->dtype, want, from->dtype, raw, elements) < 0)
		bail("%s", weir_error());
	same = !memcmp(got, want, bytes);
	free(got);
	free(want);
	free(raw);
	return same;
}

static void tensors_are_converted(const struct weir_slice *s)
{
	static const enum weir_dtype to[] = { WEIR_DTYPE_F32, WEIR_DTYPE_F16,
					      WEIR_DTYPE_BF16 };
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w, *converted;
	size_t wrong = 0;
	struct weir_model *m;

	n_tensors = 0;
	add_shape("BF16", 2, 700 * 1000, "700,1000");
	add_shape("F8_E4M3", 1, 500 * 3001, "500,3001");
	add_shape("F32", 4, 3 * 5 * 7, "3,5,7");
	add_shape("F64", 8, 64 * 64, "64,64");
	add_shape("I32", 4, 9 * 9, "9,9");
	m = model();
	o.slice = s;
	w = load_with(m, NULL, kind, &o);
	for (size_t k = 0; k < 3; k++) {
		o.dtype = to[k];
		converted = load_with(m, NULL, kind, &o);
		for (size_t i = 0; i < 4; i++) {
			const struct weir_tensor *t =
				weir_weights_get(converted, i);

			wrong += t->dtype != (uint32_t)to[k] ||
				 !is_converted(t, weir_weights_get(w, i));
		}
		wrong += weir_weights_get(converted, 4)->dtype !=
			 WEIR_DTYPE_I32;
		weir_weights_free(converted);
	}
	is_int(wrong, 0,
	       "%s are converted to F32, F16 and BF16, integers are not",
	       s ? "slices of floating-point tensors"
		 : "floating-point tensors");
	weir_weights_free(w);
	weir_model_close(m);
}

static void tensors_are_quantised(const struct weir_slice *s)
{
	static const enum weir_dtype to[] = { WEIR_DTYPE_Q8_0, WEIR_DTYPE_Q4_0,
					      WEIR_DTYPE_Q4_K,
					      WEIR_DTYPE_Q6_K };
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w, *quantised;
	size_t wrong = 0;
	struct weir_model *m;

	n_tensors = 0;
	add_shape("BF16", 2, 900 * 1024, "900,1024");
	add_shape("F32", 4, 300 * 4096, "300,4096");
	add_shape("F16", 2, 15 * 512, "15,512");
	add_shape("F64", 8, 64 * 512, "64,512");
	m = model();
	o.slice = s;
	w = load_with(m, NULL, kind, &o);
	for (size_t k = 0; k < 4; k++) {
		o.dtype = to[k];
		quantised = load_with(m, NULL, kind, &o);
		for (size_t i = 0; i < n_tensors; i++) {
			const struct weir_tensor *t =
				weir_weights_get(quantised, i);

			wrong += t->dtype != (uint32_t)to[k] ||
				 !is_converted(t, weir_weights_get(w, i));
		}
		weir_weights_free(quantised);
	}
	is_int(wrong, 0, "%s are quantised to Q8_0, Q4_0, Q4_K and Q6_K",
	       s ? "slices of tensors" : "tensors");
	weir_weights_free(w);
	weir_model_close(m);
}

static void wrong_slices_are_refused(void)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_slice s = slice_of(1, 0, 1);
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_shape("F32", 4, 12, "3,4");
	add_tensor("F32", 4, 12);
	m = model();
	p = new_plan(m);
	o.slice = &s;
	is_err(weir_plan_add(p, NULL, kind, &o), -EINVAL,
	       "tensor 't1' has 1 dimensions: no slice of dimension 1",
	       "a selection of a slice that one tensor lacks names the tensor");
	is_int(weir_plan_add(p, "t0", kind, &o), 1,
	       "a selection that was refused has chosen nothing");
	s = (struct weir_slice){ .rank = 4, .ranks = 4 };
	is_err(weir_plan_add(p, "t1", kind, &o), -EINVAL, "rank 4 of 4",
	       "a rank of as many ranks is refused");
	s = slice_of(0, -1, 2);
	is_err(weir_plan_add(p, "t1", kind, &o), -EINVAL, "from -1 on",
	       "a slice that begins before its dimension is refused");
	s = slice_of(0, 1, INT64_MAX);
	is_err(weir_plan_add(p, "t1", kind, &o), -EINVAL, "from 1 on",
	       "a slice whose end exceeds 2^63 is refused");
	o.slice = NULL;
	o.dtype = WEIR_DTYPE_I8;
	is_err(weir_plan_add(p, "t1", kind, &o), -EINVAL,
	       "'t1' cannot be converted from F32 to I8",
	       "a conversion that does not exist is refused");
	o.dtype = WEIR_DTYPE_Q8_0;
	is_err(weir_plan_add(p, "t1", kind, &o), -EINVAL,
	       "rows of 12 elements are not whole blocks of 32",
	       "a tensor whose rows are not whole blocks is not quantised");
	o.dtype = 12345;
	is_err(weir_plan_add(p, "t1", kind, &o), -EINVAL,
	       "12345 is not a dtype",
	       "a conversion to a dtype that does not exist is refused");
	weir_plan_free(p);
	weir_model_close(m);
}

/* Layers 10, 2, 1 of 100 bytes in two tensors each, and two of no layer. */
static struct weir_model *layers(void)
{
	static const char *const list[] = { "a.10.up", "a.10.down",
					    "a.2.up",  "a.2.down",
					    "a.1.up",  "a.1.down",
					    "embed",   "norm.weight" };

	n_tensors = 0;
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		add_tensor("U8", 1, i % 2 ? 70 : 30);
		strcpy(names[i], list[i]);
	}
	return model();
}

static int put_up_to(struct weir_plan *p, const char *glob, uint64_t capacity)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;

	o.align = 1;
	o.capacity = capacity;
	return weir_plan_add(p, glob, memory_of("CPU", WEIR_MEM_PLAIN), &o);
}

static void a_capacity_takes_whole_layers(void)
{
	struct weir_model *m = layers();
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;

	is_int(put_up_to(p, NULL, 299), 4,
	       "a capacity of 299 bytes takes two layers of 100");
	w = load(p, NULL);
	ok(weir_weights_find(w, "a.1.up") && weir_weights_find(w, "a.2.down"),
	   "layers are taken in the order of their numbers");
	weir_weights_free(w);
	is_int(put_up_to(p, NULL, 99), 0,
	       "a layer that does not fit is not taken in part");
	is_int(put_up_to(p, NULL, 130), 3,
	       "tensors of no layer follow after the layers");
	is_int(put_up_to(p, NULL, 0), 1,
	       "a selection without a capacity takes what is left");
	ok(loads(p), "a plan of selections with capacities loads all tensors");
	weir_plan_free(p);
	weir_model_close(m);
}

/* The bytes that a plan allocates of kind PLAIN. */
static uint64_t needed(struct weir_plan *p)
{
	struct weir_estimate e[2] = { { .size = sizeof(e[0]) } };

	if (weir_plan_estimate(p, e, 2) < 0)
		bail("%s", weir_error());
	return e[0].bytes;
}

/* Tensors of several alignments, of which every other one is chosen. */
static void a_capacity_bounds_the_memory(void)
{
	static const char *const dtypes[] = { "F32", "U8", "BF16", "F64" };
	static const size_t sizes[] = { 4, 1, 2, 8 };
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	size_t over = 0, taken = 0;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	for (int i = 0; i < 64; i++) {
		add_tensor(dtypes[i % 4], sizes[i % 4], 100 + some(900));
		sprintf(names[i], "%c.%d", i % 3 ? 'a' : 'b', i);
	}
	m = model();
	for (uint64_t capacity = 1; capacity < 40000; capacity += 777) {
		p = new_plan(m);
		o.capacity = capacity;
		o.align = capacity & 2 ? 256 : 0;
		taken += (size_t)weir_plan_add(
			p, "a.*", memory_of("CPU", WEIR_MEM_PLAIN), &o);
		over += needed(p) > capacity;
		over += !loads(p);
		weir_plan_free(p);
	}
	ok(taken > 200, "capacities take tensors of several alignments");
	is_int(over, 0, "what a capacity takes needs no more memory than that");
	weir_model_close(m);
}

/* All bits that are set in an address of a tensor. */
static uint64_t address_bits(const struct weir_weights *w)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);

		bits |= address(t->buf) + t->offset;
	}
	return bits;
}

static void a_plan_has_an_alignment(void)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_model *m = layers();
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;

	is_int(weir_plan_set_align(p, 1024), 0, "a plan takes an alignment");
	plan_add(p, NULL, NULL, 0, 0);
	w = load(p, NULL);
	is_int(address_bits(w) % 1024, 0,
	       "selections without an alignment have the plan's");
	is_err(weir_plan_set_align(p, 48), -EINVAL, "48",
	       "an alignment that is no power of two is refused");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	o.align = 2048;
	if (weir_load_all(root, path, kind, &o, &w) < 0)
		bail("%s", weir_error());
	is_int(address_bits(w) % 2048, 0, "weir_load_all takes an alignment");
	weir_weights_free(w);
}

int main(void)
{
	plans_begin(0);
	each_slice_has_its_bytes();
	slices_of_long_rows();
	long_rows_are_counted_once();
	only_the_slice_is_read();
	mapped_slices_are_views();
	tensors_are_converted(NULL);
	tensors_are_converted(
		&(struct weir_slice){ .dim = 1, .start = 2, .n = 3 });
	tensors_are_quantised(NULL);
	tensors_are_quantised(
		&(struct weir_slice){ .dim = 1, .start = 256, .n = 256 });
	wrong_slices_are_refused();
	a_capacity_takes_whole_layers();
	a_capacity_bounds_the_memory();
	a_plan_has_an_alignment();
	return plans_end();
}
