/* SPDX-License-Identifier: MIT */
/* Partial files: what is there after a process has ended, and what is not. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/partial.h"
#include "files.h"
#include "tap.h"

#define BLOCKS 4u
#define LAST 1000u
#define BYTES ((uint64_t)(BLOCKS - 1) * WEIR__PARTIAL_BLOCK + LAST)

static const struct weir__partial_id one = { "u", "etag:1", "", BYTES },
				     two = { "u", "etag:2", "", BYTES },
				     other = { "v", "etag:1", "", BYTES };
static unsigned char buf[WEIR__PARTIAL_BLOCK];
static int dir;

static const void *content(uint32_t block)
{
	static unsigned char text[WEIR__PARTIAL_BLOCK];

	for (uint32_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)(i / 7 + 31 * block + 1);
	return text;
}

static struct weir__partial *opened(const struct weir__partial_id *id,
				    unsigned flags)
{
	struct weir__partial *p;
	int r = weir__partial_open(dir, "state", WEIR__PARTIAL_CREATE | flags,
				   0, id, &p);

	if (r >= 0)
		r = weir__partial_begin(p, dir, "data");
	if (r < 0)
		bail("a partial file cannot be opened: %s", strerror(-r));
	return p;
}

static void removed(void)
{
	unlink(files_path("state"));
	unlink(files_path("data"));
}

/* "1-1-": which blocks are there and right; x: claimed, and wrong. */
static const char *shows(struct weir__partial *p)
{
	static char text[BLOCKS + 1];

	for (uint32_t i = 0; i < BLOCKS; i++) {
		text[i] = '-';
		if (!weir__partial_has(p, i))
			continue;
		text[i] = 'x';
		if (weir__partial_check(p, i, buf) == 1)
			text[i] =
				memcmp(buf, content(i), weir__partial_len(p, i))
					? '!'
					: '1';
	}
	return text;
}

static const char *shows_id(const struct weir__partial_id *id)
{
	struct weir__partial *p = opened(id, 0);
	const char *text = shows(p);

	weir__partial_close(p);
	return text;
}

/* Blocks 1 and 3 of object one. */
static void has_two(void)
{
	struct weir__partial *p;

	removed();
	p = opened(&one, 0);
	if (weir__partial_write(p, 1, content(1)) < 0 ||
	    weir__partial_write(p, 3, content(3)) < 0)
		bail("a block cannot be written");
	weir__partial_close(p);
}

static void damage(const char *name, long off, int how)
{
	int fd = open(files_path(name), O_RDWR), c = 0;

	if (pread(fd, &c, 1, off) < 0)
		bail("%s cannot be read", name);
	c ^= how;
	if (pwrite(fd, &c, 1, off) != 1)
		bail("%s cannot be written", name);
	close(fd);
}

static void t_opened_again(void)
{
	struct weir__partial *p;

	removed();
	p = opened(&one, 0);
	is_int(weir__partial_was(p), WEIR__PARTIAL_NEW,
	       "a partial file that was not there is new");
	is_str(shows(p), "----", "a new partial file has no block");
	is_int(weir__partial_len(p, BLOCKS - 1), LAST,
	       "the last block has the bytes that are left");
	weir__partial_close(p);
	has_two();
	p = opened(&one, 0);
	is_int(weir__partial_was(p), WEIR__PARTIAL_SAME,
	       "a partial file of the same object is continued");
	ok(weir__partial_has(p, 1) && !weir__partial_trusts(p, 1),
	   "a block of an earlier process is not trusted");
	is_str(shows(p), "-1-1", "the blocks of an earlier process are there");
	ok(weir__partial_trusts(p, 1),
	   "a block is trusted when its digest was compared");
	weir__partial_close(p);
}

