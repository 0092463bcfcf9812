/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kind.h"
#include "testmod.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)

static struct weir *weir;
static struct weir_buft *plain, *huge, *mapped, *far;

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

static void information(void)
{
	struct weir_buf *buf = alloc(plain, 1000);
	struct weir_buf_info info = info_of(buf);

	ok(info.bytes == 1000 && info.buft == plain && !info.members,
	   "weir_buf_info returns a buffer's size and kind");
	is_int((uintptr_t)weir_buf_data(buf) % 64, 0,
	       "a plain buffer begins at a multiple of 64");
	ok(!weir_buf_member(buf, 0),
	   "a buffer that is not joined has no members");
	ok(info.got & WEIR_GOT_OWNED,
	   "an allocated buffer is owned by the library");
	weir_buf_free(buf);
}

static void references(void)
{
	struct weir_buf *buf = alloc(plain, 1000);
	unsigned char *p = weir_buf_data(buf);

	is_int(weir_buf_clear(buf, 0xa5), 0, "a buffer can be cleared");
	ok(p[0] == 0xa5 && p[999] == 0xa5,
	   "clearing a buffer writes its first and its last byte");
	ok(weir_buf_ref(buf) == buf, "weir_buf_ref returns its buffer");
	is_int(info_of(buf).refs, 2, "weir_buf_info counts references");
	weir_buf_free(buf);
	is_int(info_of(buf).refs, 1, "it says who has the only one");
	p[5] = 1;
	weir_buf_free(buf);
	weir_buf_free(NULL);
	ok(true,
	   "a buffer lives until its last reference is freed, and NULL can be freed");
}

static void options(void)
{
	is_err(alloc_with(OPTS(.flags = 0x1000)), -EINVAL, "0x1000",
	       "unknown flags of a buffer are refused");
	is_err(alloc_with(OPTS(.flags = WEIR_BUF_ON_NODE, .node = -3)), -EINVAL,
	       "no NUMA node -3", "a negative NUMA node is refused");
	is_err(alloc_with(OPTS(.node = 1)), -EINVAL, "WEIR_BUF_ON_NODE",
	       "a NUMA node without its flag is refused");
	is_int(alloc_with(OPTS(.flags = WEIR_BUF_PREFAULT)), 0,
	       "a buffer may be prefaulted when it is allocated");
}

static void refused(void)
{
	struct weir_buf *buf;

	is_err(weir_buf_alloc(mapped, 4096, NULL, &buf), -EOPNOTSUPP,
	       "CPU_Mapped is made by weir_buf_map",
	       "weir_buf_alloc refuses mapped memory");
	is_err(weir_buf_alloc(plain, (size_t)1 << 40, NULL, &buf), -ENOMEM,
	       "weir_buf_alloc: 1099511627776 bytes are needed",
	       "a buffer larger than the memory is refused");
	is_err(weir_buf_alloc(plain, SIZE_MAX, NULL, &buf), -ENOMEM,
	       "18446744073709551615", "a buffer of SIZE_MAX bytes is refused");
	is_err(weir_buf_alloc(far, 2 * MIB, NULL, &buf), -EINVAL,
	       "2097152 bytes, the largest buffer of TEST0 has 1048576",
	       "a buffer larger than the device's largest is refused");
}

