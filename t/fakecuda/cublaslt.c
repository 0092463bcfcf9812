/* SPDX-License-Identifier: MIT */
/*
 * libcublasLt.so.13, as far as weir calls it: it checks its arguments as the
 * library does, and what the library would not notice; a mistake is counted as
 * misuse of the driver. Work is queued on the stand-in driver, which must be
 * open. FAKECUDA_CUBLASLT is its version, such as 130002; without it there is
 * no handle, as on a machine without a GPU.
 *
 * The algorithms, in the order in which they are offered: one that adds parts
 * in any order, one that needs workspace, one for aligned matrices, and one for
 * all. An algorithm is good for the descriptors for which it was found only.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "cublaslt.h"
#include "cuda/cublaslt_api.h"

#define EXPORT __attribute__((visibility("default")))
#define DECLARE(name, result, parameters) \
	EXPORT result cublasLt##name parameters;
WEIR__CUBLASLT_FUNCTIONS(DECLARE)
EXPORT unsigned long fakecublaslt_live(void);

#define ALGORITHM 0x77656972u
#define OK WEIR__CUBLASLT_SUCCESS
#define INVALID WEIR__CUBLASLT_INVALID_VALUE
#define UNSUPPORTED WEIR__CUBLASLT_NOT_SUPPORTED

enum kind {
	HANDLE,
	DESC,
	LAYOUT,
	PREFERENCE
};

/* Each is in the list as long as it lives. */
struct object {
	struct object *next;
	enum kind kind;
	void *context; /* HANDLE */
	/* DESC */
	int compute, scale, trans_a, trans_b;
	/* LAYOUT */
	int type, batches;
	uint64_t rows, columns;
	int64_t ld, offset;
	/* PREFERENCE */
	uint64_t workspace;
	uint32_t reduction, align[4];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct object *objects;

static struct {
	__typeof__(&fakecuda_library_call) call;
	__typeof__(&fakecuda_library_wrong) wrong;
	__typeof__(&fakecuda_library_version) version;
	__typeof__(&fakecuda_library_queue) queue;
	int (*context)(void **ret);
} driver;

static void __attribute__((constructor)) find_driver(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return;
	*(void **)&driver.call = dlsym(handle, "fakecuda_library_call");
	*(void **)&driver.wrong = dlsym(handle, "fakecuda_library_wrong");
	*(void **)&driver.version = dlsym(handle, "fakecuda_library_version");
	*(void **)&driver.queue = dlsym(handle, "fakecuda_library_queue");
	*(void **)&driver.context = dlsym(handle, "cuCtxGetCurrent");
}

/* A failure that is armed is a status; others are those of the driver. */
static int status_of(int result)
{
	switch (result) {
	case OK:
	case WEIR__CUBLASLT_NOT_INITIALIZED:
	case WEIR__CUBLASLT_ALLOC_FAILED:
	case INVALID:
	case WEIR__CUBLASLT_ARCH_MISMATCH:
	case WEIR__CUBLASLT_INTERNAL_ERROR:
	case UNSUPPORTED:
		return result;
	default:
		return WEIR__CUBLASLT_EXECUTION_FAILED;
	}
}

static int begin(const char *fn)
{
	return status_of(driver.call(fn));
}

static int wrong(const char *fn, const char *what)
{
	driver.wrong(fn, what);
	return INVALID;
}

static struct object *object_new(enum kind kind)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o)
		abort();
	o->kind = kind;
	pthread_mutex_lock(&lock);
	o->next = objects;
	objects = o;
	pthread_mutex_unlock(&lock);
	return o;
}

static struct object *object_get(void *p, enum kind kind)
{
	struct object *o;

	pthread_mutex_lock(&lock);
	for (o = objects; o && o != p; o = o->next)
		;
	pthread_mutex_unlock(&lock);
	return o && o->kind == kind ? o : NULL;
}

static int object_free(const char *fn, void *p, enum kind kind)
{
	struct object *o = object_get(p, kind), **at = &objects;

	if (!o)
		return wrong(fn, "it is not there");
	pthread_mutex_lock(&lock);
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	pthread_mutex_unlock(&lock);
	free(o);
	return OK;
}

unsigned long fakecublaslt_live(void)
{
	unsigned long n = 0;

	pthread_mutex_lock(&lock);
	for (struct object *o = objects; o; o = o->next)
		n++;
	pthread_mutex_unlock(&lock);
	return n;
}

