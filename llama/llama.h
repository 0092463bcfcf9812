/* SPDX-License-Identifier: MIT */
/*
 * A model of the Llama architecture, or of one that is like it (Mistral, Qwen2,
 * Qwen3): from files and tokens to logits. README.md says how the parts work
 * together. Functions return 0 or a negative errno; llama_error() returns its
 * sentence.
 */
#ifndef LLAMA_H
#define LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir.h>

/* The tensors that a layer may have: norms, matrices, and the bias of each. */
enum {
	LLAMA_ATTN_NORM,
	LLAMA_FFN_NORM,
	LLAMA_Q_NORM, /* norm of each head, before the head is rotated */
	LLAMA_K_NORM,
	LLAMA_Q,
	LLAMA_K,
	LLAMA_V,
	LLAMA_ATTN_OUT,
	LLAMA_GATE,
	LLAMA_UP,
	LLAMA_DOWN,
	/* LLAMA_BIAS + m: the bias of matrix m */
	LLAMA_BIAS = LLAMA_DOWN + 1 - LLAMA_Q,
	LLAMA_LAYER_TENSORS = LLAMA_BIAS + LLAMA_DOWN + 1
};

/* The tensors that no layer has. */
enum llama_other {
	LLAMA_EMBEDDING,
	LLAMA_NORM,
	LLAMA_OUTPUT
};

/* A scaling of RoPE in config.json; frequencies are divided (rope.c). */
enum llama_scaling_type {
	LLAMA_SCALING_NONE,
	LLAMA_SCALING_LLAMA3,
	LLAMA_SCALING_YARN
};
struct llama_scaling {
	enum llama_scaling_type type;
	double factor, context; /* used by both types */
	double low, high;       /* used by Llama 3's */
	double fast, slow;      /* turns at the ends of YaRN's ramp */
	bool truncate;          /* the ramp begins and ends at whole pairs */
};

/* The hyperparameters of a model. */
#define LLAMA_ENDS 8
struct llama_config {
	const char *family; /* general.architecture, or model_type */
	bool gguf; /* names and order of rows are those of GGUF, else those of
		      Hugging Face */
	bool tied; /* the embeddings are the output matrix too */
	bool has[LLAMA_LAYER_TENSORS]; /* the tensors that each layer has */
	int64_t layers, embedding, inner, vocabulary, context;
	int64_t heads, kv_heads; /* each of kv_heads serves several heads */
	int64_t head;            /* elements of one head */
	int64_t window; /* number of tokens that a token attends to, itself
			   included, in all layers but the first full_layers; 0:
			   no window */
	int64_t full_layers;
	float eps;
	int32_t bos, pad;        /* -1: not known */
	int32_t end[LLAMA_ENDS]; /* the tokens of config.json that end a text */
	size_t ends;             /* the number of them */
	struct weir_op_rope rope;
	struct llama_scaling scaling;
};

/* The source of a weight: a tensor of the model, or a computation. */
#define LLAMA_COMPUTED SIZE_MAX
struct llama_source {
	size_t entry;  /* its number in the model; or LLAMA_COMPUTED */
	int64_t order; /* when a pass uses it first: 0 with the embeddings, 1 in
			  the first layer */
	size_t number; /* its number in the load */
	unsigned part; /* the part whose memory has it */
	bool same;     /* it has the dtype of the file in memory */
	struct weir_file *file; /* the file in which it stays, from which the
				   library reads it when it is needed; NULL: it
				   is loaded */
	uint64_t offset;        /* offset of its bytes in the file */
};

/*
 * The weights, which may still be arriving: the event of each tells when it has
 * arrived.
 */
struct llama_weights {
	size_t n;         /* weights; those of the layers come first */
	size_t per_layer; /* weights of each layer */
	size_t slot[LLAMA_LAYER_TENSORS]; /* place of each kind among the
					     weights of a layer */
	struct weir_tensor *tensor; /* tensors with names, placed when they are
				       loaded */
	struct llama_source *source;
	struct weir_event **event; /* NULL: the bytes are there */
	/* numbers of weights; factors is n if there are none */
	size_t embedding, norm, output, factors;
	struct weir_buf *buf; /* memory of factors that are computed */
	struct weir_load *load;
	struct weir_weights *weights; /* memory of what is loaded */
};

/* Keys and values of the tokens so far: [tokens, kv_heads * head] for each
 * layer, keys of all layers first. */
