/* SPDX-License-Identifier: MIT */
/* Sinks: functions that receive the bytes of tensors. */
#include "slices.h"
#include "plans.h"
#include "sinks.h"

static struct seen seen, second;

static struct weir_load *start(struct weir_plan *p)
{
	struct weir_load *l;

	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	return l;
}

/* Load all tensors of @m to a sink with @way and @buffer. */
static void all_to_a_sink(struct weir_model *m, uint32_t way, uint64_t buffer,
			  const char *what)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_progress prog = { .size = sizeof(prog) };
	struct weir_plan *p = new_plan(m);
	struct weir_sink s = seen_sink(&seen);
	struct weir_load *l;

	seen_init(&seen, m);
	s.way = way;
	s.buffer = buffer;
	is_int(weir_plan_sink(p, NULL, &s), weir_model_count(m),
	       "a sink chooses all tensors (%s)", what);
	l = start(p);
	is_int(weir_load_wait(l, -1), 0, "a load to a sink succeeds (%s)",
	       what);
	ok(seen_right(&seen),
	   "the bytes are right, in the order of the file, from one thread (%s)",
	   what);
	is_int(seen_missing(&seen), 0, "a sink receives every byte once (%s)",
	       what);
	ok(!pthread_equal(seen.thread, pthread_self()) || !seen.chunks,
	   "a sink is not called by the thread that starts the load (%s)",
	   what);
	weir_load_progress(l, &prog);
	is_int(prog.bytes, seen.bytes, "progress counts the bytes (%s)", what);
	is_int(prog.tensors, prog.count, "all tensors have arrived (%s)", what);
	weir_load_report(l, &rep);
	is_int(rep.in_place + rep.staged + rep.buffered, seen.bytes,
	       "the report adds up (%s)", what);
	weir_load_free(l);
	weir_plan_free(p);
}

static void a_sink_receives_every_byte(void)
{
	struct weir_model *m;

	some_tensors(3000, 3000);
	m = model();
	all_to_a_sink(m, WEIR_WAY_DIRECT, 0, "small tensors, direct");
	all_to_a_sink(m, WEIR_WAY_BUFFERED, 1, "small tensors, buffered");
	weir_model_close(m);
	n_tensors = 0;
	add_tensor("U8", 1, 5);
	add_tensor("F32", 4, 5 << 20);
	add_tensor("U8", 1, 0);
	add_tensor("U8", 1, (9 << 20) + 1);
	add_tensor("F16", 2, 3);
	m = model();
	all_to_a_sink(m, WEIR_WAY_DIRECT, 0, "large tensors, direct");
	all_to_a_sink(m, WEIR_WAY_DIRECT, 300000, "a small buffer, direct");
	all_to_a_sink(m, WEIR_WAY_BUFFERED, 0, "large tensors, buffered");
	all_to_a_sink(m, WEIR_WAY_AUTO, 9 << 20, "large tensors, resident");
	weir_model_close(m);
	n_tensors = 0;
	add_tensor("U8", 1, 100);
	m = model();
	all_to_a_sink(m, WEIR_WAY_BUFFERED, 0, "a tensor of 100 bytes");
	all_to_a_sink(m, WEIR_WAY_AUTO, 0, "a resident tensor of 100 bytes");
	weir_model_close(m);
}

static void other_tensors_are_not_read(void)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	size_t wrong = 0;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	n_tensors = 0;
	for (unsigned i = 0; i < 300; i++)
		add_tensor("U8", 1, 70000 + some(9));
	m = model();
	p = new_plan(m);
	seen_init(&seen, m);
	is_int(sink(p, "t*[13579]", &seen), 150,
	       "a sink chooses the tensors that match");
	static size_t odd[150];

	for (size_t i = 0; i < 150; i++)
		odd[i] = 2 * i + 1;
	seen.record = odd;
	l = start(p);
	is_int(weir_load_wait(l, -1), 0, "a load of every second tensor ends");
	for (size_t i = 0; i < 300; i++)
		wrong += seen.at[i] != (i % 2 ? bytes_of(i) : 0);
	ok(!wrong && seen_right(&seen),
	   "a sink receives the tensors that were chosen, and no others");
	weir_load_report(l, &rep);
	ok(rep.over_read < 150 * 16384, "tensors between them are not read");
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
}

