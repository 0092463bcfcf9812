/* SPDX-License-Identifier: MIT */
#include "cuda/cublaslt.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"

#define drv weir__cuda_drv
#define host weir__cuda_host
/* The oldest version that is used: CUDA 12.0. It is 10000 * major + ... */
#define LEAST 120000u
/*
 * Bytes of workspace for GPUs of compute capability 9.0 and more, and for
 * others, as NVIDIA recommends.
 */
#define ROOM_SM_90 ((size_t)32 << 20)
#define ROOM ((size_t)4 << 20)

#define MEMBER(name, result, parameters) result(*name) parameters;
struct weir__cublaslt_api {
	WEIR__CUBLASLT_FUNCTIONS(MEMBER)
};

#define FUNCTION(name, result, parameters) \
	{ "cublasLt" #name, offsetof(struct weir__cublaslt_api, name) },
/* clang-format off */
static const struct {
	const char *name;
	size_t at;
} functions[] = { WEIR__CUBLASLT_FUNCTIONS(FUNCTION) };
/* clang-format on */

/* The names by which it is opened, and the driver that each needs. */
static struct library {
	const char *name;
	int driver;
	bool found; /* api is complete */
	struct weir__cublaslt_api api;
} libraries[] = {
	{ .name = "libcublasLt.so.13", .driver = 13000 },
	{ .name = "libcublasLt.so.12", .driver = 12000 },
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them */

/* False if a function is missing: @why names it. */
static bool functions_find(struct library *lib, void *handle, char *why,
			   size_t room)
{
	struct weir__cublaslt_api api;

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *found = dlsym(handle, functions[i].name);

		if (!found) {
			snprintf(why, room, "%s has no %s", lib->name,
				 functions[i].name);
			return false;
		}
		*(void **)(void *)((char *)&api + functions[i].at) = found;
	}
	lib->api = api;
	return true;
}

static void library_find(struct library *lib, char *why, size_t room)
{
	void *handle;

	if (host.dlopen(lib->name, &handle) < 0) {
		const char *words = dlerror();

		snprintf(why, room, "%s", words ? words : lib->name);
		return;
	}
	lib->found = functions_find(lib, handle, why, room);
	if (!lib->found)
		dlclose(handle);
}

/* Open @lib, once for the process. NULL: @why says why not. */
static const struct weir__cublaslt_api *library_open(struct library *lib,
						     char *why, size_t room)
{
	bool found;

	pthread_mutex_lock(&lock);
	if (!lib->found)
		library_find(lib, why, room);
	found = lib->found;
	pthread_mutex_unlock(&lock);
	return found ? &lib->api : NULL;
}

static void version_name(char *name, size_t room, size_t version)
{
	snprintf(name, room, "cuBLASLt %zu.%zu.%zu", version / 10000,
		 version / 100 % 100, version % 100);
}

/*
 * Make a handle by @api. True: it was made, or another try would fail too;
 * false: there was no memory.
 */
static bool handle_make(struct weir__cublaslt *l,
			const struct weir__cublaslt_api *api)
{
	size_t version = api->GetVersion();
	int status;

	version_name(l->name, sizeof(l->name), version);
	if (version < LEAST) {
		snprintf(l->why, sizeof(l->why), "%s is older than 12.0",
			 l->name);
		return true;
	}
	status = api->Create(&l->handle);
	if (!status) {
		l->api = api;
		return true;
	}
	l->handle = NULL;
	snprintf(l->why, sizeof(l->why), "%s: cublasLtCreate: %s", l->name,
		 api->GetStatusName(status));
	return status != WEIR__CUBLASLT_ALLOC_FAILED;
}

/* Open the first library that works. l->lock is held, a context is current. */
static void device_open(struct weir__cublaslt *l)
{
	char missing[sizeof(l->why)] = "", why[sizeof(l->why)];

	l->tried = true;
	snprintf(l->why, sizeof(l->why),
		 "the driver (CUDA %d.%d) is older than 12.0",
		 drv.version / 1000, drv.version % 1000 / 10);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		const struct weir__cublaslt_api *api;

		if (drv.version < libraries[i].driver)
			continue;
		api = library_open(&libraries[i], why, sizeof(why));
		/* The first is what NVIDIA has for this driver. */
		if (!api && !*missing)
			memcpy(missing, why, sizeof(why));
		if (!api)
			continue;
		l->tried = handle_make(l, api);
		if (l->handle || !l->tried)
			return;
	}
	if (!*l->name && *missing)
		memcpy(l->why, missing, sizeof(l->why));
}