size_t cublasLtGetVersion(void)
{
	return driver.version ? driver.version() : 0;
}

const char *cublasLtGetStatusName(int status)
{
	switch (status) {
	case OK:
		return "CUBLAS_STATUS_SUCCESS";
	case WEIR__CUBLASLT_NOT_INITIALIZED:
		return "CUBLAS_STATUS_NOT_INITIALIZED";
	case WEIR__CUBLASLT_ALLOC_FAILED:
		return "CUBLAS_STATUS_ALLOC_FAILED";
	case INVALID:
		return "CUBLAS_STATUS_INVALID_VALUE";
	case WEIR__CUBLASLT_ARCH_MISMATCH:
		return "CUBLAS_STATUS_ARCH_MISMATCH";
	case WEIR__CUBLASLT_EXECUTION_FAILED:
		return "CUBLAS_STATUS_EXECUTION_FAILED";
	case WEIR__CUBLASLT_INTERNAL_ERROR:
		return "CUBLAS_STATUS_INTERNAL_ERROR";
	case UNSUPPORTED:
		return "CUBLAS_STATUS_NOT_SUPPORTED";
	default:
		return "an unknown status";
	}
}

int cublasLtCreate(void **ret)
{
	struct object *o;
	int status;

	if (!driver.version || !driver.version())
		return WEIR__CUBLASLT_NOT_INITIALIZED;
	status = begin("cublasLtCreate");
	if (status)
		return status;
	o = object_new(HANDLE);
	driver.context(&o->context);
	*ret = o;
	return OK;
}

/* It frees memory of the device. */
int cublasLtDestroy(void *handle)
{
	int status = begin("cublasLtDestroy");

	return status ? status : object_free("cublasLtDestroy", handle, HANDLE);
}

int cublasLtMatmulDescCreate(void **ret, int compute, int scale)
{
	int status = begin("cublasLtMatmulDescCreate");
	struct object *o;

	if (status)
		return status;
	o = object_new(DESC);
	o->compute = compute;
	o->scale = scale;
	*ret = o;
	return OK;
}

int cublasLtMatmulDescDestroy(void *desc)
{
	return object_free("cublasLtMatmulDescDestroy", desc, DESC);
}

/* Copy an attribute of @size bytes. */
static int set(const char *fn, void *to, size_t size, const void *value,
	       size_t bytes)
{
	if (!value || bytes != size)
		return wrong(fn, "the attribute has another size");
	memcpy(to, value, size);
	return OK;
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value,
				   size_t bytes)
{
	static const char fn[] = "cublasLtMatmulDescSetAttribute";
	struct object *o = object_get(desc, DESC);
	int status = begin(fn);

	if (status)
		return status;
	if (!o)
		return wrong(fn, "it is not there");
	switch (attribute) {
	case WEIR__CUBLASLT_DESC_TRANS_A:
		return set(fn, &o->trans_a, sizeof(o->trans_a), value, bytes);
	case WEIR__CUBLASLT_DESC_TRANS_B:
		return set(fn, &o->trans_b, sizeof(o->trans_b), value, bytes);
	default:
		return wrong(fn, "unknown attribute");
	}
}

int cublasLtMatrixLayoutCreate(void **ret, int type, uint64_t rows,
			       uint64_t columns, int64_t ld)
{
	static const char fn[] = "cublasLtMatrixLayoutCreate";
	int status = begin(fn);
	struct object *o;

	if (status)
		return status;
	if (ld < 0 || (uint64_t)ld < rows)
		return wrong(fn, "columns overlap");
	o = object_new(LAYOUT);
	o->type = type;
	o->rows = rows;
	o->columns = columns;
	o->ld = ld;
	o->batches = 1;
	*ret = o;
	return OK;
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
	return object_free("cublasLtMatrixLayoutDestroy", layout, LAYOUT);
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute,
				     const void *value, size_t bytes)
{
	static const char fn[] = "cublasLtMatrixLayoutSetAttribute";
	struct object *o = object_get(layout, LAYOUT);
	int status = begin(fn);

	if (status)
		return status;
	if (!o)
		return wrong(fn, "it is not there");
	switch (attribute) {
	case WEIR__CUBLASLT_LAYOUT_BATCHES:
		return set(fn, &o->batches, sizeof(o->batches), value, bytes);
	case WEIR__CUBLASLT_LAYOUT_BATCH_OFFSET:
		return set(fn, &o->offset, sizeof(o->offset), value, bytes);
	default:
		return wrong(fn, "unknown attribute");
	}
}

