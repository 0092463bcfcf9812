/* SPDX-License-Identifier: MIT */
/* weir_fetch from a source in memory: what it puts in the folder, and when. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "core/hash.h"
#include "core/sys.h"
#include "files.h"
#include "mem_source.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define DATA (4 * MIB + 1000)
#define HEAD 136u
#define BYTES (HEAD + DATA)

static struct weir *weir;
static struct weir_fetch_report report;
static unsigned char whole[BYTES];
static int no_room; /* calls of pwrite until the disk is full; 0: never */

int64_t __real_weir__sys_pwrite(int fd, const void *buf, size_t n,
				uint64_t off);
int64_t __wrap_weir__sys_pwrite(int fd, const void *buf, size_t n,
				uint64_t off);

int64_t __wrap_weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off)
{
	if (no_room && !--no_room) {
		no_room = 1;
		return -ENOSPC;
	}
	return __real_weir__sys_pwrite(fd, buf, n, off);
}

/* The model "from/m.safetensors" with bytes that depend on @seed. */
static void make_model(unsigned seed)
{
	uint64_t n = HEAD - 8;

	memcpy(whole, &n, 8);
	memset(whole + 8, ' ', HEAD - 8);
	n = (uint64_t)snprintf((char *)whole + 8, HEAD - 8,
			       "{\"w\":{\"dtype\":\"U8\",\"shape\":[%zu],"
			       "\"data_offsets\":[0,%zu]}}",
			       DATA, DATA);
	whole[8 + n] = ' ';
	for (size_t i = HEAD; i < BYTES; i++)
		whole[i] = (unsigned char)(i / 3 + seed * (i >> 12));
	files_bytes("from/m.safetensors", whole, BYTES);
}

static const char *url_of(const char *name)
{
	return mem_url(files_path(name));
}

static int fetch_with(const char *name, uint32_t flags, weir_fetch_fn *progress)
{
	struct weir_fetch_opts opts = WEIR_FETCH_OPTS_INIT;

	opts.flags = flags;
	opts.progress = progress;
	report = (struct weir_fetch_report){ .size = sizeof(report) };
	return weir_fetch(weir, url_of(name), files_path("to"), &opts, &report);
}

static int fetch(const char *name)
{
	return fetch_with(name, 0, NULL);
}

static bool is_there(const char *name)
{
	char path[100];
	struct stat st;

	snprintf(path, sizeof(path), "to/%s", name);
	return !lstat(files_path(path), &st);
}

static bool has_bytes(const char *name, const void *bytes, size_t n)
{
	int fd = open(files_path(name), O_RDONLY);
	unsigned char *buf = malloc(n + 1);
	bool same = fd >= 0 && read(fd, buf, n + 1) == (ssize_t)n &&
		    !memcmp(buf, bytes, n);

	close(fd);
	free(buf);
	return same;
}

static bool is_fetched(void)
{
	return has_bytes("to/m.safetensors", whole, BYTES) &&
	       !is_there("m.safetensors.part");
}

static void clean(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", files_path("to"));
	if (system(command))
		bail("%s", command);
	mem_reset();
	no_room = 0;
}

static void t_folder(void)
{
	clean();
	mem.delay = 50000000;
	is_int(fetch("from"), 0, "a folder is fetched");
	ok(is_fetched(), "the file with tensors is that of the folder");
	ok(is_there("config.json") && is_there("tokenizer.json"),
	   "small files are fetched, too");
	ok(!is_there("pytorch_model.bin") && !is_there("x.gguf"),
	   "other weights are not fetched");
	ok(!is_there(".hidden") && !is_there("x.part"),
	   "neither are hidden files, nor names of partial files");
	is_int(report.files, 4, "the report counts the files");
	ok(report.received == report.bytes && !report.kept,
	   "all bytes were received");
	ok(mem.most > 1, "several reads are in flight");
	is_int(mem.wrong, 0, "reads are within their objects");
	mem_reset();
	is_int(fetch("from"), 0, "the folder is fetched again");
	ok(!report.received && report.kept == 4,
	   "files that are whole are kept, and nothing is received");
	clean();
	is_int(fetch("from/m.safetensors"), 0, "a file is fetched");
	ok(is_fetched() && !is_there("config.json"),
	   "the file alone is in the folder");
	clean();
	mem.no_list = true;
	is_int(fetch("usual"), 0, "a folder that cannot be listed is fetched");
	ok(has_bytes("to/model.safetensors", whole, BYTES) &&
		   is_there("config.json") && !is_there("note.xyz"),
	   "there are files with usual names then");
}

