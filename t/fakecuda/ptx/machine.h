/* SPDX-License-Identifier: MIT */
/*
 * Internal declarations of the interpreter.
 *
 * parse.c makes functions of instructions in words; decode.c makes from a
 * kernel and the functions that it calls one array of instructions, each with
 * the function that executes it for all lanes of a warp; run.c executes.
 */
#ifndef FAKECUDA_PTX_MACHINE_H
#define FAKECUDA_PTX_MACHINE_H

#include <stdio.h>

#include "ptx.h"

#define LANES 32u
#define FULL 0xffffffffu
#define THREADS_MAX 1024u
#define BARRIERS 16u

/* Generic addresses of the spaces that are no global memory. */
#define WINDOW_SHARED ((uint64_t)1 << 56)
#define WINDOW_LOCAL ((uint64_t)2 << 56)
#define WINDOW_PARAM ((uint64_t)3 << 56)
#define WINDOW_MASK ((uint64_t)255 << 56)

enum ptx_type {
	T_NONE,
	T_PRED,
	T_B8,
	T_B16,
	T_B32,
	T_B64,
	T_B128,
	T_U8,
	T_U16,
	T_U32,
	T_U64,
	T_S8,
	T_S16,
	T_S32,
	T_S64,
	T_F16,
	T_F16X2,
	T_BF16,
	T_BF16X2,
	T_TF32,
	T_F32,
	T_F64,
	TYPES
};

enum ptx_space {
	S_GENERIC,
	S_GLOBAL,
	S_SHARED,
	S_LOCAL,
	S_CONST,
	S_PARAM, /* of the kernel */
	S_ARG,   /* of a call: memory of the thread, outside of its window */
};

/* parse.c: the text in words. */

enum word_kind {
	W_REG,
	W_IMM,  /* an integer */
	W_REAL, /* bits of a double */
	W_BITS, /* 0f, 0d: bits of a float or a double */
	W_NAME, /* a variable, a function or a label */
	W_VECTOR,
	W_ADDRESS,
	W_LIST, /* in parentheses */
	W_SINK, /* _ */
};

/* A register, in the numbers of its function. */
struct reg {
	enum ptx_type type;
};

struct word {
	enum word_kind kind;
	bool negated;   /* !%p */
	unsigned bytes; /* W_BITS: 4 or 8 */
	unsigned reg;
	int64_t value; /* also the offset of an address */
	const char *name;
	unsigned scope;              /* where a name is looked up */
	struct word *items, *second; /* d|p */
	size_t n;
};

struct statement {
	unsigned line;
	const char *op; /* as written */
	bool guarded, guard_negated;
	unsigned guard;
	struct word *words;
	size_t n;
};

struct variable {
	const char *name;
	enum ptx_space space;
	enum ptx_type type;
	unsigned scope;
	uint64_t size, align;
	bool unsized; /* the dynamic shared memory */
	unsigned char *init;
	uint64_t offset; /* in its space; a global variable's address */
};

struct label {
	const char *name;
	unsigned scope;
	size_t at; /* number of a statement */
};

struct branches { /* .branchtargets */
	const char *name;
	const char **labels;
	size_t n;
	unsigned scope;
};

struct function {
	const char *name;
	unsigned line;
	bool entry, defined;
	struct variable *params, *returns, *variables;
	size_t n_params, n_returns, n_variables;
	struct reg *regs;
	size_t n_regs;
	struct statement *body;
	size_t n_body;
	struct label *labels;
	size_t n_labels;
	struct branches *tables;
	size_t n_tables;
	unsigned *parents; /* of scopes */
	size_t n_scopes;
	unsigned max_threads, required[3];
	/* While a kernel is decoded. */
	unsigned mark;
};

struct ptx_module {
	unsigned version, target;
	struct function *functions;
	size_t n_functions;
	struct variable *globals; /* also shared variables of the file */
	size_t n_globals;
	struct ptx_variable *shown;
	size_t n_shown;
	struct ptx_kernel **kernels;
	size_t n_kernels;
	struct chunk *arena;
};

/* Memory that lives as long as the module. It never fails. */
void *ptx_alloc(struct ptx_module *module, size_t bytes);
char *ptx_strdup(struct ptx_module *module, const char *text, size_t n);
/* Room for one more element in an array of the module. */
void *ptx_more(struct ptx_module *module, void *array, size_t n, size_t size);

