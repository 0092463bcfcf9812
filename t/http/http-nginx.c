/* SPDX-License-Identifier: MIT */
/*
 * The module with a server that others wrote: nginx, on a port of loopback that
 * is free, in a folder of the test. It ends with the test, however that ends.
 */
#include <weir.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

#define SIZE 40000000

static char dir[256];
static unsigned port, tls_port;
static bool has_tls;
static pid_t server;

static const char config[] =
	"daemon off; master_process off; pid pid; error_log error.log;\n"
	"events { worker_connections 256; }\n"
	"http {\n"
	"	log_format status '$status';\n"
	"	access_log access.log status;\n"
	"	client_body_temp_path body; proxy_temp_path proxy;\n"
	"	fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;\n"
	"	scgi_temp_path scgi;\n"
	"	limit_req_zone $server_port zone=few:64k rate=20r/s;\n"
	"	limit_req_status 503;\n"
	"	server {\n"
	"		listen 127.0.0.1:%u;\n"
	"		location / { root objects; }\n"
	"		location /few/ { alias objects/; limit_req zone=few; }\n"
	"	}\n"
	"	%s\n"
	"}\n";
static const char tls_config[] = "	server {\n"
				 "		listen 127.0.0.1:%u ssl;\n"
				 "		ssl_certificate cert.pem;\n"
				 "		ssl_certificate_key key.pem;\n"
				 "		location / { root objects; }\n"
				 "	}\n";

static const char *in_dir(const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static const char *url(const char *path)
{
	static char text[300];

	snprintf(text, sizeof(text), "http://127.0.0.1:%u%s", port, path);
	return text;
}

static struct sockaddr_in address(unsigned of)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_port = htons((uint16_t)of);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static unsigned free_port(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = address(0);
	socklen_t len = sizeof(a);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		bail("no port of loopback");
	close(fd);
	return ntohs(a.sin_port);
}

static void write_files(void)
{
	FILE *f = fopen(in_dir("nginx.conf"), "w");
	char tls[300] = "";

	if (has_tls)
		snprintf(tls, sizeof(tls), tls_config, tls_port);
	if (!f || fprintf(f, config, port, tls) < 0 || fclose(f))
		bail("%s cannot be written", in_dir("nginx.conf"));
	mkdir(in_dir("objects"), 0755);
	f = fopen(in_dir("objects/object"), "w");
	for (unsigned i = 0; f && i < SIZE / 4; i++)
		fwrite(&i, 4, 1, f);
	if (!f || fclose(f))
		bail("%s cannot be written", in_dir("objects/object"));
}

static bool answers(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = address(port);
	bool done = !connect(fd, (struct sockaddr *)&a, sizeof(a));

	close(fd);
	return done;
}

static void run_server(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!freopen("/dev/null", "w", stdout) ||
	    !freopen(in_dir("stderr"), "w", stderr))
		_exit(127);
	execlp("nginx", "nginx", "-p", dir, "-e", "stderr", "-c", "nginx.conf",
	       NULL);
	_exit(127);
}

/* False: nginx ended. It does if another program took the port meanwhile. */
static bool start_server(void)
{
	port = free_port();
	tls_port = free_port();
	write_files();
	server = fork();
	if (!server)
		run_server();
	while (!answers()) {
		if (waitpid(server, NULL, WNOHANG) == server) {
			server = 0;
			return false;
		}
		usleep(10000);
	}
	return true;
}

/* What it printed. */
static const char *complaint(void)
{
	static char text[1000];
	FILE *f = fopen(in_dir("stderr"), "r");

	if (f) {
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		fclose(f);
	}
	return text;
}

static void stop_server(void)
{
	char command[300];

	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command))
		diag("%s cannot be removed", dir);
}

static bool have_nginx(void)
{
	char path[4096];
	const char *old = getenv("PATH");

	/* Debian's is where the PATH of users does not lead. */
	snprintf(path, sizeof(path), "%s:/usr/sbin", old ? old : "/usr/bin");
	setenv("PATH", path, 1);
	return !system("nginx -v >/dev/null 2>&1");
}