static void t_identity(void)
{
	struct weir__partial_id none = one;
	struct weir__partial *p;

	has_two();
	is_int(weir__partial_open(dir, "state", 0, 0, &two, &p), 0,
	       "the state of another identity can be opened");
	is_int(weir__partial_was(p), WEIR__PARTIAL_OTHER,
	       "another identity of the same name is noticed");
	weir__partial_close(p);
	is_str(shows_id(&one), "-1-1",
	       "opening the state for another identity changes nothing");
	is_str(shows_id(&two), "----",
	       "an object with another identity begins anew");
	is_str(shows_id(&one), "----", "and so does the first one after it");
	has_two();
	none.identity = "";
	removed();
	p = opened(&none, 0);
	weir__partial_write(p, 1, content(1));
	weir__partial_close(p);
	is_str(shows_id(&none), "----",
	       "an object that nothing identifies always begins anew");
	has_two();
	is_int(weir__partial_open(dir, "state", 0, 0, &other, &p), 0,
	       "the state of another name can be opened");
	is_int(weir__partial_was(p), WEIR__PARTIAL_FOREIGN,
	       "another name is noticed");
	weir__partial_close(p);
}

static void t_damage(void)
{
	struct stat st;
	long head;

	has_two();
	stat(files_path("state"), &st);
	head = (long)st.st_size - (long)BLOCKS * 16;
	damage("state", 100, 1);
	is_str(shows_id(&one), "----",
	       "a state whose head is damaged begins anew");
	has_two();
	damage("state", head + 16 + 3, 0x40);
	is_str(shows_id(&one), "-x-1",
	       "a block whose digest is damaged is not used");
	is_str(shows_id(&one), "---1",
	       "a block whose digest does not match is missing from then on");
	has_two();
	damage("state", head + 3, 0x40);
	is_str(shows_id(&one), "x1-1",
	       "a digest of a block that is not there gives no bytes");
	has_two();
	damage("data", WEIR__PARTIAL_BLOCK + 77, 1);
	is_str(shows_id(&one), "-x-1", "a block that is damaged is not used");
	has_two();
	if (truncate(files_path("data"), WEIR__PARTIAL_BLOCK + 5))
		bail("truncate");
	is_str(shows_id(&one), "-x-x",
	       "data that were cut have no blocks behind the cut");
	has_two();
	unlink(files_path("data"));
	is_str(shows_id(&one), "-x-x", "without the data no block is used");
	has_two();
	if (truncate(files_path("state"), head + 20))
		bail("truncate");
	is_str(shows_id(&one), "-x--",
	       "digests that were cut off are those of missing blocks");
}

/* A child writes blocks until it is killed: what is claimed is right. */
static void t_killed(void)
{
	bool wrong = false, some = false;

	for (int i = 0; i < 20; i++) {
		struct weir__partial *p;
		pid_t pid;
		int go[2];

		removed();
		if (pipe(go))
			bail("pipe");
		pid = fork();
		if (!pid) {
			p = opened(&one, 0);
			/* Half of them certainly have a block. */
			if (i % 2)
				weir__partial_write(p, 0, content(0));
			if (write(go[1], "", 1) != 1)
				_exit(1);
			for (uint32_t b = 0;; b = (b + 1) % BLOCKS)
				weir__partial_write(p, b, content(b));
		}
		if (read(go[0], buf, 1) != 1)
			bail("the child does not start");
		usleep((useconds_t)i * 500);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(go[0]);
		close(go[1]);
		p = opened(&one, 0);
		wrong |= strpbrk(shows(p), "!x") != NULL;
		some |= strchr(shows(p), '1') != NULL;
		weir__partial_close(p);
	}
	ok(!wrong, "no block of a killed process is wrong");
	ok(some, "blocks of a killed process are there, and its lock is not");
}

