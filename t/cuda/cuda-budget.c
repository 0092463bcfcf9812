/* SPDX-License-Identifier: MIT */
/* Budgets, shared memory and reserved pages of CUDA devices. */
#include <unistd.h>

#include "core/root.h"
#include "gpu.h"
#include "reserve.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define OUT_OF_MEMORY 2 /* a CUresult */

static struct weir *weir;
static struct weir_buft *device, *pinned;

static void open_budget(uint64_t budget)
{
	weir = open_cuda();
	weir->opts.budget = budget;
	device = gpu_memory(weir, WEIR_MEM_DEVICE);
	pinned = gpu_memory(weir, WEIR_MEM_PINNED);
}

static int try_alloc(struct weir_buft *buft, size_t size, uint32_t flags,
		     struct weir_buf **ret_buf)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;

	o.flags = flags;
	return weir_buf_alloc(buft, size, &o, ret_buf);
}

static struct weir_buf *alloc(struct weir_buft *buft, size_t size,
			      uint32_t flags)
{
	struct weir_buf *buf;

	if (try_alloc(buft, size, flags, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static struct weir_buf_info info_of(struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };

	if (weir_buf_info(buf, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static void device_memory(void)
{
	struct weir_buf *buf, *other, *wrap;
	uint64_t ptr;

	open_budget(MIB);
	weir_buft_set_budget(device, 3 * MIB);
	buf = alloc(device, 2 * MIB, 0);
	is_err(try_alloc(device, 2 * MIB, 0, &other), -ENOMEM,
	       "2097152 bytes are needed, 2097152 of the budget of 3145728 of CUDA0",
	       "device memory over its budget is refused with both numbers");
	if (weir_cuda_buf_ptr(buf, &ptr) < 0)
		bail("%s", weir_error());
	is_int(weir_cuda_buf_wrap(gpu(weir), ptr, 2 * MIB, NULL, NULL, &wrap),
	       0, "the caller's device memory does not count towards a budget");
	weir_buf_free(wrap);
	weir_buf_free(buf);
	buf = alloc(device, 3 * MIB, 0);
	ok(buf, "all of a budget is left when device memory is freed");
	weir_buf_free(buf);
	weir_close(weir);
}

static void pinned_memory(void)
{
	struct weir_buf *buf, *other;

	open_budget(8 * MIB);
	buf = alloc(pinned, 6 * MIB, 0);
	is_err(try_alloc(pinned, 4 * MIB, 0, &other), -ENOMEM,
	       "4194304 bytes are needed, 6291456 of the root's budget of 8388608",
	       "page-locked memory counts towards the root's budget");
	weir_buf_free(buf);
	buf = alloc(pinned, 6 * MIB, WEIR_BUF_WRITE_COMBINED);
	is_err(try_alloc(pinned, 4 * MIB, 0, &other), -ENOMEM,
	       "6291456 of the root's budget",
	       "the driver's own host memory counts towards the root's budget");
	is_err(try_alloc(pinned, 4 * MIB, WEIR_BUF_WRITE_COMBINED, &other),
	       -ENOMEM, "6291456 of the root's budget",
	       "the driver's own host memory over the root's budget is refused");
	weir_buf_free(buf);
	/*
	 * The call is repeated when buffers before it are free, and fails
	 * again.
	 */
	fake.arm("cuMemHostAlloc", 1, FAKECUDA_FROM_THEN_ON, OUT_OF_MEMORY);
	is_err(try_alloc(pinned, 6 * MIB, WEIR_BUF_WRITE_COMBINED, &other),
	       -ENOMEM, "cuMemHostAlloc",
	       "host memory that the driver refuses is an error");
	fake.disarm();
	buf = alloc(pinned, 8 * MIB, 0);
	ok(buf, "all of the root's budget is left when that memory is freed");
	weir_buf_free(buf);
	weir_close(weir);
}

static void shared(void)
{
	struct weir_buft *mapped;
	struct weir_buf *buf, *copy;
	struct weir_dev *cpu;
	uint32_t both = WEIR_GOT_SHARED | WEIR_GOT_LOCKED;
	int fd;

	open_budget(0);
	buf = alloc(pinned, 4 * MIB, WEIR_BUF_SHARED);
	is_int(info_of(buf).got & both, both,
	       "page-locked memory can be shared");
	((unsigned char *)weir_buf_data(buf))[MIB] = 77;
	if (weir_buf_share(buf, 0, &fd) < 0 ||
	    weir_dev_find(weir, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_MAPPED, &mapped) < 0 ||
	    weir_buf_wrap_fd(mapped, fd, MIB, 1, 0, &copy) < 0)
		bail("%s", weir_error());
	is_int(*(unsigned char *)weir_buf_data(copy), 77,
	       "shared page-locked memory is that of its descriptor");
	weir_buf_free(copy);
	close(fd);
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, OUT_OF_MEMORY);
	buf = alloc(pinned, 4 * MIB, WEIR_BUF_SHARED);
	is_int(info_of(buf).got & both, WEIR_GOT_SHARED,
	       "memory that the driver does not page-lock is shared all the same");
	has_str(info_of(buf).why, "not page-locked: cuMemHostRegister",
		"shared memory that is not page-locked says why");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_FROM_THEN_ON, OUT_OF_MEMORY);
	is_err(try_alloc(pinned, 4 * MIB, WEIR_BUF_SHARED | WEIR_BUF_STRICT,
			 &buf),
	       -ENOMEM, "4194304 shared bytes cannot be page-locked",
	       "required shared memory that the driver does not page-lock fails");
	fake.disarm();
	is_err(try_alloc(pinned, MIB, WEIR_BUF_SHARED | WEIR_BUF_WRITE_COMBINED,
			 &buf),
	       -EINVAL, "neither shared nor in reserved pages",
	       "write-combined memory is not shared");
	is_err(try_alloc(device, MIB, WEIR_BUF_HUGETLB, &buf), -EINVAL,
	       "only host memory in huge pages",
	       "device memory has no reserved pages");
	weir_close(weir);
}

static void wrapped(void)
{
	struct weir_buf *owner, *buf;
	int fd;

	open_budget(0);
	owner = alloc(pinned, MIB, WEIR_BUF_SHARED);
	if (weir_buf_share(owner, WEIR_SHARE_WRITABLE, &fd) < 0 ||
	    weir_buf_wrap_fd(pinned, fd, 0, MIB, 0, &buf) < 0)
		bail("%s", weir_error());
	is_int(info_of(buf).got, WEIR_GOT_SHARED | WEIR_GOT_LOCKED,
	       "memory of a descriptor is page-locked for the device");
	weir_buf_free(buf);
	is_err(weir_buf_wrap_fd(device, fd, 0, MIB, 0, &buf), -EINVAL,
	       "CUDA_ERROR_INVALID_VALUE",
	       "device memory is not made of a descriptor of host memory");
	close(fd);
	weir_buf_free(owner);
	weir_close(weir);
}

static struct weir_buf *map(struct weir_file *file, uint64_t off)
{
	struct weir_buf *buf;

	if (weir_buf_map(gpu_memory(weir, WEIR_MEM_MAPPED), file, off,
			 (size_t)(4 * MIB - off), &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

/*
 * True if the driver locks this many bytes as soon as freed memory is unlocked.
 */
static bool locks(uint64_t bytes)
{
	struct fakecuda_counts c;

	for (unsigned i = 0; i < 20000; i++) {
		fake.counts(&c);
		if (c.pinned_bytes == bytes)
			return true;
		usleep(500);
	}
	return false;
}

static void mapped_files(void)
{
	struct weir_buf *first, *second, *other;
	struct weir_file *file;

	open_budget(6 * MIB);
	file = temp_file(weir, 4 * MIB, 1);
	first = map(file, 0);
	ok(info_of(first).got & WEIR_GOT_LOCKED,
	   "a mapped file is page-locked if the root's budget has room");
	is_err(try_alloc(pinned, 3 * MIB, 0, &other), -ENOMEM,
	       "4194304 of the root's budget of 6291456",
	       "a mapped file that is page-locked counts towards the budget");
	second = map(file, 4000);
	ok(!(info_of(second).got & WEIR_GOT_LOCKED) && locks(4 * MIB),
	   "a mapped file is not page-locked if the budget has no room");
	has_str(info_of(second).why,
		"not page-locked: the root's budget has no room for 4194304 bytes",
		"a mapped file that is not page-locked says why");
	ok(is_pattern(weir_buf_data(first), 4 * MIB, 1), "its bytes are read");
	weir_buf_free(second);
	weir_buf_free(first);
	other = alloc(pinned, 6 * MIB, 0);
	ok(other, "all of the budget is left when the file is unmapped");
	weir_buf_free(other);
	weir_file_close(file);
	weir_close(weir);
}

static void files_not_locked(void)
{
	struct weir_dev *dev;
	struct weir_file *file;
	struct weir_buf *buf;

	weir = open_cuda();
	is_err(weir_dev_configure(weir, "CUDA0:lock=1", &dev), -EINVAL,
	       "lock=1 is neither yes nor no", "lock=1 is refused");
	if (weir_dev_configure(weir, "CUDA0:lock=no", &dev) < 0)
		bail("%s", weir_error());
	file = temp_file(weir, 4 * MIB, 1);
	buf = map(file, 0);
	ok(!(info_of(buf).got & WEIR_GOT_LOCKED) && locks(0),
	   "with lock=no a mapped file is not page-locked");
	has_str(info_of(buf).why, "not page-locked: lock=no",
		"a file that is not page-locked by lock=no says why");
	weir_buf_free(buf);
	weir_file_close(file);
	weir_close(weir);
}

static void reserved(const char *why)
{
	uint32_t want = WEIR_GOT_HUGETLB | WEIR_GOT_LOCKED;
	struct weir_buf *buf;

	open_budget(0);
	is_err(try_alloc(pinned, (reserve_free(2 * MIB) + 4) * 2 * MIB,
			 WEIR_BUF_HUGETLB | WEIR_BUF_STRICT, &buf),
	       -EOPNOTSUPP, "no reserved pages of 2048 KiB",
	       "required reserved pages that are missing fail page-locked memory");
	if (why) {
		skip(1, "%s", why);
	} else {
		buf = alloc(pinned, 3 * MIB, WEIR_BUF_HUGETLB);
		is_int(info_of(buf).got & want, want,
		       "page-locked memory can have reserved pages");
		weir_buf_free(buf);
	}
	weir_close(weir);
}

int main(void)
{
	const char *why = reserve_pages(2 * MIB, 4);

	open_fake();
	plan(0);
	device_memory();
	pinned_memory();
	shared();
	wrapped();
	mapped_files();
	files_not_locked();
	reserved(why);
	all_given_back("after budgets and shared memory");
	return done_testing();
}
