/* SPDX-License-Identifier: MIT */
/* Loads that compute digests, and compare them with a manifest. */
#include <sys/stat.h>

#include "slices.h"
#include "plans.h"
#include "sinks.h"

#define BIG ((9u << 20) + 12)

static struct seen seen;

/* The ways in which tensors are loaded. */
enum dest {
	PLACED,    /* memory of the kind under test */
	CONVERTED, /* the same, converted to BF16 */
	TARGETS,   /* views with gaps between their rows */
	TO_SINK,
	NOWHERE, /* a sink without a function */
	MAPPED,
	N_DESTS
};

static const char *const dest_name[N_DESTS] = { "placed",   "converted",
						"in views", "to a sink",
						"dropped",  "mapped" };

static const char *const way_name[] = { "auto", "map", "buffered", "direct" };

/* Small tensors among which are some of several chunks, and empty ones. */
static void make_tensors(void)
{
	n_tensors = 0;
	add_tensor("F32", 4, 1000);
	add_tensor("F32", 4, 0);
	add_tensor("F32", 4, BIG / 4);
	for (unsigned i = 0; i < 60; i++)
		add_tensor("F32", 4, 1 + some(9000));
	add_shape("F32", 4, 640 * 2000, "640,2000");
	add_tensor("F32", 4, 100003);
	add_tensor("F32", 4, 2 * BIG / 4);
	add_tensor("U8", 1, 77);
}

static struct weir_model *reopen(void)
{
	struct weir_model *m;

	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static struct weir_load *start(struct weir_plan *p)
{
	struct weir_load *l;

	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	return l;
}

static struct weir_manifest *manifest_of(struct weir_model *m,
					 enum weir_digest algorithm)
{
	struct weir_sink s = WEIR_SINK_INIT;
	struct weir_plan *p = new_plan(m);
	struct weir_manifest *manifest;
	struct weir_load *l;

