/* SPDX-License-Identifier: MIT */
/*
 * weir devices. All facts are collected in one JSON value. The text is made
 * from this value, so that text and JSON cannot differ.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>
#include "args.h"
#include "command.h"
#include "kinds.h"
#include "output.h"
#include "text.h"

#define NODES "/sys/devices/system/node"

static long long read_number(const char *dir, const char *name)
{
	long long n = 0;
	char path[512];
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    (int)sizeof(path))
		return 0;
	f = fopen(path, "r");
	if (f && fscanf(f, "%lld", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

/* The pages of one node; a size without pages is not listed. */
static void add_sizes(json_t *list, int node)
{
	char dir[128], path[400];
	struct dirent *entry;
	DIR *d;

	snprintf(dir, sizeof(dir), NODES "/node%d/hugepages", node);
	d = opendir(dir);
	while (d && (entry = readdir(d))) {
		long long kib, total;

		if (sscanf(entry->d_name, "hugepages-%lldkB", &kib) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		total = read_number(path, "nr_hugepages");
		if (total <= 0)
			continue;
		json_array_append_new(
			list, json_pack("{s:I, s:i, s:I, s:I}", "bytes",
					(json_int_t)kib * 1024, "node", node,
					"total", (json_int_t)total, "free",
					(json_int_t)read_number(
						path, "free_hugepages")));
	}
	if (d)
		closedir(d);
}

static int is_node(const struct dirent *entry)
{
	int node;

	return sscanf(entry->d_name, "node%d", &node) == 1;
}

/* A list of objects: bytes (of a page), node, total and free (pages). */
static json_t *reserved_json(void)
{
	json_t *list = json_array();
	struct dirent **nodes;
	int n = scandir(NODES, &nodes, is_node, versionsort);

	for (int i = 0; i < n; i++) {
		add_sizes(list, atoi(nodes[i]->d_name + strlen("node")));
		free(nodes[i]);
	}
	if (n >= 0)
		free(nodes);
	return list;
}

static long long member(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Print a line for each size of which there are pages. */
static void reserved_show(const json_t *list)
{
	char text[SIZE_TEXT];
	json_t *pages;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, pages) printf(
		"reserved huge pages of %s: %lld free of %lld on NUMA node %lld\n",
		binary_text((uint64_t)member(pages, "bytes"), text),
		member(pages, "free"), member(pages, "total"),
		member(pages, "node"));
}

static const char help[] =
	"usage: weir devices [--json]\n"
	"List devices with their backends and kinds of memory, modules that were left\n"
	"out and why, and which features of io_uring are used here and why others are\n"
	"not. Host memory is tested: a huge page is allocated, locked and freed.\n"
	"Huge pages that the system has reserved are counted for each NUMA node.\n"
	"\n"
	"  --json   print a JSON object on stdout\n";

enum {
	DEVICES_JSON = ARGS_OPTION
};

static const struct option options[] = {
	{ "json", no_argument, NULL, DEVICES_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* One huge page. */
enum {
	TRIAL_BYTES = 2 << 20
};

static const struct {
	const char *name;
	uint32_t flag;
} caps[] = {
	{ "async", WEIR_CAP_ASYNC },
	{ "events", WEIR_CAP_EVENTS },
	{ "host_memory", WEIR_CAP_HOST_MEMORY },
	{ "pinned", WEIR_CAP_PINNED },
	{ "wrap_host", WEIR_CAP_WRAP_HOST },
	{ "compute", WEIR_CAP_COMPUTE },
}, features[] = {
	{ "ring", WEIR_IO_HAS_RING },
	{ "defer_taskrun", WEIR_IO_HAS_DEFER_TASKRUN },
	{ "registered_ring", WEIR_IO_HAS_RING_FD },
	{ "registered_files", WEIR_IO_HAS_FILES },
	{ "registered_buffers", WEIR_IO_HAS_BUFFERS },
};
enum {
	CAPS = sizeof(caps) / sizeof(caps[0]),
	FEATURES = sizeof(features) / sizeof(features[0])
};

static const char *type_name(uint32_t type)
{
	static const char *const names[] = { "cpu", "gpu", "igpu", "accel" };

	return type < 4 ? names[type] : "other";
}

static json_t *text_or_null(const char *s)
{
	return s ? text_json(s, strlen(s)) : json_null();
}

/* @r is the result of the call that returned the numbers. */
static json_t *bytes_json(int r, uint64_t free_bytes, uint64_t total)
{
	if (r < 0)
		return json_pack("{s:o}", "why", text_or_null(weir_sentence()));
	return json_pack("{s:I, s:I}", "free", (json_int_t)free_bytes, "total",
			 (json_int_t)total);
}

/* Allocate memory of this kind, and describe what the kernel granted. */
static json_t *try_kind(struct weir_buft *buft)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf_opts opts = WEIR_BUF_OPTS_INIT;
	struct weir_buf *buf;
	json_t *json;

	opts.flags = WEIR_BUF_PREFAULT;
	if (weir_buf_alloc(buft, TRIAL_BYTES, &opts, &buf) < 0)
		return json_pack("{s:b, s:o}", "works", 0, "why",
				 text_or_null(weir_sentence()));
	if (weir_buf_info(buf, &info) < 0)
		info.why[0] = '\0';
	json = json_pack("{s:b, s:b, s:b, s:o}", "works", 1, "huge",
			 (info.got & WEIR_GOT_HUGE) != 0, "locked",
			 (info.got & WEIR_GOT_LOCKED) != 0, "why",
			 text_or_null(info.why));
	weir_buf_free(buf);
	return json;
}

static bool can_try(const struct weir_dev_info *dev, unsigned kind)
{
	return dev->type == WEIR_DEV_CPU && kind != WEIR_MEM_DEVICE &&
	       kind != WEIR_MEM_MAPPED;
}

static json_t *kind_memory_json(const struct weir_buft *buft)
{
	uint64_t free_bytes = 0, total = 0;
	int r = weir_buft_memory(buft, &free_bytes, &total);

	return bytes_json(r, free_bytes, total);
}

/* NULL: the device has no memory of this kind. */
static json_t *kind_json(struct weir_dev *dev, const struct weir_dev_info *info,
			 unsigned kind)
{
	struct weir_buft_info b = { .size = sizeof(b) };
	struct weir_buft *buft;

	if (weir_dev_buft(dev, (enum weir_mem)kind, &buft) < 0 ||
	    weir_buft_info(buft, &b) < 0)
		return NULL;
	return json_pack("{s:s, s:o, s:I, s:o, s:b, s:b, s:b, s:o, s:o}",
			 "kind", kind_name(kind), "name", text_or_null(b.name),
			 "align", (json_int_t)b.align, "max",
			 b.max == SIZE_MAX ? json_null()
					   : json_integer((json_int_t)b.max),
			 "host", (b.flags & WEIR_BUFT_HOST) != 0, "locked",
			 (b.flags & WEIR_BUFT_LOCKED) != 0, "readonly",
			 (b.flags & WEIR_BUFT_READONLY) != 0, "tried",
			 can_try(info, kind) ? try_kind(buft) : json_null(),
			 "memory", kind_memory_json(buft));
}

static json_t *kinds_json(struct weir_dev *dev,
			  const struct weir_dev_info *info)
{
	json_t *list = json_array(), *kind;

	for (unsigned i = 0; i < KINDS; i++) {
		kind = kind_json(dev, info, i);
		if (kind)
			json_array_append_new(list, kind);
	}
	return list;
}

static json_t *memory_json(struct weir_dev *dev)
{
	uint64_t free_bytes = 0, total = 0;
	int r = weir_dev_memory(dev, &free_bytes, &total);

	return bytes_json(r, free_bytes, total);
}

static json_t *caps_json(uint32_t bits)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < CAPS; i++)
		if (bits & caps[i].flag)
			json_array_append_new(list, json_string(caps[i].name));
	return list;
}