bool weir__cublaslt_use(struct weir__cuda *c, bool may, char *why, size_t room)
{
	struct weir__cublaslt *l = &c->cublaslt;
	bool use = false;

	if (l->off) {
		snprintf(why, room, "cublaslt=no");
		return false;
	}
	pthread_mutex_lock(&l->lock);
	if (!l->tried && may)
		use = true;
	else if (!l->tried && !weir__cuda_push(c)) {
		device_open(l);
		weir__cuda_leave();
	}
	if (l->handle)
		use = true;
	else
		snprintf(why, room, "%s", l->why);
	pthread_mutex_unlock(&l->lock);
	return use;
}

void weir__cublaslt_close(struct weir__cublaslt *l)
{
	if (l->handle)
		l->api->Destroy(l->handle);
	l->handle = NULL;
}

size_t weir__cublaslt_room(const struct weir__cuda *c)
{
	int major;

	if (drv.cuDeviceGetAttribute(
		    &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		    c->device))
		return ROOM;
	return major >= 9 ? ROOM_SM_90 : ROOM;
}

/* A product that is being made, and the first call that failed. */
struct making {
	const struct weir__cublaslt_api *api;
	struct weir__cublaslt_product *p;
	void *preference;
	int status;
	const char *call; /* that failed */
};

static bool done(struct making *m, int status, const char *call)
{
	m->status = status;
	m->call = call;
	return !status;
}

static bool layout_make(struct making *m, void **ret, int type, int64_t columns,
			int64_t rows, int64_t row, int64_t batch)
{
	const struct weir__cublaslt_shape *s = &m->p->shape;
	int32_t batches = (int32_t)s->batches;
	void *made;

	/* Their matrices are stored by columns: each of them is a row here. */
	if (!done(m,
		  m->api->MatrixLayoutCreate(&made, type, (uint64_t)columns,
					     (uint64_t)rows, row),
		  "cublasLtMatrixLayoutCreate"))
		return false;
	*ret = made;
	return batches == 1 ||
	       (done(m,
		     m->api->MatrixLayoutSetAttribute(
			     made, WEIR__CUBLASLT_LAYOUT_BATCHES, &batches,
			     sizeof(batches)),
		     "cublasLtMatrixLayoutSetAttribute") &&
		done(m,
		     m->api->MatrixLayoutSetAttribute(
			     made, WEIR__CUBLASLT_LAYOUT_BATCH_OFFSET, &batch,
			     sizeof(batch)),
		     "cublasLtMatrixLayoutSetAttribute"));
}

/* d^T = a^T b^T in their order: a is transposed. */
static bool descriptors_make(struct making *m)
{
	struct weir__cublaslt_product *p = m->p;
	const struct weir__cublaslt_shape *s = &p->shape;
	int32_t transposed = WEIR__CUBLASLT_T;
	void *desc;

	if (!done(m,
		  m->api->MatmulDescCreate(&desc, WEIR__CUBLASLT_COMPUTE_F32,
					   WEIR__CUBLASLT_F32),
		  "cublasLtMatmulDescCreate"))
		return false;
	p->desc = desc;
	return done(m,
		    m->api->MatmulDescSetAttribute(
			    desc, WEIR__CUBLASLT_DESC_TRANS_A, &transposed,
			    sizeof(transposed)),
		    "cublasLtMatmulDescSetAttribute") &&
	       layout_make(m, &p->a, s->type, s->k, s->m, s->row_a,
			   s->batch_a) &&
	       layout_make(m, &p->b, s->type, s->k, s->n, s->row_b,
			   s->batch_b) &&
	       layout_make(m, &p->d, WEIR__CUBLASLT_F32, s->m, s->n, s->row_d,
			   s->batch_d);
}

static bool prefer(struct making *m, int attribute, const void *value,
		   size_t bytes)
{
	return done(m,
		    m->api->MatmulPreferenceSetAttribute(
			    m->preference, attribute, value, bytes),
		    "cublasLtMatmulPreferenceSetAttribute");
}

/*
 * Parts of a sum are added in F32, in a step of its own: in the same order in
 * each run.
 */
static bool preference_make(struct making *m, size_t most)
{
	const struct weir__cublaslt_shape *s = &m->p->shape;
	uint64_t workspace = most;
	uint32_t reduction = WEIR__CUBLASLT_REDUCTION_COMPUTE_TYPE;
	void *made;

	if (!done(m, m->api->MatmulPreferenceCreate(&made),
		  "cublasLtMatmulPreferenceCreate"))
		return false;
	m->preference = made;
	return prefer(m, WEIR__CUBLASLT_PREFERENCE_WORKSPACE, &workspace,
		      sizeof(workspace)) &&
	       prefer(m, WEIR__CUBLASLT_PREFERENCE_REDUCTION, &reduction,
		      sizeof(reduction)) &&
	       prefer(m, WEIR__CUBLASLT_PREFERENCE_ALIGN_A, &s->align_a,
		      sizeof(s->align_a)) &&
	       prefer(m, WEIR__CUBLASLT_PREFERENCE_ALIGN_B, &s->align_b,
		      sizeof(s->align_b)) &&
	       prefer(m, WEIR__CUBLASLT_PREFERENCE_ALIGN_C, &s->align_d,
		      sizeof(s->align_d)) &&
	       prefer(m, WEIR__CUBLASLT_PREFERENCE_ALIGN_D, &s->align_d,
		      sizeof(s->align_d));
}