int cublasLtMatmulPreferenceCreate(void **ret)
{
	int status = begin("cublasLtMatmulPreferenceCreate");
	struct object *o;

	if (status)
		return status;
	o = object_new(PREFERENCE);
	o->reduction = 7;
	for (unsigned i = 0; i < 4; i++)
		o->align[i] = 256;
	*ret = o;
	return OK;
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
	return object_free("cublasLtMatmulPreferenceDestroy", preference,
			   PREFERENCE);
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute,
					 const void *value, size_t bytes)
{
	static const char fn[] = "cublasLtMatmulPreferenceSetAttribute";
	struct object *o = object_get(preference, PREFERENCE);
	int status = begin(fn);

	if (status)
		return status;
	if (!o)
		return wrong(fn, "it is not there");
	switch (attribute) {
	case WEIR__CUBLASLT_PREFERENCE_WORKSPACE:
		return set(fn, &o->workspace, sizeof(o->workspace), value,
			   bytes);
	case WEIR__CUBLASLT_PREFERENCE_REDUCTION:
		return set(fn, &o->reduction, sizeof(o->reduction), value,
			   bytes);
	case WEIR__CUBLASLT_PREFERENCE_ALIGN_A:
	case WEIR__CUBLASLT_PREFERENCE_ALIGN_B:
	case WEIR__CUBLASLT_PREFERENCE_ALIGN_C:
	case WEIR__CUBLASLT_PREFERENCE_ALIGN_D:
		return set(fn,
			   &o->align[attribute -
				     WEIR__CUBLASLT_PREFERENCE_ALIGN_A],
			   sizeof(*o->align), value, bytes);
	default:
		return wrong(fn, "unknown attribute");
	}
}

/* The descriptors of a product, as the program passes them. */
struct passed {
	const char *fn;
	const struct object *handle, *desc, *a, *b, *c, *d;
};

static struct passed passed(const char *fn, void *handle, void *desc, void *a,
			    void *b, void *c, void *d)
{
	return (struct passed){ .fn = fn,
				.handle = object_get(handle, HANDLE),
				.desc = object_get(desc, DESC),
				.a = object_get(a, LAYOUT),
				.b = object_get(b, LAYOUT),
				.c = object_get(c, LAYOUT),
				.d = object_get(d, LAYOUT) };
}

static bool is_alike(const struct object *x, const struct object *y)
{
	return x->type == y->type && x->rows == y->rows &&
	       x->columns == y->columns && x->ld == y->ld &&
	       x->batches == y->batches && x->offset == y->offset;
}

/* A batch of d must not overlap another one. */
static bool is_apart(const struct object *d)
{
	return d->batches == 1 ||
	       d->offset >=
		       (int64_t)(d->columns - 1) * d->ld + (int64_t)d->rows ||
	       (d->offset >= (int64_t)d->rows &&
		d->ld >= d->offset * d->batches);
}

static int check_shapes(const struct passed *p)
{
	const struct object *a = p->a, *b = p->b, *d = p->d;
	uint64_t k = p->desc->trans_a ? a->rows : a->columns;

	if ((p->desc->trans_a ? a->columns : a->rows) != d->rows ||
	    (p->desc->trans_b ? b->rows : b->columns) != d->columns ||
	    (p->desc->trans_b ? b->columns : b->rows) != k)
		return wrong(p->fn, "the shapes do not fit together");
	if (a->batches != d->batches || b->batches != d->batches)
		return wrong(p->fn, "the batches do not fit together");
	if (!is_alike(p->c, d))
		return wrong(p->fn, "c is unlike d");
	if (!is_apart(d))
		return wrong(p->fn, "batches of d overlap");
	return OK;
}

