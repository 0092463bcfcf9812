/* SPDX-License-Identifier: MIT */
/* weir digest and weir verify: a model is read once, in little memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "args.h"
#include "command.h"
#include "infile.h"
#include "outfile.h"
#include "output.h"
#include "progress.h"
#include "signals.h"
#include "sums.h"

static const char digest_help[] =
	"usage: weir digest [OPTION]... MODEL [OUT]\n"
	"Write a manifest to OUT, or to stdout: the digest of each tensor, and of the\n"
	"whole. Tensors have the same digests in files of any format. Reads the model\n"
	"once, on all CPUs. Defaults are in brackets.\n"
	"\n"
	"  --kind KIND  xxh3 (as `xxhsum -H2`) or sha256 [xxh3]\n"
	"  --way WAY    auto, buffered or direct [auto]\n"
	"  --lenient    accept all that the format's reference reader accepts\n"
	"  --quiet      print no report\n"
	"  --progress-fd N\n"
	"               write the progress to descriptor N, as lines of JSON\n";

static const char verify_help[] =
	"usage: weir verify [OPTION]... MODEL [SUMS]\n"
	"Check the tensors of a model against SUMS, a manifest of weir digest, or its\n"
	"files against a file of SHA-256 sums, as sha256sum prints them. Reads the model\n"
	"once, on all CPUs. SUMS may be - for stdin if it has SHA-256 sums. Without SUMS\n"
	"the files are checked against the SHA-256 sums that a hub publishes: of hf://\n"
	"URLs, in the cache of Hugging Face's clients, and in folders of weir fetch.\n"
	"Defaults are in brackets.\n"
	"\n"
	"  --way WAY    auto, buffered or direct [auto]; of a manifest\n"
	"  --lenient    accept all that the format's reference reader accepts\n"
	"  --quiet      print no report\n"
	"  --progress-fd N\n"
	"               write the progress to descriptor N, as lines of JSON\n";

enum {
	OPT_KIND = ARGS_OPTION,
	OPT_WAY,
	OPT_LENIENT,
	OPT_QUIET,
	OPT_PROGRESS_FD
};

static const struct option digest_options[] = {
	{ "kind", required_argument, NULL, OPT_KIND },
	{ "way", required_argument, NULL, OPT_WAY },
	{ "lenient", no_argument, NULL, OPT_LENIENT },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "progress-fd", required_argument, NULL, OPT_PROGRESS_FD },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Without --kind, which the manifest has. */
#define verify_options (digest_options + 1)

enum {
	POLL_NS = 50 * 1000 * 1000,
	SUMS_MAX = 64 << 20, /* bytes of a file of sums */
	MAX_NAMED = 10       /* tensors that fail of which a line is printed */
};

struct manifest_args {
	const char *model, *other; /* OUT, or SUMS; or NULL */
	enum weir_digest kind;
	enum weir_way way;
	bool lenient, quiet;
	struct weir_opts root;
};

/* The model, and the load that reads it. */
struct pass {
	struct weir *weir;
	struct weir_model *model;
	struct weir_manifest *manifest; /* of weir verify; or NULL */
	struct weir_load *load;
	struct weir_progress progress;
	double seconds;
};

static int take_option(const struct args *args, int c, void *to)
{
	static const char *const kinds[] = { "xxh3", "sha256", NULL };
	static const char *const ways[] = { "auto", "buffered", "direct",
					    NULL };
	static const enum weir_way way[] = { WEIR_WAY_AUTO, WEIR_WAY_BUFFERED,
					     WEIR_WAY_DIRECT };
	struct manifest_args *a = to;
	unsigned i = 0;
	int r = 0;

	switch (c) {
	case OPT_KIND:
		r = args_choice(args, "--kind", kinds, &i);
		a->kind = (enum weir_digest)i;
		break;
	case OPT_WAY:
		r = args_choice(args, "--way", ways, &i);
		a->way = way[i];
		break;
	case OPT_LENIENT:
		a->lenient = true;
		break;
	case OPT_QUIET:
		a->quiet = true;
		break;
	case OPT_PROGRESS_FD:
		r = progress_take_fd(args);
		break;
	}
	return r;
}

static int open_model(struct pass *p, const struct manifest_args *a)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;

	if (a->lenient)
		opts.flags = WEIR_MODEL_LENIENT;
	if (weir_open(&a->root, &p->weir) < 0 ||
	    weir_model_open(p->weir, a->model, &opts, &p->model) < 0)
		return fail_weir();
	return 0;
}

