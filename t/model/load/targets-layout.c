/* SPDX-License-Identifier: MIT */
/*
 * Places for tensors in a program's own memory that suit direct reads,
 * weir_targets_layout, and the numbers of tensors by name, weir_load_find.
 */
#include "plans.h"

#define N 40u
#define WHOLE 30u /* targets of whole tensors; the others are slices */

static struct weir_model *m;
static struct weir_tensor tensor[N];
static struct weir_slice slice[N];
static struct weir_target target[N];
static uint64_t offset[N];

/* Tensors of odd sizes from 100 KB to 1 MB, the last ones cut into halves. */
static void make_targets(void)
{
	n_tensors = 0;
	for (size_t i = 0; i < N; i++)
		add_tensor("F32", 4, 25000 + 2 * some(110000));
	m = model();
	for (size_t i = 0; i < N; i++) {
		struct weir_entry e = { .size = sizeof(e) };
		size_t tensor_number;
		int64_t n;

		if (weir_model_find(m, names[i], &tensor_number) < 0 ||
		    weir_model_tensor(m, tensor_number, &e) < 0)
			bail("%s", weir_error());
		n = e.shape[0];
		target[i] = (struct weir_target){
			.size = sizeof(target[i]),
			.tensor = tensor_number,
			.way = WEIR_WAY_DIRECT,
		};
		if (i >= WHOLE) {
			slice[i] = (struct weir_slice){ .rank = i % 2,
							.ranks = 2 };
			target[i].slice = &slice[i];
			n /= 2;
		}
		if (weir_tensor_init(&tensor[i], e.dtype, 1, &n) < 0)
			bail("%s", weir_error());
		target[i].dst = &tensor[i];
	}
}

static uint64_t end_of(size_t i)
{
	size_t bytes;

	if (weir_tensor_bytes(&tensor[i], &bytes) < 0)
		bail("%s", weir_error());
	return offset[i] + bytes;
}

static bool apart(size_t i, size_t k)
{
	return offset[i] >= end_of(k) || offset[k] >= end_of(i);
}

static void places(uint64_t base, uint64_t align, uint64_t *bytes)
{
	unsigned wrong = 0;
	uint64_t sum = 0;

	if (weir_targets_layout(m, target, N, base, align, offset, bytes) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < N; i++) {
		wrong += (base + offset[i]) % (align ? align : 4) != 0;
		wrong += end_of(i) > *bytes;
		for (size_t k = 0; k < i; k++)
			wrong += !apart(i, k);
		sum += end_of(i) - offset[i];
	}
	is_int(wrong, 0, "places are aligned to %d, apart and within the block",
	       (int)align);
	ok(*bytes < sum + 4096 * (N - WHOLE + 2),
	   "tensors aligned to %d lose at most a page before each gap",
	   (int)align);
}

/* Load the targets into @memory. How many tensors have other bytes. */
static size_t load_into(unsigned char *memory, uint64_t bytes,
			struct weir_load_report *report)
{
	struct weir_weights *w;
	struct weir_load *l;
	struct weir_plan *p = new_plan(m);
	struct weir_buf *buf;
	size_t wrong = 0, i;

	if (weir_buf_wrap(kind, memory, bytes, NULL, NULL, &buf) < 0)
		bail("%s", weir_error());
	for (i = 0; i < N; i++)
		if (weir_tensor_place(&tensor[i], buf, offset[i]) < 0)
			bail("%s", weir_error());
	report->size = sizeof(*report);
	if (weir_plan_add_tensors(p, target, N) < 0 ||
	    weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_report(l, report) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	for (i = 0; i < WHOLE; i++)
		wrong += !sample_holds(w, i, 1);
	is_int(weir_load_find(l, names[7], &i), 0,
	       "weir_load_find finds a target by name");
	is_int(i, 7, "weir_load_find returns the number in the load");
	is_err(weir_load_find(l, "nothing", &i), -ENOENT,
	       "no tensor 'nothing' in the load",
	       "weir_load_find returns -ENOENT for other names");
	is_int(i, 7, "weir_load_find writes no number if it fails");
	weir_weights_free(w);
	weir_load_free(l);
	weir_plan_free(p);
	weir_buf_free(buf);
	return wrong;
}

/* An arena whose address is a multiple of 64 and of nothing more. */
static void read_in_place(void)
{
	struct weir_load_report r;
	unsigned char *memory;
	uint64_t bytes;

	if (posix_memalign((void **)&memory, 4096, 64u << 20))
		bail("no memory");
	places((uintptr_t)memory + 64, 0, &bytes);
	if (bytes > (63u << 20))
		bail("%llu bytes", (unsigned long long)bytes);
	is_int(load_into(memory + 64, bytes, &r), 0,
	       "tensors at these places have the bytes of the file");
	if (r.fallbacks)
		skip(1, "no direct reads in %s", dir);
	else
		ok(r.in_place >= r.bytes / 100 * 98,
		   "nearly all bytes are read in place, slices included");
	diag("%llu of %llu bytes in place", (unsigned long long)r.in_place,
	     (unsigned long long)r.bytes);
	free(memory);
}

static void refused(void)
{
	uint64_t bytes = 77;
	struct weir_target bad = target[0];

	is_int(weir_targets_layout(m, NULL, 0, 0, 0, NULL, &bytes), 0,
	       "no targets have a layout");
	is_int((int64_t)bytes, 0, "no targets need no bytes");
	is_err(weir_targets_layout(m, target, N, 0, 48, offset, &bytes),
	       -EINVAL, "power of two",
	       "an alignment that is no power of two is refused");
	is_err(weir_targets_layout(m, NULL, 1, 0, 0, offset, &bytes), -EINVAL,
	       "the array is NULL", "no array of targets is refused");
	is_err(weir_targets_layout(m, target, 1, 0, 0, NULL, &bytes), -EINVAL,
	       "no array of offsets", "no array of offsets is refused");
	bad.tensor = 1000;
	is_err(weir_targets_layout(m, &bad, 1, 0, 0, offset, &bytes), -EINVAL,
	       "tensor 1000 of", "a tensor that the model lacks is refused");
	bad = target[0];
	bad.dst = NULL;
	is_int(weir_targets_layout(m, &bad, 1, 0, 0, offset, &bytes), 0,
	       "a target needs no destination");
	is_int((int64_t)(bytes - offset[0]), (int64_t)bytes_of(0),
	       "a target without destination has the bytes of its tensor");
}

int main(void)
{
	uint64_t bytes;

	plans_begin(22);
	if (device) {
		skip(22, "direct reads land in memory of the host");
		return plans_end();
	}
	make_targets();
	places(0, 256, &bytes);
	places(12345, 1, &bytes);
	places(64, 64, &bytes);
	read_in_place();
	refused();
	weir_model_close(m);
	return plans_end();
}
