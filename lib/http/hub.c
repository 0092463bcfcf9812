/* SPDX-License-Identifier: MIT */
#include "http/credentials.h"
#include "http/hub.h"
#include "http/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define PIN (900 * WEIR__HTTP_SECOND) /* after the last use */
#define PAGE_MAX (16u << 20)
#define PAGES 100

/* The commit of a model's revision. */
struct weir__http_pin {
	struct weir__http_pin *next;
	char owner[200], revision[128];
	char commit[64];
	int64_t used;
};

struct weir__http_hub {
	pthread_mutex_t lock;
	struct weir__http_pin *pins;
};

struct weir__http_hub *weir__http_hub_new(void)
{
	struct weir__http_hub *hub = calloc(1, sizeof(*hub));

	if (hub)
		pthread_mutex_init(&hub->lock, NULL);
	return hub;
}

void weir__http_hub_free(struct weir__http_hub *hub)
{
	struct weir__http_pin *pin;

	if (!hub)
		return;
	while ((pin = hub->pins)) {
		hub->pins = pin->next;
		free(pin);
	}
	pthread_mutex_destroy(&hub->lock);
	free(hub);
}

/* The pin of @u that is still good. The lock is held. */
static struct weir__http_pin *find_pin(struct weir__http_hub *hub,
				       const struct weir__http_url *u)
{
	int64_t now = weir__http_now();

	for (struct weir__http_pin *pin = hub->pins; pin; pin = pin->next) {
		if (strcmp(pin->owner, u->owner) ||
		    strcmp(pin->revision, u->revision))
			continue;
		if (now - pin->used > PIN)
			*pin->commit = '\0';
		pin->used = now;
		return pin;
	}
	return NULL;
}

/* A commit goes into URLs: only hexadecimal digits. */
static bool is_commit(const char *text)
{
	size_t n = strlen(text);

	return n >= 7 && n < 64 && strspn(text, "0123456789abcdef") == n;
}

/* The commit that is pinned, or "". */
static void pinned_commit(struct weir__http_hub *hub,
			  const struct weir__http_url *u,
			  char commit[static 64])
{
	const struct weir__http_pin *pin;

	pthread_mutex_lock(&hub->lock);
	pin = find_pin(hub, u);
	snprintf(commit, 64, "%s", pin ? pin->commit : "");
	pthread_mutex_unlock(&hub->lock);
}

int weir__http_hub_pin(struct weir__http_hub *hub,
		       const struct weir__http_url *u, const char *commit,
		       char why[static WEIR__HTTP_WHY])
{
	struct weir__http_pin *pin;
	int err = 0;

	if (!is_commit(commit))
		return 0;
	pthread_mutex_lock(&hub->lock);
	pin = find_pin(hub, u);
	if (!pin) {
		pin = calloc(1, sizeof(*pin));
		if (pin) {
			memcpy(pin->owner, u->owner, sizeof(pin->owner));
			memcpy(pin->revision, u->revision,
			       sizeof(pin->revision));
			pin->used = weir__http_now();
			pin->next = hub->pins;
			hub->pins = pin;
		}
	}
	if (pin && !*pin->commit) {
		snprintf(pin->commit, sizeof(pin->commit), "%s", commit);
	} else if (pin && strcmp(pin->commit, commit)) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"hf://%s: the hub answers for commit %s, other files of the model were of %s",
			u->owner, commit, pin->commit);
		err = -ESTALE;
	}
	pthread_mutex_unlock(&hub->lock);
	return err;
}

/* The revision to ask for, in malloc; NULL: no memory. */
static char *revision_of(struct weir__http_hub *hub,
			 const struct weir__http_url *u)
{
	char commit[64];

	pinned_commit(hub, u, commit);
	return *commit ? strdup(commit)
		       : weir__http_encode(*u->revision ? u->revision : "main",
					   "%");
}

/* The token of HF_TOKEN or of the file that hf login writes; NULL: none. */
static char *get_token(void)
{
	const char *given = weir__http_env("HF_TOKEN");
	const char *path = weir__http_env("HF_TOKEN_PATH");
	const char *home = weir__http_env("HF_HOME");
	const char *cache = weir__http_env("XDG_CACHE_HOME");
	const char *user = weir__http_env("HOME");
	char *full = NULL, *token = NULL;

	if (given)
		return strdup(given);
	if (path)
		full = strdup(path);
	else if (home)
		full = weir__http_print("%s/token", home);
	else if (cache)
		full = weir__http_print("%s/huggingface/token", cache);
	else if (user)
		full = weir__http_print("%s/.cache/huggingface/token", user);
	if (full)
		token = weir__http_file(full, 4096);
	free(full);
	return token;
}

/* True if the token may be sent there: not in the clear over a network. */
static bool is_safe(const struct weir__http_url *u)
{
	return u->scheme == WEIR__HTTP_HTTPS ||
	       weir__http_address_rank(u->host) == WEIR__HTTP_LOOPBACK;
}