static void close_pass(struct pass *p)
{
	weir_load_free(p->load);
	weir_manifest_close(p->manifest);
	weir_model_close(p->model);
	weir_close(p->weir);
}

/* A sink without a function: the bytes are only hashed. */
static int start(struct pass *p, const struct manifest_args *a)
{
	struct weir_sink sink = WEIR_SINK_INIT;
	struct weir_plan *plan;
	int r = weir_plan_new(p->model, &plan);

	if (r < 0)
		return r;
	sink.way = a->way;
	r = p->manifest ? weir_plan_verify(plan, p->manifest)
			: weir_plan_digest(plan, a->kind);
	if (r >= 0 && weir_model_count(p->model))
		r = weir_plan_sink(plan, NULL, &sink);
	if (r >= 0)
		r = weir_load_start(plan, NULL, &p->load);
	weir_plan_free(plan);
	return r;
}

/*
 * Read all tensors. Returns the outcome of the load, a negative errno with
 * weir_error().
 */
static int read_tensors(struct pass *p, const struct manifest_args *a,
			const char *what)
{
	struct progress bar;
	int r;

	progress_begin(&bar, what, 0);
	r = start(p, a);
	if (r < 0)
		return r;
	p->progress.size = sizeof(p->progress);
	while ((r = weir_load_wait(p->load, POLL_NS)) == -ETIMEDOUT) {
		if (weir_load_progress(p->load, &p->progress) < 0)
			continue;
		bar.total = p->progress.total;
		progress_show(&bar, p->progress.bytes);
	}
	p->seconds = (double)(now_ns() - bar.begin) / 1e9;
	if (weir_load_progress(p->load, &p->progress) >= 0)
		bar.total = p->progress.total;
	progress_end(&bar, p->progress.bytes);
	return r;
}

static const char *kind_name(uint32_t kind)
{
	return kind == WEIR_DIGEST_XXH3 ? "XXH3-128" : "SHA-256";
}

/* "SUBJECT: 3 tensors, 5.00 MB in 0.002 s: 2.50 GB/s; what". */
static void report(const char *subject, const char *items, uint64_t bytes,
		   double seconds, const char *what)
{
	char size[SIZE_TEXT], speed[32] = "";

	if (bytes && seconds > 0)
		snprintf(speed, sizeof(speed), ": %.2f GB/s",
			 (double)bytes / 1e9 / seconds);
	note("%s: %s, %s in %.3f s%s; %s", subject, items,
	     size_text(bytes, size), seconds, speed, what);
}

static void report_tensors(const struct pass *p, const struct manifest_args *a,
			   const struct weir_manifest *manifest)
{
	struct weir_manifest_info info = { .size = sizeof(info) };
	char items[COUNT_TEXT], what[160];
	size_t n;

	if (a->quiet || weir_manifest_info(manifest, &info) < 0)
		return;
	n = (size_t)snprintf(what, sizeof(what), "%s%s ",
			     p->manifest ? "all match, " : "",
			     kind_name(info.kind));
	for (unsigned i = 0; i < (info.kind == WEIR_DIGEST_XXH3 ? 16u : 32u);
	     i++)
		n += (size_t)snprintf(what + n, sizeof(what) - n, "%02x",
				      info.digest[i]);
	report(a->model, count_text(info.count, "tensor", items),
	       p->progress.bytes, p->seconds, what);
}

static int write_manifest(const struct weir_manifest *manifest,
			  struct outfile *out)
{
	fflush(out->to);
	outfile_begin(out);
	if (weir_manifest_write(manifest, fileno(out->to)) < 0)
		return fail("%s: %s", out->path ? out->path : "standard output",
			    weir_sentence());
	return outfile_end(out);
}

static int digest_model(struct pass *p, const struct manifest_args *a,
			struct outfile *out)
{
	struct weir_manifest *manifest;
	int r = 0;

	if (read_tensors(p, a, "reading") < 0 ||
	    weir_load_manifest(p->load, &manifest) < 0)
		return fail_weir();
	r = write_manifest(manifest, out);
	if (r == 0)
		report_tensors(p, a, manifest);
	weir_manifest_close(manifest);
	return r;
}

static int digest_run(const struct manifest_args *a)
{
	struct pass p = { 0 };
	struct outfile out = { 0 };
	int r = open_model(&p, a);

	if (r == 0)
		r = outfile_spare_model(a->other, p.weir, p.model, a->model);
	if (r == 0) {
		outfile_guard();
		r = outfile_open(&out, a->other);
		if (r == 0)
			r = digest_model(&p, a, &out);
		outfile_drop(&out);
		signals_release();
	}
	close_pass(&p);
	return r;
}

