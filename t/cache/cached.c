/* SPDX-License-Identifier: MIT */
/*
 * The cache folder: what objects of a source in memory give when they are read
 * through it, what is requested, and what is in the folder.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "core/hash.h"
#include "core/sys.h"
#include "files.h"
#include "mem_source.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define BYTES (4 * MIB + 1000)

/* liburing closes a ring by a system call that TSan does not see. */
__attribute__((visibility("default"))) const char *
__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:exit_ring\n";
}

static unsigned char whole[BYTES], got[BYTES];
static struct weir *weir;
static uint64_t limit;
static int64_t close_timeout; /* ns; 0: the default */
static char said[1000];
static _Atomic bool no_room; /* the disk is full */
static bool slow_lock;
static _Atomic bool no_direct;    /* the file system refuses such writes */
static _Atomic unsigned n_direct; /* writes with O_DIRECT */

int64_t __real_weir__sys_pwrite(int fd, const void *buf, size_t n,
				uint64_t off);
int64_t __wrap_weir__sys_pwrite(int fd, const void *buf, size_t n,
				uint64_t off);

int64_t __wrap_weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off)
{
	bool direct = fcntl(fd, F_GETFL) & O_DIRECT;

	n_direct += direct;
	if (direct && no_direct)
		return -EINVAL;
	return no_room ? -ENOSPC : __real_weir__sys_pwrite(fd, buf, n, off);
}

int __real_weir__sys_lock_shared(int fd, int64_t timeout_ns);
int __wrap_weir__sys_lock_shared(int fd, int64_t timeout_ns);

/* A partial file is locked before its data are made. */
int __wrap_weir__sys_lock_shared(int fd, int64_t timeout_ns)
{
	if (slow_lock)
		usleep(50000);
	return __real_weir__sys_lock_shared(fd, timeout_ns);
}

static void on_log(void *arg, const char *text)
{
	(void)arg;
	snprintf(said, sizeof(said), "%s", text);
}

static void make_object(const char *name, unsigned seed)
{
	for (size_t i = 0; i < BYTES; i++)
		whole[i] = (unsigned char)(i / 5 + seed * (i >> 11));
	files_bytes(name, whole, BYTES);
}

static void begin(void)
{
	struct weir_opts opts = WEIR_OPTS_INIT;

	opts.cache = files_path("cache");
	opts.cache_bytes = limit;
	opts.close_timeout = close_timeout;
	opts.log = on_log;
	if (weir_open(&opts, &weir) < 0)
		bail("%s", weir_error());
	mem_add(weir);
	*said = '\0';
}

/* Writes to the folder have ended when the root is closed. */
static void end(void)
{
	weir_close(weir);
	weir = NULL;
}

static void clean(void)
{
	char command[300];

	snprintf(command, sizeof(command), "chmod -fR u+w '%s'; rm -rf '%s'",
		 files_path("cache"), files_path("cache"));
	if (system(command) < 0)
		bail("%s", command);
	mem_reset();
	mem.identity = "etag:1";
	no_room = false;
	limit = 0;
}

static struct weir_file *opened(const char *name)
{
	struct weir_file *file = NULL;

	if (weir_file_open(weir, mem_url(files_path(name)), NULL, &file) < 0)
		diag("%s", weir_error());
	return file;
}

/* Read [off, off + n) of an object: true if the bytes are right. */
static bool reads(struct weir_file *file, size_t off, size_t n)
{
	memset(got, 0xee, n);
	if (!file || weir_file_read(file, off, got, n) < 0) {
		diag("%s", weir_error());
		return false;
	}
	return !memcmp(got, whole + off, n);
}

/* The same in a root of its own. */
static bool reads_anew(const char *name, size_t off, size_t n)
{
	struct weir_file *file;
	bool right;

	begin();
	mem.bytes = 0;
	file = opened(name);
	right = reads(file, off, n);
	weir_file_close(file);
	end();
	return right;
}

