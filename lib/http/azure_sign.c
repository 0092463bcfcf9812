/* SPDX-License-Identifier: MIT */
#include "http/azure_sign.h"
#include "http/hmac.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void weir__http_azure_date(time_t now, char date[static 40])
{
	/* strftime(3) would use the names of the locale. */
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm = { 0 };

	gmtime_r(&now, &tm);
	snprintf(date, 40, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
		 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
		 tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* "?a=1&b=%2F" as "\na:1\nb:/", in malloc. */
static char *canonical_query(const char *query)
{
	char *text = strdup(query), *decoded;

	if (!text)
		return NULL;
	/* Decoded values may have '&' and '=' too. */
	for (char *p = text; *p; p++) {
		if (p == text || *p == '&')
			*p = '\n';
		else if (*p == '=')
			*p = ':';
	}
	decoded = weir__http_decode(text);
	free(text);
	return decoded;
}

char *weir__http_azure_text(const char *account,
			    const struct weir__http_azure_get *get)
{
	const char *host = strstr(get->url, "://");
	const char *path = host ? strchr(host + 3, '/') : NULL;
	size_t n = path ? strcspn(path, "?") : 0;
	char *query = canonical_query(path ? path + n : ""), *text = NULL;

	if (query)
		text = weir__http_print(
			"GET\n\n\n\n\n\n\n\n%s\n\n%s\n%s\nx-ms-date:%s\n"
			"x-ms-version:" WEIR__HTTP_AZURE_VERSION "\n/%s%.*s%s",
			get->match, get->unmodified, get->range, get->date,
			account, (int)n, path ? path : "", query);
	free(query);
	return text;
}

char *weir__http_azure_sign(const char *account, const char *key,
			    const struct weir__http_azure_get *get)
{
	size_t room = strlen(key) / 4 * 3 + 3;
	uint8_t mac[WEIR__HTTP_SHA256], *secret = malloc(room);
	int n = secret ? weir__http_base64_read(key, secret) : -1;
	char *text = weir__http_azure_text(account, get);
	char *sum = NULL, *value = NULL;

	if (n >= 0 && text) {
		weir__http_hmac(secret, (size_t)n, text, strlen(text), mac);
		sum = weir__http_base64(mac, sizeof(mac));
	}
	if (sum)
		value = weir__http_print("SharedKey %s:%s", account, sum);
	if (secret)
		explicit_bzero(secret, room);
	free(secret);
	free(text);
	free(sum);
	return value;
}
