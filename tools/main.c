/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <weir.h>
#include "command.h"
#include "output.h"

static const char help[] =
	"usage: weir COMMAND [OPTION]... [ARGUMENT]...\n"
	"Inspect, load, run and write model files.\n"
	"\n"
	"  convert   write a model in another format, in shards, in another dtype\n"
	"  devices   list devices, their memory, and the features of io_uring\n"
	"  digest    write a manifest: the digest of each tensor of a model\n"
	"  fetch     copy a model from a URL into a folder\n"
	"  graph     show what a pass of a model computes; a picture\n"
	"  inspect   list the tensors of a model, its metadata and totals\n"
	"  load      load a model, report how fast; digests\n"
	"  run       continue a text with a Llama, Mistral, Qwen2 or Qwen3 model; chats\n"
	"  plan      place buffers with known lifetimes in one memory; a picture\n"
	"  synth     write a model of a known shape with random bytes\n"
	"  verify    check a model against a manifest, or against SHA-256 sums\n"
	"\n"
	"weir COMMAND --help and weir(1) describe each command.\n"
	"Exit status: 0 success, 1 failure, 2 invalid command line, 3 it does not fit\n"
	"(weir load --estimate, weir plan --capacity), 4 it is not known whether it\n"
	"fits (weir plan --capacity).\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "convert", convert_main }, { "devices", devices_main },
	{ "digest", digest_main },   { "fetch", fetch_main },
	{ "graph", graph_main },     { "inspect", inspect_main },
	{ "load", load_main },       { "plan", plan_main },
	{ "run", run_main },         { "synth", synth_main },
	{ "verify", verify_main },
};

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[0], commands[i].name))
			return commands[i].run(argc, argv);
	return fail_usage("", "unknown command '%s'", argv[0]);
}

/* "weir help load" means "weir load --help". */
static int help_main(int argc, char **argv)
{
	char *ask[] = { NULL, (char[]){ "--help" }, NULL };

	if (argc > 2)
		return fail_usage("", "'%s' is one argument too many", argv[2]);
	if (argc == 2) {
		ask[0] = argv[1];
		return run_command(2, ask);
	}
	fputs(help, stdout);
	return 0;
}

static int version_main(int argc, char **argv)
{
	if (argc > 1)
		return fail_usage("", "'%s' is one argument too many", argv[1]);
	printf("weir %s\n", weir_version_string());
	return 0;
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2)
		return fail_usage("", "a command is missing");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
	    !strcmp(argv[1], "help"))
		return help_main(argc - 1, argv + 1);
	if (!strcmp(argv[1], "--version"))
		return version_main(argc - 1, argv + 1);
	if (argv[1][0] == '-')
		return fail_usage("", "unknown option '%s'", argv[1]);
	return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	out_guard();
	/* Report a file that exceeds RLIMIT_FSIZE as an error (EFBIG). */
	signal(SIGXFSZ, SIG_IGN);
	return out_finish(dispatch(argc, argv));
}
