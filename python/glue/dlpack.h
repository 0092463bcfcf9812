/* SPDX-License-Identifier: MIT */
/* The structs of DLPack 1.3, by which frameworks exchange tensors. */
#ifndef GLUE_DLPACK_H
#define GLUE_DLPACK_H

#include <stdint.h>

#define DLPACK_MAJOR 1
#define DLPACK_MINOR 3
#define DLPACK_READ_ONLY 1u

/* Types of devices: DLDeviceType. */
#define DLPACK_CPU 1
#define DLPACK_CUDA 2
#define DLPACK_CUDA_HOST 3

/* Codes of dtypes: DLDataTypeCode. */
enum dlpack_code {
	DLPACK_INT = 0,
	DLPACK_UINT = 1,
	DLPACK_FLOAT = 2,
	DLPACK_BFLOAT = 4,
	DLPACK_COMPLEX = 5,
	DLPACK_BOOL = 6,
	DLPACK_F8_E4M3FN = 10,
	DLPACK_F8_E4M3FNUZ = 11,
	DLPACK_F8_E5M2 = 12,
	DLPACK_F8_E5M2FNUZ = 13,
	DLPACK_F8_E8M0FNU = 14
};

struct dlpack_version {
	uint32_t major, minor;
};

struct dlpack_dtype {
	uint8_t code, bits;
	uint16_t lanes;
};

/* DLTensor */
struct dlpack_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	struct dlpack_dtype dtype;
	int64_t *shape;
	int64_t *strides; /* elements */
	uint64_t byte_offset;
};

/* DLManagedTensor */
struct dlpack_managed {
	struct dlpack_tensor tensor;
	void *ctx;
	void (*deleter)(struct dlpack_managed *self);
};

/* DLManagedTensorVersioned */
struct dlpack_versioned {
	struct dlpack_version version;
	void *ctx;
	void (*deleter)(struct dlpack_versioned *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

/* DLPackExchangeAPI, whose members to the end of prev never change. */
struct dlpack_exchange {
	struct dlpack_version version;
	struct dlpack_exchange *prev;
	int (*allocate)(struct dlpack_tensor *like,
			struct dlpack_versioned **ret, void *ctx,
			void (*fail)(void *ctx, const char *kind,
				     const char *text));
	int (*from_object)(void *object, struct dlpack_versioned **ret);
	int (*to_object)(struct dlpack_versioned *tensor, void **ret_object);
	int (*borrow)(void *object, struct dlpack_tensor *ret);
	int (*stream)(int32_t device_type, int32_t device_id, void **ret);
};

#endif