/* The dtypes that weir uses; others are refused. */
static int check(const struct passed *p)
{
	void *context = NULL;

	if (!p->handle || !p->desc || !p->a || !p->b || !p->c || !p->d)
		return wrong(p->fn, "a handle or a descriptor is not there");
	driver.context(&context);
	if (p->handle->context != context)
		return wrong(p->fn, "the handle is of another context");
	if (p->desc->compute != WEIR__CUBLASLT_COMPUTE_F32 ||
	    p->desc->scale != WEIR__CUBLASLT_F32 || p->a->type != p->b->type ||
	    p->d->type != WEIR__CUBLASLT_F32 ||
	    (p->a->type != WEIR__CUBLASLT_F16 &&
	     p->a->type != WEIR__CUBLASLT_BF16))
		return UNSUPPORTED;
	return check_shapes(p);
}

static uint64_t mix(uint64_t sum, uint64_t v)
{
	sum = (sum ^ v) * 0x9e3779b97f4a7c15u;
	return sum ^ sum >> 29;
}

static uint64_t layout_sum(uint64_t sum, const struct object *o)
{
	sum = mix(mix(sum, (uint64_t)o->type), o->rows);
	sum = mix(mix(sum, o->columns), (uint64_t)o->ld);
	return mix(mix(sum, (uint64_t)o->batches), (uint64_t)o->offset);
}

/* What an algorithm is good for. */
static uint64_t sum_of(const struct passed *p)
{
	uint64_t sum = mix(mix(1, (uint64_t)p->desc->trans_a),
			   (uint64_t)p->desc->trans_b);

	return layout_sum(layout_sum(layout_sum(sum, p->a), p->b), p->d);
}

static uint32_t least_align(const struct object *preference)
{
	uint32_t least = preference->align[0];

	for (unsigned i = 1; i < 4; i++)
		if (preference->align[i] < least)
			least = preference->align[i];
	return least;
}

/* One of the algorithms. False: it is not what the program prefers. */
static bool offer(const struct passed *p, const struct object *preference,
		  unsigned which, struct weir__cublaslt_heuristic *ret)
{
	static const enum how how[] = { HOW_ATOMIC, HOW_SPLIT, HOW_IN_ONE,
					HOW_IN_ONE };
	static const uint32_t needs[] = { 1, 2, 0, 0 };
	uint64_t bytes = p->d->rows * p->d->columns * 8;
	uint32_t align = which == 3 ? 2 : 16;

	bytes = which == 1 ? bytes * (uint64_t)p->d->batches : 0;
	bytes = which == 0 ? 256 : bytes;
	if (least_align(preference) < align || bytes > preference->workspace ||
	    (needs[which] && !(preference->reduction & needs[which])))
		return false;
	*ret = (struct weir__cublaslt_heuristic){
		.algorithm.data = { ALGORITHM, how[which], sum_of(p), bytes,
				    align },
		.workspace = bytes,
		.state = OK,
		.waves = 1
	};
	return true;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b,
				   void *c, void *d, void *preference, int room,
				   struct weir__cublaslt_heuristic *ret,
				   int *ret_n)
{
	struct passed p = passed("cublasLtMatmulAlgoGetHeuristic", handle, desc,
				 a, b, c, d);
	const struct object *o = object_get(preference, PREFERENCE);
	int status = begin(p.fn);

	if (!status)
		status = check(&p);
	if (status)
		return status;
	if (!o || room < 1)
		return wrong(p.fn, "no preference, or no room");
	*ret_n = 0;
	for (unsigned i = 0; i < 4 && *ret_n < room; i++)
		*ret_n += offer(&p, o, i, &ret[*ret_n]);
	return *ret_n ? OK : UNSUPPORTED;
}

/* The addresses of a product, as the program passes them. */
struct addresses {
	uint64_t a, b, c, d, workspace;
	size_t workspace_bytes;
};

static int check_algorithm(const struct passed *p,
			   const struct weir__cublaslt_algorithm *algorithm,
			   const struct addresses *at)
{
	if (!algorithm || algorithm->data[0] != ALGORITHM)
		return wrong(p->fn, "it is no algorithm");
	if (algorithm->data[2] != sum_of(p))
		return wrong(p->fn, "the algorithm is for other descriptors");
	if ((at->a | at->b | at->c | at->d) % algorithm->data[4])
		return wrong(p->fn, "the algorithm needs aligned matrices");
	if (at->workspace_bytes < algorithm->data[3])
		return wrong(p->fn, "the algorithm needs more workspace");
	if (algorithm->data[3] && (!at->workspace || at->workspace % 256))
		return wrong(p->fn, "the workspace is not aligned to 256");
	if (at->c != at->d)
		return wrong(p->fn, "c is not in the place of d");
	return OK;
}

