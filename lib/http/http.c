/* SPDX-License-Identifier: MIT */
/* The module: its entry, its table, and the schemes http and https. */
#include "http/azure.h"
#include "http/credentials.h"
#include "http/hub.h"
#include "http/object.h"
#include "http/s3.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/http.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode curl_started;

static void start_curl(void)
{
	curl_started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int begin_web(const struct weir__http_url *u, struct weir__http_start *s,
		     char *why)
{
	s->q.url = weir__http_url_text(u);
	weir__http_url_show(u, s->q.shown);
	if (s->q.url && !weir__http_url_parse(s->q.url, &s->u, why)) {
		if (u->user)
			s->q.auth = weir__http_auth_new(WEIR__HTTP_AUTH_BASIC,
							u->user, NULL, NULL,
							NULL);
		if (s->q.auth || !u->user)
			return 0;
	}
	snprintf(why, WEIR__HTTP_WHY, "%s: no memory", s->q.shown);
	return -ENOMEM;
}

int weir__http_begin(struct weir__http_remote *r,
		     const struct weir__http_url *u,
		     const struct weir__http_auth *refused,
		     struct weir__http_start *s,
		     char why[static WEIR__HTTP_WHY])
{
	switch (u->scheme) {
	case WEIR__HTTP_HF:
		return weir__http_hub_begin(r, u, s, why);
	case WEIR__HTTP_S3:
	case WEIR__HTTP_GS:
		return weir__http_s3_begin(r, u, refused, s, why);
	case WEIR__HTTP_AZ:
		return weir__http_azure_begin(u, s, why);
	default:
		return begin_web(u, s, why);
	}
}

static int http_list(void *self, const char *url, weir_source_found_fn *found,
		     void *arg, char why[WEIR_SOURCE_WHY])
{
	struct weir__http_remote *r = self;
	struct weir__http_url u;
	int err = weir__http_url_parse(url, &u, why);

	if (err < 0)
		return err;
	if (u.scheme == WEIR__HTTP_HF) {
		err = weir__http_hub_list(r, &u, found, arg, why);
	} else if (u.scheme == WEIR__HTTP_S3 || u.scheme == WEIR__HTTP_GS) {
		err = weir__http_s3_list(r, &u, found, arg, why);
	} else if (u.scheme == WEIR__HTTP_AZ) {
		err = weir__http_azure_list(r, &u, found, arg, why);
	} else {
		char shown[WEIR__HTTP_SHOWN];

		weir__http_url_show(&u, shown);
		snprintf(why, WEIR_SOURCE_WHY,
			 "%s: servers of http do not list their folders",
			 shown);
		err = -EOPNOTSUPP;
	}
	weir__http_url_clear(&u);
	return err;
}

static int http_configure(void *self, const char *params,
			  char why[WEIR_SOURCE_WHY])
{
	struct weir__http_remote *r = self;
	struct weir__http_client *c = r->client;
	int err;

	pthread_mutex_lock(&c->lock);
	err = weir__http_opts_parse(&c->opts, params, why);
	for (struct weir__http_host *h = c->hosts; h && !err; h = h->next)
		weir__http_limit_max(&h->limit, c->opts.connections);
	pthread_mutex_unlock(&c->lock);
	return err;
}

static void http_stop(void *self)
{
	struct weir__http_remote *r = self;

	weir__http_renew_stop(r);
	weir__http_client_free(r->client);
	weir__http_cloud_free(r->cloud);
	weir__http_hub_free(r->hub);
	pthread_cond_destroy(&r->renew);
	free(r);
}

static const char *const http_schemes[] = { "http", "https", "s3", "gs",
					    "az",   "hf",    NULL };

static const struct weir_source http_source = {
	.size = sizeof(http_source),
	.abi = WEIR_SOURCE_ABI,
	.name = "http",
	.schemes = http_schemes,
	.open = weir__http_open,
	.close = weir__http_close,
	.read = weir__http_read,
	.cancel = weir__http_cancel,
	.check = weir__http_check,
	.list = http_list,
	.configure = http_configure,
	.stop = http_stop,
};

static unsigned count_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 2 : CPU_COUNT(&set);
}

/* What this libcurl must be able to do. */
static int check_curl(char *why)
{
	const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);

	pthread_once(&once, start_curl);
	if (curl_started) {
		snprintf(why, WEIR_SOURCE_WHY, "libcurl does not start: %s",
			 curl_easy_strerror(curl_started));
		return -ENOSYS;
	}
	if (info->version_num >= 0x074b00)
		return 0;
	snprintf(why, WEIR_SOURCE_WHY, "libcurl is %s, 7.75.0 is needed",
		 info->version);
	return -ENOSYS;
}

int weir_source_entry(struct weir *weir, const struct weir_source_host *host,
		      const struct weir_source **ret_source, void **ret_self,
		      char why[WEIR_SOURCE_WHY])
{
	struct weir__http_remote *r;
	struct weir__http_opts opts;
	int err = check_curl(why);

	if (err < 0)
		return err;
	snprintf(why, WEIR_SOURCE_WHY, "no memory");
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->weir = weir;
	r->host = host;
	pthread_cond_init(&r->renew, NULL);
	weir__http_opts_init(&opts, count_cpus());
	r->client = weir__http_client_new(&opts, host->thread);
	r->cloud = weir__http_cloud_new();
	r->hub = weir__http_hub_new();
	if (!r->client || !r->cloud || !r->hub) {
		weir__http_client_free(r->client);
		weir__http_cloud_free(r->cloud);
		weir__http_hub_free(r->hub);
		pthread_cond_destroy(&r->renew);
		free(r);
		return -ENOMEM;
	}
	r->client->more = weir__http_more;
	*ret_source = &http_source;
	*ret_self = r;
	return 0;
}