/* How many files of the folder end in @suffix; the last one in @ret_path. */
static unsigned count(const char *suffix, const char **ret_path)
{
	static char path[600];
	DIR *dir = opendir(files_path("cache"));
	struct dirent *e;
	unsigned n = 0;

	while (dir && (e = readdir(dir))) {
		size_t len = strlen(e->d_name);

		if (len < strlen(suffix) ||
		    strcmp(e->d_name + len - strlen(suffix), suffix) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", files_path("cache"),
			 e->d_name);
		n++;
	}
	if (dir)
		closedir(dir);
	if (ret_path)
		*ret_path = path;
	return n;
}

static void t_whole(void)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file;
	const char *path;
	struct stat st;

	clean();
	ok(reads_anew("a", 0, BYTES), "an object is read through the cache");
	is_int(mem.bytes, BYTES, "its bytes come from the source, once");
	is_int(count(".url", &path), 1, "it is a whole file in the folder");
	is_int(count(".part", NULL) + count(".state", NULL), 0,
	       "nothing partial is left");
	stat(files_path("cache"), &st);
	is_int(st.st_mode & 0777, 0700, "the folder is the user's alone");
	ok(reads_anew("a", 0, BYTES), "the object is read again");
	is_int(mem.bytes, 0, "no byte comes from the source");
	is_int(mem.opened, 2, "the source was asked whether it has changed");
	begin();
	file = opened("a");
	weir_file_info(file, &info);
	ok(!*info.source && !info.network, "it is a file of this machine");
	has_str(info.path, "/a", "in sentences it has its own name");
	weir_file_close(file);
	end();
}

/* Whole blocks bypass the page cache, where the file system can do it. */
static void t_direct(void)
{
	int fd = open(files_path("a"), O_RDONLY | O_DIRECT);

	clean();
	n_direct = 0;
	reads_anew("a", 0, BYTES);
	if (fd < 0)
		skip(1, "the file system has no direct writes");
	else
		is_int(n_direct, BYTES / MIB,
		       "whole blocks are written directly");
	close(fd);
	clean();
	no_direct = true;
	reads_anew("a", 0, BYTES);
	no_direct = false;
	is_int(count(".url", NULL), 1, "one whose direct writes fail is kept");
	ok(reads_anew("a", 0, BYTES), "it is right");
	is_int(mem.bytes, 0, "no byte comes from the source");
}

static void t_partial(void)
{
	clean();
	ok(reads_anew("a", MIB, 2 * MIB), "a part of an object is read");
	is_int(count(".part", NULL), 1, "it is partial in the folder");
	ok(reads_anew("a", 0, BYTES), "the whole object is read");
	is_int(mem.bytes, BYTES - 2 * MIB,
	       "blocks that are there do not come from the source");
	is_int(count(".url", NULL), 1, "it is whole then");
	clean();
	ok(reads_anew("a", 100, MIB), "a part that begins in a block is read");
	is_int(mem.bytes, MIB + 100, "little more than it is requested");
	begin();
	struct weir_file *file = opened("a");
	bool right = true;

	for (size_t off = 0; off < BYTES; off += 70000)
		right &= reads(file, off,
			       BYTES - off < 70000 ? BYTES - off : 70000);
	weir_file_close(file);
	end();
	ok(right, "an object is read in small parts");
	is_int(count(".url", NULL), 1, "blocks are made of them");
}

/* Read an object but for [off, off + n), and say what the source has given. */
static uint64_t reads_around(size_t off, size_t n)
{
	struct weir_file *file;
	bool right;

	begin();
	file = opened("a");
	right = reads(file, 0, off) && reads(file, off + n, BYTES - off - n);
	weir_file_close(file);
	end();
	return right ? mem.bytes : 0;
}

