/* SPDX-License-Identifier: MIT */
/*
 * Products read no byte before the first and after the last of their rows and
 * columns: pages without access are there.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "dtypes.h"
#include "kernels/product.h"
#include "tap.h"

#define MOST_ROWS 5
#define MOST_COLS 7
#define ROOM ((size_t)64 << 10) /* bytes between two guards */

static const char *const ways[] = { "as they are stored", "as F32", "in panels",
				    "in tiles" };
static sigjmp_buf beyond;

static void caught(int sig)
{
	(void)sig;
	siglongjmp(beyond, 1);
}

/* ROOM bytes between two pages without access. */
static unsigned char *guarded(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *p = mmap(NULL, ROOM + 2 * page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) < 0 ||
	    mprotect(p + page + ROOM, page, PROT_NONE) < 0)
		bail("no guarded memory");
	memset(p + page, 0x31, ROOM);
	return p + page;
}

/* At the end of the room, or at its beginning. */
static void *placed(unsigned char *room, size_t bytes, bool end)
{
	return end ? room + ROOM - bytes : room;
}

static void *aligned(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	if (!p)
		bail("no memory");
	return p;
}

static void multiply(const struct weir__product *p, const unsigned char *a,
		     size_t pitch, size_t rows, const float *b, size_t n)
{
	static float got[MOST_COLS][MOST_ROWS];
	size_t sets = (n + p->set_columns - 1) / p->set_columns;
	unsigned char *prepared = aligned(sets * p->set_bytes);
	void *scratch = aligned(p->scratch);
	const float *column[MOST_COLS];
	float *dst[MOST_COLS];

	for (size_t c = 0; c < n; c++) {
		column[c] = b + c * p->k;
		dst[c] = got[c];
	}
	for (size_t at = 0; at < n && !p->ready; at += p->set_columns)
		weir__product_prepare(
			p, prepared + at / p->set_columns * p->set_bytes,
			column + at,
			n - at < p->set_columns ? n - at : p->set_columns);
	weir__product_run(p, scratch, dst, a, pitch, rows, prepared,
			  p->ready ? column : NULL, n);
	free(prepared);
	free(scratch);
}

/* Returns the length of rows whose product reads elsewhere, or 0. */
static size_t beyond_at(enum weir__product_way way,
			const struct weir__dot_set *set, enum weir_dtype dtype,
			unsigned char *a, unsigned char *b)
{
	static const size_t cols[] = { 1, 2, 3, 7 };
	struct weir_dtype_info info = { .size = sizeof(info) };
	volatile size_t k = 0;

	if (weir_dtype_info(dtype, &info) < 0)
		bail("%s", weir_error());
	if (sigsetjmp(beyond, 1))
		return k;
	for (size_t blocks = 1; blocks * info.block <= 600;
	     blocks += info.block == 1 && blocks > 40 ? 37 : 1)
		for (unsigned i = 0; i < 16; i++) {
			size_t rows = i & 8 ? MOST_ROWS : 1, n = cols[i & 3];
			size_t pitch = blocks * info.bytes;
			struct weir__product p;

			k = blocks * info.block;
			if (!weir__product_plan_as(&p, way, set, dtype, k))
				return SIZE_MAX;
			multiply(&p, placed(a, rows * pitch, i & 4), pitch,
				 rows, placed(b, n * k * sizeof(float), i & 4),
				 n);
		}
	return 0;
}

static void each_way(const struct weir__dot_set *set, enum weir_dtype dtype,
		     unsigned char *a, unsigned char *b)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info(dtype, &info) < 0)
		bail("%s", weir_error());
	for (unsigned way = WEIR__PRODUCT_DOT; way <= WEIR__PRODUCT_TILES;
	     way++) {
		size_t k = beyond_at((enum weir__product_way)way, set, dtype, a,
				     b);

		if (k == SIZE_MAX)
			continue;
		if (!ok(!k, "products of rows of %s %s read nothing else by %s",
			info.name, ways[way], set->name))
			diag("rows of %zu elements", k);
	}
}

int main(void)
{
	struct sigaction action = { .sa_handler = caught };
	unsigned char *a, *b;
	struct weir *root;

	plan(0);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	a = guarded();
	b = guarded();
	sigaction(SIGSEGV, &action, NULL);
	for (unsigned i = 0; weir__dot_sets[i]; i++) {
		const struct weir__dot_set *set = weir__dot_sets[i];

		if (!set->usable()) {
			skip(1, "this CPU has no %s", set->name);
			continue;
		}
		for (size_t d = 0; d < WEIGHTS; d++)
			each_way(set, weights[d], a, b);
	}
	weir_close(root);
	return done_testing();
}