static void t_locks(void)
{
	struct weir__partial *p, *q;

	has_two();
	p = opened(&one, 0);
	is_int(weir__partial_open(dir, "state", 0, 0, &one, &q), -EWOULDBLOCK,
	       "a partial file has one user");
	weir__partial_close(p);
	p = opened(&one, WEIR__PARTIAL_SHARED);
	q = opened(&one, WEIR__PARTIAL_SHARED);
	ok(!weir__partial_has(q, 0), "a block is missing for both users");
	weir__partial_write(p, 0, content(0));
	ok(weir__partial_has(q, 0), "one user sees what another one wrote");
	is_int(weir__partial_check(q, 0, buf), 1,
	       "a block of another user is right");
	weir__partial_close(q);
	damage("state", 100, 1);
	is_int(weir__partial_open(dir, "state", WEIR__PARTIAL_SHARED, 0, &one,
				  &q),
	       0, "a damaged state can be opened");
	is_int(weir__partial_begin(q, dir, "data"), -EBUSY,
	       "a state with another user does not begin anew");
	weir__partial_close(q);
	weir__partial_close(p);
	is_str(shows_id(&one), "----", "without other users it does");
}

static void t_refused(void)
{
	struct weir__partial_id id = one;
	struct weir__partial *p;
	struct rlimit limit;
	char text[600];
	int r;

	removed();
	files_text("elsewhere", "kept");
	files_link("state", "elsewhere");
	is_int(weir__partial_open(dir, "state", WEIR__PARTIAL_CREATE, 0, &one,
				  &p),
	       -ELOOP, "a state that is a symbolic link is refused");
	unlink(files_path("state"));
	is_int(weir__partial_open(dir, "state", WEIR__PARTIAL_CREATE, 0, &one,
				  &p),
	       0, "a state is made");
	files_link("data", "elsewhere");
	is_int(weir__partial_begin(p, dir, "data"), -ELOOP,
	       "data that are a symbolic link are refused");
	unlink(files_path("data"));
	if (link(files_path("elsewhere"), files_path("data")))
		bail("link");
	is_int(weir__partial_begin(p, dir, "data"), -EPERM,
	       "data with a second name are refused");
	unlink(files_path("data"));
	getrlimit(RLIMIT_FSIZE, &limit);
	r = (int)limit.rlim_cur;
	limit.rlim_cur = BYTES - 1;
	setrlimit(RLIMIT_FSIZE, &limit);
	is_int(weir__partial_begin(p, dir, "data"), -EFBIG,
	       "an object over RLIMIT_FSIZE is refused without a signal");
	limit.rlim_cur = (rlim_t)r;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	weir__partial_close(p);
	memset(text, 'n', sizeof(text));
	text[599] = '\0';
	id.name = text;
	is_int(weir__partial_open(dir, "state", 0, 0, &id, &p), -ENAMETOOLONG,
	       "a name that does not fit is refused");
	is_int(weir__partial_open(dir, "none", 0, 0, &one, &p), -ENOENT,
	       "without WEIR__PARTIAL_CREATE a state is not made");
}

static bool on(void *arg, uint64_t bytes)
{
	*(uint64_t *)arg += bytes;
	return *(uint64_t *)arg > BYTES;
}

static void t_describes(void)
{
	struct weir__partial *p;
	uint64_t seen = 0;

	removed();
	p = opened(&one, 0);
	for (uint32_t i = 0; i < BLOCKS; i++)
		weir__partial_write(p, i, content(i));
	weir__partial_close(p);
	weir__partial_open(dir, "state", 0, 0, &two, &p);
	is_int(weir__partial_describes(p, dir, "data", on, &seen), 1,
	       "a state describes its file, also for another object");
	is_int(seen, BYTES, "all bytes of the file were compared");
	is_int(weir__partial_describes(p, dir, "data", on, &seen), -ECANCELED,
	       "the comparison ends when it is told to");
	damage("data", 5, 1);
	seen = 0;
	is_int(weir__partial_describes(p, dir, "data", on, &seen), 0,
	       "a state does not describe a file that was changed");
	is_int(weir__partial_describes(p, dir, "none", on, &seen), -ENOENT,
	       "a file that is not there cannot be compared");
	weir__partial_close(p);
}

int main(void)
{
	plan(44);
	files_begin();
	dir = open(files_path(""), O_RDONLY | O_DIRECTORY);
	t_opened_again();
	t_identity();
	t_damage();
	t_killed();
	t_locks();
	t_refused();
	t_describes();
	close(dir);
	return done_testing();
}
