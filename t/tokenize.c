/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers for tests in other languages: tokenize FILE FLAGS [TEMPLATE] reads
 * texts from stdin, each ended by a NUL, and prints for each its tokens and, on
 * the next line, the text that these make, in hexadecimal; or a line "error:
 * ...". With the file of a chat template a text is what a user says, after what
 * the system says and a byte 2, if that is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "../text/chat.h"

static int open_gguf(const char *path, struct tokenizer **ret_t)
{
	struct weir_model *model;
	struct weir *weir;
	int r;

	if (weir_open(NULL, &weir) < 0 ||
	    weir_model_open(weir, path, NULL, &model) < 0) {
		fprintf(stderr, "%s\n", weir_error());
		exit(1);
	}
	r = tokenizer_from_model(model, ret_t);
	weir_model_close(model);
	weir_close(weir);
	return r;
}

static void put_hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", (unsigned char)s[i]);
}

static void decode(struct tokenizer_decoder *d, const struct tokenizer_ids *ids)
{
	const char *s;
	size_t n;

	for (size_t i = 0; i < ids->n; i++) {
		printf("%s%d", i ? " " : "", ids->id[i]);
	}
	putchar('\n');
	for (size_t i = 0; i < ids->n; i++) {
		if (tokenizer_decode(d, ids->id[i], &s, &n) < 0)
			exit(1);
		put_hex(s, n);
	}
	tokenizer_decode_end(d, &s, &n);
	put_hex(s, n);
	putchar('\n');
}

static int open_chat(const char *path, struct chat *ret_chat)
{
	static char text[100000];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof(text), f) : 0;

	if (!f || fclose(f))
		exit(1);
	return chat_parse(path, text, n, ret_chat);
}

static int encode(const struct tokenizer *t, const struct chat *chat,
		  char *text, size_t n, unsigned flags,
		  struct tokenizer_ids *ids)
{
	char *user;

	if (!chat->form)
		return tokenizer_encode(t, text, n, flags, ids);
	user = memchr(text, 2, n);
	if (!user)
		return chat_encode(chat, t, NULL, text, n, ids);
	*user++ = '\0';
	return chat_encode(chat, t, text, user, n - (size_t)(user - text), ids);
}

int main(int argc, char **argv)
{
	struct chat chat = { NULL, NULL };
	struct tokenizer_ids ids = { NULL, 0, 0 };
	struct tokenizer_decoder *d;
	struct tokenizer *t;
	char *text = NULL;
	size_t room = 0;
	unsigned flags;
	ssize_t n;

	if (argc != 3 && argc != 4)
		return 2;
	flags = (unsigned)atoi(argv[2]);
	if ((strstr(argv[1], ".gguf") ? open_gguf(argv[1], &t)
				      : tokenizer_open(argv[1], &t)) < 0 ||
	    tokenizer_decoder_new(t, flags, &d) < 0 ||
	    (argc == 4 && open_chat(argv[3], &chat) < 0))
		return fprintf(stderr, "%s\n", text_error()), 1;
	while ((n = getdelim(&text, &room, '\0', stdin)) > 0) {
		ids.n = 0;
		if (encode(t, &chat, text, (size_t)n - 1, flags, &ids) < 0)
			printf("error: %s\n\n", text_error());
		else
			decode(d, &ids);
	}
	chat_fini(&chat);
	free(text);
	free(ids.id);
	tokenizer_decoder_free(d);
	tokenizer_free(t);
	return 0;
}
