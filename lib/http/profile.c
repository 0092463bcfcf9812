/* SPDX-License-Identifier: MIT */
#include "http/credentials.h"
#include "http/profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)
#define OUTPUT_MAX (64u << 10)
#define COMMAND_SECONDS 60
#define LOOK_MS 50 /* how often to look whether the root closes */

extern char **environ;

static char *read_home(const char *variable, const char *beside)
{
	const char *path = weir__http_env(variable);
	const char *home = weir__http_env("HOME");
	char *full, *text;

	if (path)
		return weir__http_file(path, FILE_MAX);
	if (!home)
		return NULL;
	full = weir__http_print("%s/%s", home, beside);
	text = full ? weir__http_file(full, FILE_MAX) : NULL;
	free(full);
	return text;
}

void weir__http_profiles_read(struct weir__http_profiles *p)
{
	p->credentials =
		read_home("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
	p->config = read_home("AWS_CONFIG_FILE", ".aws/config");
}

void weir__http_profiles_clear(struct weir__http_profiles *p)
{
	weir__http_wipe(p->credentials);
	free(p->config);
	p->credentials = p->config = NULL;
}

const char *weir__http_profile_name(void)
{
	const char *name = weir__http_env("AWS_PROFILE");

	if (!name)
		name = weir__http_env("AWS_DEFAULT_PROFILE");
	return name ? name : "default";
}

/* A line without white space around it. */
static size_t trim(const char **line, size_t n)
{
	while (n && isspace((unsigned char)**line)) {
		(*line)++;
		n--;
	}
	while (n && isspace((unsigned char)(*line)[n - 1]))
		n--;
	return n;
}

static bool is_section(const char *line, size_t n, const char *section)
{
	if (n < 2 || line[n - 1] != ']')
		return false;
	line++;
	n = trim(&line, n - 2);
	return n == strlen(section) && !memcmp(line, section, n);
}

/* The value in a line "key = value" of @key. */
static char *value_of(const char *line, size_t n, const char *key)
{
	const char *equals = memchr(line, '=', n), *value;
	const char *name = line;
	size_t len;

	if (!equals)
		return NULL;
	len = trim(&name, (size_t)(equals - line));
	if (len != strlen(key) || memcmp(name, key, len))
		return NULL;
	value = equals + 1;
	len = trim(&value, n - (size_t)(value - line));
	return strndup(value, len);
}

/* The next line of *@text that is neither empty nor a comment, trimmed. */
static bool next_line(const char **text, const char **line, size_t *ret_len,
		      bool *nested)
{
	while (*text && **text) {
		size_t n = strcspn(*text, "\n");

		*line = *text;
		/* Lines that begin with a space belong to the key before. */
		*nested = isspace((unsigned char)**text);
		*text += n + ((*text)[n] == '\n');
		*ret_len = trim(line, n);
		if (*ret_len && **line != '#' && **line != ';')
			return true;
	}
	return false;
}

/* The lines of @section, up to the next one; NULL: there is none. */
static const char *find_section(const char *text, const char *section)
{
	const char *line;
	bool nested;
	size_t len;

	while (next_line(&text, &line, &len, &nested))
		if (*line == '[' && is_section(line, len, section))
			return text;
	return NULL;
}

char *weir__http_ini_get(const char *text, const char *section,
			 const char *outer, const char *key)
{
	const char *at = find_section(text, section), *line;
	bool nested, inside = !outer;
	char *value;
	size_t len;

	while (next_line(&at, &line, &len, &nested) && *line != '[') {
		if (outer && !nested) {
			value = value_of(line, len, outer);
			inside = value && !*value;
			free(value);
		} else if (inside && nested == !!outer) {
			value = value_of(line, len, key);
			if (value)
				return value;
		}
	}
	return NULL;
}

/* The value of @key, or of one nested in @outer, in the profile @name. */
static char *get(const struct weir__http_profiles *p, const char *name,
		 const char *outer, const char *key)
{
	char *value = weir__http_ini_get(p->credentials, name, outer, key);
	char *section;

	if (!value && !strcmp(name, "default"))
		value = weir__http_ini_get(p->config, name, outer, key);
	if (value)
		return value;
	section = weir__http_print("profile %s", name);
	if (section)
		value = weir__http_ini_get(p->config, section, outer, key);
	free(section);
	return value;
}

char *weir__http_profile_get(const struct weir__http_profiles *p,
			     const char *name, const char *key)
{
	return get(p, name, NULL, key);
}

char *weir__http_profile_s3(const struct weir__http_profiles *p,
			    const char *key)
{
	return get(p, weir__http_profile_name(), "s3", key);
}

char *weir__http_profile_section(const struct weir__http_profiles *p,
				 const char *kind, const char *name,
				 const char *outer, const char *key)
{
	char *section = weir__http_print("%s %s", kind, name), *value = NULL;

	if (section)
		value = weir__http_ini_get(p->config, section, outer, key);
	free(section);
	return value;
}

char *weir__http_profile_service(const struct weir__http_profiles *p,
				 const char *service, const char *key)
{
	char *name = weir__http_profile_get(p, weir__http_profile_name(),
					    "services");
	char *value = NULL;

	if (name)
		value = weir__http_profile_section(p, "services", name, service,
						   key);
	free(name);
	return value;
}

bool weir__http_profile_is(const struct weir__http_profiles *p,
			   const char *name)
{
	char *section = weir__http_print("profile %s", name);
	bool r = find_section(p->credentials, name) ||
		 (section && find_section(p->config, section)) ||
		 (!strcmp(name, "default") && find_section(p->config, name));

	free(section);
	return r;
}

static int spawn(const char *command, int out, pid_t *ret_pid)
{
	char shell[] = "/bin/sh", flag[] = "-c";
	char *text = strdup(command);
	char *argv[] = { shell, flag, text, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	if (!text)
		return -ENOMEM;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawnattr_init(&attr);
	/* The threads of this module block all signals. */
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	/* A group of its own: what it starts is killed with it. */
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETPGROUP);
	r = posix_spawn(ret_pid, shell, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	free(text);
	return -r;
}

/* Read until the end. Returns the bytes, or -errno. */
static ssize_t read_output(struct weir__http_client *c, int fd, char *text)
{
	int64_t until = weir__http_now() + COMMAND_SECONDS * WEIR__HTTP_SECOND;
	size_t n = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (weir__http_leaving(c))
			return -ECANCELED;
		if (weir__http_now() >= until)
			return -ETIMEDOUT;
		if (poll(&p, 1, LOOK_MS) == 0)
			continue;
		got = read(fd, text + n, OUTPUT_MAX - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : (ssize_t)n;
		n += (size_t)got;
		if (n == OUTPUT_MAX)
			return -EMSGSIZE;
	}
}

/*
 * Wait for the end of a command, and return its status. One that goes on
 * without its output is killed: 0.
 */
static int command_end(pid_t pid, bool kill_now)
{
	const struct timespec step = { .tv_nsec = 5000000 };
	int status = 0;

	for (unsigned i = 0; !kill_now && i < 200; i++) {
		pid_t r = waitpid(pid, &status, WNOHANG);

		if (r == pid || (r < 0 && errno != EINTR))
			return r == pid ? status : 0;
		nanosleep(&step, NULL);
	}
	kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static int fail_command(char *why, const char *what)
{
	snprintf(why, WEIR__HTTP_WHY,
		 "the credential_process of profile '%.64s' %s",
		 weir__http_profile_name(), what);
	return -EACCES;
}

int weir__http_command(struct weir__http_client *c, const char *command,
		       char **ret_text, char why[static WEIR__HTTP_WHY])
{
	char *text = malloc(OUTPUT_MAX + 1);
	int pipes[2], status = 0, r;
	ssize_t n;
	pid_t pid;

	if (!text)
		return fail_command(why, "cannot be started: no memory");
	if (pipe2(pipes, O_CLOEXEC)) {
		free(text);
		return fail_command(why, "cannot be started: no pipe");
	}
	r = spawn(command, pipes[1], &pid);
	close(pipes[1]);
	n = r < 0 ? r : read_output(c, pipes[0], text);
	close(pipes[0]);
	if (!r)
		status = command_end(pid, n < 0);
	if (r < 0 || n < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
		explicit_bzero(text, OUTPUT_MAX);
		free(text);
		return fail_command(
			why, r < 0               ? "cannot be started"
			     : n == -ETIMEDOUT   ? "did not end in 60 seconds"
			     : n == -ECANCELED   ? "was killed: the root closes"
			     : n == -EMSGSIZE    ? "writes more than 64 KiB"
			     : WIFEXITED(status) ? "failed: run it by hand"
						 : "was killed");
	}
	text[n] = '\0';
	*ret_text = text;
	return 0;
}
