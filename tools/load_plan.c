/* SPDX-License-Identifier: MIT */
/*
 * The plan of weir load, and its estimate. A tensor may match several options
 * (--only, --place, --slice, --first), a selection has one glob. So each tensor
 * is selected by its name, those with the same options one after the other: the
 * library joins these. A capacity needs all layers in one selection, by its
 * glob.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include "kinds.h"
#include "load.h"
#include "output.h"

/* A tensor, and the rule of each kind that it matches; NULL: none. */
struct pick {
	size_t tensor;
	const struct load_rule *rule[LOAD_RULES];
};

static int open_place(const struct load_job *job, const struct load_rule *place,
		      struct weir_buft **ret_buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	if (kind_find(job->weir, place->memory, ret_buft) < 0 ||
	    weir_buft_info(*ret_buft, &info) < 0)
		return fail_weir();
	if (info.kind != WEIR_MEM_MAPPED)
		return 0;
	return fail_usage("load",
			  "--place %s=%s: mapped memory cannot be chosen here; "
			  "use --way map",
			  place->glob, place->memory);
}

int load_places_open(struct load_job *job)
{
	const struct load_rules *places = &job->args->rules[LOAD_RULE_PLACE];
	int r = 0;

	job->places = calloc(places->n + 1, sizeof(struct weir_buft *));
	if (!job->places)
		return fail_memory();
	for (size_t i = 0; i < places->n && r == 0; i++)
		r = open_place(job, &places->rule[i], &job->places[i]);
	return r;
}

/*
 * True if weir_plan_add() would match the name. A name with a NUL matches only
 * "*".
 */
static bool rule_matches(const struct load_rule *rule,
			 const struct weir_entry *e)
{
	return !strcmp(rule->glob, "*") || (strlen(e->name) == e->name_len &&
					    !fnmatch(rule->glob, e->name, 0));
}

/* The first rule that matches; NULL: none. */
static const struct load_rule *find_rule(const struct load_rules *rules,
					 const struct weir_entry *e)
{
	for (size_t i = 0; i < rules->n; i++)
		if (rule_matches(&rules->rule[i], e))
			return &rules->rule[i];
	return NULL;
}

/* A glob that matches no tensor is a mistake of the user. */
static int check_rule(const struct weir_model *model,
		      const struct load_rule *rule)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };

	for (size_t i = 0; i < weir_model_count(model); i++)
		if (weir_model_tensor(model, i, &e) == 0 &&
		    rule_matches(rule, &e))
			return 0;
	if (weir_model_info(model, &info) < 0)
		return fail_weir();
	return fail("%s: no tensor matches '%s'", info.path, rule->glob);
}

static int check_rules(const struct load_args *a,
		       const struct weir_model *model)
{
	int r = 0;

	for (int kind = 0; kind < LOAD_RULES; kind++)
		for (size_t i = 0; i < a->rules[kind].n && r == 0; i++)
			r = check_rule(model, &a->rules[kind].rule[i]);
	return r;
}

static bool is_plain(const struct pick *p)
{
	return !p->rule[LOAD_RULE_ONLY] && !p->rule[LOAD_RULE_PLACE] &&
	       !p->rule[LOAD_RULE_SLICE] && !p->rule[LOAD_RULE_FIRST];
}

/* Tensors that no rule selects are not listed. Returns how many are. */
static size_t list_picks(const struct load_args *a,
			 const struct weir_model *model, struct pick *picks)
{
	struct weir_entry e = { .size = sizeof(e) };
	size_t n = 0;

	for (size_t i = 0; i < weir_model_count(model); i++) {
		struct pick *p = &picks[n];

		if (weir_model_tensor(model, i, &e) < 0)
			continue;
		p->tensor = i;
		for (int kind = 0; kind < LOAD_RULES; kind++)
			p->rule[kind] = find_rule(&a->rules[kind], &e);
		if (a->rules[LOAD_RULE_ONLY].n && !p->rule[LOAD_RULE_ONLY])
			continue;
		n += !is_plain(p);
	}
	return n;
}