static void no_bytes(void)
{
	struct weir_buf *buf = alloc(huge, 0);
	struct weir_tensor t;
	int64_t none = 0;

	ok(weir_buf_data(buf) != NULL, "a buffer of 0 bytes has an address");
	is_int((uintptr_t)weir_buf_data(buf) % 64, 0,
	       "the address of a buffer of 0 bytes is aligned");
	is_int(weir_buf_clear(buf, 1), 0, "a buffer of 0 bytes can be cleared");
	weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &none);
	is_int(weir_tensor_place(&t, buf, 0), 0,
	       "a tensor of no bytes can be placed in a buffer of 0 bytes");
	is_int(weir_tensor_set(&t, 0, NULL, 0), 0,
	       "a tensor of no bytes can be set");
	weir_buf_free(buf);
	buf = alloc(far, 0);
	is_int(info_of(buf).bytes, 0, "a device has buffers of 0 bytes");
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
	       "the caller's memory can be wrapped at any alignment");
	ok(weir_buf_data(buf) == mine + 3,
	   "a wrapped buffer has the caller's address");
	ok(!(info_of(buf).got & WEIR_GOT_OWNED),
	   "a wrapped buffer is not owned by the library");
	weir_buf_clear(buf, 9);
	ok(mine[2] == 0 && mine[3] == 9 && mine[92] == 9 && mine[93] == 0,
	   "clearing a wrapped buffer writes no byte outside of it");
	weir_buf_ref(buf);
	weir_buf_free(buf);
	is_int(released, 0,
	       "wrapped memory is not released while the buffer is referenced");
	weir_buf_free(buf);
	is_int(released, 7,
	       "freeing the last reference releases wrapped memory");
}

static void wrap_refused(void)
{
	static unsigned char mine[100];
	static int seven = 7;
	struct weir_buf *buf;

	released = 0;
	is_err(weir_buf_wrap(plain, NULL, 4, release, &seven, &buf), -EINVAL,
	       "4 bytes at NULL", "NULL cannot be wrapped");
	is_err(weir_buf_wrap(plain, mine, SIZE_MAX, release, &seven, &buf),
	       -EINVAL, "exceed the address space",
	       "memory beyond the end of the address space cannot be wrapped");
	is_err(weir_buf_wrap(far, mine, 4, release, &seven, &buf), -EOPNOTSUPP,
	       "TEST0", "a device may refuse to wrap memory");
	is_int(released, 0, "memory that was not wrapped is not released");
}

static void wrap_read_only(void)
{
	static unsigned char mine[10] = { 5, 6 };
	struct weir_buf *buf;

	is_int(weir_buf_wrap(mapped, mine, 10, NULL, NULL, &buf), 0,
	       "memory can be wrapped for reading only");
	is_err(weir_buf_clear(buf, 1), -EROFS, "CPU_Mapped",
	       "clearing a read-only buffer fails with -EROFS");
	is_int(mine[1], 6, "a failed clear leaves the memory as it was");
	weir_buf_free(buf);
}

static void joined(void)
{
	struct weir_buf *m[3] = { alloc(plain, 100), alloc(huge, 0),
				  alloc(huge, 50) };
	struct weir_buf *all;

	is_int(weir_buf_join(m, 3, &all), 0, "buffers can be joined");
	is_int(info_of(all).bytes, 150,
	       "a joined buffer has the bytes of all members");
	is_int(info_of(all).members, 3,
	       "a joined buffer has as many members as were joined");
	ok(weir_buf_member(all, 2) == m[2] && !weir_buf_member(all, 3),
	   "weir_buf_member returns the members of a joined buffer");
	ok(!weir_buf_data(all), "a joined buffer has no address");
	for (int i = 0; i < 3; i++)
		weir_buf_free(m[i]);
	is_int(weir_buf_clear(all, 3), 0, "a joined buffer can be cleared");
	ok(((char *)weir_buf_data(m[0]))[99] == 3 &&
		   ((char *)weir_buf_data(m[2]))[49] == 3,
	   "a joined buffer references its members and clears each");
	weir_buf_free(all);
}

static void joined_read_only(void)
{
	static unsigned char mine[10];
	struct weir_buf *m[2] = { alloc(plain, 10), NULL }, *all;

	weir_buf_clear(m[0], 7);
	if (weir_buf_wrap(mapped, mine, 10, NULL, NULL, &m[1]) < 0 ||
	    weir_buf_join(m, 2, &all) < 0)
		bail("%s", weir_error());
	is_err(weir_buf_clear(all, 9), -EROFS, "CPU_Mapped",
	       "a joined buffer with a read-only member cannot be cleared");
	is_int(*(char *)weir_buf_data(m[0]), 7,
	       "clearing it leaves its other members as they were");
	for (int i = 0; i < 2; i++)
		weir_buf_free(m[i]);
	weir_buf_free(all);
}

