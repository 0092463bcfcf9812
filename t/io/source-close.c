/* SPDX-License-Identifier: MIT */
/*
 * Roots that are closed while a source opens an object, and while a thread of a
 * source is still in done: neither the source nor the engine goes away before.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir.h>

#include "io/reactor.h"
#include "mem_source.h"
#include "sample.h"
#include "tap.h"

static char path[] = "/var/tmp/weir-close-XXXXXX";
static const struct sample_tensor tensors[] = { { "a", "U8", 100000, 1 } };
static struct weir *weir;
static _Atomic bool stall, closing;
static _Atomic int stalled; /* 1: a thread is in post; 2: it has left it */

/* In place of the library's: the thread is slow after the op was posted. */
void __real_weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg);
void __wrap_weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg);
void __wrap_weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg)
{
	bool here = msg->kind == WEIR__MSG_OP && atomic_exchange(&stall, false);

	if (here)
		stalled = 1;
	__real_weir__reactor_post(r, msg);
	if (!here)
		return;
	while (!closing)
		usleep(1000);
	usleep(200000);
	stalled = 2;
}

static void begin(void)
{
	mem_reset();
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	mem_add(weir);
}

static void *opener(void *arg)
{
	struct weir_file *f;

	(void)arg;
	if (weir_file_open(weir, mem_url(path), NULL, &f) >= 0)
		weir_file_close(f);
	return NULL;
}

static void in_open(void)
{
	pthread_t thread;

	begin();
	mem.hold_open = true;
	if (pthread_create(&thread, NULL, opener, NULL) != 0)
		bail("a thread");
	while (!mem.opening)
		usleep(1000);
	weir_close(weir);
	is_int(mem.stopped, 0, "a source that opens an object is not stopped");
	mem.hold_open = false;
	pthread_join(thread, NULL);
	is_int(mem.stopped, 1, "it is when that has ended");
	is_int(mem.opened, mem.closed, "and the object is closed");
}

static void in_done(void)
{
	uint8_t digest[32];
	struct weir_file *f;

	begin();
	if (weir_file_open(weir, mem_url(path), NULL, &f) < 0)
		bail("%s", weir_error());
	stall = true;
	is_int(weir_file_digest(f, WEIR_DIGEST_XXH3, digest), 16,
	       "an object is read");
	is_int(stalled, 1, "the thread that ended the read is still at it");
	weir_file_close(f);
	closing = true;
	weir_close(weir);
	is_int(stalled, 2, "the engine is there until that thread is done");
	is_int(mem.stopped, 1, "the source is stopped");
}

int main(void)
{
	plan(0);
	close(mkstemp(path));
	sample_write(path, tensors, 1, 0, 1);
	in_open();
	in_done();
	mem_end();
	unlink(path);
	return done_testing();
}
