/* SPDX-License-Identifier: MIT */
/*
 * Parking of weights in host memory: what is refused meanwhile, what comes
 * back, budgets, and faults. t/cuda/cuda-park.c has memory of devices.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/root.h"
#include "plans.h"

#define MIB ((size_t)1 << 20)
#define N 40u
#define EACH 20000u

static struct weir_weights *new_weights(void)
{
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_weights *w;

	n_tensors = 0;
	for (size_t i = 0; i < N; i++)
		add_tensor("F32", 4, EACH);
	m = model();
	p = new_plan(m);
	plan_add(p, NULL, NULL, 0, 0);
	w = load(p, NULL);
	if (!w)
		bail("%s", weir_error());
	weir_plan_free(p);
	weir_model_close(m);
	return w;
}

static struct weir_park_info info_of(struct weir_weights *w)
{
	struct weir_park_info info = { .size = sizeof(info) };

	if (weir_weights_park_info(w, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static int state_of(struct weir_weights *w)
{
	return (int)info_of(w).state;
}

static uint64_t used(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	weir_buft_info(kind, &info);
	return info.used;
}

static bool is_resident(const void *p)
{
	unsigned char vec = 0;

	return mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 1, &vec) ==
		       0 &&
	       vec & 1;
}

/* What every way of parking has in common. */
static void round_trip(const char *what, const struct weir_park_opts *o,
		       bool copied)
{
	struct weir_weights *w = new_weights();
	const struct weir_tensor *t = weir_weights_get(w, 1);
	struct weir_tensor view = *t;
	const char *data = weir_tensor_data(t);
	uint64_t before = used();
	struct weir_stream *s;
	float x;

	if (weir_stream_new(weir_dev_get(root, 0), NULL, &s) < 0)
		bail("%s", weir_error());
	is_int(weir_weights_park(w, o), 0, "%s: weights are parked", what);
	is_int(state_of(w), WEIR_PARK_PARKED, "%s: their state says so", what);
	is_int(info_of(w).copied, copied ? info_of(w).released : 0,
	       "%s: what cannot be read again is copied", what);
	ok(used() < before && !is_resident(data), "%s: the memory is released",
	   what);
	is_str(weir_tensor_data(t) ? "an address" : "none", "none",
	       "%s: a parked tensor has no data", what);
	is_err(weir_tensor_get(&view, 0, &x, sizeof(x)), -ENODATA, "is parked",
	       "%s: a blocking read of a view is refused", what);
	is_err(weir_stream_get(s, &view, 0, &x, sizeof(x)), -ENODATA,
	       "is parked", "%s: a stream refuses a view", what);
	is_err(weir_weights_park(w, o), -EALREADY, "parked already",
	       "%s: weights are parked once", what);
	is_int(weir_weights_unpark(w, NULL), 0, "%s: they come back", what);
	is_int(state_of(w), WEIR_PARK_RESIDENT, "%s: their state says so, too",
	       what);
	ok(weir_tensor_data(t) == data && used() == before,
	   "%s: they are at the same addresses", what);
	is_int(sample_wrong(w, 1), 0, "%s: all bytes are right", what);
	is_err(weir_weights_unpark(w, NULL), -EALREADY, "not parked",
	       "%s: they come back once", what);
	weir_stream_free(s);
	weir_weights_free(w);
}

#define ROUND_TRIP 13
#define TARGETS (2 * 7 + 4)

static void ways(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	o.buft = memory_of("CPU", WEIR_MEM_PLAIN);
	round_trip("copies in memory", &o, true);
	o.buft = NULL;
	o.folder = dir;
	round_trip("copies in a file", &o, true);
	o.folder = NULL;
	o.flags = WEIR_PARK_CONSTANT;
	round_trip("files of the model", &o, false);
}