static int compare_picks(const void *va, const void *vb)
{
	const struct pick *a = va, *b = vb;

	for (int kind = LOAD_RULE_PLACE; kind < LOAD_RULES; kind++)
		if (a->rule[kind] != b->rule[kind])
			return (uintptr_t)a->rule[kind] <
					       (uintptr_t)b->rule[kind]
				       ? -1
				       : 1;
	return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

static struct weir_buft *place_memory(const struct load_job *job,
				      const struct load_rule *place)
{
	return place ? job->places[place -
				   job->args->rules[LOAD_RULE_PLACE].rule]
		     : job->buft;
}

static struct weir_select_opts put_opts(const struct load_job *job,
					const struct load_rule *place)
{
	const struct load_args *a = job->args;
	struct weir_buft_info info = { .size = sizeof(info) };
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;

	opts.way = a->way;
	if (place && a->way == WEIR_WAY_MAP)
		opts.way = WEIR_WAY_AUTO;
	opts.align = a->align;
	opts.dtype = a->dtype;
	if (weir_buft_info(place_memory(job, place), &info) == 0 &&
	    info.flags & WEIR_BUFT_HOST)
		opts.buf_flags = a->buf_flags;
	return opts;
}

static struct weir_slice slice_of(const struct load_args *a,
				  const struct load_rule *rule)
{
	struct weir_slice slice = rule->slice;

	if (slice.n >= 0)
		return slice;
	slice.n = 0;
	slice.rank = a->rank;
	slice.ranks = a->ranks;
	return slice;
}

/* A glob that matches just @name. @buf has room for 2 * @len + 1 bytes. */
static const char *glob_of(const char *name, size_t len, char *buf)
{
	char *to = buf;

	for (size_t i = 0; i < len; i++) {
		if (memchr("*?[\\", name[i], 4))
			*to++ = '\\';
		*to++ = name[i];
	}
	*to = '\0';
	return buf;
}

static int put_pick(const struct load_job *job, const struct weir_model *model,
		    struct weir_plan *plan, const struct pick *p)
{
	const struct load_rules *first = &job->args->rules[LOAD_RULE_FIRST];
	const struct load_rule *place = p->rule[LOAD_RULE_PLACE];
	struct weir_select_opts opts = put_opts(job, place);
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_slice slice;
	char *glob;
	int r;

	if (p->rule[LOAD_RULE_SLICE]) {
		slice = slice_of(job->args, p->rule[LOAD_RULE_SLICE]);
		opts.slice = &slice;
	}
	if (p->rule[LOAD_RULE_FIRST])
		opts.priority = (int32_t)(first->rule + first->n -
					  p->rule[LOAD_RULE_FIRST]);
	r = weir_model_tensor(model, p->tensor, &e);
	if (r < 0)
		return r;
	glob = malloc(2 * e.name_len + 1);
	if (!glob)
		return fail_memory();
	r = weir_plan_add(plan, glob_of(e.name, e.name_len, glob),
			  place_memory(job, place), &opts);
	free(glob);
	return r < 0 ? r : 0;
}

/* The tensors that no rule selects, as one selection: the last. */
static int put_rest(const struct load_job *job, struct weir_plan *plan)
{
	struct weir_select_opts opts = put_opts(job, NULL);
	int r = weir_plan_add(plan, NULL, job->buft, &opts);

	return r < 0 ? r : 0;
}

static int put_by_name(const struct load_job *job,
		       const struct weir_model *model, struct weir_plan *plan)
{
	const struct load_args *a = job->args;
	struct pick *picks =
		calloc(weir_model_count(model) + 1, sizeof(*picks));
	size_t n;
	int r;

	if (!picks)
		return fail_memory();
	r = check_rules(a, model);
	n = list_picks(a, model, picks);
	qsort(picks, n, sizeof(*picks), compare_picks);
	for (size_t i = 0; i < n && r == 0; i++)
		r = put_pick(job, model, plan, &picks[i]);
	free(picks);
	if (r == 0 && !a->rules[LOAD_RULE_ONLY].n)
		r = put_rest(job, plan);
	return r;
}

/* With capacities: the places in their order, then the rest. */
static int put_by_place(const struct load_job *job, struct weir_plan *plan)
{
	const struct load_rules *places = &job->args->rules[LOAD_RULE_PLACE];
	int r = 0;

	for (size_t i = 0; i < places->n && r >= 0; i++) {
		struct weir_select_opts opts = put_opts(job, &places->rule[i]);

		opts.capacity = places->rule[i].capacity;
		r = weir_plan_add(plan, places->rule[i].glob, job->places[i],
				  &opts);
	}
	return r < 0 ? r : put_rest(job, plan);
}

static bool has_rules(const struct load_args *a)
{
	for (int kind = 0; kind < LOAD_RULES; kind++)
		if (a->rules[kind].n)
			return true;
	return false;
}

static int put_tensors(const struct load_job *job,
		       const struct weir_model *model, struct weir_plan *plan)
{
	if (load_has_capacity(job->args))
		return put_by_place(job, plan);
	if (has_rules(job->args))
		return put_by_name(job, model, plan);
	return put_rest(job, plan);
}

int load_open_model(const struct load_job *job, struct weir_model **ret_model)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;

	if (job->args->lenient)
		opts.flags = WEIR_MODEL_LENIENT;
	return weir_model_open(job->weir, job->args->path, &opts, ret_model);
}

