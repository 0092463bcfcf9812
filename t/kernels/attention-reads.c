/* SPDX-License-Identifier: MIT */
/*
 * Attention reads only those positions of a cache that a token attends to. The
 * pages of all others have no access, so a read of them ends the test.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "kind.h"
#include "tap.h"

#define HEAD 64 /* elements, of F16 */
#define ROWS 8192
#define ROW_BYTES (HEAD * 2)

static struct weir *weir;

static struct weir_tensor tensor_of(enum weir_dtype dtype, unsigned ndim,
				    const int64_t *shape, void *data)
{
	struct weir_tensor t;
	size_t bytes;

	if (weir_tensor_init(&t, dtype, ndim, shape) < 0 ||
	    weir_tensor_bytes(&t, &bytes) < 0 ||
	    weir_buf_wrap(kind_of(weir, "CPU", WEIR_MEM_PLAIN), data, bytes,
			  NULL, NULL, &t.buf) < 0)
		bail("%s", weir_error());
	return t;
}

/* Give access to the pages with the rows [@from, @to) of a cache. */
static void allow(unsigned char *cache, size_t from, size_t to)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t first = from * ROW_BYTES / page * page;

	if (mprotect(cache + first, to * ROW_BYTES - first,
		     PROT_READ | PROT_WRITE) < 0)
		bail("mprotect failed");
}

/* Attention of the last @tokens tokens of one sequence; false: it failed. */
static bool attends(unsigned char *cache, int64_t tokens, int32_t length,
		    int32_t *pages, int64_t n,
		    const struct weir_op_attention *p)
{
	float *data = calloc((size_t)(2 * tokens * HEAD), sizeof(*data));
	struct weir_tensor t[] = {
		tensor_of(WEIR_DTYPE_F32, 3,
			  (const int64_t[]){ 2, tokens, HEAD }, data),
		tensor_of(WEIR_DTYPE_F16, 3, (const int64_t[]){ 1, ROWS, HEAD },
			  cache),
		tensor_of(WEIR_DTYPE_I32, 1, (const int64_t[]){ 1 }, &length),
		tensor_of(WEIR_DTYPE_I32, 2, (const int64_t[]){ 1, n }, pages),
	};
	struct weir_node *node[4], *result;
	struct weir_graph *g;
	int r;

	if (weir_graph_new(&g) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; i < 4; i++)
		node[i] = weir_graph_leaf(g, &t[i], NULL);
	result = weir_attention_lengths(g, node[0], node[1], node[1], node[2],
					p->page ? node[3] : NULL, NULL, p);
	weir_graph_output(g, result);
	r = weir_graph_compute(weir, g, NULL, 0, NULL);
	if (r < 0)
		diag("%s", weir_error());
	weir_graph_free(g);
	for (unsigned i = 0; i < 4; i++)
		weir_buf_free(t[i].buf);
	free(data);
	return r == 0;
}

static unsigned char *cache_new(void)
{
	void *p = mmap(NULL, ROWS * ROW_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bail("mmap failed");
	return p;
}

/* Attend with @p, of @tokens tokens, to a sequence of 2048 positions. */
static void reads(int64_t tokens, struct weir_op_attention p, const char *title)
{
	const int32_t length = 2048, page = 512;
	int32_t pages[ROWS / 512], from = 0;
	unsigned char *cache = cache_new();

	if (p.window)
		from = length - (int32_t)tokens - (int32_t)p.window + 1;
	for (int32_t i = 0; i < ROWS / page; i++)
		pages[i] = p.page ? (i * 5 + 3) % (ROWS / page) : i;
	for (int32_t i = from / page; i * page < length; i++) {
		int32_t first = from > i * page ? from - i * page : 0;

		allow(cache, (size_t)(pages[i] * page + first),
		      (size_t)(pages[i] + 1) * (size_t)page);
	}
	ok(attends(cache, tokens, length, pages, ROWS / page, &p), "%s", title);
	munmap(cache, ROWS * ROW_BYTES);
}

int main(void)
{
	struct weir_op_attention p = { .causal = 1 };

	plan(0);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	for (uint32_t i = 0; i < 2; i++) {
		p.precision = i;
		p.page = p.window = 0;
		reads(1, p, "a token reads nothing after its length");
		reads(200, p, "many tokens read nothing after their length");
		p.window = 300;
		reads(1, p, "a token reads its window only");
		reads(200, p, "many tokens read their windows only");
		p.page = 512;
		reads(1, p, "a token reads its window in pages");
		reads(200, p, "many tokens read their windows in pages");
		p.window = 0;
		reads(1, p, "a token reads the pages of its length");
	}
	weir_close(weir);
	return done_testing();
}
