/* SPDX-License-Identifier: MIT */
/*
 * Have the files of a list changed since they were opened? A run that succeeded
 * with weights of two versions would lie. Fed leaves are read again in each run, so
 * each run asks; a kept leaf is asked for once, after it was loaded: its copy is
 * right then, whatever becomes of the file.
 */
#include "graph/prefetch/feed.h"

/* What is loaded before the files are asked. check_lock is held. */
static void kept_mark(struct weir__feed_list *list)
{
	struct weir__feeder *f = list->feeder;

	pthread_mutex_lock(&f->lock);
	for (uint32_t k = 0; k < list->n; k++)
		if (list->fed[k].kept)
			list->fed[k].kept->ready = list->fed[k].kept->loaded;
	pthread_mutex_unlock(&f->lock);
}

static bool is_checked(const struct weir__fed *fed)
{
	return !fed->import.file || (fed->kept && fed->kept->checked);
}

/* check_lock is held. */
static int files_unchanged(const struct weir__feed_list *list)
{
	struct weir_file *last = NULL;
	int r = 0;

	for (uint32_t k = 0; k < list->n && r == 0; k++) {
		const struct weir__fed *fed = &list->fed[k];

		if (is_checked(fed) || fed->import.file == last)
			continue;
		last = fed->import.file;
		r = weir__file_unchanged(last);
	}
	return r;
}

/* check_lock is held. */
static bool kept_checked(const struct weir__feed_list *list)
{
	bool all = true;

	for (uint32_t k = 0; k < list->n; k++) {
		const struct weir__fed *fed = &list->fed[k];

		if (fed->kept && fed->kept->ready)
			fed->kept->checked = true;
		all = is_checked(fed) && all;
	}
	return all;
}

int weir__feed_list_unchanged(struct weir__feed_list *list)
{
	struct weir__feeder *f = list->feeder;
	int r;

	if (atomic_load(&list->checked))
		return 0;
	pthread_mutex_lock(&f->check_lock);
	kept_mark(list);
	r = files_unchanged(list);
	if (r == 0)
		atomic_store(&list->checked, kept_checked(list));
	pthread_mutex_unlock(&f->check_lock);
	return r;
}