int digest_main(int argc, char **argv)
{
	static const char *const operands[] = { "MODEL", "OUT" };
	struct manifest_args a = { .root = WEIR_OPTS_INIT };
	const struct args args = { "digest", digest_help, digest_options, argc,
				   argv,     NULL,        &a.root };
	int r = args_options(&args, take_option, &a);
	bool has_out = argc - optind == 2;

	if (r == 0)
		r = args_operands(&args, has_out ? 2 : 1, operands);
	if (r)
		return r == ARGS_HELP ? 0 : r;
	a.model = argv[optind];
	a.other = has_out ? argv[optind + 1] : NULL;
	if (a.other && (r = args_out(&args, "OUT", a.other)))
		return r;
	return digest_run(&a);
}

/* Say which tensors do not match, or why others could not be read. */
static int fail_tensors(const struct pass *p, const struct manifest_args *a)
{
	struct weir_failure f;
	char tensors[COUNT_TEXT];
	uint64_t bad = 0, other = 0;

	for (size_t i = 0; p->load && i < weir_model_count(p->model); i++) {
		int r = weir_load_error(p->load, i, &f);

		other += r < 0 && r != -EBADMSG;
		if (r < 0 && ++bad <= MAX_NAMED)
			note("%s", f.text);
	}
	/* The load was not started, or a file has changed. */
	if (!bad)
		return fail_weir();
	return fail("%s: %llu of %s %s %s", a->model, (unsigned long long)bad,
		    count_text(weir_model_count(p->model), "tensor", tensors),
		    other ? "were not read or do not match" : "do not match",
		    a->other);
}

static int verify_tensors(struct pass *p, const struct manifest_args *a)
{
	if (weir_manifest_open(p->weir, a->other, &p->manifest) < 0)
		return fail_weir();
	if (read_tensors(p, a, "verifying") < 0)
		return fail_tensors(p, a);
	report_tensors(p, a, p->manifest);
	return 0;
}

/* @text: the sums; NULL: those that were published. */
static int verify_files(struct pass *p, const struct manifest_args *a,
			char *text)
{
	int64_t begin = now_ns();
	char items[COUNT_TEXT];
	unsigned n = 0;
	uint64_t bytes;
	int r = sums_verify(text,
			    text ? infile_name(a->other)
				 : "the published SHA-256 sums",
			    p->model, &bytes);

	if (r || a->quiet)
		return r;
	while (weir_model_file(p->model, n))
		n++;
	report(a->model, count_text(n, "file", items), bytes,
	       (double)(now_ns() - begin) / 1e9,
	       text ? "all match, SHA-256" : "all match the published SHA-256");
	return 0;
}

/* A manifest begins as an object. */
static bool is_manifest(const char *path)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : NULL;
	int c = ' ';

	while (f && (c == ' ' || c == '\t' || c == '\r' || c == '\n'))
		c = getc(f);
	if (f)
		fclose(f);
	return c == '{';
}

static int verify_run(const struct manifest_args *a)
{
	struct pass p = { 0 };
	bool has_manifest = a->other && is_manifest(a->other);
	char *text = NULL;
	size_t n;
	int r = 0;

	if (a->other && !has_manifest)
		r = infile_read(a->other, SUMS_MAX, true, &text, &n);
	if (r == 0 && text && memchr(text, '\0', n))
		r = fail("%s: neither a manifest nor a file of SHA-256 sums: "
			 "it is not text",
			 infile_name(a->other));
	if (r == 0)
		r = open_model(&p, a);
	if (r == 0)
		r = has_manifest ? verify_tensors(&p, a)
				 : verify_files(&p, a, text);
	free(text);
	close_pass(&p);
	return r;
}

int verify_main(int argc, char **argv)
{
	static const char *const operands[] = { "MODEL", "SUMS" };
	struct manifest_args a = { .root = WEIR_OPTS_INIT };
	const struct args args = { "verify", verify_help, verify_options, argc,
				   argv,     NULL,        &a.root };
	int r = args_options(&args, take_option, &a);
	bool has_sums = argc - optind > 1;

	if (r == 0)
		r = args_operands(&args, has_sums ? 2 : 1, operands);
	if (r)
		return r == ARGS_HELP ? 0 : r;
	a.model = argv[optind];
	a.other = has_sums ? argv[optind + 1] : NULL;
	return verify_run(&a);
}