static json_t *device_json(struct weir_dev *dev)
{
	struct weir_dev_info info = { .size = sizeof(info) };

	if (weir_dev_info(dev, &info) < 0)
		return NULL;
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:i, s:o, s:o, s:o}",
		"name", text_or_null(info.name), "description",
		text_or_null(info.description), "backend",
		text_or_null(info.backend), "module", text_or_null(info.module),
		"type", type_name(info.type), "caps", caps_json(info.caps),
		"no_compute", text_or_null(info.no_compute), "node",
		(int)info.node, "pci",
		info.pci[0] ? text_or_null(info.pci) : json_null(), "memory",
		memory_json(dev), "kinds", kinds_json(dev, &info));
}

static json_t *io_json(struct weir *weir)
{
	struct weir_io_info io = { .size = sizeof(io) };
	json_t *has = json_object();

	if (weir_io_info(weir, &io) < 0)
		return json_pack("{s:n, s:o, s:o}", "method", "features", has,
				 "why", text_or_null(weir_sentence()));
	for (unsigned i = 0; i < FEATURES; i++)
		json_object_set_new(has, features[i].name,
				    json_boolean(io.features &
						 features[i].flag));
	return json_pack("{s:s, s:o, s:i, s:i, s:i, s:I, s:I, s:o}", "method",
			 io.method == WEIR_IO_URING ? "uring" : "sync",
			 "features", has, "reactors", (int)io.reactors, "depth",
			 (int)io.depth, "copiers", (int)io.copiers, "chunk",
			 (json_int_t)io.chunk, "staging",
			 (json_int_t)io.staging, "why", text_or_null(io.why));
}

