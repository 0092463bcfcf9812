/* SPDX-License-Identifier: MIT */
/*
 * Chat templates: the system message of ChatML's. t/text/tokenizers.sh has the
 * turns.
 */
#include <stdlib.h>
#include <string.h>

#include "../../text/chat.h"
#include "tap.h"

#define BEGIN "<|im_start|>system"

/* The system message that a template has, or "(none)"; the caller frees it. */
static char *system_of(const char *template, size_t len)
{
	struct chat chat;
	char *system;

	if (chat_parse("template", template, len, &chat) < 0)
		bail("%s", text_error());
	system = strdup(chat.system ? chat.system : "(none)");
	chat_fini(&chat);
	return system;
}

static void is_system(const char *template, const char *want, const char *title)
{
	char *system = system_of(template, strlen(template));

	is_str(system, want, "%s", title);
	free(system);
}

static void finds_the_system_message(void)
{
	is_system("{{ '" BEGIN "\\nBe kind.<|im_end|>\\n' }}", "Be kind.",
		  "the system message of a template is found");
	is_system("{{ '" BEGIN "\\n' + system }}{{ '" BEGIN
		  "\\nBe kind.<|im_end|>' }}",
		  "Be kind.",
		  "a system message is found after a begin without an end");
	is_system("{{ '" BEGIN "\\n' + system + '<|im_end|>' }}{{ '" BEGIN
		  "\\nBe kind.<|im_end|>' }}",
		  "Be kind.",
		  "a system message is found after one that is given");
	is_system("{{ '" BEGIN "\\n' + system + '<|im_end|>' }}", "(none)",
		  "a system message that is given is none of the template");
	is_system("{{ '" BEGIN "\\n<|im_end|>' }}", "(none)",
		  "a system message without text is none");
	is_system("{{ '" BEGIN "\\nBe kind.' }}", "(none)",
		  "a system message without an end is none");
}

/* A quadratic search takes minutes of CPU time: the watchdog ends the test. */
static void many_begins(void)
{
	const size_t n = 200000, step = strlen(BEGIN);
	const char rest[] = "\\nBe 'kind'.<|im_end|>";
	char *template = malloc(n * step + sizeof(rest)), *system;

	if (!template)
		bail("no memory");
	for (size_t i = 0; i < n; i++)
		memcpy(template + i * step, BEGIN, step);
	memcpy(template + n * step, rest, sizeof(rest));
	system = system_of(template, n * step + strlen(rest));
	is_str(system, "(none)",
	       "200000 begins of system messages are read in linear time");
	free(system);
	free(template);
}

int main(void)
{
	plan(7);
	finds_the_system_message();
	many_begins();
	return done_testing();
}
