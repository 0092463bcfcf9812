/* SPDX-License-Identifier: MIT */
#include "serving.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "tap.h"
#include "http/http.h"

unsigned serving_port, serving_tls_port;
const struct weir_source *serving_source;
void *serving_self;
_Thread_local char serving_why[WEIR_SOURCE_WHY];
char serving_dir[256], serving_cert[300];

static pid_t server;
static int server_in;

static int start_thread(pthread_t *ret, const char *name, void *(*fn)(void *),
			void *arg)
{
	(void)name;
	return -pthread_create(ret, NULL, fn, arg);
}

static const struct weir_source_host host = {
	.size = sizeof(host),
	.abi = WEIR_SOURCE_ABI,
	.thread = start_thread,
	.version = "test",
};

static void clean_environment(void)
{
	static const char *const names[] = {
		"http_proxy",
		"HTTP_PROXY",
		"https_proxy",
		"HTTPS_PROXY",
		"all_proxy",
		"ALL_PROXY",
		"no_proxy",
		"NO_PROXY",
		"AWS_CA_BUNDLE",
		"CURL_CA_BUNDLE",
		"REQUESTS_CA_BUNDLE",
		"SSL_CERT_FILE",
		"SSL_CERT_DIR",
		"AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN",
		"AWS_PROFILE",
		"AWS_DEFAULT_PROFILE",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
		"AWS_USE_FIPS_ENDPOINT",
		"AWS_REGION",
		"AWS_DEFAULT_REGION",
		"AWS_ENDPOINT_URL",
		"AWS_ENDPOINT_URL_S3",
		"AWS_ENDPOINT_URL_SSO",
		"AWS_ENDPOINT_URL_STS",
		"AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_ROLE_SESSION_NAME",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"AWS_CONFIG_FILE",
		"AWS_SHARED_CREDENTIALS_FILE",
		"HF_TOKEN",
		"HF_ENDPOINT",
		"HF_HOME",
		"HF_TOKEN_PATH",
		"HF_HUB_OFFLINE",
		"HF_HUB_CACHE",
		"HUGGINGFACE_HUB_CACHE",
		"TRANSFORMERS_OFFLINE",
		"XDG_CACHE_HOME",
		"STORAGE_EMULATOR_HOST",
		"AZURE_STORAGE_CONNECTION_STRING",
		"AZURE_STORAGE_ACCOUNT_NAME",
		"AZURE_STORAGE_ACCOUNT",
		"AZURE_STORAGE_KEY",
		"AZURE_STORAGE_ACCOUNT_KEY",
		"AZURE_STORAGE_SAS_TOKEN",
		"AZURE_STORAGE_ENDPOINT_SUFFIX",
		"AZURE_STORAGE_BLOB_ENDPOINT",
		"AZURE_STORAGE_SERVICE_ENDPOINT",
		"CLOUDSDK_AUTH_ACCESS_TOKEN",
		"GS_ACCESS_KEY_ID",
		"GS_SECRET_ACCESS_KEY",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("HOME", serving_dir, 1);
}

static bool make_certificate(void)
{
	char command[1400];

	snprintf(serving_cert, sizeof(serving_cert), "%s/cert.pem",
		 serving_dir);
	snprintf(command, sizeof(command),
		 "openssl req -x509 -newkey rsa:2048 -nodes -days 2 "
		 "-subj /CN=localhost -addext "
		 "subjectAltName=DNS:localhost,DNS:model.example,"
		 "DNS:secret.example "
		 "-keyout %s/key.pem -out %s >/dev/null 2>&1",
		 serving_dir, serving_cert);
	return system(command) == 0;
}

static void run_server(bool tls, int in, int out)
{
	char script[512], key[300];
	const char *src = getenv("srcdir");

	dup2(in, 0);
	dup2(out, 1);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	snprintf(script, sizeof(script), "%s/t/http/server.py",
		 src ? src : "..");
	snprintf(key, sizeof(key), "%s/key.pem", serving_dir);
	execlp("python3", "python3", script, tls ? serving_cert : NULL, key,
	       NULL);
	_exit(127);
}

static bool start_server(bool tls)
{
	int in[2], out[2];
	char line[64];
	size_t n = 0;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		bail("no pipe");
	server = fork();
	if (!server)
		run_server(tls, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	server_in = in[1];
	while (n < sizeof(line) - 1 && (!n || line[n - 1] != '\n')) {
		ssize_t got = read(out[0], line + n, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n++;
	}
	close(out[0]);
	line[n] = '\0';
	return sscanf(line, "%u %u", &serving_port, &serving_tls_port) == 2;
}

void serving_again(const char *params)
{
	if (serving_source)
		serving_source->stop(serving_self);
	serving_source = NULL;
	if (weir_source_entry(NULL, &host, &serving_source, &serving_self,
			      serving_why) < 0)
		bail("the module does not start: %s", serving_why);
	if (serving_source->configure(serving_self, params, serving_why) < 0)
		bail("configure: %s", serving_why);
}

bool serving_start(bool tls, const char *params)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(serving_dir, sizeof(serving_dir), "%.200s/weir-http.XXXXXX",
		 tmp ? tmp : "/tmp");
	if (!mkdtemp(serving_dir))
		bail("mkdtemp: %s", strerror(errno));
	clean_environment();
	if ((tls && !make_certificate()) || !start_server(tls)) {
		serving_stop();
		return false;
	}
	serving_again(params);
	return true;
}

void serving_stop(void)
{
	char command[300];

	if (serving_source)
		serving_source->stop(serving_self);
	serving_source = NULL;
	if (server > 0) {
		close(server_in);
		waitpid(server, NULL, 0);
	}
	snprintf(command, sizeof(command), "rm -rf '%s'", serving_dir);
	if (system(command))
		diag("%s stays", serving_dir);
}

const char *serving_url(const char *path, ...)
{
	static char url[2048];
	va_list ap;
	int n = snprintf(url, sizeof(url), "http://127.0.0.1:%u", serving_port);

	va_start(ap, path);
	vsnprintf(url + n, sizeof(url) - (size_t)n, path, ap);
	va_end(ap);
	return url;
}

const char *serving_tls(const char *path)
{
	static char url[2048];

	snprintf(url, sizeof(url), "https://localhost:%u%s", serving_tls_port,
		 path);
	return url;
}

const char *serving_log(void)
{
	static const char get[] = "GET /log HTTP/1.1\r\n\r\n";
	static char text[1 << 20];
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)serving_port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t n = 0;
	ssize_t got;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    write(fd, get, sizeof(get) - 1) < 0)
		bail("the server does not answer");
	shutdown(fd, SHUT_WR);
	while (n < sizeof(text) - 1 &&
	       (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fd);
	return text;
}

unsigned serving_count(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

int serving_open(const char *url, void **ret_object,
		 struct weir_source_info *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	*serving_why = '\0';
	return serving_source->open(serving_self, url, ret_object, info,
				    serving_why);
}

/* One read of several, and how many are left. */
struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned left;
	int err;
	char why[WEIR_SOURCE_WHY];
};

struct one {
	struct weir_source_read read;
	struct waiting *all;
	uint64_t arrived;
	unsigned done;
};

static void on_arrived(struct weir_source_read *read, uint64_t bytes)
{
	struct one *o = (struct one *)(void *)read;

	if (bytes <= o->arrived || bytes > read->len)
		abort();
	o->arrived = bytes;
}

static void on_done(struct weir_source_read *read, int err, const char *why)
{
	struct one *o = (struct one *)(void *)read;

	pthread_mutex_lock(&o->all->lock);
	if (o->done++)
		abort();
	if (err && !o->all->err) {
		o->all->err = err;
		snprintf(o->all->why, sizeof(o->all->why), "%s",
			 why ? why : "");
	}
	if (!--o->all->left)
		pthread_cond_signal(&o->all->cond);
	pthread_mutex_unlock(&o->all->lock);
}

int serving_read(void *object, uint64_t off, uint64_t len, uint64_t step,
		 unsigned char *buf)
{
	unsigned n = (unsigned)((len + step - 1) / step);
	struct one *reads = calloc(n ? n : 1, sizeof(*reads));
	struct waiting all = { PTHREAD_MUTEX_INITIALIZER,
			       PTHREAD_COND_INITIALIZER, n, 0, "" };

	for (unsigned i = 0; i < n; i++) {
		struct weir_source_read *r = &reads[i].read;

		r->size = sizeof(*r);
		r->off = off + i * step;
		r->len = len - i * step < step ? len - i * step : step;
		r->buf = buf + i * step;
		r->arrived = on_arrived;
		r->done = on_done;
		reads[i].all = &all;
		serving_source->read(object, r);
	}
	pthread_mutex_lock(&all.lock);
	while (all.left)
		pthread_cond_wait(&all.cond, &all.lock);
	pthread_mutex_unlock(&all.lock);
	free(reads);
	if (all.err)
		memcpy(serving_why, all.why, sizeof(all.why));
	return all.err;
}

/* False: it is not so in 10 s. */
static bool wait_for(bool (*has)(void *arg), void *arg)
{
	for (unsigned i = 0; i < 1000; i++) {
		if (has(arg))
			return true;
		usleep(10000);
	}
	return false;
}

static bool has_request(void *arg)
{
	return strstr(serving_log(), arg);
}

static bool has_ended(void *arg)
{
	struct waiting *all = arg;
	bool r;

	pthread_mutex_lock(&all->lock);
	r = !all->left;
	pthread_mutex_unlock(&all->lock);
	return r;
}

int serving_drop(void *object, uint64_t off, uint64_t len, const char *when,
		 unsigned char *buf)
{
	static struct waiting all;
	static struct one one;
	char part[64];

	all = (struct waiting){ PTHREAD_MUTEX_INITIALIZER,
				PTHREAD_COND_INITIALIZER, 1, 0, "" };
	one = (struct one){ .read = { .size = sizeof(one.read),
				      .off = off,
				      .len = len,
				      .buf = buf,
				      .arrived = on_arrived,
				      .done = on_done },
			    .all = &all };
	snprintf(part, sizeof(part), "%s", when);
	serving_source->read(object, &one.read);
	if (!wait_for(has_request, part))
		return -ETIMEDOUT;
	serving_source->cancel(object, &one.read);
	return wait_for(has_ended, &all) ? 0 : -ETIME;
}

bool serving_is(const unsigned char *buf, uint64_t off, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (buf[i] !=
		    (unsigned char)((off + i) / 8 >> (off + i) % 8 * 8)) {
			diag("byte %llu is %u", (unsigned long long)(off + i),
			     buf[i]);
			return false;
		}
	return true;
}

int serving_load(const char *url, uint64_t size, uint64_t step)
{
	struct weir_source_info info;
	unsigned char *buf = malloc(size + 1);
	void *object;
	int r = serving_open(url, &object, &info);

	if (r < 0) {
		free(buf);
		return r;
	}
	if (info.bytes != size) {
		diag("%llu bytes, not %llu", (unsigned long long)info.bytes,
		     (unsigned long long)size);
		r = -EPROTO;
	} else {
		r = serving_read(object, 0, size, step, buf);
		if (!r && !serving_is(buf, 0, size))
			r = -EILSEQ;
		if (!r)
			r = serving_source->check(object, serving_why);
	}
	serving_source->close(object);
	free(buf);
	return r;
}

const char *serving_file(const char *name, const char *text)
{
	static char path[400];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", serving_dir, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		bail("%s cannot be written", path);
	return path;
}

void serving_fails(const char *url, int err, const char *part,
		   const char *title)
{
	int r = serving_load(url, 300000, 300000);

	if (r == err && strstr(serving_why, part))
		ok(true, "%s", title);
	else
		ok(false, "%s: %d, '%s'", title, r, serving_why);
}

char serving_listed[4096];

int serving_found(void *arg, const char *name, uint64_t bytes)
{
	size_t n = strlen(serving_listed);

	(void)arg;
	snprintf(serving_listed + n, sizeof(serving_listed) - n, "%s:%llu ",
		 name, (unsigned long long)bytes);
	return 0;
}

int serving_list(const char *url)
{
	*serving_listed = '\0';
	return serving_source->list(serving_self, url, serving_found, NULL,
				    serving_why);
}