static bool choose(struct making *m, void *handle)
{
	struct weir__cublaslt_product *p = m->p;
	struct weir__cublaslt_heuristic found;
	int n = 0;

	if (!done(m,
		  m->api->MatmulAlgoGetHeuristic(handle, p->desc, p->a, p->b,
						 p->d, p->d, m->preference, 1,
						 &found, &n),
		  "cublasLtMatmulAlgoGetHeuristic"))
		return false;
	if (!done(m, n < 1 ? WEIR__CUBLASLT_NOT_SUPPORTED : found.state,
		  "cublasLtMatmulAlgoGetHeuristic"))
		return false;
	p->chosen = found;
	return true;
}

void weir__cublaslt_product_free(struct weir__cublaslt_product *p)
{
	const struct weir__cublaslt_api *api;

	if (!p)
		return;
	api = p->library->api;
	if (p->desc)
		api->MatmulDescDestroy(p->desc);
	if (p->a)
		api->MatrixLayoutDestroy(p->a);
	if (p->b)
		api->MatrixLayoutDestroy(p->b);
	if (p->d)
		api->MatrixLayoutDestroy(p->d);
	host.free(p);
}

struct weir__cublaslt_product *
weir__cublaslt_product_new(struct weir__cuda *c,
			   const struct weir__cublaslt_shape *shape, char *why,
			   size_t room)
{
	const struct weir__cublaslt *l = &c->cublaslt;
	struct making m = { .api = l->api };
	CUresult r = weir__cuda_push(c);
	bool made;

	if (r) {
		weir__cuda_describe_result((int32_t)r, why, room);
		return NULL;
	}
	m.p = host.calloc(1, sizeof(*m.p));
	if (!m.p) {
		weir__cuda_leave();
		snprintf(why, room, "no memory for a product");
		return NULL;
	}
	m.p->shape = *shape;
	m.p->library = l;
	made = descriptors_make(&m) &&
	       preference_make(&m, weir__cublaslt_room(c)) &&
	       choose(&m, l->handle);
	if (m.preference)
		m.api->MatmulPreferenceDestroy(m.preference);
	weir__cuda_leave();
	if (made)
		return m.p;
	snprintf(why, room, "%s: %s: %s", l->name, m.call,
		 m.api->GetStatusName(m.status));
	weir__cublaslt_product_free(m.p);
	return NULL;
}

/*
 * The errno of a status. The library may have got an error of earlier work of
 * the driver, which tells nobody else of it; its status then says nothing of
 * the cause, and the error is counted as an unknown one.
 */
static int errno_of(struct weir__cuda *c, int status)
{
	switch (status) {
	case WEIR__CUBLASLT_ALLOC_FAILED:
		return -ENOMEM;
	case WEIR__CUBLASLT_INVALID_VALUE:
		return -EINVAL;
	case WEIR__CUBLASLT_ARCH_MISMATCH:
	case WEIR__CUBLASLT_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		weir__cuda_note(c, CUDA_ERROR_UNKNOWN);
		return -EIO;
	}
}

static void *address(uint64_t at)
{
	return (void *)(uintptr_t)at;
}

CUresult weir__cublaslt_launch(struct weir__cuda *c,
			       const struct weir__cublaslt_call *call,
			       uint64_t workspace, CUstream stream,
			       int *ret_res, char *why, size_t room)
{
	const struct weir__cublaslt_product *p = call->product;
	const struct weir__cublaslt_shape *s = &p->shape;
	const struct weir__cublaslt *l = &c->cublaslt;
	const float one = 1, before = call->adds ? 1 : 0;
	size_t bytes = p->chosen.workspace;
	CUresult r;
	int status = l->api->Matmul(
		l->handle, p->desc, &one, address(call->a), p->a,
		address(call->b_at ? workspace + call->b_at : call->b), p->b,
		&before, address(call->d), p->d, address(call->d), p->d,
		&p->chosen.algorithm,
		bytes ? address(workspace + call->workspace) : NULL, bytes,
		stream);

	if (!status)
		return CUDA_SUCCESS;
	r = drv.cuStreamQuery(stream);
	if (r == CUDA_ERROR_NOT_READY || weir__cuda_is_capture(r))
		r = CUDA_SUCCESS;
	snprintf(
		why, room,
		"a product of %lld x %lld x %lld was not launched: cublasLtMatmul: %s%s",
		(long long)s->m, (long long)s->n, (long long)s->k,
		l->api->GetStatusName(status),
		r ? "" : "; the parameter cublaslt=no avoids this library");
	if (!r)
		*ret_res = errno_of(c, status);
	return r;
}