unsigned ptx_type_bytes(enum ptx_type type);
enum ptx_type ptx_type_of(const char *text, size_t n);

/* rough.c: errors of a GPU, if the launch asks for them. */
struct warp;
struct ins;
uint8_t ptx_rough_of(const char *base, const struct ins *in);
void ptx_roughen(struct warp *w, const struct ins *in, uint32_t m);
/* The sum of @c and @n products, as tensor cores make it. */
double ptx_rough_sum(const struct ins *in, double c, const double *products,
		     unsigned n);

/* decode.c: what is executed. */

struct warp;
struct ins;

typedef void ptx_fn(struct warp *w, const struct ins *in, uint32_t m);

/* A row of registers, one value for each lane; or a mask of predicates. */
struct operand {
	uint32_t off;  /* bytes into the warp's registers */
	uint32_t reg;  /* 0: always defined */
	uint8_t bytes; /* of each value; 0: predicates */
	bool negated;
	bool sink; /* a destination that is not wanted */
};

enum ins_kind {
	I_PLAIN,
	I_BRANCH,
	I_TABLE, /* brx.idx */
	I_CALL,
	I_RETURN,
	I_EXIT,
	I_SYNC,    /* waits for the lanes of its mask */
	I_BARRIER, /* of the block */
	I_TRAP,
	I_ASSERT,
};

/* What a barrier does once it is complete. */
enum bar_op {
	BAR_SYNC,
	BAR_ARRIVE,
	BAR_POPC,
	BAR_AND,
	BAR_OR,
};

enum rounding {
	R_NONE,
	R_RN,
	R_RZ,
	R_RM,
	R_RP,
	R_RNA,
	R_RNI,
	R_RZI,
	R_RMI,
	R_RPI,
	R_APPROX,
	R_FULL,
};

/* Members sub and sub2 of instructions. */
enum comparison {
	C_EQ,
	C_NE,
	C_LT,
	C_LE,
	C_GT,
	C_GE,
	C_EQU,
	C_NEU,
	C_LTU,
	C_LEU,
	C_GTU,
	C_GEU,
	C_NUM,
	C_NAN,
};

enum boolean {
	B_NONE,
	B_AND,
	B_OR,
	B_XOR,
};

enum product {
	M_LO,
	M_HI,
	M_WIDE,
};

enum order {
	O_WEAK,
	O_VOLATILE,
	O_RELAXED,
	O_ACQUIRE,
	O_RELEASE,
	O_ACQ_REL,
};

struct ins {
	ptx_fn *fn;
	uint32_t line;
	uint32_t guard_reg;
	uint32_t guard; /* bytes into the registers; UINT32_MAX: none */
	bool guard_negated;
	uint8_t kind;
	uint8_t type, type2; /* of the result, of the operands */
	uint8_t bytes;       /* of each element of an access */
	uint8_t nd, ns;      /* destinations, then sources */
	uint8_t space, order, round;
	uint8_t sub; /* which of a family: comparison, atomic, vote, ... */
	uint8_t sub2;
	uint8_t rough; /* bounds of its error: rough.c; 0: exact */
	bool ftz, sat, relu, nan, aligned, trans, keeps, carry_in, carry_out;
	bool cta; /* orders threads of a block only */
	struct operand *op;
	int64_t imm; /* offset of the address; lut; target */
	const uint32_t *table;
	struct call *call;
};

/* A call: bytes that are copied to and from the callee's variables. */
struct call {
	uint32_t target, slot; /* of the return address */
	struct copied {
		uint32_t from, to, bytes;
	} * in, *out;
	size_t n_in, n_out;
};

enum special {
	X_TID_X,
	X_TID_Y,
	X_TID_Z,
	X_NTID_X,
	X_NTID_Y,
	X_NTID_Z,
	X_CTAID_X,
	X_CTAID_Y,
	X_CTAID_Z,
	X_NCTAID_X,
	X_NCTAID_Y,
	X_NCTAID_Z,
	X_LANEID,
	X_WARPID,
	X_NWARPID,
	X_SMID,
	X_NSMID,
	X_GRIDID,
	X_LANEMASK_EQ,
	X_LANEMASK_LE,
	X_LANEMASK_LT,
	X_LANEMASK_GE,
	X_LANEMASK_GT,
	X_DYNAMIC_SMEM,
	X_TOTAL_SMEM,
	X_CLUSTER_CTARANK,
	X_CLUSTER_NCTARANK,
	SPECIALS
};

