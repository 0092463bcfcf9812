/* SPDX-License-Identifier: MIT */
/*
 * Sentences of calls that make others: a call that succeeds leaves the sentence
 * of an earlier one, and each begins with the call that the program has made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "sample.h"
#include "tap.h"

static const struct sample_tensor tensor[] = { { "a", "U8", 5000, 1 },
					       { "b", "U8", 5000, 1 } };

static struct weir *root;
static struct weir_buft *plain;
static char path[256];

/* Fail, so that there is a sentence. */
static void fail_first(void)
{
	struct weir_model *model;

	if (!weir_model_open(root, "/nowhere/first", NULL, &model))
		bail("/nowhere/first exists");
}

static void is_kept(const char *what)
{
	if (!ok(strstr(weir_error(), "/nowhere/first") != NULL,
		"%s leaves the sentence of an earlier failure", what))
		diag("%s", weir_error());
}

static void begins(const char *text, const char *with, const char *what)
{
	if (!ok(!strncmp(text, with, strlen(with)), "%s", what))
		diag("%s", text);
}

static void directory(void)
{
	struct weir_model *model;

	fail_first();
	if (weir_model_open(root, files_path(""), NULL, &model) < 0)
		bail("%s", weir_error());
	is_kept("opening a directory");
	weir_model_close(model);
}

/* The two tensors fit the buffer only if they are placed close together. */
static void tight(void)
{
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_estimate est = { .size = sizeof(est) };
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_buf *buf;

	if (weir_buf_alloc(plain, 10048, NULL, &buf) < 0 ||
	    weir_model_open(root, path, NULL, &model) < 0 ||
	    weir_plan_new(model, &plan) < 0)
		bail("%s", weir_error());
	put.buf = buf;
	if (weir_plan_add(plan, NULL, plain, &put) < 0)
		bail("%s", weir_error());
	fail_first();
	if (weir_plan_estimate(plan, &est, 1) < 0)
		bail("%s", weir_error());
	is_kept("an estimate of puts that fit tightly");
	weir_plan_free(plan);
	weir_model_close(model);
	weir_buf_free(buf);
}

/*
 * A small load, which weir_load_start() makes itself, of a file that changed.
 */
static void small_load(void)
{
	struct weir_failure failure = { 0 };
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_event *ev;
	unsigned char byte;
	int fd = open(path, O_RDWR), r;

	if (weir_model_open(root, path, NULL, &model) < 0 ||
	    weir_plan_new(model, &plan) < 0 ||
	    weir_event_new(root, 0, &ev) < 0 ||
	    weir_plan_add(plan, NULL, plain, NULL) < 0)
		bail("%s", weir_error());
	usleep(20000);
	if (pread(fd, &byte, 1, 0) != 1 || pwrite(fd, &byte, 1, 0) != 1)
		bail("%s cannot be written", path);
	fail_first();
	if (weir_load_start(plan, NULL, &load) < 0)
		bail("%s", weir_error());
	is_kept("starting a load of a file that has changed");
	r = weir_load_wait(load, -1);
	is_int(r, -ESTALE, "the load fails");
	begins(weir_error(), "weir_load_wait: m.safetensors",
	       "its sentence has no other call than weir_load_wait");
	if (weir_load_record(load, WEIR_ALL, ev) < 0)
		bail("%s", weir_error());
	weir_event_error(ev, &failure);
	begins(failure.text, "m.safetensors",
	       "the text of its failure has no call");
	weir_event_free(ev);
	weir_load_free(load);
	weir_plan_free(plan);
	weir_model_close(model);
	close(fd);
}

static void load_all(void)
{
	struct weir_weights *weights;

	is_int(weir_load_all(root, "/nowhere/model", plain, NULL, &weights),
	       -ENOENT, "loading all of a model that is not there fails");
	begins(weir_error(), "weir_load_all: /nowhere/model",
	       "the sentence of weir_load_all begins with it");
}

static void reserved(void)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	struct weir_model *model;

	opts.reserved = 3;
	is_err(weir_model_open(root, path, &opts, &model), -EINVAL,
	       "reserved is 0x3", "the sentence names a member that is not 0");
}

int main(void)
{
	struct weir_dev *dev;

	plan(9);
	files_begin();
	snprintf(path, sizeof(path), "%s", files_path("m.safetensors"));
	sample_write(path, tensor, 2, 0, 1);
	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_PLAIN, &plain) < 0)
		bail("%s", weir_error());
	directory();
	tight();
	small_load();
	load_all();
	reserved();
	weir_close(root);
	return done_testing();
}