	if (weir_plan_digest(p, algorithm) < 0 ||
	    weir_plan_sink(p, NULL, &s) < 0)
		bail("%s", weir_error());
	l = start(p);
	if (weir_load_wait(l, -1) < 0 || weir_load_manifest(l, &manifest) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	weir_plan_free(p);
	return manifest;
}

/* Change byte @at of tensor @i in the file, and back. */
static void flip(struct weir_model *m, size_t i, uint64_t at)
{
	struct weir_entry e = entry_of(m, i);
	int fd = open(path, O_RDWR);
	unsigned char byte;

	if (fd < 0 || pread(fd, &byte, 1, (off_t)(e.offset + at)) != 1)
		bail("%s cannot be read", path);
	byte ^= 0x10;
	if (pwrite(fd, &byte, 1, (off_t)(e.offset + at)) != 1)
		bail("%s cannot be written", path);
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* Targets of whole tensors: those of two dimensions in views. */
static void add_targets(struct weir_plan *p, struct weir_model *m, uint32_t way)
{
	struct weir_tensor t[200];
	struct weir_target target[200] = { { .size = sizeof(target[0]) } };
	uint64_t at = 0;
	struct weir_buf *buf;

	buf = buffer(64u << 20);
	for (size_t i = 0; i < n_tensors; i++) {
		struct weir_entry e = entry_of(m, i);

		target[i] = (struct weir_target){ .size = sizeof(target[0]),
						  .tensor = i,
						  .dst = &t[i],
						  .way = way };
		if (weir_tensor_init(&t[i], (enum weir_dtype)e.dtype, e.ndim,
				     e.shape) < 0)
			bail("%s", weir_error());
		if (e.ndim == 2)
			t[i].stride[0] += 64;
		at = (at + 4095) / 4096 * 4096 + 64;
		if (weir_tensor_place(&t[i], buf, at) < 0)
			bail("%s", weir_error());
		at += e.bytes + 64 * 700 * (e.ndim == 2);
	}
	if (weir_plan_add_tensors(p, target, n_tensors) < 0)
		bail("%s", weir_error());
	weir_buf_free(buf);
}

static void choose(struct weir_plan *p, struct weir_model *m, enum dest dest,
		   uint32_t way)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *buft = kind;
	struct weir_sink s = WEIR_SINK_INIT;
	int r = 0;

	o.way = s.way = way;
	if (dest == TO_SINK) {
		seen_init(&seen, m);
		s = seen_sink(&seen);
		s.way = way;
	}
	if (dest == CONVERTED)
		o.dtype = WEIR_DTYPE_BF16;
	if (dest == MAPPED) {
		o.way = WEIR_WAY_MAP;
		buft = memory_of("CPU", WEIR_MEM_MAPPED);
	}
	if (dest == TARGETS)
		add_targets(p, m, way);
	else if (dest == TO_SINK || dest == NOWHERE)
		r = weir_plan_sink(p, NULL, &s);
	else
		r = weir_plan_add(p, NULL, buft, &o);
	if (r < 0)
		bail("%s", weir_error());
}

static struct weir_load *verify(struct weir_model *m,
				struct weir_manifest *manifest, enum dest dest,
				uint32_t way)
{
	struct weir_plan *p = new_plan(m);
	struct weir_load *l;

	choose(p, m, dest, way);
	if (weir_plan_verify(p, manifest) < 0)
		bail("%s", weir_error());
	l = start(p);
	weir_plan_free(p);
	return l;
}

/* The tensors of which a byte is changed, one after the other. */
struct changed {
	size_t tensor;
	uint64_t byte;
};

static bool fails_alone(struct weir_load *l, size_t bad)
{
	struct weir_failure f = { 0 };
	size_t wrong = 0;

	for (size_t i = 0; i < n_tensors; i++) {
		int r = weir_load_error(l, i, &f);

		if (r != (i == bad ? -EBADMSG : 0)) {
			diag("tensor %zu: %d, %s", i, r, r ? f.text : "");
			wrong++;
		}
	}
	return !wrong;
}

static void one_dest(struct weir_model *m, struct weir_manifest *manifest,
		     enum dest dest, uint32_t way)
{
	const struct changed change[] = {
		{ 0, 0 },
		{ 2, BIG - 1 },
		{ 33, 1 },
		{ 63, 640 * 2000 * 4 - 1 },
		{ n_tensors - 2, 2 * (uint64_t)BIG - 5 },
		{ n_tensors - 2, BIG },
		{ n_tensors - 1, 76 },
	};
	struct weir_load *l = verify(m, manifest, dest, way);
	unsigned good = 0, n = sizeof(change) / sizeof(change[0]);