/* Tensors that the program has changed are copied, the others read again. */
static void changed(void)
{
	const size_t list[] = { 3, 4, 17 };
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();
	struct weir_event *event;
	size_t right = 0;

	for (size_t i = 0; i < 3; i++)
		weir_tensor_fill(weir_weights_get(w, list[i]), 0, EACH * 4,
				 (uint8_t)(i + 1));
	o.flags = WEIR_PARK_CONSTANT;
	o.folder = dir;
	o.changed = list;
	o.n_changed = 3;
	is_int(weir_weights_park(w, &o), 0,
	       "weights of which three tensors have changed are parked");
	is_int(info_of(w).copied, 3 * EACH * 4, "only these three are copied");
	if (weir_event_new(root, 0, &event) < 0)
		bail("%s", weir_error());
	is_int(weir_weights_unpark(w, event), 0,
	       "an unpark with an event starts");
	is_int(weir_event_wait(event, -1), 0, "its event is done");
	for (size_t i = 0; i < N; i++) {
		const unsigned char *p =
			weir_tensor_data(weir_weights_get(w, i));
		unsigned want = i == 3 ? 1 : i == 4 ? 2 : i == 17 ? 3 : 0;

		right += want ? p[0] == want && p[EACH * 4 - 1] == want
			      : sample_holds(w, i, 1);
	}
	is_int(right, N, "the changed tensors and the others are right");
	weir_event_free(event);
	weir_weights_free(w);
}

static void options(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();
	size_t n = N;

	is_err(weir_weights_park(w, NULL), -EINVAL, "page-locked",
	       "host memory has no default for copies");
	o.flags = 8;
	is_err(weir_weights_park(w, &o), -EINVAL, "unknown flags 0x8",
	       "unknown flags are refused");
	o.flags = 0;
	o.n_changed = 1;
	o.changed = &n;
	is_err(weir_weights_park(w, &o), -EINVAL, "WEIR_PARK_CONSTANT",
	       "changed tensors need the flag");
	o.flags = WEIR_PARK_CONSTANT;
	is_err(weir_weights_park(w, &o), -EINVAL, "tensor 40 has changed",
	       "a tensor past the end is refused");
	o.n_changed = 0;
	o.folder = dir;
	o.buft = kind;
	is_err(weir_weights_park(w, &o), -EINVAL, "both a folder",
	       "a folder and memory are refused");
	o.flags = 0;
	o.buft = NULL;
	o.folder = "/nowhere/at/all";
	is_err(weir_weights_park(w, &o), -ENOENT, "/nowhere/at/all",
	       "a folder that does not exist is named");
	is_int(state_of(w), WEIR_PARK_RESIDENT,
	       "weights stay as they are after a refusal");
	is_int(sample_wrong(w, 1), 0, "and are whole");
	weir_weights_free(w);
}

/* A buffer of the program may hold other things. */
static void given(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_weights *w;
	struct weir_buf *buf;

	n_tensors = 0;
	add_tensor("F32", 4, 100);
	m = model();
	p = new_plan(m);
	buf = buffer(4096);
	plan_add(p, NULL, buf, 0, 0);
	w = load(p, NULL);
	o.flags = WEIR_PARK_CONSTANT;
	is_err(weir_weights_park(w, &o), -EINVAL, "in a buffer of the program",
	       "weights in a buffer of the program are not parked");
	weir_weights_free(w);
	weir_buf_free(buf);
	weir_plan_free(p);
	weir_model_close(m);
}

/* A target for each tensor of @m, in one buffer with gaps. */
static struct weir_plan *plan_targets(struct weir_model *m,
				      struct weir_buf *buf)
{
	struct weir_target targets[N] = { { .size = sizeof(targets[0]) } };
	const int64_t shape[] = { EACH };
	struct weir_plan *p = new_plan(m);
	struct weir_tensor t[N];