static void t_resumed(void)
{
	uint64_t had;

	clean();
	mem.fail = -EIO;
	mem.fail_from = 2 * MIB;
	mem.fail_to = 2 * MIB + 1;
	is_err(fetch("from/m.safetensors"), -EIO, "the test made it fail",
	       "a read that fails ends the fetch");
	ok(is_there("m.safetensors.part") && !is_there("m.safetensors"),
	   "what has arrived is in a partial file");
	mem_reset();
	is_int(fetch("from/m.safetensors"), 0, "the fetch goes on");
	had = BYTES - report.received;
	ok(is_fetched(), "the file is right");
	ok(had >= MIB && report.received >= MIB,
	   "only blocks that were missing are received");
	ok(mem.bytes < report.received + MIB,
	   "only blocks that were missing are requested");
}

static void t_full(void)
{
	clean();
	no_room = 6;
	is_err(fetch("from/m.safetensors"), -ENOSPC, "make room",
	       "a full disk ends the fetch with a sentence");
	ok(is_there("m.safetensors.part"), "what was written is kept");
	no_room = 0;
	is_int(fetch("from/m.safetensors"), 0,
	       "the fetch goes on when there is room");
	ok(is_fetched() && report.received < BYTES,
	   "blocks that were written are not received again");
}

static int stop_now(void *arg, const struct weir_fetch_progress *progress)
{
	(void)arg;
	return progress->done > 0 || progress->files != 1;
}

static void t_cancelled(void)
{
	clean();
	mem.delay = 100000000;
	is_err(fetch_with("from/m.safetensors", 0, stop_now), -ECANCELED,
	       "cancelled", "the program's function ends a fetch");
	mem_reset();
	is_int(fetch("from/m.safetensors"), 0, "a cancelled fetch goes on");
	ok(is_fetched() && report.received < BYTES,
	   "it receives what was missing");
}

static void t_sums(void)
{
	char hex[WEIR__DIGEST_TEXT];
	uint8_t digest[32];

	clean();
	weir__hash_bytes(WEIR_DIGEST_SHA256, whole, BYTES, digest);
	mem.sha256 = weir__digest_hex(digest, 32, hex);
	is_int(fetch("from/m.safetensors"), 0,
	       "a file with the SHA-256 of its source is fetched");
	is_int(report.sums, 1, "the report counts it");
	unlink(files_path("to/.weir/m.safetensors"));
	is_int(fetch("from/m.safetensors"), 0,
	       "a file without state is compared by its SHA-256");
	is_int(report.kept, 1, "and kept");
	clean();
	hex[5] = hex[5] == '0' ? '1' : '0';
	mem.sha256 = hex;
	is_err(fetch("from/m.safetensors"), -EBADMSG, "its source says",
	       "a file with another SHA-256 is refused");
	ok(!is_there("m.safetensors") && !is_there("m.safetensors.part"),
	   "nothing is left of it");
}

static void change_one(const char *name)
{
	int fd = open(files_path(name), O_RDWR);

	if (pwrite(fd, "x", 1, 3 * (off_t)MIB) != 1)
		bail("%s", name);
	close(fd);
}