static void tensors_of_joined(void)
{
	struct weir_buf *m[2] = { alloc(plain, 100), alloc(huge, 50) }, *all;
	struct weir_tensor t, u;
	int64_t n = 50;

	if (weir_buf_join(m, 2, &all) < 0)
		bail("%s", weir_error());
	weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n);
	u = t;
	is_err(weir_tensor_place(&t, all, 80), -EINVAL, "member 0 of 2",
	       "a tensor that would cross two members is refused");
	is_int(weir_tensor_place(&t, all, 100), 0,
	       "a tensor can be placed in one member of a joined buffer");
	ok(weir_tensor_data(&t) == weir_buf_data(m[1]),
	   "the address of a tensor in a joined buffer is the member's");
	is_err(weir_tensor_place(&u, all, 101), -EINVAL, "the buffer has 150",
	       "a tensor that would end outside a joined buffer is refused");
	for (int i = 0; i < 2; i++)
		weir_buf_free(m[i]);
	weir_buf_free(all);
}

static void join_refused(void)
{
	struct weir_buf *m[2] = { alloc(plain, 100), alloc(far, 10) };
	struct weir_buf *all, *none = NULL;

	if (weir_buf_join(m, 1, &all) < 0)
		bail("%s", weir_error());
	is_err(weir_buf_join(&all, 1, &none), -EINVAL, "joined",
	       "a joined buffer cannot be joined again");
	is_err(weir_buf_join(NULL, 0, &none), -EINVAL, "no buffers",
	       "no buffers cannot be joined");
	is_err(weir_buf_join(&none, 1, &all), -EINVAL, "NULL",
	       "NULL cannot be joined");
	is_err(weir_buf_join(m, 2, &none), -EINVAL,
	       "buffer 1 is memory of TEST0, the first of CPU",
	       "buffers of two devices cannot be joined");
	for (int i = 0; i < 2; i++)
		weir_buf_free(m[i]);
	weir_buf_free(all);
}

static void huge_sums(void)
{
	static char byte;
	struct weir_buf *m[3], *all;

	/* Never prefaulted: only their sizes matter. */
	for (int i = 0; i < 3; i++)
		if (weir_buf_wrap(plain, &byte, (size_t)1 << 62, NULL, NULL,
				  &m[i]) < 0)
			bail("%s", weir_error());
	is_err(weir_buf_join(m, 3, &all), -EOVERFLOW, "2^63 - 1",
	       "buffers of over 2^63 - 1 bytes together cannot be joined");
	for (int i = 0; i < 3; i++)
		weir_buf_free(m[i]);
}

static void of_backends(void)
{
	struct weir_buf *buf;

	is_err(weir_buf_alloc(far, 1003, NULL, &buf), -EIO,
	       "TEST0: mem->alloc of backend TEST returned 7",
	       "a backend's result that is no errno becomes -EIO");
	is_err(weir_buf_alloc(far, 1001, NULL, &buf), -EIO,
	       "not at a multiple of 256",
	       "a backend's memory that is not aligned is refused with -EIO");
	is_err(weir_buf_alloc(far, 1002, NULL, &buf), -ENOMEM,
	       "weir_buf_alloc: the test has no 1002 bytes",
	       "a backend's own sentence is returned");
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
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	huge = kind_of(weir, "CPU", WEIR_MEM_HUGE);
	mapped = kind_of(weir, "CPU", WEIR_MEM_MAPPED);
	far = kind_of(weir, "TEST0", WEIR_MEM_DEVICE);
	plan(12 + 8 + 4 + 13 + 2 + 15 + 1 + 4 + 1 + 1);
	information();
	references();
	options();
	refused();
	no_bytes();
	wrapped();
	wrap_refused();
	wrap_read_only();
	joined();
	joined_read_only();
	tensors_of_joined();
	join_refused();
	huge_sums();
	of_backends();
	threads();
	of_another_root();
	weir_close(weir);
	return done_testing();
}