struct llama_cache {
	int64_t layers, length; /* tokens for which there is room */
	struct weir_tensor *tensor;
};

/* The layers whose weights are in the memory of one device. */
struct llama_part {
	struct weir_dev *dev;
	bool computes;     /* the device can compute graphs */
	unsigned computer; /* the part whose device computes these layers, and
			      whose memory has their caches: this part if it
			      can */
	struct weir_buft *buft;
	struct weir_buf *cache;
	struct weir_buf *unloaded; /* weights of llama_opts.unloaded */
	int64_t bytes;             /* bytes of weights that are always in
				      memory */
};

/* A pass: its size, the nodes of its inputs, and the node of its result. */
struct llama_pass {
	int64_t tokens; /* tokens that it reads */
	bool all;       /* compute the logits of each token, else of the last */
	enum weir_precision precision; /* precision of products and attention */
	struct weir_node *ids, *positions, *logits;
	struct weir_node *length; /* tokens so far, with those of the pass */
};

struct llama_opts {
	int64_t context;               /* tokens for which there is room */
	int64_t batch;                 /* most tokens in a pass */
	enum weir_dtype cache;         /* F16 or F32 */
	enum weir_precision precision; /* INVARIANT or F32: logits do not depend
					  on how tokens are divided into
					  passes */
	int64_t threads;               /* 0: the library's choice */
	struct weir_dev *const *devs;  /* devices that share the layers; NULL:
					 the CPU */
	unsigned n_devs;
	int64_t budget;     /* bytes of weights in the memory of each device;
			       others are read in each pass. 0: no limit */
	bool unloaded;      /* the weights get memory, and are not read: for
			       executable graphs that never run */
	bool (*stop)(void); /* called now and then while a pass runs; true: the
			       pass ends with -ECANCELED. NULL: not called */
};
#define LLAMA_OPTS_INIT                               \
	{                                             \
		.batch = 512, .cache = WEIR_DTYPE_F16 \
	}

/* A sequence of tokens, read by one model. */
struct llama {
	struct weir *weir;
	struct llama_opts opts;
	struct weir_model *model; /* has the names of the weights */
	struct llama_config config;
	struct llama_weights weights;
	struct llama_cache cache;
	struct llama_part *part;
	unsigned n_parts;
	int64_t position; /* position of the next token */
	struct weir_sched *sched;
	struct weir_graph *graph;
	struct weir_exec *exec;
	struct weir_run *run;
	struct llama_pass pass;   /* the pass that @run computes */
	int32_t *positions;       /* positions of the tokens of the pass */
	uint64_t waits;           /* waits in all passes, for weights and for
				   results of other devices */
	int64_t pass_ns;          /* time of all passes */
	int64_t wait_ns;          /* time of the waits, summed over devices */
	int64_t prefetch_wait_ns; /* time of the waits for weights, summed over
				     devices */
	int64_t compute_ns;       /* time of computing, summed over devices */
	uint64_t kept;       /* bytes of weights in files that devices keep */
	uint64_t prefetched; /* bytes of the others, read in all passes */
};

/* error.c */
#define LLAMA_PRINTF(at) __attribute__((format(printf, at, (at) + 1)))
int llama_fail(int err, const char *fmt, ...) LLAMA_PRINTF(2);
const char *llama_error(void);

/*
 * config_gguf.c and config_hf.c read hyperparameters; config.c chooses one of
 * them, and checks what it has read.
 */
int llama_config_gguf(const struct weir_model *model, struct llama_config *c);
int llama_config_hf(const struct weir_model *model, struct llama_config *c);
int llama_config_read(const struct weir_model *model, struct llama_config *c);
/* keys_gguf.c: refuse keys of the architecture that are not known. */
int llama_keys_gguf(const struct weir_model *model, const char *arch);
/* True if the layer attends to a window of the tokens only. */
bool llama_has_window(const struct llama_config *c, int64_t layer);
/* True if config.json says that this token ends a text. */
bool llama_is_end(const struct llama_config *c, int32_t token);

/* rope.c: return the divisor of the frequency of pair @i. */
double llama_rope_divisor(const struct llama_config *c, int64_t i);
/* Return the factor by which YaRN multiplies sine and cosine. */
double llama_yarn_magnitude(double factor, double mscale);