/*
 * The variable that says that a hub may not be asked, or NULL; as its own
 * clients read them.
 */
static const char *offline_by(void)
{
	const char *name = "HF_HUB_OFFLINE", *value = weir__http_env(name);

	if (!value) {
		name = "TRANSFORMERS_OFFLINE";
		value = weir__http_env(name);
	}
	return value && strcmp(value, "0") && strcasecmp(value, "false") &&
			       strcasecmp(value, "off") &&
			       strcasecmp(value, "no")
		       ? name
		       : NULL;
}

/*
 * The commit of @u that this root uses, or, if none was pinned yet, the one
 * that the hub's cache on this machine has. -ENETDOWN: neither, or no snapshot.
 */
static int offline_commit(struct weir__http_hub *hub,
			  const struct weir__http_url *u, const char *by,
			  char commit[static 64], char *why)
{
	pinned_commit(hub, u, commit);
	if (!*commit && weir__http_snapshot_commit(u, commit))
		weir__http_hub_pin(hub, u, commit, why);
	if (*commit && weir__http_snapshot_has(u, commit))
		return 0;
	snprintf(
		why, WEIR__HTTP_WHY,
		"hf://%s: %s is set, and the cache of Hugging Face on this machine has no '%s' of the model",
		u->owner, by,
		*commit        ? commit
		: *u->revision ? u->revision
			       : "main");
	return -ENETDOWN;
}

/* The snapshot of @commit lacks @u, a file or a folder. */
static int fail_lacks(const struct weir__http_url *u, const char *by,
		      const char *kind, const char *commit, char *why)
{
	char shown[WEIR__HTTP_SHOWN];

	weir__http_url_show(u, shown);
	snprintf(
		why, WEIR__HTTP_WHY,
		"%s: %s is set, and the cache of Hugging Face on this machine has no such %s of commit %s",
		shown, by, kind, commit);
	return -ENOENT;
}

int weir__http_hub_local(struct weir__http_hub *hub,
			 const struct weir__http_url *u,
			 struct weir__http_copy *ret,
			 char why[static WEIR__HTTP_WHY])
{
	const char *by = offline_by();
	char commit[64];
	int err;

	if (!*u->path)
		return 0;
	if (by) {
		err = offline_commit(hub, u, by, commit, why);
		if (err < 0)
			return err;
		return weir__http_snapshot_find(u, commit, ret)
			       ? 1
			       : fail_lacks(u, by, "file", commit, why);
	}
	pinned_commit(hub, u, commit);
	if (!*commit && weir__http_is_commit(u->revision))
		memcpy(commit, u->revision, 41);
	return *commit && weir__http_snapshot_find(u, commit, ret);
}

/* Begin a request for @tail, which follows the endpoint and '/'. */
static int begin(const struct weir__http_url *u, const char *tail,
		 struct weir__http_start *s, char *why)
{
	const char *given = weir__http_env("HF_ENDPOINT");
	char *token;
	size_t n;
	int err;

	if (!given)
		given = "https://huggingface.co";
	n = strlen(given);
	while (n && given[n - 1] == '/')
		n--;
	s->hub = true;
	weir__http_url_show(u, s->q.shown);
	s->q.url = weir__http_print("%.*s/%s", (int)n, given, tail);
	if (!s->q.url) {
		snprintf(why, WEIR__HTTP_WHY, "no memory");
		return -ENOMEM;
	}
	err = weir__http_url_parse(s->q.url, &s->u, why);
	if (err < 0)
		return err;
	if (s->u.scheme > WEIR__HTTP_HTTPS) {
		snprintf(why, WEIR__HTTP_WHY,
			 "HF_ENDPOINT is no URL of http or https");
		return -EINVAL;
	}
	token = get_token();
	if (!weir__http_is_printable(token)) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"HF_TOKEN, or the file of the token, has a control character");
		err = -EINVAL;
	} else if (token && *token && is_safe(&s->u)) {
		s->q.auth = weir__http_auth_new(WEIR__HTTP_AUTH_BEARER, NULL,
						token, NULL, NULL);
	}
	weir__http_wipe(token);
	return err;
}

int weir__http_hub_begin(struct weir__http_remote *r,
			 const struct weir__http_url *u,
			 struct weir__http_start *s,
			 char why[static WEIR__HTTP_WHY])
{
	char *revision, *path, *tail = NULL;
	int err;

	revision = revision_of(r->hub, u);
	path = weir__http_encode(u->path, "/");
	if (revision && path)
		tail = weir__http_print("%s/resolve/%s/%s", u->owner, revision,
					path);
	if (!tail) {
		snprintf(why, WEIR__HTTP_WHY, "no memory");
		err = -ENOMEM;
	} else if (!*path) {
		weir__http_url_show(u, s->q.shown);
		snprintf(why, WEIR__HTTP_WHY, "%s: it names no file",
			 s->q.shown);
		err = -EINVAL;
	} else {
		err = begin(u, tail, s, why);
	}
	free(revision);
	free(path);
	free(tail);
	return err;
}

