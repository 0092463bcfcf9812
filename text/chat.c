/* SPDX-License-Identifier: MIT */
#include "chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "chars.h"
#include "read_file.h"
#include "read_json.h"
#include "utf8.h"

/* White space at the ends of texts that a template removes. */
enum trim {
	TRIM_NOTHING,
	TRIM_USER,
	TRIM_BOTH, /* the ends of the system's text and of the user's */
	TRIM_TURN  /* the ends of the two texts together */
};

/*
 * What a template writes around the texts of the system and of the user: the
 * opening, before and after the system's, before and after the user's.
 */
struct chat_form {
	const char *name;
	const char *open, *before_system, *after_system, *before, *after;
	enum trim trim;
};

enum {
	CHATML,
	LLAMA2,
	LLAMA2_SYSTEM,
	LLAMA2_STRIP,
	LLAMA3,
	MISTRAL_V1,
	MISTRAL_V3,
	MISTRAL_V3_TEKKEN,
	MISTRAL_V7,
	MISTRAL_V7_TEKKEN,
	GEMMA,
	N_FORMS
};

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

const char *const chat_names[] = {
	"chatml",     "llama2",
	"llama3",     "mistral-v1",
	"mistral-v3", "mistral-v3-tekken",
	"mistral-v7", "mistral-v7-tekken",
	"gemma",      NULL,
};

/* Forms without a name are variants of llama2. */
static const struct chat_form forms[N_FORMS] = {
	[CHATML] = { "chatml", "", "<|im_start|>system\n", "<|im_end|>\n",
		     "<|im_start|>user\n",
		     "<|im_end|>\n<|im_start|>assistant\n", TRIM_NOTHING },
	[LLAMA2] = { NULL, "[INST] ", "", "\n", "", " [/INST]", TRIM_NOTHING },
	[LLAMA2_SYSTEM] = { NULL, "[INST] ", "<<SYS>>\n", "\n<</SYS>>\n\n", "",
			    " [/INST]", TRIM_NOTHING },
	[LLAMA2_STRIP] = { "llama2", "[INST] ", "<<SYS>>\n", "\n<</SYS>>\n\n",
			   "", " [/INST]", TRIM_TURN },
	[LLAMA3] = { "llama3", "", HEADER("system"), "<|eot_id|>",
		     HEADER("user"), "<|eot_id|>" HEADER("assistant"),
		     TRIM_BOTH },
	[MISTRAL_V1] = { "mistral-v1", " [INST] ", "", "\n\n", "", " [/INST]",
			 TRIM_NOTHING },
	[MISTRAL_V3] = { "mistral-v3", "[INST] ", "", "\n\n", "", "[/INST]",
			 TRIM_NOTHING },
	[MISTRAL_V3_TEKKEN] = { "mistral-v3-tekken", "[INST]", "", "\n\n", "",
				"[/INST]", TRIM_NOTHING },
	[MISTRAL_V7] = { "mistral-v7", "", "[SYSTEM_PROMPT] ",
			 "[/SYSTEM_PROMPT]", "[INST] ", "[/INST]",
			 TRIM_NOTHING },
	[MISTRAL_V7_TEKKEN] = { "mistral-v7-tekken", "", "[SYSTEM_PROMPT]",
				"[/SYSTEM_PROMPT]", "[INST]", "[/INST]",
				TRIM_NOTHING },
	[GEMMA] = { "gemma", "<start_of_turn>user\n", "", "\n\n", "",
		    "<end_of_turn>\n<start_of_turn>model\n", TRIM_USER },
};

/* A template has the form of the first rule whose two parts it contains. */
static const struct {
	const char *part, *other;
	int form;         /* -1: not supported */
	const char *name; /* name of a form that is not supported */
} rules[] = {
	{ "<|im_start|>", "<|im_sep|>", -1, "Phi-4" },
	{ "<|im_start|>", "<end_of_utterance>", -1, "SmolVLM" },
	{ "<|im_start|>", "", CHATML, NULL },
	{ "[INST]", "[SYSTEM_PROMPT] ", MISTRAL_V7, NULL },
	{ "[INST]", "[SYSTEM_PROMPT]", MISTRAL_V7_TEKKEN, NULL },
	{ "' [INST] ' + system_message", "", MISTRAL_V1, NULL },
	{ "[AVAILABLE_TOOLS]", " [INST]", MISTRAL_V1, NULL },
	{ "[AVAILABLE_TOOLS]", "\"[INST]\"", MISTRAL_V3_TEKKEN, NULL },
	{ "[AVAILABLE_TOOLS]", "[INST]", MISTRAL_V3, NULL },
	{ "[INST]", "content.strip()", LLAMA2_STRIP, NULL },
	{ "[INST]", "<<SYS>>", LLAMA2_SYSTEM, NULL },
	{ "[INST]", "bos_token + '[INST]", LLAMA2_SYSTEM, NULL },
	{ "[INST]", "", LLAMA2, NULL },
	{ "<|assistant|>", "<|end|>", -1, "Phi-3" },
	{ "[gMASK]", "", -1, "ChatGLM" },
	{ "<|user|>", "", -1, "Zephyr, TinyLlama or Falcon 3" },
	{ "<start_of_turn>", "", GEMMA, NULL },
	{ "### Instruction:", "", -1, "Alpaca or DeepSeek Coder" },
	{ "USER: ", "ASSISTANT: ", -1, "Vicuna" },
	{ "<|START_OF_TURN_TOKEN|>", "", -1, "Command R" },
	{ "<|start_header_id|>", "<|end_header_id|>", LLAMA3, NULL },
	{ "<\xef\xbd\x9cUser\xef\xbd\x9c>", "", -1, "DeepSeek" },
	{ "<|start_of_role|>", "", -1, "Granite" },
	{ "<|header_start|>", "<|header_end|>", -1, "Llama 4" },
};