/* The devices of each backend, by the backend's name. */
static json_t *backends_json(const json_t *devices)
{
	json_t *backends = json_object(), *list, *dev;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)devices, i, dev)
	{
		const char *name =
			json_string_value(json_object_get(dev, "backend"));

		if (!name)
			continue;
		list = json_object_get(backends, name);
		if (!list) {
			list = json_array();
			json_object_set_new(backends, name, list);
		}
		json_array_append(list, json_object_get(dev, "name"));
	}
	return backends;
}

/* Modules that were found but could not be loaded. */
static json_t *refused_json(struct weir *weir)
{
	json_t *list = json_array();
	struct weir_source_desc source = { .size = sizeof(source) };
	const char *path, *why;

	for (unsigned i = 0; weir_module_refused(weir, i, &path, &why) == 0;
	     i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "module",
						      text_or_null(path), "why",
						      text_or_null(why)));
	for (unsigned i = 0; weir_source_describe(weir, i, &source) == 0; i++)
		if (*source.why)
			json_array_append_new(
				list,
				json_pack("{s:o, s:o}", "module",
					  text_or_null(source.module), "why",
					  text_or_null(source.why)));
	return list;
}

static json_t *sources_json(struct weir *weir)
{
	json_t *list = json_array();
	struct weir_source_desc source = { .size = sizeof(source) };

	for (unsigned i = 0; weir_source_describe(weir, i, &source) == 0; i++)
		if (!*source.why)
			json_array_append_new(
				list, json_pack("{s:s, s:s, s:o}", "name",
						source.name, "schemes",
						source.schemes, "module",
						text_or_null(source.module)));
	return list;
}

static json_t *system_json(struct weir *weir)
{
	json_t *devices = json_array(), *dev;

	for (unsigned i = 0; i < weir_dev_count(weir); i++) {
		dev = device_json(weir_dev_get(weir, i));
		if (dev)
			json_array_append_new(devices, dev);
	}
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
			 weir_version_string(), "backends",
			 backends_json(devices), "devices", devices, "reserved",
			 reserved_json(), "sources", sources_json(weir),
			 "refused", refused_json(weir), "io", io_json(weir));
}

static void put_string(const json_t *object, const char *key)
{
	const json_t *s = json_object_get(object, key);

	if (json_is_string(s))
		text_put(stdout, json_string_value(s), json_string_length(s),
			 0);
}

