/* SPDX-License-Identifier: MIT */
/* Where saves write to, and what they find there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "tap.h"

#define BYTES 20000

static struct weir *root;
static struct weir_buft *plain;
static struct weir_buf *buf;

/* A save of two tensors; each is a file with @sharded. */
static struct weir_save *begin(const char *path, bool sharded, uint32_t flags)
{
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	const int64_t shape = BYTES;
	struct weir_save *s;

	o.shard_bytes = sharded ? BYTES : 0;
	o.flags = flags;
	if (strstr(path, ".gguf") == NULL)
		o.format = "safetensors";
	if (weir_save_new(root, path, &o, &s) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; i < 2; i++) {
		struct weir_tensor t;

		if (weir_tensor_init(&t, WEIR_DTYPE_I8, 1, &shape) < 0 ||
		    weir_tensor_place(&t, buf, i * BYTES) < 0 ||
		    weir_save_add(s, i ? "b" : "a", &t, 0) < 0)
			bail("%s", weir_error());
	}
	return s;
}

static int finish(struct weir_save *s, struct weir_save_report *rep)
{
	int r = weir_save_start(s, NULL);

	if (r >= 0)
		r = weir_save_wait(s, -1);
	if (r >= 0 && rep) {
		memset(rep, 0, sizeof(*rep));
		rep->size = sizeof(*rep);
		r = weir_save_report(s, rep);
	}
	weir_save_free(s);
	return r;
}

static int save(const char *name, bool sharded)
{
	return finish(begin(files_path(name), sharded, 0), NULL);
}

/* True if the model @name has the bytes of the buffer. */
static bool holds(const char *name)
{
	const unsigned char *p = weir_buf_data(buf);
	struct weir_weights *w;
	bool same = true;

	if (weir_load_all(root, files_path(name), plain, NULL, &w) < 0) {
		diag("%s", weir_error());
		return false;
	}
	for (unsigned i = 0; i < 2; i++) {
		const struct weir_tensor *t =
			weir_weights_find(w, i ? "b" : "a");

		same &= t && !memcmp(weir_tensor_data(t), p + i * BYTES, BYTES);
	}
	weir_weights_free(w);
	return same;
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(files_path(name), &st) == 0;
}

static void names(void)
{
	char name[300];
	struct weir_save *s;

	memset(name, 'n', sizeof(name));
	strcpy(name + 255 - 12, ".safetensors");
	is_int(save(name, false), 0, "a name of 255 bytes is written");
	ok(holds(name), "a name of 255 bytes is read");
	is_err(save(name, true), -ENAMETOOLONG, "bytes",
	       "shards whose names would be longer than 255 bytes are refused");
	memset(name, 'n', 256);
	strcpy(name + 256 - 12, ".safetensors");
	is_err(weir_save_new(root, files_path(name), NULL, &s), -ENAMETOOLONG,
	       "256 bytes", "a name of 256 bytes is refused");
	is_err(weir_save_new(root, "m-00001-of-00002.gguf", NULL, &s), -EINVAL,
	       "file 1 of 2", "a name of a part of a split model is refused");
	is_err(weir_save_new(root, "folder/", NULL, &s), -EINVAL, "folder/",
	       "a path without a name of a file is refused");
	is_int(finish(begin(files_path("plain"), false, 0), NULL), 0,
	       "a name without an ending is written");
	ok(holds("plain"), "a name without an ending is read");
}

static void folders(void)
{
	struct weir_save *s;

	files_dir("one");
	files_dir("two");
	if (chdir(files_path("one")) < 0)
		bail("chdir");
	s = begin("m.safetensors", false, 0);
	is_int(weir_save_start(s, NULL), 0, "a relative path is accepted");
	if (chdir(files_path("two")) < 0)
		bail("chdir");
	is_int(weir_save_wait(s, -1), 0,
	       "a save ends well if the process changes its directory");
	weir_save_free(s);
	ok(holds("one/m.safetensors") && !exists("two/m.safetensors"),
	   "the file is in the folder in which the save was started");
	s = begin(files_path("two/m.safetensors"), true, 0);
	is_int(weir_save_start(s, NULL), 0, "a save to a folder starts");
	if (rename(files_path("two"), files_path("three")) < 0)
		bail("rename");
	is_int(weir_save_wait(s, -1), 0,
	       "a save ends well if its folder is renamed");
	weir_save_free(s);
	ok(holds("three/m.safetensors.index.json"),
	   "the files are in the folder that was renamed");
	if (chdir("/") < 0)
		bail("chdir");
}

