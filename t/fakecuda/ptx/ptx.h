/* SPDX-License-Identifier: MIT */
/*
 * An interpreter of PTX: modules, kernels and launches. README.md says what it
 * executes and what it checks. It knows nothing of the driver around it.
 */
#ifndef FAKECUDA_PTX_H
#define FAKECUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_SENTENCE 400

struct ptx_module;
struct ptx_kernel;

/* A variable of a module in global or constant memory. */
struct ptx_variable {
	const char *name;
	uint64_t size, align;
	const void *init; /* @size bytes, or NULL: zeros */
	bool constant;
	uint64_t address; /* set by the caller before ptx_module_link */
};

/*
 * Parse @text. On failure @sentence says why, with the line, and NULL is
 * returned. The caller then gives each variable its address, and links.
 */
struct ptx_module *ptx_module_parse(const char *text, size_t length,
				    char sentence[PTX_SENTENCE]);
size_t ptx_module_variables(struct ptx_module *module,
			    struct ptx_variable **ret);
/* Decode all kernels. 0, or -1 with @sentence. */
int ptx_module_link(struct ptx_module *module, char sentence[PTX_SENTENCE]);
void ptx_module_free(struct ptx_module *module);

/*
 * Instead of linking: decode all kernels, and report each instruction that is
 * not executed, with the sentence that linking would fail with. 0 with the
 * number of instructions of the text, or -1 with @sentence if a kernel is
 * refused as a whole. Nothing can be launched.
 */
typedef void ptx_refused(void *arg, const char *op, const char *sentence);
int ptx_module_survey(struct ptx_module *module, ptx_refused *refused,
		      void *arg, size_t *ret_instructions,
		      char sentence[PTX_SENTENCE]);

/* The version and the target of the text, such as 74 and 80. */
void ptx_module_version(const struct ptx_module *module, unsigned *ret_version,
			unsigned *ret_target);

struct ptx_kernel *ptx_module_kernel(struct ptx_module *module,
				     const char *name);
size_t ptx_module_kernels(const struct ptx_module *module);
struct ptx_kernel *ptx_module_kernel_at(struct ptx_module *module, size_t i);

/* What a program can ask about a kernel. */
struct ptx_kernel_info {
	const char *name;
	size_t params; /* number */
	size_t param_bytes;
	size_t shared; /* bytes of its shared variables, without red zones */
	size_t local;
	size_t constant;
	unsigned registers;   /* a guess: the most that are live at once */
	unsigned max_threads; /* 0: the text has no limit */
	unsigned required[3]; /* .reqntid; 0: none */
};

void ptx_kernel_info(const struct ptx_kernel *kernel,
		     struct ptx_kernel_info *ret);
/* The place of parameter @i in the parameters. 0, or -1: there is none. */
int ptx_kernel_param(const struct ptx_kernel *kernel, size_t i,
		     size_t *ret_offset, size_t *ret_size);

/* Memory that a kernel may access: [start, end) of its addresses. */
struct ptx_range {
	uint64_t start, end;
	unsigned char *at; /* where the byte at start is */
	bool readonly;
	/*
	 * One bit for each byte that has been written, the first one for the
	 * byte at @valid_base. NULL: all bytes count as written.
	 */
	unsigned char *valid;
	uint64_t valid_base;
};

struct ptx_counts {
	uint64_t launches;
	uint64_t blocks;
	uint64_t instructions;      /* executed by a warp */
	uint64_t lane_instructions; /* executed by a lane */
	uint64_t load_requests, load_sectors, load_bytes;
	uint64_t store_requests, store_sectors, store_bytes;
	uint64_t shared_requests;
	uint64_t bank_conflicts; /* passes over the banks beyond the fewest */
	uint64_t barriers;
	uint64_t watched_sectors; /* of loads from the watched bytes */
};

enum ptx_outcome {
	PTX_DONE,
	PTX_ILLEGAL_ADDRESS,
	PTX_MISALIGNED,
	PTX_TRAP,
	PTX_ASSERT,
	PTX_TIMEOUT, /* too many instructions, or threads that wait forever */
	PTX_STOPPED,
};

struct ptx_launch {
	struct ptx_kernel *kernel;
	unsigned grid[3], block[3];
	size_t dynamic_shared;
	const void *params;
	/* Sorted by address. */
	const struct ptx_range *ranges;
	size_t n_ranges;
	unsigned seed;  /* 0: warps and blocks in ascending order */
	bool check;     /* races, bytes and registers that were never written */
	bool rough;     /* arithmetic with the errors that GPUs may have */
	uint64_t limit; /* instructions of warps; 0: none */
	uint64_t watch_start, watch_end; /* addresses of bytes to watch */
	/* Asked now and then; true ends the launch. NULL: never. */
	bool (*stop)(void *arg);
	/* Called for each finding, a sentence. */
	void (*found)(void *arg, const char *sentence);
	void *arg;
	struct ptx_counts counts; /* result */
};

enum ptx_outcome ptx_launch(struct ptx_launch *launch);

#endif