static long long integer(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool is_set(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static bool has_text(const json_t *object, const char *key)
{
	return json_string_length(json_object_get(object, key)) > 0;
}

/* Print "; why" if there is a reason. */
static void put_why(const json_t *object)
{
	if (!has_text(object, "why"))
		return;
	fputs("; ", stdout);
	put_string(object, "why");
}

/* "1.20 GB free of 2.00 GB", or why that is not known. */
static void put_memory(const json_t *memory)
{
	char a[SIZE_TEXT], b[SIZE_TEXT];

	if (has_text(memory, "why"))
		put_string(memory, "why");
	else
		printf("%s free of %s",
		       size_text((uint64_t)integer(memory, "free"), a),
		       size_text((uint64_t)integer(memory, "total"), b));
}

static void show_kind(const json_t *kind)
{
	const json_t *tried = json_object_get(kind, "tried");
	const char *name = json_string_value(json_object_get(kind, "kind"));

	printf("  %-8s", name);
	put_string(kind, "name");
	if (!strcmp(name, "hbm") || !strcmp(name, "far")) {
		fputs(", ", stdout);
		put_memory(json_object_get(kind, "memory"));
	}
	if (integer(kind, "align") > 1)
		printf(", buffers at multiples of %lld",
		       integer(kind, "align"));
	if (is_set(kind, "readonly"))
		fputs(", read-only", stdout);
	if (json_is_object(tried) && !is_set(tried, "works"))
		fputs(", not available", stdout);
	if (is_set(tried, "huge"))
		fputs(", huge pages", stdout);
	if (is_set(tried, "locked"))
		fputs(", locked", stdout);
	put_why(tried);
	putchar('\n');
}

static void show_device(const json_t *dev)
{
	const json_t *memory = json_object_get(dev, "memory");
	json_t *kind;
	size_t i;

	put_string(dev, "name");
	fputs(": ", stdout);
	put_string(dev, "description");
	fputs(" (backend ", stdout);
	put_string(dev, "backend");
	if (has_text(dev, "module")) {
		fputs(", ", stdout);
		put_string(dev, "module");
	}
	fputs(")\n  memory  ", stdout);
	put_memory(memory);
	if (integer(dev, "node") >= 0)
		printf(", NUMA node %lld", integer(dev, "node"));
	putchar('\n');
	if (has_text(dev, "no_compute")) {
		fputs("  computes nothing: ", stdout);
		put_string(dev, "no_compute");
		putchar('\n');
	}
	json_array_foreach(json_object_get(dev, "kinds"), i, kind)
		show_kind(kind);
}

static void show_io(const json_t *io)
{
	const json_t *has = json_object_get(io, "features");
	char a[SIZE_TEXT], chunks[COUNT_TEXT];

	fputs("I/O: ", stdout);
	if (!json_is_string(json_object_get(io, "method"))) {
		fputs("none", stdout);
		put_why(io);
		putchar('\n');
		return;
	}
	printf("%s, reactors %lld, each with %s of %s; copiers %lld\n",
	       json_string_value(json_object_get(io, "method")),
	       integer(io, "reactors"),
	       count_text((uint64_t)integer(io, "depth"), "chunk", chunks),
	       binary_text((uint64_t)integer(io, "chunk"), a),
	       integer(io, "copiers"));
	for (unsigned i = 0; i < FEATURES; i++)
		printf("  %-20s%s\n", features[i].name,
		       is_set(has, features[i].name) ? "yes" : "no");
	if (has_text(io, "why")) {
		fputs("  because ", stdout);
		put_string(io, "why");
		putchar('\n');
	}
}

static void show_source(const json_t *source)
{
	fputs("URLs of ", stdout);
	put_string(source, "schemes");
	fputs("by ", stdout);
	put_string(source, "name");
	if (has_text(source, "module")) {
		fputs(", ", stdout);
		put_string(source, "module");
	}
	putchar('\n');
}

static void show_refused(const json_t *refused)
{
	put_string(refused, "module");
	fputs(": left out", stdout);
	put_why(refused);
	putchar('\n');
}

static void show(const json_t *all)
{
	json_t *dev, *source, *refused;
	size_t i;

	json_array_foreach(json_object_get(all, "devices"), i, dev)
		show_device(dev);
	reserved_show(json_object_get(all, "reserved"));
	json_array_foreach(json_object_get(all, "sources"), i, source)
		show_source(source);
	if (!json_array_size(json_object_get(all, "sources")))
		puts("no URLs: no directory of modules has a weir-http.so that works");
	json_array_foreach(json_object_get(all, "refused"), i, refused)
		show_refused(refused);
	show_io(json_object_get(all, "io"));
}

static int take_option(const struct args *args, int c, void *to)
{
	bool *json = to;

	(void)args, (void)c;
	*json = true;
	return 0;
}

static int parse_args(const struct args *args, bool *ret_json)
{
	int r = args_options(args, take_option, ret_json);

	return r ? r : args_operands(args, 0, NULL);
}

int devices_main(int argc, char **argv)
{
	const struct args args = { "devices", help, options, argc,
				   argv,      NULL, NULL };
	struct weir *weir;
	bool json = false;
	json_t *all;
	int r = parse_args(&args, &json);

	if (r)
		return r == ARGS_HELP ? 0 : r;
	if (weir_open(NULL, &weir) < 0)
		return fail_weir();
	all = system_json(weir);
	weir_close(weir);
	if (!all)
		return fail_memory();
	if (!json) {
		show(all);
		json_decref(all);
		return 0;
	}
	out_json(all);
	putchar('\n');
	return 0;
}