static void t_gaps(void)
{
	char hex[WEIR__DIGEST_TEXT];
	uint8_t digest[32];

	clean();
	weir__hash_bytes(WEIR_DIGEST_SHA256, whole, BYTES, digest);
	mem.sha256 = weir__digest_hex(digest, 32, hex);
	is_int(reads_around(MIB + 1000, 31), BYTES,
	       "what is missing of a block when the object is closed is read");
	is_int(count(".sum", NULL), 1, "the file is whole, and compared");
	ok(reads_anew("a", 0, BYTES), "it is right");
	is_int(mem.bytes, 0, "no byte comes from the source then");
	clean();
	is_int(reads_around(BYTES - 7, 7), BYTES,
	       "so is the end of an object that nobody has read");
	is_int(count(".url", NULL), 1, "the file is whole");
	clean();
	is_int(reads_around(MIB + 1000, 70000), BYTES - 70000,
	       "more than a request costs is left out");
	is_int(count(".part", NULL), 1, "the file stays partial");
	clean();
	mem.request_bytes = 4 * MIB;
	is_int(reads_around(2 * MIB + 9, MIB / 2 + 1), BYTES - MIB / 2 - 1,
	       "and so is more than half of a block");
	clean();
	mem.fail = -EIO;
	mem.fail_from = MIB + 1010;
	mem.fail_to = MIB + 1011;
	is_int(reads_around(MIB + 1000, 31), BYTES, "such a read may fail");
	is_int(count(".part", NULL), 1, "the file stays partial");
}

/* The source stops: the root is closed all the same. */
static void t_stalled(void)
{
	struct weir_file *file;

	clean();
	close_timeout = 200000000;
	begin();
	close_timeout = 0;
	file = opened("a");
	ok(reads(file, 7, BYTES - 7), "all but the beginning is read");
	mem.hold = true;
	weir_file_close(file);
	end();
	is_int(mem.cancels, 1, "a read of the cache that hangs is cancelled");
	is_int(mem.closed, 1, "the object is closed then");
	is_int(count(".part", NULL), 1, "the file stays partial");
}

static void t_changed(void)
{
	clean();
	reads_anew("a", 0, 2 * MIB);
	make_object("a", 2);
	mem.identity = "etag:2";
	ok(reads_anew("a", 0, BYTES), "an object that has changed is read");
	is_int(mem.bytes, BYTES, "nothing of the earlier one is used");
	make_object("a", 3);
	mem.identity = "etag:3";
	ok(reads_anew("a", 0, BYTES), "a whole one that has changed is read");
	is_int(mem.bytes, BYTES, "from its source");
	mem.identity = "";
	ok(reads_anew("a", 0, BYTES), "an object without identity is read");
	is_int(mem.bytes, BYTES, "it comes from the source");
	is_int(count(".url", NULL), 2, "it is not kept");
	make_object("a", 1);
}

static void damage(const char *path, off_t off)
{
	unsigned char c = 0;
	int fd = open(path, O_RDWR);

	if (pread(fd, &c, 1, off) != 1)
		bail("%s", path);
	c ^= 1;
	if (pwrite(fd, &c, 1, off) != 1)
		bail("%s", path);
	close(fd);
}

static void t_damaged(void)
{
	const char *path;

	clean();
	reads_anew("a", 0, 3 * MIB);
	count(".part", &path);
	damage(path, 2 * (off_t)MIB + 5);
	ok(reads_anew("a", 0, 3 * MIB), "a damaged block is not used");
	ok(mem.bytes >= MIB, "it comes from the source");
	ok(reads_anew("a", 0, 3 * MIB), "a damaged block is read again");
	is_int(mem.bytes, 0, "it was replaced in the folder");
	count(".state", &path);
	damage(path, 60);
	ok(reads_anew("a", 0, BYTES), "a damaged state is not used");
	is_int(mem.bytes, BYTES, "all comes from the source");
}

static void t_sums(void)
{
	char hex[WEIR__DIGEST_TEXT];
	uint8_t digest[32];

	clean();
	weir__hash_bytes(WEIR_DIGEST_SHA256, whole, BYTES, digest);
	mem.sha256 = weir__digest_hex(digest, 32, hex);
	ok(reads_anew("a", 0, BYTES), "an object with a SHA-256 is read");
	is_int(count(".sum", NULL), 1, "it was compared, and is whole");
	mem.identity = "etag:7";
	ok(reads_anew("a", 0, BYTES), "it is read by another identity");
	is_int(mem.bytes, 0, "the same SHA-256 is the same file");
	clean();
	hex[3] = hex[3] == '0' ? '1' : '0';
	mem.sha256 = hex;
	ok(reads_anew("a", 0, BYTES), "an object with a wrong SHA-256 is read");
	is_int(count(".sum", NULL) + count(".part", NULL) +
		       count(".state", NULL),
	       0, "nothing of it is kept");
	has_str(said, "SHA-256", "the log says why");
}