static void t_changed(void)
{
	clean();
	mem.identity = "etag:1";
	mem.fail = -EIO;
	mem.fail_from = 2 * MIB;
	mem.fail_to = 2 * MIB + 1;
	fetch("from/m.safetensors");
	mem_reset();
	make_model(2);
	mem.identity = "etag:2";
	is_int(fetch("from/m.safetensors"), 0,
	       "an object that has changed is fetched anew");
	ok(is_fetched(), "no block of the earlier one is in the file");
	is_int(report.received, BYTES, "all of it is received");
	make_model(3);
	mem.identity = "etag:3";
	is_int(fetch("from/m.safetensors"), 0,
	       "an object is fetched again when it has changed");
	ok(is_fetched(), "the earlier file is replaced");
	change_one("to/m.safetensors");
	is_err(fetch("from/m.safetensors"), -EEXIST, "another file",
	       "a file that was changed here is not replaced");
	make_model(1);
	mem.identity = "etag:1";
	is_err(fetch("from/m.safetensors"), -EEXIST, "another file",
	       "not even by another version of the object");
	is_int(fetch_with("from/m.safetensors", WEIR_FETCH_REPLACE, NULL), 0,
	       "unless WEIR_FETCH_REPLACE is given");
	ok(is_fetched(), "then it is replaced");
}

static void t_damaged(void)
{
	clean();
	mem.fail = -EIO;
	mem.fail_from = 4 * MIB;
	mem.fail_to = 4 * MIB + 1;
	fetch("from/m.safetensors");
	mem_reset();
	change_one("to/m.safetensors.part");
	is_int(fetch("from/m.safetensors"), 0,
	       "a partial file that was damaged is fetched");
	ok(is_fetched(), "the damaged block is received again");
	/* As if the machine had stopped before the states were renamed. */
	rename(files_path("to/.weir/m.safetensors"),
	       files_path("to/.weir/m.safetensors.part"));
	is_int(fetch("from/m.safetensors"), 0,
	       "a file whose state was not renamed is found");
	is_int(report.kept, 1, "it is kept");
	ok(!access(files_path("to/.weir/m.safetensors"), F_OK),
	   "its state is renamed");
}

static void t_planted(void)
{
	clean();
	files_dir("to");
	files_dir("to/.weir");
	files_text("victim", "victim");
	files_link("to/m.safetensors.part", "../victim");
	is_err(fetch("from/m.safetensors"), -ELOOP, "symbolic link",
	       "a partial file that is a symbolic link is refused");
	unlink(files_path("to/m.safetensors.part"));
	files_link("to/m.safetensors", "../victim");
	is_err(fetch("from/m.safetensors"), -ELOOP, "symbolic link",
	       "a symbolic link in the place of the file is refused");
	is_int(fetch_with("from/m.safetensors", WEIR_FETCH_REPLACE, NULL),
	       -ELOOP, "also with WEIR_FETCH_REPLACE");
	ok(has_bytes("victim", "victim", 6), "what it leads to is not touched");
	clean();
	files_dir("to");
	files_dir("elsewhere");
	files_link("to/.weir", "../elsewhere");
	ok(fetch("from/m.safetensors") < 0,
	   "a folder of states that is a symbolic link is refused");
}

/* Links and folders in the places of files that are fetched. */
static void t_in_the_way(void)
{
	clean();
	files_dir("to");
	files_link("to/m.safetensors", "../victim");
	is_err(fetch_with("from/m.safetensors", WEIR_FETCH_REPLACE, NULL),
	       -ELOOP, "symbolic link", "a symbolic link is never replaced");
	unlink(files_path("to/m.safetensors"));
	files_dir("to/m.safetensors");
	is_err(fetch_with("from/m.safetensors", WEIR_FETCH_REPLACE, NULL),
	       -EEXIST, "not a regular file", "nor is a folder");
	ok(mem.bytes < MIB, "no tensor was received before");
	clean();
	files_dir("to");
	files_dir("to/.weir");
	files_link("to/.weir/m.safetensors.part", "../victim");
	is_err(fetch("from/m.safetensors"), -ELOOP,
	       "to/.weir/m.safetensors.part: is a symbolic link",
	       "the sentence names the state that is a symbolic link");
}

static int sleep_once(void *arg, const struct weir_fetch_progress *progress)
{
	static bool slept;

	(void)arg;
	(void)progress;
	if (!slept)
		usleep(3200000);
	slept = true;
	return 0;
}

