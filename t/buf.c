/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "testmod.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)

static struct weir *weir;
static struct weir_buft *plain, *huge, *mapped, *far;

static struct weir_buft *kind_of(const char *name, enum weir_mem kind)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	if (weir_dev_find(weir, name, &dev) < 0 ||
	    weir_dev_buft(dev, kind, &buft) < 0)
		bail("%s", weir_error());
	return buft;
}

static struct weir_buf *alloc(struct weir_buft *buft, size_t size)
{
	struct weir_buf *buf;

	if (weir_buf_alloc(buft, size, NULL, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static int alloc_with(struct weir_buf_opts o)
{
	struct weir_buf *buf;
	int r = weir_buf_alloc(plain, 4096, &o, &buf);

	if (!r)
		weir_buf_free(buf);
	return r;
}

#define OPTS(...)                                                      \
	((struct weir_buf_opts){ .size = sizeof(struct weir_buf_opts), \
				 __VA_ARGS__ })

static struct weir_buf_info info_of(const struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };

	if (weir_buf_info(buf, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static void one(void)
{
	struct weir_buf *buf = alloc(plain, 1000);
	struct weir_buf_info info = info_of(buf);
	unsigned char *p = weir_buf_data(buf);

	ok(info.bytes == 1000 && info.buft == plain && !info.members,
	   "a buffer knows its size and kind");
	is_int((uintptr_t)p % 64, 0, "it begins at a multiple of 64");
	ok(!weir_buf_member(buf, 0), "it has no members");
	ok(info.got & WEIR_GOT_OWNED, "it is the library's own");
	is_int(info.usage, WEIR_USAGE_ANY, "it may be used for anything");
	is_int(weir_buf_set_usage(buf, WEIR_USAGE_WEIGHTS), 0,
	       "... until it is told");
	is_int(info_of(buf).usage, WEIR_USAGE_WEIGHTS, "... what for");
	is_err(weir_buf_set_usage(buf, (enum weir_usage)3), -EINVAL,
	       "3 is not a usage", "an unknown usage is refused");
	is_int(weir_buf_clear(buf, 0xa5), 0, "it can be cleared");
	ok(p[0] == 0xa5 && p[999] == 0xa5, "... from end to end");
	ok(weir_buf_ref(buf) == buf, "a reference can be taken");
	weir_buf_free(buf);
	p[5] = 1;
	weir_buf_free(buf);
	weir_buf_free(NULL);
	ok(true, "... and each dropped, and none as well");
}

static void options(void)
{
	struct weir_buf *buf;

	is_int(alloc_with(OPTS(.usage = WEIR_USAGE_COMPUTE)), 0,
	       "a usage may be given at once");
	is_err(alloc_with(OPTS(.usage = 7)), -EINVAL, "7 is not a usage",
	       "... if it is one");
	is_err(alloc_with(OPTS(.flags = 0x100)), -EINVAL, "0x100",
	       "unknown flags are refused");
	is_err(alloc_with(OPTS(.node = -3)), -EINVAL, "node is -3",
	       "... and negative nodes");
	is_err(alloc_with(OPTS(.reserved = 1)), -EINVAL, "reserved",
	       "... and what is reserved");
	is_int(alloc_with(OPTS(.flags = WEIR_BUF_TOUCH)), 0,
	       "memory can be touched at once");
	is_err(weir_buf_alloc(mapped, 4096, NULL, &buf), -EOPNOTSUPP,
	       "CPU_Mapped is made by weir_buf_map",
	       "mapped memory is not allocated");
	is_err(weir_buf_alloc(plain, (size_t)1 << 40, NULL, &buf), -ENOMEM,
	       "weir_buf_alloc: 1099511627776 bytes are needed",
	       "more than there is, is refused with both numbers");
	is_err(weir_buf_alloc(plain, SIZE_MAX, NULL, &buf), -ENOMEM,
	       "18446744073709551615", "SIZE_MAX bytes are refused");
	is_err(weir_buf_alloc(far, 2 * MIB, NULL, &buf), -EINVAL,
	       "2097152 bytes, the largest buffer of TEST0 has 1048576",
	       "more than the largest buffer is refused");
}

static void nothing(void)
{
	struct weir_buf *buf = alloc(huge, 0);
	struct weir_tensor t;
	int64_t none = 0;

	ok(weir_buf_data(buf) != NULL, "a buffer of 0 bytes has an address");
	is_int((uintptr_t)weir_buf_data(buf) % 64, 0, "... that is aligned");
	is_int(weir_buf_clear(buf, 1), 0, "... where nothing is cleared");
	weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &none);
	is_int(weir_tensor_place(&t, buf, 0), 0,
	       "... where a tensor of no bytes fits");
	is_int(weir_tensor_set(&t, 0, NULL, 0), 0, "... and can be set");
	weir_buf_free(buf);
	buf = alloc(far, 0);
	is_int(info_of(buf).bytes, 0, "devices have such buffers too");
	weir_buf_free(buf);
}

static int released;

static void release(void *arg)
{
	released += *(int *)arg;
}

static void wrapped(void)
{
	static unsigned char mine[100];
	static int seven = 7;
	struct weir_buf *buf;

	is_int(weir_buf_wrap(plain, mine + 3, 90, release, &seven, &buf), 0,
	       "memory of the caller's of any alignment can be wrapped");
	ok(weir_buf_data(buf) == mine + 3, "... where it is");
	ok(!(info_of(buf).got & WEIR_GOT_OWNED),
	   "... and is not the library's");
	weir_buf_clear(buf, 9);
	ok(mine[2] == 0 && mine[3] == 9 && mine[92] == 9 && mine[93] == 0,
	   "not a byte outside of it is written");
	weir_buf_ref(buf);
	weir_buf_free(buf);
	is_int(released, 0, "it is the caller's until the last reference");
	weir_buf_free(buf);
	is_int(released, 7, "... which releases it");
	is_err(weir_buf_wrap(plain, NULL, 4, release, &seven, &buf), -EINVAL,
	       "4 bytes at NULL", "NULL is not memory");
	is_err(weir_buf_wrap(plain, mine, SIZE_MAX, release, &seven, &buf),
	       -EINVAL, "over the end of memory", "nor is what wraps around");
	is_err(weir_buf_wrap(far, mine, 4, release, &seven, &buf), -EOPNOTSUPP,
	       "TEST0", "a device need not take it");
	is_int(released, 7, "what is not taken is not released");
	is_int(weir_buf_wrap(mapped, mine, 10, NULL, NULL, &buf), 0,
	       "memory can be wrapped to be read only");
	is_err(weir_buf_clear(buf, 1), -EROFS, "CPU_Mapped",
	       "... and then is not written");
	is_int(mine[5], 9, "... indeed");
	weir_buf_free(buf);
}

static void joined(void)
{
	struct weir_buf *m[3] = { alloc(plain, 100), alloc(huge, 0),
				  alloc(huge, 50) };
	struct weir_buf *all, *other = alloc(far, 10), *none = NULL;
	struct weir_tensor t, u;
	int64_t n = 50;

	is_int(weir_buf_join(m, 3, &all), 0, "buffers can be joined");
	is_int(info_of(all).bytes, 150, "the sum has all their bytes");
	is_int(info_of(all).members, 3, "... and three members");
	ok(weir_buf_member(all, 2) == m[2] && !weir_buf_member(all, 3),
	   "... which can be counted through");
	ok(!weir_buf_data(all), "it has no one address");
	for (int i = 0; i < 3; i++)
		weir_buf_free(m[i]);
	is_int(weir_buf_clear(all, 3), 0, "clearing goes to all members");
	ok(((char *)weir_buf_data(m[0]))[99] == 3 &&
		   ((char *)weir_buf_data(m[2]))[49] == 3,
	   "... which it keeps alive");
	weir_buf_set_usage(all, WEIR_USAGE_WEIGHTS);
	is_int(info_of(m[2]).usage, WEIR_USAGE_WEIGHTS,
	       "a usage goes to all members");
	weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n);
	u = t;
	is_err(weir_tensor_place(&t, all, 80), -EINVAL, "member 0 of 3",
	       "a tensor does not cross two members");
	is_int(weir_tensor_place(&t, all, 100), 0, "it lies in one");
	ok(weir_tensor_data(&t) == weir_buf_data(m[2]), "... where that is");
	is_err(weir_tensor_place(&u, all, 101), -EINVAL, "the buffer has 150",
	       "... and inside of it");
	is_err(weir_buf_join(&all, 1, &none), -EINVAL, "joined",
	       "a joined buffer is not joined again");
	is_err(weir_buf_join(NULL, 0, &none), -EINVAL, "no buffers",
	       "no buffers cannot be joined");
	is_err(weir_buf_join(&none, 1, &all), -EINVAL, "NULL", "... nor NULL");
	m[1] = other;
	is_err(weir_buf_join(m, 2, &none), -EINVAL,
	       "buffer 1 is memory of TEST0, the first of CPU",
	       "... nor those of two devices");
	weir_buf_free(other);
	weir_buf_free(all);
}

static void huge_sums(void)
{
	static char byte;
	struct weir_buf *m[3], *all;

	/* Never touched: only their sizes matter. */
	for (int i = 0; i < 3; i++)
		if (weir_buf_wrap(plain, &byte, (size_t)1 << 62, NULL, NULL,
				  &m[i]) < 0)
			bail("%s", weir_error());
	is_err(weir_buf_join(m, 3, &all), -EOVERFLOW, "2^63 - 1",
	       "a sum that wraps is refused");
	for (int i = 0; i < 3; i++)
		weir_buf_free(m[i]);
}

static void of_backends(void)
{
	struct weir_buf *buf;

	is_err(weir_buf_alloc(far, 1003, NULL, &buf), -EIO,
	       "TEST0: mem->alloc of backend TEST returned 7",
	       "a backend that returns no errno fails with -EIO");
	is_err(weir_buf_alloc(far, 1001, NULL, &buf), -EIO,
	       "not at a multiple of 256", "... and so does odd memory");
	is_err(weir_buf_alloc(far, 1002, NULL, &buf), -ENOMEM,
	       "weir_buf_alloc: the test has no 1002 bytes",
	       "a backend's own sentence is kept");
	buf = alloc(far, 4096);
	ok(!weir_buf_data(buf), "memory of a device has no address here");
	weir_buf_free(buf);
}

static void *share(void *arg)
{
	struct weir_buf *buf = arg;

	for (int i = 0; i < 20000; i++)
		weir_buf_free(weir_buf_ref(buf));
	weir_buf_free(buf);
	return NULL;
}

static void threads(void)
{
	static unsigned char mine[10];
	static int hundred = 100;
	struct weir_buf *buf;
	pthread_t thread[4];

	released = 0;
	if (weir_buf_wrap(plain, mine, 10, release, &hundred, &buf) < 0)
		bail("%s", weir_error());
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, share, weir_buf_ref(buf)))
			bail("pthread_create");
	weir_buf_free(buf);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	is_int(released, 100, "references are counted across threads");
}

/* The file is this program. */
static void of_another_root(void)
{
	struct weir_file *file;
	struct weir_buf *buf;
	struct weir *other;

	if (weir_open(NULL, &other) < 0 ||
	    weir_file_open(other, "/proc/self/exe", NULL, &file) < 0)
		bail("%s", weir_error());
	is_err(weir_buf_map(mapped, file, 0, 16, &buf), -EINVAL, "two roots",
	       "a file of another root is not mapped");
	weir_file_close(file);
	weir_close(other);
}

int main(void)
{
	weir = open_with_good_module();
	plain = kind_of("CPU", WEIR_MEM_PLAIN);
	huge = kind_of("CPU", WEIR_MEM_HUGE);
	mapped = kind_of("CPU", WEIR_MEM_MAPPED);
	far = kind_of("TEST0", WEIR_MEM_DEVICE);
	plan(12 + 10 + 6 + 13 + 16 + 1 + 4 + 1 + 1);
	one();
	options();
	nothing();
	wrapped();
	joined();
	huge_sums();
	of_backends();
	threads();
	of_another_root();
	weir_close(weir);
	return done_testing();
}