static void t_full(void)
{
	clean();
	begin();
	no_room = true;
	struct weir_file *file = opened("a");

	ok(reads(file, 0, BYTES), "an object is read while the disk is full");
	weir_file_close(file);
	end();
	has_str(said, "No space", "the log says why nothing is kept");
	no_room = false;
	ok(reads_anew("a", 0, BYTES), "it is kept when there is room");
	is_int(count(".url", NULL), 1, "the file is whole");
	clean();
	files_text("cache", "a file");
	ok(reads_anew("a", 0, BYTES), "a folder that is none is not used");
	unlink(files_path("cache"));
	clean();
	files_dir("cache");
	chmod(files_path("cache"), 0777);
	begin();
	file = opened("a");
	ok(reads(file, 0, BYTES), "a folder of everybody's is not used");
	weir_file_close(file);
	has_str(said, "others may write", "the log says why");
	end();
	is_int(count("", NULL), 2, "nothing is in it");
}

static void t_room(void)
{
	struct weir_file *used;

	clean();
	limit = 2 * BYTES + MIB;
	reads_anew("a", 0, BYTES);
	usleep(20000);
	reads_anew("b", 0, BYTES);
	usleep(20000);
	reads_anew("a", 0, 10);
	reads_anew("c", 0, BYTES);
	is_int(count(".url", NULL), 2, "the folder has no more than its limit");
	reads_anew("a", 0, BYTES);
	is_int(mem.bytes, 0, "what was used last is kept");
	reads_anew("c", 0, BYTES);
	is_int(mem.bytes, 0, "and so is the new one");
	begin();
	used = opened("a");
	ok(reads(used, 0, BYTES), "an object is in use");
	struct weir_file *c = opened("c"), *b = opened("b");

	ok(reads(b, 0, BYTES), "another one is read when all are in use");
	has_str(said, "no room", "the log says that it is not kept");
	weir_file_close(b);
	weir_file_close(c);
	b = opened("b");
	ok(reads(b, 0, BYTES), "it is read again when one is not in use");
	weir_file_close(b);
	weir_file_close(used);
	end();
	reads_anew("a", 0, BYTES);
	is_int(mem.bytes, 0, "what was in use is there");
	reads_anew("b", 0, BYTES);
	is_int(mem.bytes, 0, "what was read last is there");
}

/* Ten times as many objects as fit, of which one is used again and again. */
static void t_room_for_many(void)
{
	bool right = true, within = true, kept = true;
	char name[20];

	clean();
	limit = 3 * MIB + 1000;
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "many%u", i);
		files_bytes(name, whole, MIB);
		right &= reads_anew(name, 0, MIB);
		within &= count(".url", NULL) <= 3 && !count(".part", NULL) &&
			  !count(".state", NULL);
		usleep(5000);
		right &= reads_anew("many0", 0, MIB);
		kept &= !i || !mem.bytes;
		usleep(5000);
	}
	ok(right, "30 objects are read where 3 fit");
	ok(within, "the folder never has more than 3");
	ok(kept, "one that is read again and again stays");
	is_int(count(".url", NULL), 3, "at the end 3 are there");
	is_int(count(".used", NULL), 3, "nothing else is left of the others");
}

static void open_and_wait(const char *name, int go, int ready)
{
	char c;

	begin();
	slow_lock = true;
	if (read(go, &c, 1) < 0 || !opened(name) || write(ready, "", 1) != 1)
		_exit(1);
	pause();
}