static const char *find(const char *s, size_t len, const char *part)
{
	return memmem(s, len, part, strlen(part));
}

/*
 * Copy the text of a string of a template up to @end. Returns false if it is
 * not all in one string, or has an escape other than that of a newline.
 */
static bool copy_string(const char *s, const char *end, char *to)
{
	size_t n = 0;

	for (; s < end; s++) {
		if (end - s >= 2 && s[0] == '\\' && s[1] == 'n') {
			to[n++] = '\n';
			s++;
		} else if (strchr("'\"{}\\", *s)) {
			return false;
		} else {
			to[n++] = *s;
		}
	}
	to[n] = '\0';
	return true;
}

/*
 * Find the system message that a ChatML template uses if none is given:
 * templates that have one write it as one string. Sets NULL if there is none.
 */
static int find_system(const char *s, size_t len, char **ret_system)
{
	static const char begin[] = "<|im_start|>system";
	const char *end = s + len, *stop, *later;
	char *text = malloc(len + 1);

	if (!text)
		return text_fail(-ENOMEM, "no memory for %zu bytes", len);
	*ret_system = NULL;
	while ((s = find(s, (size_t)(end - s), begin))) {
		stop = find(s, (size_t)(end - s), "<|im_end|>");
		if (!stop)
			break;
		/*
		 * Go to the last beginning before the end, so that no byte is
		 * copied twice.
		 */
		while ((later = find(s + 1, (size_t)(stop - s) - 1, begin)))
			s = later;
		s += strlen(begin);
		if (copy_string(s, stop, text) && text[0] == '\n' && text[1]) {
			memmove(text, text + 1, strlen(text));
			*ret_system = text;
			return 0;
		}
		s = stop;
	}
	free(text);
	return 0;
}

static int refuse(const char *file, const char *name)
{
	return text_fail(-EOPNOTSUPP,
			 "%s: the chat template%s%s is not supported, only "
			 "ChatML and those of Llama 2, Llama 3, Mistral and "
			 "Gemma are",
			 file, name ? " of " : "", name ? name : "");
}

int chat_parse(const char *file, const char *template, size_t len,
	       struct chat *ret_chat)
{
	struct chat chat = { .form = NULL };
	int r = 0;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (!find(template, len, rules[i].part) ||
		    !find(template, len, rules[i].other))
			continue;
		if (rules[i].form < 0)
			return refuse(file, rules[i].name);
		chat.form = &forms[rules[i].form];
		if (rules[i].form == CHATML)
			r = find_system(template, len, &chat.system);
		if (!r)
			*ret_chat = chat;
		return r;
	}
	return refuse(file, NULL);
}

int chat_named(const char *name, struct chat *ret_chat)
{
	for (size_t i = 0; i < N_FORMS; i++) {
		if (!forms[i].name || strcmp(forms[i].name, name) != 0)
			continue;
		*ret_chat = (struct chat){ .form = &forms[i] };
		return 0;
	}
	return text_fail(-ENOENT, "there is no chat template '%s'", name);
}

void chat_fini(struct chat *chat)
{
	free(chat->system);
}

/* One of several templates: { "name": ..., "template": ... }. */
struct named {
	const char *wanted;
	struct json_string template;
};

static int read_named(struct json *j, struct named *named)
{
	static const char *const names[] = { "name", "template" };
	struct json_string name;
	struct json member[2];
	int r = text_json_members(j, names, 2, member);

	if (!r && (!member[0].at || !member[1].at))
		r = text_json_fail(j, "a template with a name");
	if (!r)
		r = text_json_string(&member[0], &name);
	if (r < 0 || !text_json_is(&name, named->wanted))
		return r;
	return text_json_string(&member[1], &named->template);
}

static int read_templates(struct json *j, struct named *named)
{
	int r = text_json_enter(j, '[');

	while (r >= 0 && (r = text_json_element(j)) > 0) {
		struct json item = *j;

		r = text_json_skip(j);
		if (!r)
			r = read_named(&item, named);
	}
	return r;
}

/*
 * chat_template of a tokenizer_config.json: a template, or several with names.
 */