struct ptx_kernel {
	struct ptx_module *module;
	const struct function *function;
	struct ins *code;
	size_t n_code;
	uint32_t entry;  /* its first instruction */
	uint32_t regs;   /* bytes of the registers of a warp */
	uint32_t n_regs; /* numbers of registers; 0 is always defined */
	/* Rows that every warp starts with: constants. */
	struct preset {
		uint32_t off;
		uint8_t bytes;
		uint64_t value;
	} * presets;
	size_t n_presets;
	struct {
		uint32_t off[SPECIALS]; /* 0: unused */
	} specials;
	uint32_t n_returns;           /* slots of return addresses */
	uint32_t local, local_window; /* all bytes; those with an address */
	uint32_t params;              /* bytes */
	uint32_t shared; /* with red zones, without the dynamic part */
	uint32_t shared_true, dynamic_at, dynamic_align;
	bool uses_dynamic;
	uint32_t live;
	uint32_t constant;
	/* Shared variables, for red zones and reports. */
	struct placed {
		const char *name;
		uint32_t at, size;
	} * placed;
	size_t n_placed;
};

/* decode.c. NULL with a sentence. */
struct ptx_kernel *ptx_decode(struct ptx_module *module,
			      struct function *function, ptx_refused *refused,
			      void *arg, char sentence[PTX_SENTENCE]);

/* run.c: a block that runs. */

/* One access of a thread to a granule of 4 bytes. block 0: none. */
struct seen {
	uint32_t block, tick;
	uint32_t thread : 10, mask : 4, atomic : 1, ins : 17;
};

struct cell {
	struct seen write, read[2];
};

/* A copy of cp.async that has not arrived. */
struct pending {
	uint32_t group;
	uint32_t dst;
	uint32_t bytes, zeros; /* the last @zeros bytes are zero */
	uint64_t src;
	const struct ins *ins;
};

struct queue {
	struct pending *list;
	size_t n, room;
	uint32_t group; /* the one that is open */
};

struct warp {
	struct block *block;
	uint8_t *regs;
	uint32_t *def; /* lanes in which a register is defined */
	uint32_t index;
	uint32_t live, run, waiting, barred;
	uint32_t carry;
	uint32_t pc[LANES];
	uint32_t *returns;
	/* Until which tick a lane has seen the others of its warp. */
	uint32_t lane_seen[LANES][LANES];
	uint32_t warp_seen[LANES]; /* the same for other warps */
	uint32_t bar_pc[LANES];
	uint8_t bar_id[LANES];
	uint32_t bar_arg; /* predicates of lanes at a barrier */
	struct queue queues[LANES];
	uint32_t *released[LANES]; /* ticks at a lane's last fence */
	const struct ins *bar_ins;
};

struct barrier {
	uint32_t arrived, expected; /* threads; expected 0: all */
	uint32_t lanes[LANES];      /* by warp */
	uint32_t trues;
	bool waited;
};

#define NO_FENCE UINT32_MAX

/* What a block has acquired of another: ticks of its threads. */
struct acquired {
	uint32_t block;
	uint32_t thread, tick; /* who acquired it, when; or NO_FENCE yet */
	const uint32_t *ticks;
	struct acquired *next;
};

struct block {
	struct machine *machine;
	uint32_t serial; /* from 1 */
	uint32_t at[3];
	uint32_t n_warps, n_threads;
	struct warp *warps;
	uint8_t *memory; /* registers and all other arrays */
	uint8_t *shared, *shared_valid;
	uint8_t *owner; /* of shared bytes: 0 is a red zone */
	uint8_t *local, *local_valid;
	struct cell *cells; /* of shared memory */
	uint32_t tick;
	struct barrier barriers[BARRIERS];
	struct acquired *acquired;
	struct block *next;
};

struct page {
	uint64_t number;
	struct cell *cells;
};

/* A place in global memory that synchronises, and what was released there. */
struct place;

struct machine {
	struct ptx_launch *launch;
	const struct ptx_kernel *kernel;
	bool check;
	enum ptx_outcome outcome;
	uint64_t random;
	uint64_t executed, slice;
	const struct ptx_range *last;
	struct page *pages;
	size_t n_pages, room_pages;
	const struct page *last_page;
	struct place *places;
	struct chunk *kept; /* freed after the launch */
	uint64_t *reported; /* kind and instruction of findings */
	size_t n_reported;
	unsigned shared_bytes;
	struct ptx_counts counts;
	const char *first; /* of this launch */
};