/* tensors.c: write the name of a tensor to @name, of LLAMA_NAME_BYTES. */
#define LLAMA_NAME_BYTES 96
void llama_layer_name(bool gguf, int64_t layer, unsigned kind, char *name);
const char *llama_other_name(bool gguf, enum llama_other other);
/* True if the first layer has a tensor of this kind. */
bool llama_first_has(const struct weir_model *model,
		     const struct llama_config *c, unsigned kind);
/*
 * Find the tensors that the model has; they are not placed. Their names are the
 * strings of @model. That is enough for llama_graph().
 */
int llama_weights_find(const struct weir_model *model,
		       const struct llama_config *c, struct llama_weights *w);
/* Return the number of a weight of a layer, which must have it. */
size_t llama_weight_of(const struct llama_weights *w, size_t layer,
		       unsigned kind);
/*
 * weights.c: place the tensors in the memory of their parts, and start to load
 * them. With a budget, large ones stay in their files.
 */
int llama_weights_load(struct llama *l);
void llama_weights_free(struct llama_weights *w);

/*
 * cache.c: make the tensors of the cache. They are not placed, which is enough
 * for llama_graph().
 */
int llama_cache_init(const struct llama_config *c, enum weir_dtype dtype,
		     int64_t length, struct llama_cache *cache);
int llama_cache_alloc(struct llama *l);
void llama_cache_free(struct llama_cache *cache);

/*
 * devices.c: find the devices of a list, separated by commas; parameters may
 * follow a name, as in weir_dev_configure(). The caller frees the array.
 * -EINVAL: a device is in it twice.
 */
int llama_devices(struct weir *weir, const char *list,
		  struct weir_dev ***ret_devs, unsigned *ret_n);

/* parts.c: divide the model among the devices of the options. */
int llama_divide(struct llama *l);
/* Return the part whose device computes a layer, and has its cache. */
unsigned llama_computer_of(const struct llama *l, int64_t layer);
/*
 * Place in memory of part @p those of @n tensors for which @is_of returns true.
 */
int llama_part_alloc(const struct llama *l, unsigned p,
		     struct weir_tensor *tensor, size_t n,
		     bool (*is_of)(const struct llama *l, size_t i, unsigned p),
		     struct weir_buf **ret_buf);
/* Pin the operations of each part to its device. */
int llama_pin(struct llama *l);
void llama_parts_free(struct llama *l);

/* graph.c: add the pass to @g, and set its nodes. */
void llama_graph(struct weir_graph *g, const struct llama_config *c,
		 const struct llama_weights *w, const struct llama_cache *cache,
		 struct llama_pass *pass);

/*
 * export.c: the same model in its other form, GGUF or Hugging Face. A tensor
 * has its name there, and its rows in the order of that form: the dimensions of
 * @view may be more than those of @shape.
 */
struct llama_export_tensor {
	char name[LLAMA_NAME_BYTES];
	size_t entry; /* its number in the model */
	struct weir_tensor view;
	unsigned ndim;
	int64_t shape[2];
};
struct llama_export {
	struct llama_export_tensor *tensor; /* in the order of the model */
	size_t n;
	float *factors; /* rope_freqs.weight, which GGUF has; NULL: none */
	int64_t n_factors;
};
/* -EOPNOTSUPP: the other form cannot hold the model. */
int llama_export(const struct weir_model *model, const struct llama_config *c,
		 struct llama_export *ret);
void llama_export_free(struct llama_export *x);
/* export_gguf.c: add the metadata of GGUF, without those of the tokenizer. */
int llama_export_gguf(const struct llama_config *c, struct weir_save *save);
/*
 * export_hf.c: make the text of a config.json, which the caller frees. @dtype:
 * that of most weights. c->bos, c->pad and c->end are written.
 */
int llama_export_hf(const struct weir_model *model,
		    const struct llama_config *c, const char *dtype,
		    char **ret_text);

/*
 * llama.c: open a model and check that it is supported. Nothing is loaded.
 * llama_close() frees what it made, also if it fails.
 */
int llama_open(struct weir *weir, const char *path, struct llama *l);
/*
 * Allocate memory for weights and cache, and start to load. It is called once.
 */
int llama_start(struct llama *l, const struct llama_opts *opts);
/*
 * Read @n tokens, in passes of at most opts.batch. @ret_logits gets those of
 * each token (@all), or of the last.
 */
int llama_read(struct llama *l, const int32_t *token, int64_t n, bool all,
	       float *ret_logits);
void llama_close(struct llama *l);

#endif
