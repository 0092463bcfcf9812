/* SPDX-License-Identifier: MIT */
/* Memory is touched ahead of its readers, in order, and not without bounds. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "alloc/touch.h"
#include "core/sys.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define SIZE (200 * MIB)

static struct weir *root;
static unsigned char *mem;
static _Atomic unsigned steps;

static void progress(void *arg)
{
	(void)arg;
	atomic_fetch_add(&steps, 1);
}

static struct weir__touch *start(_Atomic size_t *touched, size_t bytes,
				 unsigned threads)
{
	struct weir__touch *t;

	atomic_store(&steps, 0);
	if (weir__touch_start(root, mem, bytes, touched, threads, progress,
			      NULL, &t) < 0)
		bail("no memory");
	return t;
}

static size_t resident(size_t from, size_t to)
{
	unsigned char vec[SIZE / 4096];
	size_t n = 0;

	weir__sys_mincore(mem + from, to - from, vec);
	for (size_t i = 0; i < (to - from) / 4096; i++)
		n += vec[i] & 1;
	return n * 4096;
}

static bool becomes_ready(struct weir__touch *t, size_t end)
{
	for (int i = 0; i < 20000; i++) {
		if (weir__touch_ready(t, mem + end))
			return true;
		usleep(500);
	}
	return false;
}

static void forget(void)
{
	madvise(mem, SIZE, MADV_DONTNEED);
}

static void in_order(void)
{
	_Atomic size_t touched = 0;
	struct weir__touch *t = start(&touched, SIZE, 3);

	ok(becomes_ready(t, 5 * MIB), "what is asked for becomes ready");
	is_int(resident(0, 5 * MIB), 5 * MIB, "... and is there then");
	ok(touched >= 5 * MIB, "... as its owner is told");
	usleep(100000);
	ok(resident(0, SIZE) <= 100 * MIB,
	   "what nobody has asked for yet is left alone");
	ok(becomes_ready(t, SIZE), "the end becomes ready");
	ok(atomic_load(&steps) >= 12, "readers are told of each step");
	ok(weir__touch_stop(t) > 0, "the time it took is known");
	is_int(touched, SIZE, "all is touched");
	t = start(&touched, SIZE, 3);
	ok(weir__touch_ready(t, mem + SIZE), "... and not once more");
	weir__touch_stop(t);
	forget();
}

static void from_the_middle(void)
{
	_Atomic size_t touched = 50 * MIB + 777;
	struct weir__touch *t = start(&touched, SIZE, 2);

	ok(weir__touch_ready(t, mem + 50 * MIB),
	   "what was touched before is ready at once");
	ok(becomes_ready(t, 60 * MIB + 5), "what follows it becomes ready");
	is_int(resident(50 * MIB, 60 * MIB), 10 * MIB, "... and is there then");
	is_int(resident(0, 50 * MIB), 0, "... and nothing before it");
	weir__touch_stop(t);
	forget();
}

struct asker {
	struct weir__touch *t;
	size_t from;
	unsigned late;
};

/* Each asks once for a place and is content to be told, as reactors are. */
static void *ask(void *arg)
{
	struct asker *a = arg;

	for (size_t end = a->from; end < SIZE; end += 7 * MIB) {
		unsigned seen = atomic_load(&steps);
		int patience = 5000;

		while (!weir__touch_ready(a->t, mem + end)) {
			while (atomic_load(&steps) == seen && patience-- > 0)
				usleep(200);
			seen = atomic_load(&steps);
			if (patience <= 0)
				break;
		}
		a->late += patience <= 0;
	}
	return NULL;
}

static void several(void)
{
	unsigned late = 0;

	for (int round = 0; round < 10; round++) {
		_Atomic size_t touched = 0;
		struct asker a[4];
		pthread_t thread[4];

		a[0].t = start(&touched, SIZE, 2);
		for (unsigned i = 0; i < 4; i++) {
			a[i] = (struct asker){ a[0].t, (i + 1) * MIB, 0 };
			pthread_create(&thread[i], NULL, ask, &a[i]);
		}
		for (unsigned i = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			late += a[i].late;
		}
		weir__touch_stop(a[0].t);
		forget();
	}
	is_int(late, 0, "who asks beside others is not forgotten");
}

static void given_up(void)
{
	_Atomic size_t touched = 0;
	struct weir__touch *t = start(&touched, SIZE, 4);

	weir__touch_stop(t);
	ok(touched < SIZE, "touching that is stopped leaves the rest alone");
	is_int(weir__touch_stop(NULL), 0, "stopping nothing takes no time");
	forget();
}

int main(void)
{
	void *map;

	plan(16);
	if (weir_open(NULL, &root) < 0 ||
	    weir__sys_map(SIZE, -1, 0, PROT_READ | PROT_WRITE, &map) < 0)
		bail("no memory");
	mem = map;
	in_order();
	from_the_middle();
	several();
	given_up();
	weir__sys_unmap(map, SIZE);
	weir_close(root);
	return done_testing();
}