	is_int(weir_load_wait(l, -1), 0,
	       "a load with the right digests succeeds (%s, %s)",
	       dest_name[dest], way_name[way]);
	weir_load_free(l);
	for (unsigned k = 0; k < n; k++) {
		struct weir_model *other;

		flip(m, change[k].tensor, change[k].byte);
		other = reopen();
		l = verify(other, manifest, dest, way);
		good += weir_load_wait(l, -1) == -EBADMSG &&
			fails_alone(l, change[k].tensor);
		weir_load_free(l);
		weir_model_close(other);
		flip(m, change[k].tensor, change[k].byte);
	}
	is_int(good, n,
	       "a byte that has changed fails its tensor and no other (%s, %s)",
	       dest_name[dest], way_name[way]);
}

static void changed_bytes_are_found(enum weir_digest algorithm)
{
	struct weir_model *m;
	struct weir_manifest *manifest;

	make_tensors();
	m = model();
	manifest = manifest_of(m, algorithm);
	/* Its times have changed since it was opened. */
	for (unsigned dest = 0; dest < N_DESTS; dest++)
		for (uint32_t way = 0; way < 4; way++) {
			struct weir_model *fresh = reopen();

			if (way == WEIR_WAY_MAP)
				skip(2, "no way of its own");
			else if (dest == MAPPED && way)
				skip(2, "a mapping is read in one way");
			else
				one_dest(fresh, manifest, (enum dest)dest, way);
			weir_model_close(fresh);
			tap_renew();
		}
	weir_manifest_close(manifest);
	weir_model_close(m);
}

static void a_sink_gets_no_last_bytes(void)
{
	struct weir_model *m = reopen(), *other;
	struct weir_manifest *manifest = manifest_of(m, WEIR_DIGEST_XXH3);
	struct weir_load *l;

	flip(m, 5, 3);
	other = reopen();
	l = verify(other, manifest, TO_SINK, WEIR_WAY_DIRECT);
	weir_load_wait(l, -1);
	is_int(seen.at[5], 0,
	       "a sink does not receive the bytes of a small tensor that does not match");
	is_int(seen.at[6], bytes_of(6), "it receives those of other tensors");
	weir_load_free(l);
	weir_model_close(other);
	flip(m, 5, 3);
	weir_manifest_close(manifest);
	weir_model_close(m);
}

static void a_failure_has_both_digests(enum weir_digest algorithm)
{
	struct weir_failure f = { 0 };
	struct weir_model *m = reopen(), *other;
	struct weir_manifest *manifest = manifest_of(m, algorithm);
	struct weir_event *ev;
	struct weir_load *l;
	uint8_t is[32], was[32];
	char hex[65];
	int n;

	other = reopen();
	l = verify(other, manifest, PLACED, WEIR_WAY_AUTO);
	weir_load_wait(l, -1);
	n = weir_load_digest(l, 7, was);
	weir_load_free(l);
	weir_model_close(other);
	is_int(n, algorithm == WEIR_DIGEST_XXH3 ? 16 : 32,
	       "a load that verifies has digests of %d bytes", n);

	flip(m, 7, 0);
	other = reopen();
	l = verify(other, manifest, PLACED, WEIR_WAY_AUTO);
	if (weir_event_new(root, 0, &ev) < 0 || weir_load_record(l, 7, ev) < 0)
		bail("%s", weir_error());
	is_int(weir_event_wait(ev, -1), -EBADMSG,
	       "the event of a tensor that does not match fails");
	weir_load_wait(l, -1);
	is_int(weir_load_error(l, WEIR_ALL, &f), -EBADMSG,
	       "the load has failed with -EBADMSG");
	is_int(f.number, 7, "its failure has the number of the tensor");
	weir_load_digest(l, 7, is);
	for (int k = 0; k < n; k++)
		sprintf(hex + 2 * k, "%02x", is[k]);
	has_str(f.text, hex, "the sentence has the digest of what was read");
	for (int k = 0; k < n; k++)
		sprintf(hex + 2 * k, "%02x", was[k]);
	has_str(f.text, hex, "the sentence has the digest of the manifest");
	has_str(f.text, "'t7'", "the sentence names the tensor");
	weir_event_free(ev);
	weir_load_free(l);
	weir_model_close(other);
	flip(m, 7, 0);
	weir_manifest_close(manifest);
	weir_model_close(m);
}

static void digests_are_those_of_the_bytes(void)
{
	struct weir_model *m = reopen();
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;
	struct weir_load *l;
	uint8_t a[32], b[32];
	size_t wrong = 0;

	is_int(weir_plan_digest(p, WEIR_DIGEST_SHA256), 0,
	       "a plan computes digests");
	plan_add(p, NULL, NULL, 0, 0);
	l = start(p);
	is_int(weir_load_wait(l, -1), 0, "its load succeeds");
	if (weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < n_tensors; i++) {
		int n = weir_load_digest(l, i, a);

		wrong += n != 32 ||
			 weir_weights_digest(w, i, WEIR_DIGEST_SHA256, b) !=
				 n ||
			 memcmp(a, b, 32) != 0;
	}
	is_int(wrong, 0,
	       "the digests of a load are those of the bytes in memory");
	weir_weights_free(w);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
}

/* Let the page cache have the file, or all of it but a part in the middle. */
static void cache_file(bool hole)
{
	static unsigned char block[1u << 20];
	int fd = open(path, O_RDONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		bail("%s cannot be opened", path);
	while (read(fd, block, sizeof(block)) > 0)
		;
	if (hole)
		posix_fadvise(fd, st.st_size / 2, 300u << 10,
			      POSIX_FADV_DONTNEED);
	close(fd);
}

/* Compute the digests of a model that may be cached. Closes it. */
static int digest_cached(struct weir_model *m, struct weir_manifest *manifest)
{
	struct weir_load *l = verify(m, manifest, NOWHERE, WEIR_WAY_AUTO);
	int r = weir_load_wait(l, -1);

	weir_load_free(l);
	weir_model_close(m);
	return r;
}

static void cached_files_are_digested(void)
{
	struct weir_model *m = reopen();
	struct weir_manifest *manifest = manifest_of(m, WEIR_DIGEST_SHA256);
	struct stat st;
	int fd;

	weir_model_close(m);
	cache_file(false);
	is_int(digest_cached(reopen(), manifest), 0,
	       "a cached model has the same digests");
	cache_file(true);
	is_int(digest_cached(reopen(), manifest), 0,
	       "so has one of which a part is not cached");
	fd = open(path, O_RDWR);
	cache_file(false);
	is_int(digest_cached(reopen(), manifest), 0,
	       "so has one that is open for writing and thus not mapped");
	m = reopen();
	if (fd < 0 || fstat(fd, &st) < 0 || ftruncate(fd, st.st_size / 2) < 0)
		bail("%s cannot be truncated", path);
	is_int(digest_cached(m, manifest), -ESTALE,
	       "a cached model that was truncated fails");
	close(fd);
	weir_manifest_close(manifest);
	weir_model_close(model());
}

static void small_loads_are_verified(void)
{
	struct weir_manifest *manifest;
	struct weir_model *m, *other;
	struct weir_load *l;

	n_tensors = 0;
	add_tensor("F32", 4, 100);
	add_tensor("F32", 4, 200);
	m = model();
	manifest = manifest_of(m, WEIR_DIGEST_XXH3);
	l = verify(m, manifest, PLACED, WEIR_WAY_AUTO);
	is_int(weir_load_wait(l, -1), 0,
	       "a load of two small tensors is verified");
	weir_load_free(l);
	flip(m, 1, 799);
	other = reopen();
	/* In the page cache, where the calling thread reads them. */
	l = verify(other, manifest, NOWHERE, WEIR_WAY_BUFFERED);
	weir_load_wait(l, -1);
	weir_load_free(l);
	l = verify(other, manifest, PLACED, WEIR_WAY_AUTO);
	ok(weir_load_wait(l, -1) == -EBADMSG && fails_alone(l, 1),
	   "a small tensor that does not match fails, and no other");
	weir_load_free(l);
	weir_model_close(other);
	weir_manifest_close(manifest);
	weir_model_close(m);
}

static void calls_are_refused(void)
{
	struct weir_slice slice = slice_of(0, 0, 2);
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_manifest *manifest, *none;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;
	uint8_t digest[32];

	n_tensors = 0;
	add_shape("F32", 4, 12, "3,4");
	add_tensor("F32", 4, 5);
	m = model();
	manifest = manifest_of(m, WEIR_DIGEST_XXH3);
	p = new_plan(m);
	is_err(weir_plan_digest(p, (enum weir_digest)7), -EINVAL, "7",
	       "an unknown algorithm is refused");
	o.slice = &slice;
	if (weir_plan_add(p, "t0", kind, &o) < 0 ||
	    weir_plan_verify(p, manifest) < 0)
		bail("%s", weir_error());
	is_err(weir_load_start(p, NULL, &l), -EINVAL, "'t0': 32 of its 48",
	       "a load of a slice is not verified, and does not start");
	weir_plan_free(p);

	p = new_plan(m);
	plan_add(p, "t1", NULL, 0, 0);
	l = start(p);
	weir_load_wait(l, -1);
	is_err(weir_load_digest(l, 0, digest), -EINVAL, "weir_plan_digest",
	       "a load without digests has none");
	is_err(weir_load_manifest(l, &none), -EINVAL, "weir_plan_digest",
	       "a load without digests has no manifest");
	weir_load_free(l);
	if (weir_plan_digest(p, WEIR_DIGEST_XXH3) < 0)
		bail("%s", weir_error());
	l = start(p);
	weir_load_wait(l, -1);
	is_err(weir_load_digest(l, 1, digest), -EINVAL, "1 of 1",
	       "a digest past the end is refused");
	is_err(weir_load_manifest(l, &none), -EINVAL, "'t0'",
	       "a manifest of some of the tensors is refused");
	weir_load_free(l);
	weir_plan_free(p);
	weir_manifest_close(manifest);
	weir_model_close(m);
}

static void other_models_are_refused(void)
{
	struct weir_manifest *manifest;
	struct weir_model *m;
	struct weir_plan *p;

	n_tensors = 0;
	for (unsigned i = 0; i < 20; i++)
		add_tensor("F32", 4, 5);
	m = model();
	manifest = manifest_of(m, WEIR_DIGEST_XXH3);
	weir_model_close(m);

	tensors[3].dtype = "I32";
	tensors[4].count = 6;
	n_tensors = 19;
	m = model();
	p = new_plan(m);
	is_err(weir_plan_verify(p, manifest), -EBADMSG,
	       "3 tensors differ: 't3' is I32 [5] and not F32 [5], 't4' is F32 [6] and not F32 [5], 't19' is not in the model",
	       "a manifest of another model is refused, with the tensors that differ");
	weir_plan_free(p);
	weir_model_close(m);

	n_tensors = 0;
	for (unsigned i = 0; i < 40; i++)
		add_tensor("F32", 4, 5);
	m = model();
	p = new_plan(m);
	is_err(weir_plan_verify(p, manifest), -EBADMSG,
	       "'t29' is not in the manifest, and 10 more",
	       "the sentence has the first ten tensors");
	weir_plan_free(p);
	weir_model_close(m);
	weir_manifest_close(manifest);
}

static void a_cancelled_load_ends(void)
{
	struct weir_manifest *manifest;
	struct weir_model *m;
	struct weir_load *l;
	bool ended = true;

	make_tensors();
	m = model();
	manifest = manifest_of(m, WEIR_DIGEST_XXH3);
	for (unsigned i = 0; i < 20; i++) {
		int r;

		l = verify(m, manifest, (enum dest)(i % N_DESTS),
			   WEIR_WAY_DIRECT);
		if (i % 3)
			usleep(100 * i);
		weir_load_cancel(l);
		r = weir_load_wait(l, -1);
		ended = ended && (r == 0 || r == -ECANCELED);
		weir_load_free(l);
	}
	ok(ended, "cancelled loads that verify end");
	weir_manifest_close(manifest);
	weir_model_close(m);
}

/* Small chunks, little staging and two reactors: chunks wait for each other. */
static void open_small(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	weir_close(root);
	o.chunk = 64u << 10;
	o.reactors = 2;
	o.depth = 3;
	o.staging = 512u << 10;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	kind = device ? memory_of(device, WEIR_MEM_DEVICE)
		      : memory_of("CPU", WEIR_MEM_HUGE);
}

/* Several verified loads at once, none of which may wait for ever. */
static void loads_at_once_end(void)
{
	struct weir_manifest *manifest;
	struct weir_load *l[8];
	struct weir_model *m;
	unsigned good = 0;

	make_tensors();
	m = model();
	manifest = manifest_of(m, WEIR_DIGEST_SHA256);
	for (unsigned i = 0; i < 8; i++)
		l[i] = verify(m, manifest, (enum dest)(i % N_DESTS),
			      i & 1 ? WEIR_WAY_DIRECT : WEIR_WAY_BUFFERED);
	for (unsigned i = 0; i < 8; i++) {
		good += weir_load_wait(l[i], -1) == 0;
		weir_load_free(l[i]);
	}
	is_int(good, 8, "eight loads that verify end at the same time");
	weir_manifest_close(manifest);
	weir_model_close(m);
}

int main(void)
{
	plans_begin(131);
	changed_bytes_are_found(WEIR_DIGEST_XXH3);
	a_sink_gets_no_last_bytes();
	a_failure_has_both_digests(WEIR_DIGEST_XXH3);
	a_failure_has_both_digests(WEIR_DIGEST_SHA256);
	digests_are_those_of_the_bytes();
	cached_files_are_digested();
	small_loads_are_verified();
	calls_are_refused();
	other_models_are_refused();
	a_cancelled_load_ends();
	open_small();
	tap_prefix("small chunks: ");
	changed_bytes_are_found(WEIR_DIGEST_SHA256);
	loads_at_once_end();
	return plans_end();
}
