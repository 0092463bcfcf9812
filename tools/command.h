/* SPDX-License-Identifier: MIT */
/*
 * The subcommands. Each takes its own argument vector (argv[0] is its name) and
 * returns the exit status: 0, EXIT_FAILURE, EXIT_USAGE, EXIT_NO_ROOM or
 * EXIT_NOT_KNOWN. After EXIT_FAILURE or EXIT_USAGE the subcommand has written
 * one line to stderr and nothing to stdout; run may have written a part of the
 * text.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

int convert_main(int argc, char **argv);
int devices_main(int argc, char **argv);
int digest_main(int argc, char **argv);
int fetch_main(int argc, char **argv);
int graph_main(int argc, char **argv);
int inspect_main(int argc, char **argv);
int load_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int run_main(int argc, char **argv);
int synth_main(int argc, char **argv);
int verify_main(int argc, char **argv);

#endif
