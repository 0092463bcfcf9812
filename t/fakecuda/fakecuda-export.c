/* SPDX-License-Identifier: MIT */
/* Memory of the stand-in that processes share by a descriptor. */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include "cu.h"

#define SIZE ((size_t)4 << 20)
#define HALF (SIZE / 2)
#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemGenericAllocationHandle create(CUmemAllocationHandleType types)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = types,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;

	if (cu.cuMemCreate(&handle, SIZE, &prop, 0))
		bail("no memory");
	return handle;
}

static CUresult allow(CUdeviceptr ptr, size_t size, CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = flags,
	};

	return cu.cuMemSetAccess(ptr, size, &desc, 1);
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size)
{
	CUdeviceptr ptr;

	if (cu.cuMemAddressReserve(&ptr, size, 0, 0, 0) ||
	    cu.cuMemMap(ptr, size, 0, handle, 0))
		bail("no mapping");
	return ptr;
}

static void drop(CUdeviceptr ptr, size_t size)
{
	cu.cuCtxSynchronize();
	cu.cuMemUnmap(ptr, size);
	cu.cuMemAddressFree(ptr, size);
}

static CUresult import(int fd, CUmemGenericAllocationHandle *ret)
{
	return cu.cuMemImportFromShareableHandle(ret, (void *)(intptr_t)fd,
						 POSIX);
}

/* In a process of its own: read a byte of the memory, and change it. */
static int importer(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr ptr;
	int fd;

	if (recvmsg(socket, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		return 2;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	cu_start();
	if (import(fd, &handle))
		return 3;
	close(fd);
	ptr = map(handle, SIZE);
	cu.cuMemRelease(handle);
	if (allow(ptr, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
	    cu.cuMemcpyDtoH(&byte, ptr + HALF, 1) || byte != 17 ||
	    cu.cuMemsetD8(ptr + HALF, 18, 1))
		return 4;
	drop(ptr, SIZE);
	return cu_counts().live[FAKECUDA_DEVICE_MEMORY] ? 5 : 0;
}

static void send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(socket, &m, 0) != 1)
		bail("a descriptor is not sent");
}

static void shared(int socket, pid_t child)
{
	CUmemGenericAllocationHandle handle = create(POSIX), same;
	CUdeviceptr ptr = map(handle, SIZE);
	int fd = -1, status = -1;
	char byte = 0;

	allow(ptr, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	cu.cuMemRelease(handle);
	ok(!cu.cuMemRetainAllocationHandle(&same, (void *)(ptr + 9)) &&
		   same == handle,
	   "an address has the handle of its memory");
	is_int((int)cu.cuMemExportToShareableHandle(&fd, same, POSIX, 0), 0,
	       "memory that was created for it is exported");
	cu.cuMemRelease(same);
	cu.cuMemsetD8(ptr + HALF, 17, 1);
	cu.cuCtxSynchronize();
	send_fd(socket, fd);
	close(fd);
	waitpid(child, &status, 0);
	is_int(status, 0, "another process imports it, with its bytes");
	cu.cuMemcpyDtoH(&byte, ptr + HALF, 1);
	is_int(byte, 18, "and what that process writes is there");
	drop(ptr, SIZE);
}

static void kept(void)
{
	CUmemGenericAllocationHandle handle = create(POSIX);
	CUdeviceptr ptr = map(handle, SIZE);
	char byte = 0;
	int fd;

	allow(ptr, SIZE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	cu.cuMemsetD8(ptr, 21, SIZE);
	cu.cuMemExportToShareableHandle(&fd, handle, POSIX, 0);
	cu.cuMemRelease(handle);
	drop(ptr, SIZE);
	is_int((int)cu_counts().device_bytes, 0,
	       "exported memory is freed as other memory is");
	is_int((int)import(fd, &handle), 0, "its descriptor keeps the bytes");
	ptr = map(handle, HALF);
	cu.cuMemRelease(handle);
	is_int((int)allow(ptr, HALF, CU_MEM_ACCESS_FLAGS_PROT_READ), 0,
	       "a part of it is mapped for reading");
	cu.cuMemcpyDtoH(&byte, ptr + HALF - 1, 1);
	is_int(byte, 21, "and read");
	is_int((int)cu.cuMemsetD8(ptr, 1, 1), CUDA_ERROR_INVALID_VALUE,
	       "and cannot be written to");
	drop(ptr, HALF);
	close(fd);
}

static void refused(void)
{
	CUmemGenericAllocationHandle handle = create(CU_MEM_HANDLE_TYPE_NONE),
				     other;
	CUmemAllocationProp prop;
	int fd;

	is_int((int)cu.cuMemExportToShareableHandle(&fd, handle, POSIX, 0),
	       CUDA_ERROR_INVALID_VALUE,
	       "memory that was not created for it is not exported");
	is_int((int)import(0, &other), CUDA_ERROR_INVALID_VALUE,
	       "a descriptor of something else is not imported");
	is_int((int)cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle), 0,
	       "a handle has the properties of its memory");
	is_int((int)prop.requestedHandleTypes, 0, "as it was created");
	cu.cuMemRelease(handle);
	is_int((int)cu_counts().live[FAKECUDA_DEVICE_MEMORY], 0,
	       "nothing is left");
}

int main(void)
{
	int pair[2];
	pid_t child;

	plan(4 + 5 + 5);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
		bail("no sockets");
	child = fork(); /* the driver is not in use yet */
	if (!child)
		_exit(importer(pair[1]));
	cu_start();
	shared(pair[0], child);
	kept();
	refused();
	return done_testing();
}
