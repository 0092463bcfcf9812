/* SPDX-License-Identifier: MIT */
/* weir fetch: a model at a URL is copied into a folder. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <weir.h>
#include "args.h"
#include "command.h"
#include "output.h"
#include "progress.h"
#include "signals.h"

static const char help[] =
	"usage: weir fetch [OPTION]... URL DIR\n"
	"Copy the model at URL into the folder DIR: a file, or an index or a folder\n"
	"with the small files beside it. What has arrived is kept if the command is\n"
	"interrupted, and the next one requests only what is missing. Files are\n"
	"compared with what their source says before they get their names.\n"
	"\n"
	"  --replace    replace files that are in the way, too\n"
	"  --json       print the report as JSON\n"
	"  --quiet      print no report\n"
	"  --progress-fd N\n"
	"               write the progress to descriptor N, as lines of JSON\n";

enum {
	OPT_REPLACE = ARGS_OPTION,
	OPT_JSON,
	OPT_QUIET,
	OPT_PROGRESS_FD
};

static const struct option options[] = {
	{ "replace", no_argument, NULL, OPT_REPLACE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "progress-fd", required_argument, NULL, OPT_PROGRESS_FD },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

struct fetch {
	const char *url, *dir;
	bool replace, json, quiet;
	bool begun; /* there is a bar */
	struct progress bar;
	uint64_t done;
};

static int take_option(const struct args *args, int c, void *to)
{
	struct fetch *f = to;

	switch (c) {
	case OPT_REPLACE:
		f->replace = true;
		break;
	case OPT_JSON:
		f->json = true;
		break;
	case OPT_QUIET:
		f->quiet = true;
		break;
	case OPT_PROGRESS_FD:
		return progress_take_fd(args);
	}
	return 0;
}

/* The total is known when this is called first. */
static int on_progress(void *arg, const struct weir_fetch_progress *progress)
{
	struct fetch *f = arg;

	if (!f->begun)
		progress_begin(&f->bar, "fetching", progress->bytes);
	f->begun = true;
	f->done = progress->done;
	progress_show(&f->bar, progress->done);
	return signals_caught();
}

static void show(const struct fetch *f, const struct weir_fetch_report *r,
		 double seconds)
{
	char files[COUNT_TEXT], bytes[SIZE_TEXT], got[SIZE_TEXT],
		rate[SIZE_TEXT], text[COUNT_TEXT], kept[COUNT_TEXT + 32] = "";

	if (r->kept)
		snprintf(kept, sizeof(kept), ", %s complete before",
			 count_text(r->kept, "file", text));
	note("%s: %s, %s: %s received in %.2f s (%s/s)%s%s", f->dir,
	     count_text(r->files, "file", files), size_text(r->bytes, bytes),
	     size_text(r->received, got), seconds,
	     size_text(seconds > 0 ? (uint64_t)((double)r->received / seconds)
				   : 0,
		       rate),
	     kept, r->sums ? ", SHA-256 compared" : "");
}

static int fetch(struct fetch *f, struct weir *weir)
{
	struct weir_fetch_report report = { .size = sizeof(report) };
	struct weir_fetch_opts opts = WEIR_FETCH_OPTS_INIT;
	int64_t begin = now_ns();
	double seconds;
	int r;

	opts.flags = f->replace ? WEIR_FETCH_REPLACE : 0;
	opts.progress = on_progress;
	opts.arg = f;
	r = weir_fetch(weir, f->url, f->dir, &opts, &report);
	seconds = (double)(now_ns() - begin) / 1e9;
	if (f->begun)
		progress_end(&f->bar, r < 0 ? f->done : report.bytes);
	if (r < 0 && signals_caught())
		return EXIT_FAILURE; /* by the signal */
	if (r < 0)
		return fail_weir();
	if (f->json)
		out_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "dir",
				   f->dir, "files", (json_int_t)report.files,
				   "bytes", (json_int_t)report.bytes,
				   "received", (json_int_t)report.received,
				   "kept", (json_int_t)report.kept, "sums",
				   (json_int_t)report.sums, "seconds",
				   seconds));
	else if (!f->quiet)
		show(f, &report, seconds);
	return 0;
}

int fetch_main(int argc, char **argv)
{
	static const char *const operands[] = { "URL", "DIR" };
	const struct args args = { "fetch", help, options, argc,
				   argv,    NULL, NULL };
	struct fetch f = { 0 };
	struct weir *weir;
	int r = args_options(&args, take_option, &f);

	if (r == 0)
		r = args_operands(&args, 2, operands);
	if (r)
		return r == ARGS_HELP ? 0 : r;
	f.url = argv[optind];
	f.dir = argv[optind + 1];
	if (weir_open(NULL, &weir) < 0)
		return fail_weir();
	signals_catch(NULL);
	r = fetch(&f, weir);
	weir_close(weir);
	signals_release();
	return r;
}
