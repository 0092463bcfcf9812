/* SPDX-License-Identifier: MIT */
/*
 * Arguments that plans, loads, weights and files refuse, and calls that take
 * NULL.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "plans.h"

static struct weir_model *two_tensors(void)
{
	n_tensors = 0;
	add_tensor("F32", 4, 10);
	add_tensor("U8", 1, 7);
	return model();
}

static int try_put(struct weir_plan *p, struct weir_buft *buft,
		   struct weir_select_opts o)
{
	o.size = sizeof(o);
	return weir_plan_add(p, NULL, buft, &o);
}

#define TRY(buft, ...) \
	try_put(p, buft, (struct weir_select_opts){ __VA_ARGS__ })

static void wrong_buffers_of_puts_are_refused(struct weir_plan *p)
{
	struct weir_buft *mapped = memory_of("CPU", WEIR_MEM_MAPPED);
	struct weir_buft *plain = memory_of("CPU", WEIR_MEM_PLAIN);
	struct weir_buf *buf = buffer(100), *joined, *file;
	static unsigned char bytes[100];

	if (weir_buf_join(&buf, 1, &joined) < 0 ||
	    weir_buf_wrap(mapped, bytes, 100, NULL, NULL, &file) < 0)
		bail("%s", weir_error());
	is_err(TRY(kind, .offset = 4), -EINVAL, "an offset of 4, but no buffer",
	       "an offset without a buffer is refused");
	is_err(TRY(kind, .buf = buf, .offset = 101), -EINVAL,
	       "offset 101 is after the end of a buffer of 100 bytes",
	       "an offset after the end of the buffer is refused");
	is_err(TRY(kind, .buf = joined), -EINVAL, "use its members",
	       "a joined buffer is refused");
	is_err(TRY(plain, .buf = buf), -EINVAL, "not of CPU",
	       "a buffer of another kind than the selection is refused");
	is_err(TRY(mapped, .buf = file, .way = WEIR_WAY_MAP), -EINVAL,
	       "cannot be written", "a read-only buffer is refused");
	weir_buf_free(file);
	weir_buf_free(joined);
	weir_buf_free(buf);
}

static void wrong_puts_are_refused(struct weir_plan *p)
{
	struct weir_buft *mapped = memory_of("CPU", WEIR_MEM_MAPPED);
	struct weir_buft *theirs;
	struct weir_dev *cpu;
	struct weir *second;

	is_err(TRY(kind, .align = 3), -EINVAL, "an alignment of 3",
	       "an alignment of 3 is refused");
	is_err(TRY(kind, .align = 8192), -EINVAL, "up to 4096",
	       "an alignment above 4096 is refused");
	is_err(TRY(kind, .way = (enum weir_way)4), -EINVAL,
	       "way 4 is not one of 0 to 3", "an unknown way is refused");
	is_err(TRY(kind, .buf_flags = 0x100), -EINVAL, "0x100",
	       "unknown flags of new buffers are refused");
	is_err(TRY(mapped, .way = WEIR_WAY_AUTO), -EINVAL, "needs WEIR_WAY_MAP",
	       "mapped memory without WEIR_WAY_MAP is refused");
	is_err(TRY(kind, .way = WEIR_WAY_MAP), -EINVAL, "of kind MAPPED",
	       "WEIR_WAY_MAP without mapped memory is refused");
	if (weir_open(NULL, &second) < 0 ||
	    weir_dev_find(second, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_HUGE, &theirs) < 0)
		bail("%s", weir_error());
	is_err(TRY(theirs, .way = 0), -EINVAL, "another root",
	       "memory of another root is refused");
	weir_close(second);
	wrong_buffers_of_puts_are_refused(p);
	is_int(TRY(kind, .way = 0), 2, "a refused selection chooses no tensor");
}

static int load_into(struct weir_plan *p, struct weir_weights *w,
		     uint32_t flags)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;

	o.into = w;
	o.flags = flags;
	return weir_load_start(p, &o, &l);
}

static void wrong_weights_are_refused(struct weir_plan *p,
				      struct weir_weights *w)
{
	struct weir_model *other;
	struct weir_plan *theirs;

	is_err(load_into(p, NULL, 0x80000000), -EINVAL,
	       "unknown flags 0x80000000",
	       "unknown flags of a load are refused");
	n_tensors = 0;
	add_tensor("F32", 4, 10);
	other = model();
	theirs = new_plan(other);
	plan_add(theirs, NULL, NULL, 0, 0);
	is_err(load_into(theirs, w, 0), -EINVAL, "not of 1 in 1",
	       "weights are not loaded with a model of fewer tensors");
	weir_plan_free(theirs);
	weir_model_close(other);
	n_tensors = 0;
	add_tensor("F32", 4, 10);
	add_tensor("I8", 1, 7);
	other = model();
	theirs = new_plan(other);
	plan_add(theirs, NULL, NULL, 0, 0);
	is_err(load_into(theirs, w, 0), -EINVAL, "tensor 't1' differs",
	       "weights are not loaded with a model of other dtypes");
	weir_plan_free(theirs);
	weir_model_close(other);
}

/* Replace the model by another file of the same bytes. */
static void replace(void)
{
	char bytes[4096], copy[80];
	FILE *from = fopen(path, "r"), *to;
	size_t n;

	snprintf(copy, sizeof(copy), "%s.copy", path);
	to = fopen(copy, "w");
	n = from && to ? fread(bytes, 1, sizeof(bytes), from) : 0;
	if (!n || fwrite(bytes, 1, n, to) != n || fclose(to) ||
	    rename(copy, path) < 0)
		bail("%s: %s", copy, strerror(errno));
	fclose(from);
}