	for (size_t i = 0; i < N; i++) {
		if (weir_tensor_init(&t[i], WEIR_DTYPE_F32, 1, shape) < 0 ||
		    weir_tensor_place(&t[i], buf, (N - 1 - i) * MIB) < 0)
			bail("%s", weir_error());
		targets[i].tensor = i;
		targets[i].dst = &t[i];
	}
	if (weir_plan_add_tensors(p, targets, N) < 0)
		bail("%s", weir_error());
	return p;
}

static void targets_round_trip(const char *what, struct weir_weights *w,
			       const struct weir_park_opts *o, uint64_t copied)
{
	const char *data = weir_tensor_data(weir_weights_get(w, 0));
	uint64_t before = used();

	is_int(weir_weights_park(w, o), 0, "%s: targets are parked", what);
	is_int(info_of(w).released, N * MIB,
	       "%s: the memory of all is released, once", what);
	is_int(info_of(w).copied, copied,
	       "%s: what cannot be read again is copied, once", what);
	ok(used() == before - N * MIB && !is_resident(data),
	   "%s: it is there for others", what);
	is_int(weir_weights_unpark(w, NULL), 0, "%s: they come back", what);
	ok(weir_tensor_data(weir_weights_get(w, 0)) == data && used() == before,
	   "%s: they are at the same addresses", what);
	is_int(sample_wrong(w, 1), 0, "%s: all bytes are right", what);
}

/* Buffers that the program has allocated for targets alone. */
static void targets(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_buf *buf, *wrapped;
	struct weir_plan *p, *other;
	struct weir_weights *w;
	struct weir_model *m;
	void *memory;

	n_tensors = 0;
	for (size_t i = 0; i < N; i++)
		add_tensor("F32", 4, EACH);
	m = model();
	buf = buffer(N * MIB);
	p = plan_targets(m, buf);
	w = load(p, NULL);
	o.folder = dir;
	is_err(weir_weights_park(w, &o), -EINVAL, "in a buffer of the program",
	       "targets are not parked without WEIR_PARK_TARGETS");
	o.flags = WEIR_PARK_TARGETS;
	targets_round_trip("copies", w, &o, N * MIB);
	o.flags |= WEIR_PARK_CONSTANT;
	targets_round_trip("files", w, &o, 0);
	weir_weights_park(w, &o);
	is_err(load(p, NULL) ? 0 : -ENODATA, -ENODATA, "is parked",
	       "other weights in parked buffers are refused");
	weir_weights_free(load(p, w));
	ok(info_of(w).state == WEIR_PARK_RESIDENT && !sample_wrong(w, 1),
	   "a load into parked targets brings them back");
	weir_weights_free(w);
	memory = aligned_alloc(4096, N * MIB);
	if (!memory ||
	    weir_buf_wrap(kind, memory, N * MIB, NULL, NULL, &wrapped) < 0)
		bail("%s", weir_error());
	other = plan_targets(m, wrapped);
	w = load(other, NULL);
	is_err(weir_weights_park(w, &o), -EINVAL, "in a buffer of the program",
	       "memory that the library has not allocated is never parked");
	weir_weights_free(w);
	weir_plan_free(other);
	weir_plan_free(p);
	weir_buf_free(wrapped);
	free(memory);
	weir_buf_free(buf);
	weir_model_close(m);
}

/*
 * A file that changes before parking is copied; one that changes later fails.
 */
static void stale(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();

	o.flags = WEIR_PARK_CONSTANT;
	o.folder = dir;
	if (chmod(path, 0600) < 0)
		bail("chmod: %s", strerror(errno));
	is_int(weir_weights_park(w, &o), 0,
	       "weights whose file has changed are parked");
	is_int(info_of(w).copied, N * EACH * 4, "by copies");
	is_int(weir_weights_unpark(w, NULL), 0, "and come back");
	is_int(sample_wrong(w, 1), 0, "with the bytes that were loaded");
	weir_weights_free(w);

	w = new_weights();
	is_int(weir_weights_park(w, &o), 0, "other weights are parked");
	if (chmod(path, 0640) < 0)
		bail("chmod: %s", strerror(errno));
	is_err(weir_weights_unpark(w, NULL), -ESTALE, "changed",
	       "a file that has changed since is noticed");
	is_int(state_of(w), WEIR_PARK_PARKED, "the weights stay parked");
	weir_weights_free(w);
}

