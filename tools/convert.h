/* SPDX-License-Identifier: MIT */
/*
 * weir convert: its options (convert_args.c), the tensors that are written
 * (convert_tensors.c), metadata (convert_meta.c), and the save (convert.c).
 */
#ifndef TOOLS_CONVERT_H
#define TOOLS_CONVERT_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <weir.h>

/* --rename PATTERN=REPLACEMENT */
struct convert_rename {
	const char *pattern, *to;
	regex_t regex;
	bool used; /* a name matched */
};

/* --drop, --drop-meta */
struct convert_drop {
	const char *glob;
	bool used;
};

/* --slice */
struct convert_slice {
	const char *glob;
	struct weir_slice slice; /* divided by rank if n is < 0 */
	bool used;
};

struct convert_args {
	const char *in, *out;
	struct convert_rename *rename;
	struct convert_drop *drop, *drop_meta;
	struct convert_slice *slice;
	struct weir_value *set; /* --set; its strings are those of argv */
	void **set_items;       /* [n_sets] memory of arrays, or NULL */
	size_t n_renames, n_drops, n_drop_metas, n_slices, n_sets;
	uint32_t rank, ranks;  /* --rank; ranks is 0 without it */
	enum weir_dtype dtype; /* NONE: that of each tensor */
	uint64_t shard;
	uint32_t save_flags; /* WEIR_SAVE_* */
	struct weir_opts root;
	bool raw, lenient, force, estimate, quiet, json;
};

struct llama_config;
struct llama_export;

/*
 * A file that is written beside the tensors, when these are there: a text, or a
 * copy of another file.
 */
struct convert_file {
	char *name;
	char *text;
	size_t len;
	struct weir_file *from; /* NULL: the text */
};

/* A tensor that is written. */
struct convert_tensor {
	size_t entry;            /* its number in the model */
	char *name;              /* by which it is written */
	struct weir_tensor view; /* its elements in the order of the output */
	unsigned ndim;           /* of the shape in the output, which may have
				    fewer dimensions than view */
	int64_t shape[WEIR_MAX_DIMS];
	enum weir_dtype dtype; /* NONE: its own */
};

struct convert_job {
	struct convert_args *args;
	struct weir *weir;
	struct weir_model *model;
	struct weir_model_info info; /* of model */
	struct weir_save *save;
	/* The model in its other form; NULL: tensors are as they are. */
	struct llama_config *config;
	struct llama_export *export;
	struct weir_buf *factors;
	struct convert_file *file; /* [n_files] written beside the tensors */
	size_t n_files;
	char *path;       /* that of the save */
	bool folder;      /* OUT is a folder: Hugging Face's files */
	bool made_folder; /* by this command */
	struct convert_tensor *tensor;
	size_t n;
	bool gguf;      /* GGUF is written, else safetensors */
	size_t as_text; /* values of metadata that are written as text */
	size_t kept;    /* tensors whose rows are not whole blocks of --dtype */
};

/* Returns 0, EXIT_USAGE or ARGS_HELP. In each case call convert_args_free(). */
int convert_args_parse(int argc, char **argv, struct convert_args *ret_args);
void convert_args_free(struct convert_args *args);

/*
 * Fill in job->tensor with what the options leave of the model, and add it to
 * the save. Return 0, or EXIT_FAILURE after a line on stderr.
 */
int convert_tensors_list(struct convert_job *job);
int convert_tensors_add(struct convert_job *job);
void convert_tensors_free(struct convert_job *job);

/*
 * If files of Hugging Face are written as GGUF, or GGUF as such files, set
 * job->config and job->export. Returns 0, or EXIT_FAILURE after a line on
 * stderr.
 */
int convert_model_find(struct convert_job *job);
void convert_model_free(struct convert_job *job);
/*
 * If OUT is a folder: make it, and the texts of the files in it; write them;
 * remove the folder if nothing is in it. Return as above.
 */
int convert_folder_begin(struct convert_job *job);
int convert_folder_texts(struct convert_job *job);
int convert_folder_write(struct convert_job *job);
void convert_folder_drop(struct convert_job *job);
/* A new file of the folder; NULL after a line on stderr. */
struct convert_file *convert_folder_add(struct convert_job *job,
					const char *name);
/* List the files that are beside the weights of a model of Hugging Face. */
int convert_beside_list(struct convert_job *job);
/* The folder of the model, with its slash, or ""; NULL: no memory. */
char *convert_own_folder(const struct convert_job *job);
/* True if the model was opened by a URL. */
bool convert_is_remote(const struct convert_job *job);
/* The name of a dtype in config.json. */
const char *convert_torch_name(enum weir_dtype dtype);
/* The dtype of most bytes of matrices. */
enum weir_dtype convert_main_dtype(const struct convert_job *job);
/* Add RoPE's factors; the metadata. Return as above. */
int convert_model_add_factors(struct convert_job *job);
int convert_model_add_meta(struct convert_job *job);

/* Add the metadata. Returns 0, or EXIT_FAILURE after a line on stderr. */
int convert_meta_add(struct convert_job *job);
#endif