/* False: nginx has no TLS, or openssl is missing. */
static bool make_certificate(void)
{
	char command[1000];

	snprintf(command, sizeof(command),
		 "nginx -V 2>&1 | grep -q http_ssl_module && "
		 "openssl req -x509 -newkey rsa:2048 -nodes -days 2 "
		 "-subj /CN=localhost -addext subjectAltName=DNS:localhost "
		 "-keyout %s/key.pem -out %s/cert.pem >/dev/null 2>&1",
		 dir, dir);
	return system(command) == 0;
}

/* How many answers had @status. */
static unsigned answered(int status)
{
	FILE *f = fopen(in_dir("access.log"), "r");
	unsigned n = 0;
	int got;

	if (!f)
		bail("%s cannot be read", in_dir("access.log"));
	while (fscanf(f, "%d", &got) == 1)
		n += got == status;
	fclose(f);
	return n;
}

static int digest(struct weir *weir, const char *path, uint8_t ret[32])
{
	struct weir_file *file;
	int r = weir_file_open(weir, path, NULL, &file);

	if (r < 0)
		return r;
	r = weir_file_digest(file, WEIR_DIGEST_XXH3, ret);
	weir_file_close(file);
	return r;
}

static void test_few(struct weir *weir)
{
	uint8_t far[32] = { 1 }, near[32] = { 2 };

	is_int(digest(weir, url("/few/object"), far), 16,
	       "an object is read from a server that takes 20 requests a "
	       "second and refuses the others");
	diag("answers with 206: %u, with 503: %u", answered(206),
	     answered(503));
	ok(answered(503) > 0, "it did refuse some");
	digest(weir, in_dir("objects/object"), near);
	is_mem(far, near, 16, "the bytes of that object are right");
}

static void test_tls(struct weir *weir)
{
	uint8_t far[32] = { 1 }, near[32] = { 2 };
	char text[300];

	if (!has_tls) {
		skip(3, "nginx has no TLS, or openssl is missing");
		return;
	}
	snprintf(text, sizeof(text), "https://localhost:%u/object", tls_port);
	is_err(digest(weir, text, far), -EPROTO, "certificate",
	       "a certificate that no authority has signed is refused");
	setenv("CURL_CA_BUNDLE", in_dir("cert.pem"), 1);
	is_int(digest(weir, text, far), 16, "an object is read by TLS");
	digest(weir, in_dir("objects/object"), near);
	is_mem(far, near, 16, "its bytes are right");
}

static void test_changed(struct weir *weir)
{
	const struct timespec times[2] = { { .tv_sec = 1000000000 },
					   { .tv_sec = 1000000000 } };
	struct weir_file *file;
	uint8_t got[32];

	if (weir_file_open(weir, url("/object"), NULL, &file))
		bail("%s", weir_error());
	if (utimensat(-1, in_dir("objects/object"), times, 0))
		bail("the object's time cannot be set");
	is_err(weir_file_digest(file, WEIR_DIGEST_XXH3, got), -ESTALE,
	       "changed", "an object whose time changes after it was opened");
	ok(answered(412) > 0, "the server compared its ETag with If-Match");
	weir_file_close(file);
}

int main(void)
{
	static const char *const unset[] = {
		"http_proxy",    "https_proxy",   "HTTPS_PROXY",
		"all_proxy",     "ALL_PROXY",     "REQUESTS_CA_BUNDLE",
		"SSL_CERT_FILE", "CURL_CA_BUNDLE"
	};
	const char *tmp = getenv("TMPDIR"), *build = getenv("builddir");
	struct weir_opts opts = WEIR_OPTS_INIT;
	char path[1024];
	struct weir *weir;

	plan(0);
	if (!have_nginx())
		skip_all("nginx is not installed");
	snprintf(dir, sizeof(dir), "%s/weir-t.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		bail("%s cannot be made", dir);
	atexit(stop_server);
	has_tls = make_certificate();
	for (int i = 0; !start_server(); i++)
		if (i == 5)
			bail("nginx ends at once: %s", complaint());
	for (size_t i = 0; i < sizeof(unset) / sizeof(*unset); i++)
		unsetenv(unset[i]);
	snprintf(path, sizeof(path), "%s/lib/http/.libs", build ? build : ".");
	opts.module_path = path;
	/* Many requests at a time. */
	opts.chunk = 1 << 20;
	if (weir_open(&opts, &weir) < 0)
		bail("%s", weir_error());
	test_few(weir);
	test_tls(weir);
	test_changed(weir);
	weir_close(weir);
	return done_testing();
}