static void weights_describe_the_tensors_of_a_sink(void)
{
	struct weir_estimate e[2] = { { .size = sizeof(e[0]) } };
	const struct weir_tensor *t;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;
	uint8_t digest[32];

	n_tensors = 0;
	add_shape("F32", 4, 12, "3,4");
	add_tensor("U8", 1, 7);
	m = model();
	p = new_plan(m);
	seen_init(&seen, m);
	sink(p, "t0", &seen);
	is_int(weir_plan_estimate(p, e, 2), 0,
	       "a plan with a sink only needs no memory");
	plan_add(p, NULL, NULL, 0, 0);
	is_int(weir_plan_estimate(p, e, 2), 1,
	       "an estimate has the memory of selections only");
	is_int(e[0].tensors, 1, "an estimate does not count a sink's tensors");
	l = start(p);
	if (weir_load_wait(l, -1) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	t = weir_weights_find(w, "t0");
	ok(t && !t->buf && !weir_tensor_data(t),
	   "a tensor of a sink has no memory");
	ok(t && t->dtype == WEIR_DTYPE_F32 && t->ndim == 2 && t->shape[1] == 4,
	   "a tensor of a sink has its dtype and shape");
	is_err(weir_weights_digest(w, 0, WEIR_DIGEST_XXH3, digest), -EINVAL,
	       "'t0' went to a sink",
	       "there is no digest of a tensor of a sink");
	ok(sample_holds(w, 1, 1), "a tensor beside a sink is in memory");
	weir_load_free(l);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

static void sinks_puts_and_targets_share_a_load(void)
{
	static size_t chosen[400];
	struct weir_buf *buf = buffer(1 << 20);
	struct weir_target target = { .size = sizeof(target), .tensor = 7 };
	size_t wrong = 0, n = 0;
	struct weir_tensor dst;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_event *ev;
	struct weir_plan *p;
	struct weir_load *l;

	some_tensors(400, 30000);
	tensors[7].count = 1000;
	m = model();
	if (weir_tensor_init(&dst, entry_of(m, 7).dtype, 1,
			     entry_of(m, 7).shape) < 0 ||
	    weir_tensor_place(&dst, buf, 64) < 0)
		bail("%s", weir_error());
	target.dst = &dst;
	p = new_plan(m);
	seen_init(&seen, m);
	seen_init(&second, m);
	if (weir_plan_add_tensors(p, &target, 1) < 0)
		bail("%s", weir_error());
	sink(p, "t*1", &seen);
	plan_add(p, "t*2", NULL, 0, 0);
	sink(p, "t*3", &second);
	is_int(sink(p, "t*5", &seen), 40,
	       "a sink chooses tensors in several calls");
	for (size_t i = 0; i < 400; i++)
		if (i % 10 == 1 || i % 10 == 2 || i % 10 == 3 || i % 10 == 5)
			chosen[n++] = i;
	seen.record = second.record = chosen;
	l = start(p);
	if (weir_event_new(root, 0, &ev) < 0)
		bail("%s", weir_error());
	is_int(weir_load_record(l, 0, ev), 0,
	       "an event is recorded for a tensor of a sink");
	is_int(weir_event_wait(ev, -1), 0, "a tensor of a sink arrives");
	is_int(weir_load_wait(l, -1), 0,
	       "a load of sinks, a selection and a target succeeds");
	for (size_t i = 0; i < 400; i++) {
		wrong += seen.at[i] !=
			 (i % 10 == 1 || i % 10 == 5 ? bytes_of(i) : 0);
		wrong += second.at[i] != (i % 10 == 3 ? bytes_of(i) : 0);
	}
	is_int(wrong, 0, "each of two sinks receives its tensors");
	ok(seen_right(&seen) && seen_right(&second),
	   "each of two sinks has a thread, and the order of the file");
	if (weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	for (wrong = n = 0; n < weir_weights_count(w); n++)
		if (weir_weights_get(w, n)->buf)
			wrong += !sample_holds(w, n, 1);
	is_int(n, 161,
	       "the weights have all tensors of sinks, selection and target");
	is_int(wrong, 0, "the selection and the target have their bytes");
	weir_event_free(ev);
	weir_load_free(l);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

static void weights_with_a_sink_are_loaded_again(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	some_tensors(20, 40000);
	m = model();
	p = new_plan(m);
	seen_init(&seen, m);
	sink(p, "t?", &seen);
	plan_add(p, NULL, NULL, 0, 0);
	w = load(p, NULL);
	weir_plan_free(p);
	p = new_plan(m);
	seen_init(&second, m);
	sink(p, "t?", &second);
	plan_add(p, NULL, NULL, 0, 0);
	o.into = w;
	if (weir_load_start(p, &o, &l) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(l, -1), 0,
	       "weights with tensors of a sink are loaded again");
	ok(seen_right(&second) && second.bytes == seen.bytes && seen.bytes,
	   "the sink of the new plan receives the bytes");
	weir_load_free(l);
	weir_plan_free(p);
	p = new_plan(m);
	plan_add(p, NULL, NULL, 0, 0);
	is_err(weir_load_start(p, &o, &l), -EINVAL, "the plan",
	       "a plan without the sink does not fill the weights again");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

static int load_another(void *arg)
{
	return loads(arg) ? 0 : -EIO;
}

static void a_sink_may_call_weir(void)
{
	struct weir_model *m;
	struct weir_plan *p, *other;

	some_tensors(9, 4000);
	m = model();
	other = new_plan(m);
	plan_add(other, NULL, NULL, 0, 0);
	p = new_plan(m);
	seen_init(&seen, m);
	seen_act(&seen, 4, 0, load_another, other);
	sink(p, NULL, &seen);
	weir_weights_free(load(p, NULL));
	is_int(seen_missing(&seen), 0,
	       "a sink may make another load and wait for it");
	weir_plan_free(p);
	weir_plan_free(other);
	weir_model_close(m);
}

static void bad_sinks_are_refused(void)
{
	struct weir_sink s = seen_sink(&seen);
	struct weir_model *m;
	struct weir_plan *p;

	some_tensors(3, 40);
	m = model();
	p = new_plan(m);
	is_err(weir_plan_sink(p, "none", &s), -ENOENT, "'none'",
	       "a sink for no tensor is refused");
	s.way = WEIR_WAY_MAP;
	is_err(weir_plan_sink(p, NULL, &s), -EINVAL, "WEIR_WAY_MAP",
	       "a sink of mapped tensors is refused");
	s.way = 77;
	is_err(weir_plan_sink(p, NULL, &s), -EINVAL, "77",
	       "a sink of an unknown way is refused");
	s.way = 0;
	s.reserved = 1;
	is_err(weir_plan_sink(p, NULL, &s), -EINVAL, "reserved",
	       "a sink with unknown members is refused");
	s = seen_sink(&seen);
	is_int(weir_plan_sink(p, "t0", &s) + weir_plan_sink(p, NULL, &s), 3,
	       "a refused sink has chosen no tensor");
	weir_plan_free(p);
	weir_model_close(m);
}

int main(void)
{
	plans_begin(0);
	a_sink_receives_every_byte();
	other_tensors_are_not_read();
	weights_describe_the_tensors_of_a_sink();
	sinks_puts_and_targets_share_a_load();
	weights_with_a_sink_are_loaded_again();
	a_sink_may_call_weir();
	bad_sinks_are_refused();
	return plans_end();
}
