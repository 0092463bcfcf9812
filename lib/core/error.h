/* SPDX-License-Identifier: MIT */
/*
 * Errors: a negative errno, and this thread's sentence about it.
 *
 * A public call begins with WEIR__ENTER(), which puts the name of the call
 * before its sentences. The function that decides on an errno says why, once:
 *
 *	return weir__fail(-EINVAL, "%s: alignment %zu is not a power of two",
 *			  name, align);
 *
 * Its callers return the errno and add no sentence.
 */
#ifndef WEIR__ERROR_H
#define WEIR__ERROR_H

#include <errno.h>

#include <weir/base.h>

#define WEIR__ERROR_MAX 1024 /* bytes of a sentence, NUL included */

/* Bytes that the name of the call may take, which may include a path. */
#define WEIR__CALL_MAX (WEIR__ERROR_MAX / 2)

#define WEIR__ENTER() weir__enter(__func__)

void weir__enter(const char *call);

/*
 * Append to the string in @text, which has room for @room bytes; the result is
 * cut to fit. Do not add up what snprintf returns: it is the length before the
 * cut.
 */
void weir__append(char *text, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Set this thread's sentence, with '?' for control characters; return @err. */
int weir__fail(int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 2, 3)));

/*
 * Set the sentence with ": strerror(-err)" at its end. Returns
 * weir__cause_errno(@err).
 */
int weir__fail_sys(int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 2, 3)));

/* This thread's sentence without the name of the call. */
const char *weir__error_text(void);

/*
 * A call may fail without a sentence. Ask before it for the number of sentences
 * that this thread has set, @count; and after it for the sentence that the call
 * has set or, if it has set none since, the meaning of @err.
 */
unsigned weir__error_count(void);
const char *weir__error_since(unsigned count, int err);

/*
 * Put the text, which says what a failed call was for, and ": " before the
 * sentence that the call has set. Returns @err.
 */
int weir__fail_for(int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 2, 3)));

/*
 * A public call may make others. This lets the sentence that one of them has
 * set begin with the name @call instead of its own. Returns @err.
 */
int weir__fail_as(const char *call, int err) __attribute__((cold));

/*
 * "EIO" and "Input/output error" for a positive errno; "errno 524" where the C
 * library has no name. Valid until this thread's next call.
 */
const char *weir__errno_name(int err);
const char *weir__errno_describe(int err);

/*
 * The errno that the caller gets for an error @err of the system. From a call
 * that waits, -ETIMEDOUT means that its time-out has passed, and nothing else;
 * so the -ETIMEDOUT of a disk or a device becomes -EIO.
 */
int weir__cause_errno(int err);

/*
 * Record a failure that a thread of the library has found, in an object, since
 * sentences belong to threads. f->err is weir__cause_errno(@err). f->native is
 * @native or, if that is 0 and f->err is not @err, the original errno,
 * positive.
 */
void weir__failure_set(struct weir_failure *f, int err, int32_t native,
		       uint64_t number, const char *fmt, ...)
	__attribute__((cold, format(printf, 5, 6)));

/* Make an object's failure this thread's sentence too; returns f->err. */
int weir__fail_with(const struct weir_failure *f) __attribute__((cold));

/*
 * Save and restore this thread's sentence around work whose failure is not a
 * failure of the call: a module that is left out, say.
 */
struct weir__error_saved {
	const char *call;
	char text[WEIR__ERROR_MAX];
};
void weir__error_save(struct weir__error_saved *ret_saved);
void weir__error_restore(const struct weir__error_saved *saved);

/*
 * Bytes from a file as a string, escaped and shortened. The string is valid
 * until this thread has made four more calls of this function.
 */
const char *weir__quote(const char *bytes, size_t len);

/*
 * Copy the caller's options @src, which begin with their size, into @dst;
 * members that @src lacks become 0, and all if @src is NULL. -EINVAL: the size
 * is not set. -E2BIG: a member that this library does not know is not 0.
 */
int weir__opts_in(void *dst, size_t dst_size, const void *src);
/* Copy @src into the caller's struct, which begins with its size. -EINVAL. */
int weir__info_out(void *dst, const void *src, size_t src_size);

#endif
