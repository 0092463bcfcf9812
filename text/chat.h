/* SPDX-License-Identifier: MIT */
/*
 * The turn of a user, as the chat template of a model writes it. Templates are
 * programs (Jinja); they are not run, but recognised, as llama.cpp recognises
 * them: ChatML, and those of Llama 2, Llama 3, Mistral and Gemma.
 */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "tokenizer.h"

/* The calls below set these members, and the caller does not change them. */
struct chat {
	const struct chat_form *form;
	char *system; /* the system message, if none is given; NULL: none */
};

/*
 * Recognise the template of a model: tokenizer.chat_template of GGUF; else
 * chat_template.jinja, or chat_template in tokenizer_config.json, in the folder
 * of the model. -ENOENT: it has none. -EOPNOTSUPP: another template; the
 * sentence has its name, if it is known. -EBADMSG, or those of open(2) and
 * read(2).
 */
int chat_from_model(const struct weir_model *model, struct chat *ret_chat);
/* Find the same template, and call @use with its text. Returns its result. */
typedef int template_fn(const char *file, const char *template, size_t len,
			void *to);
int chat_template(const struct weir_model *model, template_fn *use, void *to);
/* Recognise @len bytes of a template. @file is for sentences. */
int chat_parse(const char *file, const char *template, size_t len,
	       struct chat *ret_chat);
/*
 * Find a template by its name, one of chat_names, a list that NULL ends.
 * -ENOENT: there is no such name.
 */
int chat_named(const char *name, struct chat *ret_chat);
extern const char *const chat_names[];
void chat_fini(struct chat *chat);

/*
 * Append the tokens of a turn: the system message (NULL: the one that the
 * template has by default), the user's message, and the beginning of the
 * answer. Names of control tokens in these two messages are text. Errors of
 * tokenizer_encode().
 */
int chat_encode(const struct chat *chat, const struct tokenizer *t,
		const char *system, const char *user, size_t len,
		struct tokenizer_ids *ids);

#endif