static int parse_config(const char *file, unsigned char *bytes, size_t n,
			template_fn *use, void *to)
{
	static const char *const names[] = { "chat_template" };
	struct named named = { .wanted = "default" };
	struct json j, member;
	int r;

	text_json_init(&j, file, bytes, n);
	r = text_json_members(&j, names, 1, &member);
	if (!r)
		r = text_json_finish(&j);
	if (!r && member.at)
		r = text_json_peek(&member) == '['
			    ? read_templates(&member, &named)
			    : text_json_string(&member, &named.template);
	if (!r && !named.template.s)
		r = text_fail(-ENOENT, "%s: the model has no chat template",
			      file);
	return r ? r
		 : use(file, (const char *)named.template.s, named.template.len,
		       to);
}

static int find_beside(const struct weir_model *model, const char *path,
		       template_fn *use, void *to)
{
	const struct text_folder folder = { .model = model };
	struct text_file file;
	int r = text_folder_read(&folder, "chat_template.jinja", &file);

	if (r > 0) {
		r = use(file.path, (const char *)file.bytes, file.n, to);
		free(file.bytes);
		return r;
	}
	if (r == 0)
		r = text_folder_read(&folder, "tokenizer_config.json", &file);
	if (r > 0) {
		r = parse_config(file.path, file.bytes, file.n, use, to);
		free(file.bytes);
		return r;
	}
	return r < 0 ? r
		     : text_fail(-ENOENT,
				 "%s: the model has no chat template: neither "
				 "chat_template.jinja nor "
				 "tokenizer_config.json is beside it",
				 path);
}

int chat_template(const struct weir_model *model, template_fn *use, void *to)
{
	static const char key[] = "tokenizer.chat_template";
	struct weir_value value = { .size = sizeof(value) };
	struct weir_model_info info = { .size = sizeof(info) };
	int r = weir_model_info(model, &info);

	if (r < 0)
		return text_fail(r, "%s", weir_error());
	if (weir_model_meta(model, key, &value) == 0) {
		if (value.type != WEIR_VALUE_STRING)
			return text_fail(-EBADMSG, "%s: %s: not a string",
					 info.path, key);
		return use(info.path, value.str, value.len, to);
	}
	if (strcmp(info.format, "GGUF") != 0)
		return find_beside(model, info.path, use, to);
	return text_fail(-ENOENT, "%s: the model has no chat template (%s)",
			 info.path, key);
}

static int parse_to(const char *file, const char *template, size_t len,
		    void *to)
{
	return chat_parse(file, template, len, to);
}

int chat_from_model(const struct weir_model *model, struct chat *ret_chat)
{
	return chat_template(model, parse_to, ret_chat);
}

/* Return the length of the white space at the end of a text. */
static size_t blank_end(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t end = len;
	uint32_t c;

	while (end) {
		size_t last = end - 1;

		while (last && (s[last] & 0xc0) == 0x80)
			last--;
		if (utf8_begun(s + last, end - last) != end - last)
			break;
		utf8_get(s + last, &c);
		if (chars_class(c) != CHAR_SPACE)
			break;
		end = last;
	}
	return len - end;
}

static size_t blank_begin(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0;
	uint32_t c;

	while (at < len) {
		unsigned n = utf8_begun(s + at, len - at);

		if (!n || n < utf8_bytes(s[at]))
			break;
		utf8_get(s + at, &c);
		if (chars_class(c) != CHAR_SPACE)
			break;
		at += n;
	}
	return at;
}

static struct tokenizer_part trimmed(const char *text, size_t len, bool begin,
				     bool end)
{
	size_t n = begin ? blank_begin(text, len) : 0;

	text += n;
	len -= n;
	return (struct tokenizer_part){ text,
					len - (end ? blank_end(text, len) : 0),
					false };
}

static struct tokenizer_part written(const char *text)
{
	return (struct tokenizer_part){ text, strlen(text), true };
}

int chat_encode(const struct chat *chat, const struct tokenizer *t,
		const char *system, const char *user, size_t len,
		struct tokenizer_ids *ids)
{
	const struct chat_form *f = chat->form;
	bool both = f->trim == TRIM_BOTH, end = f->trim != TRIM_NOTHING, turn;
	struct tokenizer_part part[TOKENIZER_PARTS_MAX], said;
	size_t n = 0;

	if (!system)
		system = chat->system;
	turn = f->trim == TRIM_TURN && system;
	said = trimmed(user, len, end && !turn, end);
	part[n++] = written(f->open);
	if (system) {
		part[n++] = written(f->before_system);
		part[n++] = trimmed(system, strlen(system), both, both);
		part[n] = written(f->after_system);
		/* The white space of the template would end the turn. */
		if (turn && !said.len)
			part[n].len -= blank_end(part[n].text, part[n].len);
		n++;
	}
	part[n++] = written(f->before);
	part[n++] = said;
	part[n++] = written(f->after);
	return tokenizer_encode_parts(t, part, n, TOKENIZER_ADD, ids);
}
