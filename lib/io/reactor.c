/* SPDX-License-Identifier: MIT */
#include "io/reactor.h"

#include "io/engine_state.h"

/* The longest sleep while wakeups may be lost, ns. */
#define LOST_SLEEP_NS 10000000

static void inbox_push(struct weir__reactor *r, struct weir__msg *msg)
{
	struct weir__msg *head =
		atomic_load_explicit(&r->inbox, memory_order_relaxed);

	do
		msg->next = head;
	while (!atomic_compare_exchange_weak_explicit(&r->inbox, &head, msg,
						      memory_order_release,
						      memory_order_relaxed));
}

void weir__reactor_wake(struct weir__reactor *r)
{
	if (weir__owner_notify(&r->owner))
		weir__wakefd_signal(&r->wakefd);
}

void weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg)
{
	inbox_push(r, msg);
	weir__reactor_wake(r);
}

bool weir__reactor_post_or_borrow(struct weir__reactor *r,
				  struct weir__msg *msg)
{
	inbox_push(r, msg);
	return weir__owner_notify_or_borrow(&r->owner);
}

void weir__reactors_wake(struct weir__engine *eng)
{
	for (unsigned i = 0; i < eng->n_reactors; i++)
		weir__reactor_wake(eng->reactor[i]);
}

/* If the owner was not notified, the inbox is empty: see owner.h. */
struct weir__msg *weir__reactor_take_messages(struct weir__reactor *r)
{
	struct weir__msg *m, *next, *list = NULL;

	if (!weir__owner_take_notifications(&r->owner))
		return NULL;
	m = atomic_exchange_explicit(&r->inbox, NULL, memory_order_acquire);
	for (; m; m = next) {
		next = m->next;
		m->next = list;
		list = m;
	}
	return list;
}

bool weir__reactor_check_wakefd(struct weir__reactor *r)
{
	enum weir__wakefd_check check = weir__wakefd_check(&r->wakefd);

	if (check == WEIR__WAKEFD_REPLACED)
		weir__log(
			r->eng->weir,
			"reactor %u: the program closed its eventfd, which was replaced",
			r->index);
	return check != WEIR__WAKEFD_SAME;
}

int64_t weir__reactor_max_sleep(struct weir__reactor *r)
{
	return weir__wakefd_is_lost(&r->wakefd) ? LOST_SLEEP_NS
						: r->eng->max_sleep;
}