/* The copies have no room: the weights stay. */
static void no_room(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();

	o.buft = memory_of("CPU", WEIR_MEM_HUGE);
	weir_buft_set_budget(o.buft, MIB);
	is_err(weir_weights_park(w, &o), -ENOMEM, "budget of 1048576",
	       "copies count towards the budget of their memory");
	is_int(state_of(w), WEIR_PARK_RESIDENT, "the weights are as before");
	is_int(sample_wrong(w, 1), 0, "and whole");
	weir_buft_set_budget(o.buft, 0);
	weir_weights_free(w);
}

/* Others have taken the memory meanwhile. */
static void taken(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();
	struct weir_buf *other;
	uint64_t room = used();

	weir_buft_set_budget(kind, room);
	o.flags = WEIR_PARK_CONSTANT;
	weir_weights_park(w, &o);
	is_int(weir_buf_alloc(kind, room, NULL, &other), 0,
	       "the budget of parked weights is there for others");
	is_err(weir_weights_unpark(w, NULL), -ENOMEM, "budget",
	       "weights without room do not come back");
	is_int(state_of(w), WEIR_PARK_PARKED, "they stay parked");
	weir_buf_free(other);
	is_int(weir_weights_unpark(w, NULL), 0,
	       "they come back when there is room");
	is_int(sample_wrong(w, 1), 0, "whole");
	weir_buft_set_budget(kind, 0);
	weir_weights_free(w);
}

/* Parking waits for work that was queued before. */
static int slow(void *arg)
{
	(void)arg;
	usleep(50000);
	return 0;
}

static void queued(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();
	const struct weir_tensor *t = weir_weights_get(w, 0);
	struct weir_stream *s;

	if (weir_stream_new(weir_dev_get(root, 0), NULL, &s) < 0)
		bail("%s", weir_error());
	weir_stream_call(s, slow, NULL);
	weir_stream_fill(s, t, 0, 8, 9);
	o.folder = dir;
	is_int(weir_weights_park(w, &o), 0,
	       "weights with queued work are parked after it");
	is_int(weir_weights_unpark(w, NULL), 0, "they come back");
	is_int(*(unsigned char *)weir_tensor_data(t), 9,
	       "with what that work has written");
	weir_stream_free(s);
	weir_weights_free(w);
}

/* A child of fork(2), and the end of parked weights. */
static void ends(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = new_weights();
	struct weir_buf *buf = weir_buf_ref(weir_weights_get(w, 0)->buf);
	int status = -1;
	pid_t pid;

	o.flags = WEIR_PARK_CONSTANT;
	weir_weights_park(w, &o);
	pid = fork();
	if (!pid)
		_exit(weir_weights_unpark(w, NULL) == 0);
	waitpid(pid, &status, 0);
	is_int(status, 0, "the child of a fork does not unpark");
	weir_weights_free(w);
	is_err(weir_buf_clear(buf, 0), -ENODATA, "is parked",
	       "a buffer whose weights ended while parked stays so");
	weir_buf_free(buf);
	is_int(used(), 0, "parked memory is freed");
	w = new_weights();
	o.flags = 0;
	o.folder = dir;
	weir_weights_park(w, &o);
	weir_weights_unpark(w, NULL);
	weir_weights_park(w, &o);
	weir_weights_free(w);
	is_int(used(), 0, "weights that were parked twice are freed");
}

int main(void)
{
	plans_begin(3 * ROUND_TRIP + 5 + 8 + 1 + TARGETS + 7 + 3 + 5 + 3 + 4);
	ways();
	changed();
	options();
	given();
	targets();
	stale();
	no_room();
	taken();
	queued();
	ends();
	return plans_end();
}
