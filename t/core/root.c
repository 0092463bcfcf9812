/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "core/root.h"
#include "core/sys.h"
#include "kind.h"
#include "tap.h"
#include "core/clock.h"

#define MIB ((uint64_t)1 << 20)

static int open_with(struct weir_opts o)
{
	struct weir *weir;
	int r = weir_open(&o, &weir);

	if (!r)
		weir_close(weir);
	return r;
}

static struct weir_buf *alloc(struct weir *weir, size_t size)
{
	struct weir_buf *buf;

	if (weir_buf_alloc(kind_of(weir, "CPU", WEIR_MEM_PLAIN), size, NULL,
			   &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

#define OPTS(...) \
	((struct weir_opts){ .size = sizeof(struct weir_opts), __VA_ARGS__ })

static void versions(void)
{
	is_str(weir_version_string(), "0.1.0",
	       "weir_version_string returns the version");
	is_int(weir_version(), WEIR_VERSION,
	       "weir_version returns the version of the header");
}

static void defaults(void)
{
	struct weir *weir;

	is_int(weir_open(NULL, &weir), 0,
	       "weir_open takes NULL for default options");
	is_int(weir->opts.chunk, 4 * MIB, "a chunk has 4 MiB by default");
	is_int(weir->opts.staging, 64 * MIB,
	       "the staging slots have 64 MiB by default");
	is_int(weir->opts.close_timeout, 30000000000,
	       "the time for closing is 30 s by default");
	weir_close(weir);
}

static void limits(void)
{
	is_err(open_with(OPTS(.io = 3)), -EINVAL, "io is 3, not in 0..2",
	       "an unknown I/O method is refused");
	is_err(open_with(OPTS(.reactors = 17)), -EINVAL, "reactors is 17",
	       "17 reactors are refused");
	is_err(open_with(OPTS(.depth = 1025)), -EINVAL, "depth is 1025",
	       "a depth of 1025 chunks in flight is refused");
	is_err(open_with(OPTS(.copiers = 257)), -EINVAL, "copiers is 257",
	       "257 copiers are refused");
	is_err(open_with(OPTS(.close_timeout = -2)), -EINVAL, "close_timeout",
	       "a close_timeout of -2 is refused");
	is_int(open_with(OPTS(.close_timeout = -1)), 0,
	       "a close_timeout of -1, without end, is accepted");
}

static void chunk_sizes(void)
{
	is_err(open_with(OPTS(.chunk = 4096)), -EINVAL, "chunk is 4096",
	       "a chunk size of 4096 bytes is refused");
	is_err(open_with(OPTS(.chunk = 512 * MIB)), -EINVAL,
	       "chunk is 536870912", "a chunk size of 512 MiB is refused");
	is_err(open_with(OPTS(.chunk = 4 * MIB + 512)), -EINVAL,
	       "multiple of 4096",
	       "a chunk size that is no multiple of 4096 is refused");
	is_err(open_with(OPTS(.staging = MIB)), -EINVAL,
	       "staging of 1048576 bytes is less than a chunk of 4194304",
	       "staging of less than one chunk is refused");
	is_int(open_with(OPTS(.staging = 4 * MIB)), 0,
	       "staging of one chunk is accepted");
	is_int(open_with(OPTS(.chunk = 128 * MIB)), 0,
	       "default staging grows with a large chunk size");
}

static void unknown_options(void)
{
	is_err(open_with(OPTS(.flags = 0x80)), -EINVAL, "0x80",
	       "unknown flags of a root are refused");
	is_err(open_with(OPTS(.reserved = 1)), -EINVAL, "reserved",
	       "a reserved member that is not 0 is refused");
	is_err(open_with((struct weir_opts){ .size = 0 }), -EINVAL, ".size",
	       "root options without a size are refused");
}

static char logged[4096];

static void keep_line(void *arg, const char *text)
{
	snprintf(logged, sizeof(logged), "%s|%s", (const char *)arg, text);
}

static void log_line(void)
{
	struct weir *weir;

	if (weir_open(&OPTS(.log = keep_line, .log_arg = "arg"), &weir) < 0)
		bail("%s", weir_error());
	weir__log(weir, "leaked %d\nbytes", 7);
	is_str(logged, "arg|leaked 7?bytes",
	       "the log receives one line, with its argument");
	weir_close(weir);
}

static void no_log(void)
{
	struct weir *weir;

	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	logged[0] = '\0';
	weir__log(weir, "not written");
	is_str(logged, "", "a root without a log writes no line");
	weir_close(weir);
}

/* Parts that note when they are closed, trimmed and freed. */
struct fake_part {
	struct weir__part part;
	char name;
};

static char notes[64];
static size_t trim_keep[2];
static int64_t deadlines[2];

static void note(char what, char name)
{
	size_t at = strlen(notes);

	snprintf(notes + at, sizeof(notes) - at, "%c%c ", what, name);
}

static void fake_close(struct weir__part *part, int64_t deadline)
{
	struct fake_part *f = (struct fake_part *)part;

	deadlines[f->name == 'i'] = deadline;
	note('c', f->name);
}

static size_t fake_trim(struct weir__part *part, size_t keep)
{
	struct fake_part *f = (struct fake_part *)part;

	trim_keep[f->name == 'i'] = keep;
	return 30;
}

static void fake_free(struct weir__part *part)
{
	struct fake_part *f = (struct fake_part *)part;

	note('f', f->name);
	free(f);
}

static int make_fake(char name, struct weir__part **ret_part)
{
	struct fake_part *f = calloc(1, sizeof(*f));

	f->part = (struct weir__part){ .close = fake_close,
				       .trim = fake_trim,
				       .free = fake_free };
	f->name = name;
	*ret_part = &f->part;
	note('m', name);
	return 0;
}

static int make_stream(struct weir *weir, struct weir__part **ret_part)
{
	(void)weir;
	return make_fake('s', ret_part);
}

static int make_io(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__part *other;
	int r = weir__root_part(weir, WEIR__PART_STREAM, make_stream, &other);

	return r < 0 ? r : make_fake('i', ret_part);
}

/* A root with two parts. */
static struct weir *open_with_parts(void)
{
	struct weir__part *part;
	struct weir *weir;

	notes[0] = '\0';
	if (weir_open(&OPTS(.close_timeout = 1000000000), &weir) < 0 ||
	    weir__root_part(weir, WEIR__PART_IO, make_io, &part) < 0)
		bail("%s", weir_error());
	return weir;
}

static void made_once(void)
{
	struct weir__part *a, *b;
	struct weir *weir;

	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	is_int(weir__root_part(weir, WEIR__PART_IO, make_io, &a), 0,
	       "a part may need another while it is made");
	weir__root_part(weir, WEIR__PART_IO, make_io, &b);
	ok(a == b, "a part is made once");
	weir_close(weir);
}

static void trimmed(void)
{
	struct weir *weir = open_with_parts();

	weir_trim(weir, 100);
	is_int(trim_keep[0], 100,
	       "weir_trim lets the first part keep all of the given bytes");
	is_int(trim_keep[1], 70,
	       "weir_trim lets the next part keep what the first has left");
	weir_trim(weir, 10);
	is_int(trim_keep[1], 0,
	       "weir_trim lets the next part keep nothing if the first keeps all");
	weir_close(weir);
}

static void closed(void)
{
	struct weir *weir = open_with_parts();
	struct weir__part *part;

	weir__root_ref(weir);
	weir_close(weir);
	is_str(notes, "ms mi cs ci ",
	       "weir_close closes streams before the I/O engine");
	ok(deadlines[0] == deadlines[1],
	   "weir_close gives all parts the same deadline");
	is_err(weir__root_part(weir, WEIR__PART_ALLOC, make_io, &part),
	       -ESHUTDOWN, "closed", "no part is made after weir_close");
	weir__root_put(weir);
	is_str(notes, "ms mi cs ci fs fi ",
	       "parts are freed with the last reference");
}

static void after_close(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf *buf, *other;
	struct weir_dev *dev;
	struct weir *weir;

	weir_close(NULL);
	ok(true, "weir_close(NULL) does nothing");
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	buf = alloc(weir, 3 * MIB);
	weir_buf_clear(buf, 0x5a);
	weir_buf_info(buf, &info);
	weir_dev_find(weir, "CPU", &dev);
	weir_close(weir);
	is_int(((unsigned char *)weir_buf_data(buf))[3 * MIB - 1], 0x5a,
	       "a buffer can be read after weir_close");
	is_err(weir_buf_clear(buf, 0), -ESHUTDOWN, "closed",
	       "weir_buf_clear after weir_close fails with -ESHUTDOWN");
	is_err(weir_buf_alloc(info.buft, 1, NULL, &other), -ESHUTDOWN,
	       "weir_buf_alloc: the root has been closed",
	       "weir_buf_alloc after weir_close fails with -ESHUTDOWN");
	weir_buf_free(buf);
	ok(true, "a buffer can be freed after weir_close");
}

static void *use_a_root(void *arg)
{
	long failed = 0;

	(void)arg;
	for (int i = 0; i < 20; i++) {
		struct weir *weir;
		struct weir_buf *buf;

		if (weir_open(NULL, &weir) < 0)
			return (void *)1L;
		failed += weir_dev_count(weir) != 1;
		buf = alloc(weir, 4 * MIB);
		failed += weir_buf_clear(buf, (uint8_t)i) < 0;
		weir_buf_free(buf);
		weir_close(weir);
	}
	return (void *)failed;
}

static void two_roots(void)
{
	pthread_t thread[2];
	void *failed[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, use_a_root, NULL))
			bail("pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], &failed[i]);
	ok(!failed[0] && !failed[1],
	   "two threads with a root each do not disturb each other");
}

/* A child uses the parent's root. The result has a bit for each mistake. */
static int in_child(struct weir *weir, struct weir_buf *buf)
{
	struct weir_tensor t = { .buf = buf, .dtype = WEIR_DTYPE_U8 };
	struct weir_dev *dev;
	struct weir *own;
	int wrong = 0;

	wrong |= weir_dev_find(weir, "CPU", &dev) != -EPERM;
	wrong |= !strstr(weir_error(), "fork") << 1;
	wrong |= (weir_buf_clear(buf, 1) != -EPERM) << 2;
	wrong |= (weir_buf_data(buf) != NULL) << 3;
	wrong |= (weir_tensor_data(&t) != NULL) << 4;
	weir_buf_free(buf);
	weir_close(weir);
	wrong |= (weir_open(NULL, &own) != 0) << 5;
	if (!(wrong & 32)) {
		wrong |= (weir_dev_find(own, "CPU", &dev) != 0) << 6;
		weir_close(own);
	}
	return wrong;
}

static void forked(void)
{
	struct weir_buf *buf;
	struct weir *weir;
	int status = -1;
	pid_t pid;

	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	buf = alloc(weir, 3 * MIB);
	weir_buf_clear(buf, 7);
	pid = fork();
	if (!pid)
		_exit(in_child(weir, buf));
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "a forked child is refused the parent's root and can open its own");
	is_int(((unsigned char *)weir_buf_data(buf))[MIB], 7,
	       "the parent's memory is unchanged after its child has freed it");
	is_int(weir_buf_clear(buf, 8), 0,
	       "the parent's root works after its child has closed it");
	weir_buf_free(buf);
	weir_close(weir);
}

static void times(void)
{
	int64_t now = weir__now();

	is_int(weir__deadline(-1), INT64_MAX,
	       "a deadline -1 ns from now is never");
	is_int(weir__deadline(INT64_MAX), INT64_MAX,
	       "a deadline beyond the range of the clock is never");
	ok(weir__deadline(1000) >= now + 1000, "a deadline counts from now");
}

int main(void)
{
	plan(21 + 2 + 9 + 5 + 1 + 3 + 3);
	versions();
	defaults();
	limits();
	chunk_sizes();
	unknown_options();
	log_line();
	no_log();
	made_once();
	trimmed();
	closed();
	after_close();
	two_roots();
	forked();
	times();
	return done_testing();
}