/* One page of the tree: an array of files and folders. */
static int read_tree(const char *text, const char *prefix,
		     weir_source_found_fn *found, void *arg, char *why)
{
	json_t *tree = json_loads(text, 0, NULL), *one;
	size_t i, n = strlen(prefix);
	int err = 0;

	if (!json_is_array(tree)) {
		json_decref(tree);
		snprintf(why, WEIR__HTTP_WHY,
			 "the hub's list of files is no array of JSON");
		return -EBADMSG;
	}
	json_array_foreach(tree, i, one)
	{
		const char *type =
			json_string_value(json_object_get(one, "type"));
		const char *path =
			json_string_value(json_object_get(one, "path"));
		json_int_t size =
			json_integer_value(json_object_get(one, "size"));

		if (!type || strcmp(type, "file") || !path ||
		    strncmp(path, prefix, n) || !path[n] ||
		    strchr(path + n, '/') || size < 0)
			continue;
		err = found(arg, path + n, (uint64_t)size);
		if (err < 0)
			break;
	}
	json_decref(tree);
	return err;
}

/* Get a page. *@next is the URL of the next one, in malloc, or NULL. */
static int get_page(struct weir__http_remote *r, const struct weir__http_url *u,
		    struct weir__http_start *s, struct weir__http_body *body,
		    char **next, char *why)
{
	struct weir__http_call call = { .to = body };
	struct weir__http_url to;
	int err;

	*next = NULL;
	call.f.q = s->q;
	memset(&s->q, 0, sizeof(s->q));
	body->max = PAGE_MAX;
	err = weir__http_perform(r->client, &s->u, &call, why);
	if (err == 2) {
		snprintf(why, WEIR__HTTP_WHY, "%s: the list is somewhere else",
			 call.f.q.shown);
		err = -EBADMSG;
	}
	if (!err)
		err = weir__http_hub_pin(r->hub, u, call.f.a.commit, why);
	if (!err && call.f.a.next) {
		err = weir__http_url_follow(&s->u, call.f.a.next, &to, why);
		if (!err && weir__http_url_same_host(&to, &s->u))
			*next = weir__http_url_text(&to);
		if (!err && !*next) {
			snprintf(why, WEIR__HTTP_WHY,
				 "%s: the list goes on at another host",
				 call.f.q.shown);
			err = -EBADMSG;
		}
		weir__http_url_clear(&to);
	}
	weir__http_call_clear(&call);
	return err;
}

static int list_offline(struct weir__http_hub *hub,
			const struct weir__http_url *u, const char *by,
			weir_source_found_fn *found, void *arg, char *why)
{
	char commit[64];
	int err = offline_commit(hub, u, by, commit, why);

	if (err < 0)
		return err;
	err = weir__http_snapshot_list(u, commit, found, arg);
	return err == -ENOENT ? fail_lacks(u, by, "folder", commit, why) : err;
}

int weir__http_hub_list(struct weir__http_remote *r,
			const struct weir__http_url *u,
			weir_source_found_fn *found, void *arg,
			char why[static WEIR__HTTP_WHY])
{
	char *revision, *path, *tail = NULL, *next = NULL;
	const char *by = offline_by();
	int err = 0;

	if (by)
		return list_offline(r->hub, u, by, found, arg, why);
	revision = revision_of(r->hub, u);
	path = weir__http_encode(u->path, "/");
	if (revision && path)
		tail = weir__http_print("api/models/%s/tree/%s/%s", u->owner,
					revision, path);
	if (tail && tail[strlen(tail) - 1] == '/')
		tail[strlen(tail) - 1] = '\0';
	for (unsigned page = 0; page < PAGES && tail && !err; page++) {
		struct weir__http_start s = { 0 };
		struct weir__http_body body = { 0 };

		err = begin(u, tail, &s, why);
		if (!err && next) {
			weir__http_url_clear(&s.u);
			free(s.q.url);
			s.q.url = next;
			next = NULL;
			err = weir__http_url_parse(s.q.url, &s.u, why);
		}
		if (!err)
			err = get_page(r, u, &s, &body, &next, why);
		if (!err)
			err = read_tree(body.data ? body.data : "", u->path,
					found, arg, why);
		weir__http_body_clear(&body);
		weir__http_start_clear(&s);
		if (!next)
			break;
	}
	if (!err && next) {
		snprintf(why, WEIR__HTTP_WHY,
			 "hf://%s: its list has more than %d pages", u->owner,
			 PAGES);
		err = -EFBIG;
	}
	free(next);
	free(revision);
	free(path);
	free(tail);
	return err;
}
