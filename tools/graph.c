/* SPDX-License-Identifier: MIT */
#include "graph.h"

#include "args.h"
#include "command.h"
#include "output.h"
#include "signals.h"

static const char help[] =
	"usage: weir graph [OPTION]... MODEL [OUT]\n"
	"Show the operations of a pass of a model that weir run supports: GGUF, or\n"
	"safetensors with their config.json. Reads no weights. Prints a table, or draws\n"
	"a picture to OUT, or to stdout. Defaults are in brackets.\n"
	"\n"
	"  --svg          draw the graph as SVG\n"
	"  --dot          describe it in DOT, for graphviz\n"
	"  --json         print a JSON object\n"
	"  --all          draw each layer; without it, layers that compute the same as\n"
	"                 an earlier one share a box\n"
	"  --tokens N     number of tokens that the pass reads [1]\n"
	"  --devices A,B  divide the layers among these devices, as weir run does [CPU]\n"
	"  --budget SIZE  bytes of weights that stay in the memory of each\n"
	"                 device; the others are read in each pass [no limit]\n"
	"  --context N    number of tokens to which it attends [--tokens, rounded up\n"
	"                 to a multiple of 256, at most the context of the model]\n";

enum {
	GRAPH_OPT_SVG = ARGS_OPTION,
	GRAPH_OPT_DOT,
	GRAPH_OPT_JSON,
	GRAPH_OPT_ALL,
	GRAPH_OPT_TOKENS,
	GRAPH_OPT_CONTEXT,
	GRAPH_OPT_DEVICES,
	GRAPH_OPT_BUDGET
};

static const struct option options[] = {
	{ "svg", no_argument, NULL, GRAPH_OPT_SVG },
	{ "dot", no_argument, NULL, GRAPH_OPT_DOT },
	{ "json", no_argument, NULL, GRAPH_OPT_JSON },
	{ "all", no_argument, NULL, GRAPH_OPT_ALL },
	{ "tokens", required_argument, NULL, GRAPH_OPT_TOKENS },
	{ "context", required_argument, NULL, GRAPH_OPT_CONTEXT },
	{ "devices", required_argument, NULL, GRAPH_OPT_DEVICES },
	{ "budget", required_argument, NULL, GRAPH_OPT_BUDGET },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_form(const struct args *args, struct graph_args *a,
		     enum graph_form form)
{
	if (a->form != GRAPH_TABLE && a->form != form)
		return fail_usage(args->command,
				  "only one of --svg, --dot and --json is "
				  "possible");
	a->form = form;
	return 0;
}

static int take_option(const struct args *args, int c, void *to)
{
	struct graph_args *a = to;

	switch (c) {
	case GRAPH_OPT_SVG:
		return take_form(args, a, GRAPH_SVG);
	case GRAPH_OPT_DOT:
		return take_form(args, a, GRAPH_DOT);
	case GRAPH_OPT_JSON:
		return take_form(args, a, GRAPH_JSON);
	case GRAPH_OPT_ALL:
		a->all = true;
		break;
	case GRAPH_OPT_TOKENS:
		return args_number(args, "--tokens", 1, INT32_MAX, &a->tokens);
	case GRAPH_OPT_CONTEXT:
		return args_number(args, "--context", 1, INT32_MAX,
				   &a->context);
	case GRAPH_OPT_DEVICES:
		a->devices = optarg;
		break;
	case GRAPH_OPT_BUDGET:
		return args_size(args, "--budget", 1, INT64_MAX, &a->budget);
	}
	return 0;
}

static bool is_picture(const struct graph_args *a)
{
	return a->form == GRAPH_SVG || a->form == GRAPH_DOT;
}

static int take_operands(const struct args *args, struct graph_args *a)
{
	static const char *const operands[] = { "MODEL", "OUT" };
	const int given = args->argc - optind;
	int r = args_operands(args, given == 2 ? 2 : 1, operands);

	if (r)
		return r;
	a->model = args->argv[optind];
	a->out = given == 2 ? args->argv[optind + 1] : NULL;
	if (a->out && (r = args_out(args, "OUT", a->out)))
		return r;
	if (a->out && !is_picture(a))
		return fail_usage(args->command,
				  "'%s' is for a picture: --svg or --dot is "
				  "missing",
				  a->out);
	return 0;
}

static int parse_args(const struct args *args, struct graph_args *a)
{
	const struct weir_opts root = WEIR_OPTS_INIT;
	int r;

	*a = (struct graph_args){ .tokens = 1, .root = root };
	r = args_options(args, take_option, a);
	return r ? r : take_operands(args, a);
}

static int draw_scene(const struct graph_view *v, const struct graph_args *a,
		      struct outfile *out)
{
	struct graph_scene s;
	int r = graph_scene_new(v, a->all, &s);

	if (r == 0)
		r = a->form == GRAPH_SVG ? graph_draw_svg(v, &s, out)
					 : graph_draw_dot(v, &s, out);
	graph_scene_free(&s);
	return r;
}

static int draw(const struct graph_view *v, const struct graph_model *m,
		const struct graph_args *a)
{
	struct outfile out;
	int r = outfile_spare_model(a->out, m->weir, m->llama.model, a->model);

	if (r)
		return r;
	outfile_guard();
	r = outfile_open(&out, a->out);
	if (r == 0)
		r = draw_scene(v, a, &out);
	outfile_drop(&out);
	signals_release();
	return r;
}

static int show(struct graph_view *v, const struct graph_model *m,
		const struct graph_args *a)
{
	int r = graph_view_new(v, a, m);

	if (r == 0)
		r = graph_splits(v, m);
	if (r == 0 && is_picture(a))
		r = graph_parts(v);
	if (r)
		return r;
	if (is_picture(a))
		return draw(v, m, a);
	if (a->form == GRAPH_JSON)
		graph_put_json(v);
	else
		graph_put_table(v);
	return 0;
}

int graph_main(int argc, char **argv)
{
	struct graph_args a;
	const struct args args = { "graph", help, options, argc,
				   argv,    NULL, &a.root };
	struct graph_view v = { 0 };
	struct graph_model m;
	int r = parse_args(&args, &a);

	if (r)
		return r == ARGS_HELP ? 0 : r;
	r = graph_model_open(&m, &a);
	if (r == 0)
		r = show(&v, &m, &a);
	graph_view_free(&v);
	graph_model_close(&m);
	return r;
}