static void t_slow_program(void)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir *before = weir;

	clean();
	opts.read_timeout = 3000000000;
	if (weir_open(&opts, &weir) < 0)
		bail("%s", weir_error());
	mem_add(weir);
	is_int(fetch_with("from/m.safetensors", 0, sleep_once), 0,
	       "read_timeout does not count while the program's function runs");
	weir_close(weir);
	weir = before;
}

/* More files than the process may have descriptors for. */
static void t_many(void)
{
	struct rlimit limit, few;
	char name[64];

	clean();
	files_dir("many");
	files_bytes("many/m.safetensors", whole, BYTES);
	for (int i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "many/%d.txt", i);
		files_text(name, "text");
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	few = limit;
	few.rlim_cur = 200;
	setrlimit(RLIMIT_NOFILE, &few);
	is_int(fetch("many"), 0, "a file that has ended has no descriptor");
	setrlimit(RLIMIT_NOFILE, &limit);
	is_int(report.files, 151, "all files are there");
}

static void t_shards(void)
{
	clean();
	files_dir("index");
	files_dir("index/sub");
	files_bytes("index/sub/m.safetensors", whole, BYTES);
	files_text("index/model.safetensors.index.json",
		   "{\"weight_map\":{\"w\":\"sub/m.safetensors\"}}");
	is_err(fetch("index/model.safetensors.index.json"), -EBADMSG,
	       "not in the folder of its index",
	       "a shard in another folder than the index is refused");
	ok(!is_there(""), "and nothing is fetched");
}

/* Objects that are read from a cache. */
static void t_cached(void)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir *before = weir;

	opts.cache = files_path("cache");
	for (int i = 0; i < 2; i++) {
		clean();
		mem.identity = "etag:1";
		if (weir_open(&opts, &weir) < 0)
			bail("%s", weir_error());
		mem_add(weir);
		is_int(fetch("from/m.safetensors"), 0,
		       i ? "a file that is in the cache is fetched"
			 : "a file is fetched through a cache");
		ok(i ? !mem.bytes : mem.bytes < BYTES + MIB,
		   i ? "no byte comes from the source"
		     : "its bytes come from the source once");
		if (i) {
			is_int(fetch("from/m.safetensors"), 0,
			       "it is fetched again");
			is_int(report.kept, 1, "it has the same identity");
		}
		weir_close(weir);
	}
	weir = before;
}

static void t_refused(void)
{
	clean();
	is_err(weir_fetch(weir, "/tmp/x", files_path("to"), NULL, NULL),
	       -EINVAL, "no URL", "a path is refused");
	is_err(fetch_with("from", 8, NULL), -EINVAL, "flags",
	       "unknown flags are refused");
	is_int(fetch("from/none.safetensors"), -ENOENT,
	       "a model that is not there is refused");
	ok(!is_there(""), "and no folder is made");
}

int main(void)
{
	struct weir_opts opts = WEIR_OPTS_INIT;

	plan(72);
	files_begin();
	files_dir("from");
	files_text("from/config.json", "{}");
	files_text("from/tokenizer.json", "{ }");
	files_text("from/note.xyz", "note");
	files_text("from/pytorch_model.bin", "other");
	files_text("from/x.gguf", "other");
	files_text("from/.hidden", "hidden");
	files_text("from/x.part", "part");
	make_model(1);
	files_dir("usual");
	files_bytes("usual/model.safetensors", whole, BYTES);
	files_text("usual/config.json", "{}");
	files_text("usual/note.xyz", "note");
	if (weir_open(&opts, &weir) < 0)
		bail("%s", weir_error());
	mem_add(weir);
	t_folder();
	t_resumed();
	t_full();
	t_cancelled();
	t_sums();
	t_changed();
	t_damaged();
	t_planted();
	t_in_the_way();
	t_slow_program();
	t_many();
	t_shards();
	t_cached();
	t_refused();
	weir_close(weir);
	mem_end();
	return done_testing();
}