int load_plan(const struct load_job *job, struct weir_plan **ret_plan)
{
	struct weir_plan *plan = NULL;
	struct weir_model *model;
	int r;

	r = load_open_model(job, &model);
	if (r < 0)
		return r;
	r = weir_plan_new(model, &plan);
	if (r == 0)
		r = put_tensors(job, model, plan);
	if (r == 0 && job->manifest)
		r = weir_plan_verify(plan, job->manifest);
	weir_model_close(model);
	if (r == 0)
		*ret_plan = plan;
	else
		weir_plan_free(plan);
	return r;
}

/* Fill in job->needs. Returns as load_plan(). */
static int estimate_plan(struct load_job *job, struct weir_plan *plan)
{
	int n = weir_plan_estimate(plan, NULL, 0);

	if (n < 0)
		return n;
	job->needs = calloc((size_t)n + 1, sizeof(*job->needs));
	if (!job->needs)
		return fail_memory();
	job->needs[0].size = sizeof(*job->needs);
	n = weir_plan_estimate(plan, job->needs, (unsigned)n);
	if (n < 0)
		return n;
	job->n_needs = (size_t)n;
	return 0;
}

/*
 * A load starts the engine first, whose slots count for the budget. If they
 * exceed it, nothing fits.
 */
static int start_engine(struct load_job *job)
{
	int r;

	if (!job->args->root.budget || !load_uses_engine(job->args))
		return 0;
	r = load_start_engine(job);
	if (r != -ENOMEM)
		return r < 0 ? fail_weir() : 0;
	note("nothing fits: %s", weir_sentence());
	job->no_slots = true;
	return 0;
}

int load_estimate(struct load_job *job)
{
	struct weir_plan *plan;
	int r = start_engine(job);

	if (r == 0)
		r = load_plan(job, &plan);
	if (r == 0) {
		r = estimate_plan(job, plan);
		weir_plan_free(plan);
	}
	for (size_t i = 0; i < job->n_needs && job->no_slots; i++)
		job->needs[i].fits = 0;
	return r < 0 ? fail_weir() : r;
}

static bool all_fit(const struct load_job *job)
{
	for (size_t i = 0; i < job->n_needs; i++)
		if (!job->needs[i].fits)
			return false;
	return !job->no_slots;
}

static const char *buft_name(const struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	return weir_buft_info(buft, &info) < 0 ? "?" : info.name;
}

static void show_need(const struct weir_estimate *need)
{
	char bytes[SIZE_TEXT], available[SIZE_TEXT] = "unknown";

	if (need->free != UINT64_MAX)
		size_text(need->free, available);
	printf("%-16s %8llu %-7s  %12s needed  %12s free  %s\n",
	       buft_name(need->buft), (unsigned long long)need->tensors,
	       need->tensors == 1 ? "tensor" : "tensors",
	       size_text(need->bytes, bytes), available,
	       need->fits ? "fits" : "does not fit");
}

static json_t *need_json(const struct weir_estimate *need)
{
	json_t *available = need->free == UINT64_MAX
				    ? json_null()
				    : json_integer((json_int_t)need->free);

	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:b}", "name",
			 buft_name(need->buft), "device",
			 load_device_name(need->buft), "kind",
			 load_memory_name(need->buft), "tensors",
			 (json_int_t)need->tensors, "bytes",
			 (json_int_t)need->bytes, "free", available, "fits",
			 (int)need->fits);
}

static json_t *needs_json(const struct load_job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->n_needs; i++)
		json_array_append_new(list, need_json(&job->needs[i]));
	return json_pack("{s:b, s:o}", "fits", (int)all_fit(job), "memory",
			 list);
}

int load_estimate_print(const struct load_job *job)
{
	if (job->args->json) {
		out_json(needs_json(job));
		putchar('\n');
	} else {
		for (size_t i = 0; i < job->n_needs; i++)
			show_need(&job->needs[i]);
	}
	return all_fit(job) ? 0 : EXIT_NO_ROOM;
}