/* Report a finding, unless its kind was reported for this instruction. */
enum finding {
	F_REGISTER = 1,
	F_BOUNDS,
	F_ALIGN,
	F_UNWRITTEN,
	F_RACE,
	F_LANES,
	F_BARRIER,
	F_ASYNC,
	F_OTHER,
};

void ptx_found(struct warp *w, const struct ins *in, unsigned lane,
	       enum finding kind, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void ptx_fault(struct warp *w, enum ptx_outcome outcome);

/* check.c */
enum access {
	A_READ,
	A_WRITE,
	A_ATOMIC,
	A_READ_NOW, /* volatile or stronger: no race with its like */
	A_WRITE_NOW,
	A_PEEK, /* a read that is not recorded */
};

void ptx_check_cells(struct warp *w, const struct ins *in, unsigned lane,
		     bool shared, uint64_t address, unsigned bytes,
		     enum access access);
void ptx_fence(struct warp *w, uint32_t m);
void ptx_release(struct warp *w, unsigned lane, uint64_t address, bool now);
void ptx_acquire(struct warp *w, unsigned lane, uint64_t address, bool now);
void ptx_warp_synced(struct warp *w, uint32_t mask);
void ptx_barrier_synced(struct block *block, const uint32_t lanes[LANES]);
void ptx_check_end(struct machine *machine);
void ptx_block_end(struct block *block);

/* access.c */
void *ptx_reach(struct warp *w, const struct ins *in, unsigned lane,
		enum ptx_space space, uint64_t address, unsigned bytes,
		unsigned align, enum access access);
void ptx_async_drop(struct block *block);

/* alu.c: the function of an arithmetic instruction; NULL: there is none. */
struct shape {
	const char *op;
	enum ptx_type type, type2;
	struct ins *ins;
};

ptx_fn *ptx_alu(const char *op, struct ins *in);

extern ptx_fn ptx_do_load, ptx_do_store, ptx_do_atom, ptx_do_async,
	ptx_do_commit, ptx_do_wait, ptx_do_ldmatrix, ptx_do_stmatrix,
	ptx_do_fence, ptx_do_mma, ptx_do_shfl, ptx_do_vote, ptx_do_match,
	ptx_do_redux, ptx_do_warpsync, ptx_do_nothing, ptx_do_clock,
	ptx_do_activemask, ptx_do_cvt, ptx_do_isspace, ptx_do_load_arg,
	ptx_do_store_arg, ptx_do_load_param;

/* float.c: numbers. */
float ptx_half_float(uint16_t h);
float ptx_bf16_float(uint16_t h);
uint16_t ptx_to_half(double v, enum rounding round);
uint16_t ptx_to_bf16(double v, enum rounding round);
/* a * b + c with 53 bits, of which the last is odd if bits are missing. */
double ptx_fma_odd(double a, double b, double c);

#define ROW(T, o) ((T *)(void *)(w->regs + (o).off))

static inline uint32_t ptx_mask(const struct warp *w, const struct operand *o)
{
	uint32_t v = *(const uint32_t *)(const void *)(w->regs + o->off);

	return o->negated ? ~v : v;
}

/* The value of a lane of a row, zero-extended. */
static inline uint64_t ptx_value(const struct warp *w, const struct operand *o,
				 unsigned lane)
{
	const uint8_t *row = w->regs + o->off;

	switch (o->bytes) {
	case 0:
		return ptx_mask(w, o) >> lane & 1;
	case 2:
		return ((const uint16_t *)(const void *)row)[lane];
	case 4:
		return ((const uint32_t *)(const void *)row)[lane];
	default:
		return ((const uint64_t *)(const void *)row)[lane];
	}
}

static inline void ptx_assign(struct warp *w, const struct operand *o,
			      unsigned lane, uint64_t value)
{
	uint8_t *row = w->regs + o->off;

	if (o->sink)
		return;
	switch (o->bytes) {
	case 0:
		*(uint32_t *)(void *)row &= ~(1u << lane);
		*(uint32_t *)(void *)row |= (uint32_t)(value & 1) << lane;
		break;
	case 2:
		((uint16_t *)(void *)row)[lane] = (uint16_t)value;
		break;
	case 4:
		((uint32_t *)(void *)row)[lane] = (uint32_t)value;
		break;
	default:
		((uint64_t *)(void *)row)[lane] = value;
	}
}

#endif