static void others(void)
{
	struct stat st;

	mkfifo(files_path("pipe.safetensors"), 0600);
	is_err(save("pipe.safetensors", false), -EINVAL, "not a regular file",
	       "a pipe is not replaced");
	is_err(save("pipe.safetensors", true), -EINVAL, "not a regular file",
	       "a pipe is not removed when shards take its place");
	files_link("null.safetensors", "/dev/null");
	is_err(save("null.safetensors", false), -EINVAL, "not a regular file",
	       "a link to a device is not replaced");
	files_dir("dir.safetensors");
	is_err(save("dir.safetensors", false), -EISDIR, "dir.safetensors",
	       "a folder is not replaced");
	files_text("target", "kept");
	files_link("link.safetensors", files_path("target"));
	is_int(save("link.safetensors", false), 0, "a link is replaced");
	ok(lstat(files_path("link.safetensors"), &st) == 0 &&
		   S_ISREG(st.st_mode) &&
		   stat(files_path("target"), &st) == 0 && st.st_size == 4,
	   "the file that the link led to is left as it is");
	files_text("mode.safetensors", "");
	chmod(files_path("mode.safetensors"), 0640);
	is_int(save("mode.safetensors", false), 0, "a file is replaced");
	ok(stat(files_path("mode.safetensors"), &st) == 0 &&
		   (st.st_mode & 07777) == 0640,
	   "the new file has the permissions of the earlier one");
}

/* Temporary names that a process with this PID has left. */
static void temporary(void)
{
	struct weir_save_report rep;
	struct weir_save *s;
	char name[80];

	for (unsigned i = 1; i < 200; i++) {
		snprintf(name, sizeof(name), ".t.safetensors.weir-%ld-%u",
			 (long)getpid(), i);
		files_text(name, "");
	}
	s = begin(files_path("t.safetensors"), false, 0);
	is_int(finish(s, &rep), 0, "names that exist are skipped");
	is_int(rep.leftovers, 199, "all that was left over is counted");
	ok(strstr(rep.note, "-1, ") && strstr(rep.note, ", and 1"),
	   "the note has as many names as there is room for, and how many more");
}

/* What belongs to the earlier model, and what does not. */
static void earlier(void)
{
	is_int(save("e.safetensors", true), 0, "shards are saved");
	is_int(save("e", false), 0, "a path without the ending is saved");
	ok(holds("e.safetensors.index.json"),
	   "the index of another path is kept");
	is_int(save("e.safetensors", true), 0, "shards are replaced");
	ok(!exists("e-00001-of-00002.safetensors") &&
		   exists("e-v2-00001-of-00002.safetensors") &&
		   holds("e.safetensors.index.json"),
	   "the earlier shards are removed, the new ones have other names");
	files_text("other.safetensors", "kept");
	files_text("x.safetensors.index.json",
		   "{\"weight_map\":{\"a\":\"other.safetensors\"}}");
	is_int(save("x.safetensors", false), 0, "a file replaces an index");
	ok(exists("other.safetensors") && !exists("x.safetensors.index.json"),
	   "a shard of another name is kept");
	files_text("y.safetensors.index.json", "no index");
	is_int(save("y.safetensors", false), 0,
	       "a file is saved beside something that is no index");
	ok(exists("y.safetensors.index.json"), "what is no index is kept");
}

/* Two saves to one path, of both forms, that run at the same time. */
static void at_once(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct weir_save *a =
			begin(files_path("w.safetensors"), i & 1, 0);
		struct weir_save *b =
			begin(files_path("w.safetensors"), i & 2, 0);
		bool one;
		int r = weir_save_start(a, NULL);

		if (r >= 0)
			r = weir_save_start(b, NULL);
		if (r >= 0)
			r = weir_save_wait(a, -1);
		if (r >= 0)
			r = weir_save_wait(b, -1);
		if (r < 0)
			diag("%s", weir_error());
		weir_save_free(a);
		weir_save_free(b);
		one = exists("w.safetensors");
		ok(r == 0 && one != exists("w.safetensors.index.json") &&
			   holds(one ? "w.safetensors"
				     : "w.safetensors.index.json"),
		   "of two saves at once, %s and %s, one replaces the other",
		   i & 1 ? "shards" : "a file", i & 2 ? "shards" : "a file");
	}
}

static void new_only(void)
{
	struct weir_save *s =
		begin(files_path("n.safetensors"), true, WEIR_SAVE_NEW);

	is_int(finish(s, NULL), 0, "WEIR_SAVE_NEW: shards are saved");
	s = begin(files_path("n.safetensors"), false, WEIR_SAVE_NEW);
	is_err(finish(s, NULL), -EEXIST, "n.safetensors.index.json",
	       "WEIR_SAVE_NEW: an index is not replaced by a file");
	s = begin(files_path("f.safetensors"), false, WEIR_SAVE_NEW);
	is_int(weir_save_start(s, NULL), 0, "WEIR_SAVE_NEW: a save starts");
	files_text("f.safetensors", "kept");
	is_int(weir_save_wait(s, -1), -EEXIST,
	       "WEIR_SAVE_NEW: a file that is made meanwhile is not replaced");
	weir_save_free(s);
}

int main(void)
{
	struct weir_dev *cpu;

	plan(0);
	files_begin();
	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_buf_alloc(plain, 2 * BYTES, NULL, &buf) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < 2 * BYTES; i++)
		((unsigned char *)weir_buf_data(buf))[i] =
			(unsigned char)(i * 7 + i / 300);
	names();
	folders();
	others();
	temporary();
	earlier();
	at_once();
	new_only();
	weir_buf_free(buf);
	weir_close(root);
	return done_testing();
}