static bool overlaps(uint64_t from, uint64_t bytes, const struct object *o,
		     uint64_t at, uint64_t element)
{
	int64_t last = (o->batches - 1) * o->offset +
		       (int64_t)(o->columns - 1) * o->ld + (int64_t)o->rows;

	return bytes && from < at + (uint64_t)last * element &&
	       at < from + bytes;
}

static struct fakecuda_rows rows_of(const struct object *o, uint64_t at,
				    int64_t batch, size_t element, int written)
{
	return (struct fakecuda_rows){
		.ptr = at + (uint64_t)(batch * o->offset) * element,
		.width = (size_t)o->rows * element,
		.n = (size_t)o->columns,
		.pitch = (size_t)o->ld * element,
		.written = written
	};
}

static int queue(const struct passed *p, const struct addresses *at,
		 const struct product *product, void *stream)
{
	struct fakecuda_rows rows[FAKECUDA_LIBRARY_ROWS];
	struct product *copy;
	unsigned n = 0;

	if (product->batches * 4 + 1 > (int64_t)FAKECUDA_LIBRARY_ROWS)
		return UNSUPPORTED;
	for (int64_t b = 0; b < product->batches; b++) {
		rows[n++] = rows_of(p->a, at->a, b, 2, 0);
		rows[n++] = rows_of(p->b, at->b, b, 2, 0);
		rows[n++] = rows_of(p->d, at->d, b, 4, 1);
		if (product->beta != 0)
			rows[n++] = rows_of(p->d, at->d, b, 4, 0);
	}
	if (product->workspace)
		rows[n++] = (struct fakecuda_rows){ .ptr = at->workspace,
						    .width = product->workspace,
						    .n = 1,
						    .written = 1 };
	copy = malloc(sizeof(*copy));
	if (!copy)
		abort();
	*copy = *product;
	return status_of(driver.queue("cublasLtMatmul", stream, rows, n,
				      product_compute, copy));
}

static struct product product_of(const struct passed *p, float alpha,
				 float beta,
				 const struct weir__cublaslt_algorithm *chosen)
{
	const struct object *a = p->a;

	return (struct product){ .type = a->type,
				 .m = (int64_t)p->d->rows,
				 .n = (int64_t)p->d->columns,
				 .k = (int64_t)(p->desc->trans_a ? a->rows
								 : a->columns),
				 .batches = p->d->batches,
				 .ld_a = a->ld,
				 .ld_b = p->b->ld,
				 .ld_d = p->d->ld,
				 .trans_a = p->desc->trans_a,
				 .trans_b = p->desc->trans_b,
				 .alpha = alpha,
				 .beta = beta,
				 .how = (enum how)chosen->data[1],
				 .workspace = chosen->data[3] };
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a,
		   void *layout_a, const void *b, void *layout_b,
		   const void *beta, const void *c, void *layout_c, void *d,
		   void *layout_d,
		   const struct weir__cublaslt_algorithm *algorithm,
		   void *workspace, size_t workspace_bytes, void *stream)
{
	struct passed p = passed("cublasLtMatmul", handle, desc, layout_a,
				 layout_b, layout_c, layout_d);
	struct addresses at = { (uintptr_t)a,         (uintptr_t)b,
				(uintptr_t)c,         (uintptr_t)d,
				(uintptr_t)workspace, workspace_bytes };
	struct product product;
	float scale[2];
	int status = check(&p);

	if (!status)
		status = check_algorithm(&p, algorithm, &at);
	if (status)
		return status;
	if (!alpha || !beta)
		return wrong(p.fn, "no alpha or no beta");
	memcpy(&scale[0], alpha, sizeof(float));
	memcpy(&scale[1], beta, sizeof(float));
	product = product_of(&p, scale[0], scale[1], algorithm);
	if (overlaps(at.workspace, product.workspace, p.a, at.a, 2) ||
	    overlaps(at.workspace, product.workspace, p.b, at.b, 2) ||
	    overlaps(at.workspace, product.workspace, p.d, at.d, 4))
		return wrong(p.fn, "the workspace overlaps a matrix");
	return queue(&p, &at, &product, stream);
}