static void another_file_is_refused(void)
{
	struct weir_buft *mapped = memory_of("CPU", WEIR_MEM_MAPPED);
	struct weir_model *m = two_tensors();
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;

	if (TRY(mapped, .way = WEIR_WAY_MAP) != 2 || !(w = load(p, NULL)))
		bail("%s", weir_error());
	weir_plan_free(p);
	weir_model_close(m);
	replace();
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	if (TRY(mapped, .way = WEIR_WAY_MAP) != 2)
		bail("%s", weir_error());
	is_err(load_into(p, w, 0), -ESTALE, "is not the file that is mapped",
	       "mapped weights are not loaded from another file");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

static void wrong_numbers_are_refused(struct weir_load *l,
				      struct weir_weights *w)
{
	struct weir_entry e = { .size = sizeof(e) };
	uint8_t digest[32];
	struct weir_failure f;
	struct weir_event *ev;

	if (weir_event_new(root, 0, &ev) < 0)
		bail("%s", weir_error());
	is_err(weir_load_error(l, 2, &f), -EINVAL, "tensor 2 of 2",
	       "weir_load_error refuses a tensor past the last");
	is_err(weir_load_record(l, 2, ev), -EINVAL, "tensor 2 of 2",
	       "weir_load_record refuses a tensor past the last");
	is_err(weir_weights_entry(w, 2, &e), -EINVAL, "tensor 2 of 2",
	       "weir_weights_entry refuses a tensor past the last");
	is_err(weir_weights_digest(w, 2, WEIR_DIGEST_XXH3, digest), -EINVAL,
	       "tensor 2 of 2",
	       "weir_weights_digest refuses a tensor past the last");
	is_err(weir_weights_digest(w, 0, (enum weir_digest)2, digest), -EINVAL,
	       "digest 2 is not one of 0 and 1",
	       "an unknown digest is refused");
	is_int(weir_weights_digest(w, 0, WEIR_DIGEST_XXH3, digest), 16,
	       "an XXH3 digest has 16 bytes");
	is_int(weir_weights_digest(w, 0, WEIR_DIGEST_SHA256, digest), 32,
	       "a SHA-256 digest has 32 bytes");
	ok(!weir_weights_get(w, 2) && !weir_weights_find(w, "t2"),
	   "weights return NULL for a number past the last and an unknown name");
	is_int(weir_load_error(l, WEIR_ALL, &f) | f.err, 0,
	       "a load that succeeded has no failure");
	weir_event_free(ev);
}

static void wrong_files_are_refused(void)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct weir_file *f;

	is_err(weir_file_open(root, dir, NULL, &f), -EISDIR, dir,
	       "a directory is not opened as a file");
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", dir);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		bail("%s: %s", at.sun_path, strerror(errno));
	is_err(weir_file_open(root, at.sun_path, NULL, &f), -EINVAL,
	       "not a regular file but a socket",
	       "a socket is not opened as a file");
	close(fd);
	unlink(at.sun_path);
	is_err(weir_file_open(root, "/dev/null", NULL, &f), -EINVAL,
	       "not a regular file but a device",
	       "a device is not opened as a file");
	o.flags = WEIR_FILE_CREATE;
	is_err(weir_file_open(root, path, &o, &f), -EINVAL,
	       "WEIR_FILE_CREATE needs WEIR_FILE_WRITE",
	       "WEIR_FILE_CREATE without WEIR_FILE_WRITE is refused");
	o.flags = 8;
	is_err(weir_file_open(root, path, &o, &f), -EINVAL, "unknown flags 0x8",
	       "unknown flags of a file are refused");
}

static void null_is_accepted(void)
{
	weir_file_close(NULL);
	weir_model_close(NULL);
	weir_plan_free(NULL);
	weir_load_free(NULL);
	weir_weights_free(NULL);
	ok(true, "calls that free and close take NULL");
}

int main(void)
{
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	plans_begin(8 + 5 + 3 + 9 + 1 + 5 + 1);
	m = two_tensors();
	p = new_plan(m);
	wrong_puts_are_refused(p);
	if (weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	wrong_numbers_are_refused(l, w);
	wrong_weights_are_refused(p, w);
	weir_load_free(l);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	another_file_is_refused();
	wrong_files_are_refused();
	null_is_accepted();
	return plans_end();
}
