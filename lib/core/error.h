/* SPDX-License-Identifier: MIT */
/*
 * Errors: a negative errno, and this thread's sentence about it.
 *
 * A public entry point begins with WEIR__ENTER(), which names it in the
 * sentences that follow. The place that decides on an errno says why, once:
 *
 *	return weir__fail(-EINVAL, "%s: alignment %zu is not a power of two",
 *			  name, align);
 *
 * Everybody above only passes the number on.
 */
#ifndef WEIR__ERROR_H
#define WEIR__ERROR_H

#include <errno.h>

#include <weir/base.h>

#define WEIR__ERROR_MAX 1024 /* bytes of a sentence, NUL included */

/* Of a call's name in it: one that was given a path may have the path there. */
#define WEIR__CALL_MAX (WEIR__ERROR_MAX / 2)

#define WEIR__ENTER() weir__enter(__func__)

void weir__enter(const char *call);

/*
 * printf to the end of the string in @text, of @room bytes, cut where they
 * end. What snprintf returns is the length before it is cut: never add it up.
 */
void weir__append(char *text, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Keep the sentence and return @err (< 0). Control characters are escaped. */
int weir__fail(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The same with ": strerror(-err)" at its end. Returns -EIO for -ETIMEDOUT, which
 * from a call means "not yet" (weir__cause_errno).
 */
int weir__fail_sys(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * "EIO" and "Input/output error", of a positive errno. Never NULL: "errno 524"
 * where the C library has neither; until this thread's next one.
 */
const char *weir__errno_name(int err);
const char *weir__errno_words(int err);

/*
 * The errno by which a cause is reported. -ETIMEDOUT from a call that waits
 * means "not yet" and nothing else, so a cause that is itself -ETIMEDOUT (of a
 * disk, of a device) becomes -EIO.
 */
int weir__cause_errno(int err);

/*
 * A failure found on a thread of ours: kept in the object, not the thread.
 * f->err is weir__cause_errno(@err); where that differs from @err and there is
 * no other native code, f->native is the original errno, positive.
 */
void weir__failure_set(struct weir_failure *f, int err, int32_t native,
		       uint64_t number, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Make an object's failure this thread's sentence too; returns f->err. */
int weir__fail_with(const struct weir_failure *f);

/*
 * Put this thread's sentence away and bring it back, around something whose
 * failure is not the caller's.
 */
struct weir__error_saved {
	const char *call;
	char text[WEIR__ERROR_MAX];
};
void weir__error_save(struct weir__error_saved *ret_saved);
void weir__error_restore(const struct weir__error_saved *saved);

/* "%s" of bytes from a file, escaped and shortened; a ring of buffers. */
const char *weir__quote(const char *bytes, size_t len);

/*
 * Check the size member of an options struct and copy it into @dst, the rest
 * being 0. NULL for @src gives defaults. -E2BIG, -EINVAL.
 */
int weir__opts_in(void *dst, size_t dst_size, const void *src);
/* Copy @src into an info struct of the caller's whose size member is set. */
int weir__info_out(void *dst, const void *src, size_t src_size);

#endif
