/* SPDX-License-Identifier: MIT */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local const char *current_call;
static _Thread_local char sentence[WEIR__ERROR_MAX];
static _Thread_local unsigned sentences; /* how many the thread has set */

const char *weir_error(void)
{
	return sentence;
}

void weir__enter(const char *call)
{
	current_call = call;
}

/* A sentence stays one line even if it quotes bytes of a file. */
static void escape_controls(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

__attribute__((format(printf, 3, 0))) static void
text_append(char *text, size_t room, const char *fmt, va_list ap)
{
	size_t at = strnlen(text, room);

	if (at < room)
		vsnprintf(text + at, room - at, fmt, ap);
}

void weir__append(char *text, size_t room, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_append(text, room, fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 2, 0))) static void
sentence_keep(const char *tail, const char *fmt, va_list ap)
{
	/* Not formatted in place: an argument may be the current sentence. */
	char text[WEIR__ERROR_MAX] = "";

	if (current_call)
		weir__append(text, sizeof(text), "%.*s: ", WEIR__CALL_MAX,
			     current_call);
	text_append(text, sizeof(text), fmt, ap);
	if (tail)
		weir__append(text, sizeof(text), ": %s", tail);
	escape_controls(text);
	memcpy(sentence, text, sizeof(sentence));
	sentences++;
}

int weir__fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sentence_keep(NULL, fmt, ap);
	va_end(ap);
	return err;
}

int weir__fail_sys(int err, const char *fmt, ...)
{
	char name[128];
	va_list ap;

	va_start(ap, fmt);
	sentence_keep(strerror_r(-err, name, sizeof(name)), fmt, ap);
	va_end(ap);
	return weir__cause_errno(err);
}

const char *weir__error_text(void)
{
	size_t call = current_call ? strnlen(current_call, WEIR__CALL_MAX) : 0;

	return call && strlen(sentence) > call + 2 ? sentence + call + 2
						   : sentence;
}

int weir__fail_for(int err, const char *fmt, ...)
{
	char tail[WEIR__ERROR_MAX];
	va_list ap;

	snprintf(tail, sizeof(tail), "%s", weir__error_text());
	va_start(ap, fmt);
	sentence_keep(tail, fmt, ap);
	va_end(ap);
	return err;
}

int weir__fail_as(const char *call, int err)
{
	char text[WEIR__ERROR_MAX];

	snprintf(text, sizeof(text), "%s", weir__error_text());
	weir__enter(call);
	return weir__fail(err, "%s", text);
}

int weir__cause_errno(int err)
{
	return err == -ETIMEDOUT ? -EIO : err;
}

/* Some errnos that are internal to the kernel still reach programs. */
static const char *nameless(int err)
{
	static _Thread_local char text[32];

	snprintf(text, sizeof(text), "errno %d", err);
	return text;
}

const char *weir__errno_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : nameless(err);
}

const char *weir__errno_describe(int err)
{
	const char *words = strerrordesc_np(err);

	return words ? words : nameless(err);
}

unsigned weir__error_count(void)
{
	return sentences;
}

const char *weir__error_since(unsigned count, int err)
{
	return sentences == count ? weir__errno_describe(-err)
				  : weir__error_text();
}

void weir__failure_set(struct weir_failure *f, int err, int32_t native,
		       uint64_t number, const char *fmt, ...)
{
	va_list ap;

	f->err = weir__cause_errno(err);
	f->native = native || f->err == err ? native : -err;
	f->number = number;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	escape_controls(f->text);
}

int weir__fail_with(const struct weir_failure *f)
{
	return weir__fail(f->err, "%s", f->text);
}

void weir__error_save(struct weir__error_saved *ret_saved)
{
	ret_saved->call = current_call;
	memcpy(ret_saved->text, sentence, sizeof(sentence));
}

void weir__error_restore(const struct weir__error_saved *saved)
{
	current_call = saved->call;
	memcpy(sentence, saved->text, sizeof(sentence));
}

const char *weir__quote(const char *bytes, size_t len)
{
	static _Thread_local char ring[4][96];
	static _Thread_local unsigned next_buf;
	char *out = ring[next_buf++ % 4];
	size_t at = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];

		if (at > sizeof(ring[0]) - 8) {
			memcpy(out + at, "...", 3);
			at += 3;
			break;
		}
		if (c < 0x20 || c == 0x7f || c == '\\')
			at += (size_t)snprintf(out + at, 5, "\\x%02x", c);
		else
			out[at++] = (char)c;
	}
	out[at] = '\0';
	return out;
}

int weir__opts_in(void *dst, size_t dst_size, const void *src)
{
	size_t size;

	memset(dst, 0, dst_size);
	memcpy(dst, &dst_size, sizeof(dst_size));
	if (!src)
		return 0;
	memcpy(&size, src, sizeof(size));
	if (size < sizeof(size))
		return weir__fail(
			-EINVAL,
			"options of %zu bytes: set .size first (WEIR_..._OPTS_INIT)",
			size);
	for (size_t i = dst_size; i < size; i++)
		if (((const unsigned char *)src)[i])
			return weir__fail(
				-E2BIG,
				"options of %zu bytes: this library knows %zu of them, but byte %zu is not 0",
				size, dst_size, i);
	memcpy((char *)dst + sizeof(size), (const char *)src + sizeof(size),
	       (size < dst_size ? size : dst_size) - sizeof(size));
	return 0;
}

int weir__info_out(void *dst, const void *src, size_t src_size)
{
	size_t size;

	memcpy(&size, dst, sizeof(size));
	if (size < sizeof(size))
		return weir__fail(-EINVAL,
				  "a result of %zu bytes: set .size first",
				  size);
	if (size > src_size)
		memset((char *)dst + src_size, 0, size - src_size);
	memcpy((char *)dst + sizeof(size), (const char *)src + sizeof(size),
	       (size < src_size ? size : src_size) - sizeof(size));
	return 0;
}