/* Processes that open different objects at the same moment. */
static void t_room_at_once(void)
{
	static const char *const name[] = { "a", "b", "c" };
	pid_t pid[3];
	int go[2], ready[2], n = 0;
	char c;

	clean();
	mem_end();
	limit = BYTES + MIB;
	if (pipe(go) || pipe(ready))
		bail("pipe");
	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			close(go[1]);
			open_and_wait(name[i], go[0], ready[1]);
		}
	}
	close(ready[1]);
	close(go[0]);
	close(go[1]);
	while (n < 3 && read(ready[0], &c, 1) == 1)
		n++;
	is_int(n, 3, "three processes open an object each");
	is_int(count(".part", NULL), 1, "one finds room within the limit");
	for (int i = 0; i < 3; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	close(ready[0]);
}

/* Two roots are as two processes: locks are those of open files. */
static void t_shared(void)
{
	struct weir *first, *second;
	struct weir_file *x, *y;

	clean();
	begin();
	first = weir;
	x = opened("a");
	begin();
	second = weir;
	y = opened("a");
	ok(reads(x, 0, 2 * MIB) && reads(y, 2 * MIB, BYTES - 2 * MIB),
	   "two users read an object");
	weir_file_close(x);
	weir_close(first);
	weir_file_close(y);
	weir_close(second);
	ok(reads_anew("a", 0, BYTES), "what both have written is right");
	is_int(mem.bytes, 0, "together they have kept all of it");
	is_int(count(".url", NULL), 1, "it is whole");
}

/* Put a link to a file of the user's in the place of the last @suffix. */
static void plant(const char *suffix, bool hard)
{
	const char *path;
	int r;

	clean();
	files_text("victim", "mine");
	reads_anew("a", 0, strcmp(suffix, ".url") ? MIB : BYTES);
	if (count(suffix, &path) != 1)
		bail("no %s", suffix);
	unlink(path);
	r = hard ? link(files_path("victim"), path)
		 : symlink(files_path("victim"), path);
	if (r < 0)
		bail("%s: %s", path, strerror(errno));
	ok(reads_anew("a", 0, BYTES), "an object with a %s link at %s is read",
	   hard ? "hard" : "symbolic", suffix);
	is_int(mem.bytes, BYTES, "from its source");
	char text[10] = "";
	int fd = open(files_path("victim"), O_RDONLY);

	is_int(read(fd, text, sizeof(text)), 4, "the file has its size");
	close(fd);
	is_str(text, "mine", "and its bytes");
}

static void t_planted(void)
{
	plant(".part", false);
	plant(".state", false);
	plant(".url", false);
	plant(".part", true);
	plant(".state", true);
}

/* Nobody may write to a file that has its name. */
static void t_sealed(void)
{
	struct weir *first, *second;
	struct weir_file *x, *y;

	clean();
	begin();
	first = weir;
	x = opened("a");
	begin();
	second = weir;
	y = opened("a");
	ok(reads(x, 0, BYTES), "one of two users reads all of an object");
	weir_file_close(x);
	weir_close(first);
	is_int(count(".url", NULL), 0,
	       "the file is not whole while the other one may write");
	weir_file_close(y);
	weir_close(second);
	is_int(count(".url", NULL), 1, "the last user makes it whole");
}

static void t_killed(void)
{
	int status;
	pid_t pid;

	clean();
	pid = fork();
	if (!pid) {
		begin();
		reads(opened("a"), 0, 3 * MIB);
		_exit(0); /* nothing is closed */
	}
	waitpid(pid, &status, 0);
	ok(reads_anew("a", 0, BYTES),
	   "an object is right after a process that has ended at any moment");
	ok(mem.bytes >= BYTES - 3 * MIB,
	   "what it has not read comes from the source");
}

int main(void)
{
	plan(111);
	files_begin();
	make_object("c", 1);
	make_object("b", 1);
	make_object("a", 1);
	t_killed();
	t_planted();
	t_sealed();
	t_whole();
	t_direct();
	t_partial();
	t_gaps();
	t_stalled();
	t_changed();
	t_damaged();
	t_sums();
	t_full();
	t_room();
	t_room_for_many();
	t_room_at_once();
	t_shared();
	mem_end();
	return done_testing();
}
