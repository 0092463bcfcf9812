/* SPDX-License-Identifier: MIT */
#include "http/address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static enum weir__http_rank rank_v4(uint32_t a)
{
	static const struct {
		uint32_t net, bits;
		enum weir__http_rank rank;
	} nets[] = {
		{ 0x7f000000, 8, WEIR__HTTP_LOOPBACK },
		{ 0x00000000, 8, WEIR__HTTP_LOOPBACK },
		{ 0xa9fe0000, 16, WEIR__HTTP_LINK },
		{ 0x0a000000, 8, WEIR__HTTP_PRIVATE },
		{ 0xac100000, 12, WEIR__HTTP_PRIVATE },
		{ 0xc0a80000, 16, WEIR__HTTP_PRIVATE },
		{ 0x64400000, 10, WEIR__HTTP_PRIVATE }, /* carriers' NAT */
		{ 0xc6120000, 15, WEIR__HTTP_PRIVATE }, /* benchmarks */
		{ 0xe0000000, 3, WEIR__HTTP_LINK },  /* multicast, reserved */
		{ 0xc0000000, 24, WEIR__HTTP_LINK }, /* Oracle's metadata */
		{ 0xa83f8110, 32, WEIR__HTTP_LINK }, /* Azure's services */
		{ 0x646464c8, 32, WEIR__HTTP_LINK }, /* Alibaba's metadata */
	};

	enum weir__http_rank rank = WEIR__HTTP_PUBLIC;

	for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++)
		if ((a ^ nets[i].net) >> (32 - nets[i].bits) == 0 &&
		    nets[i].rank > rank)
			rank = nets[i].rank;
	return rank;
}

static enum weir__http_rank rank_v6(const unsigned char a[16])
{
	static const unsigned char zero[16],
		mapped[12] = { [10] = 0xff, 0xff },
		translated[12] = { [8] = 0xff, 0xff },
		nat64[12] = { 0, 0x64, 0xff, 0x9b };
	uint32_t v4;

	memcpy(&v4, a + 12, 4);
	if (!memcmp(a, mapped, 12) || !memcmp(a, nat64, 12) ||
	    !memcmp(a, translated, 12))
		return rank_v4(ntohl(v4));
	/* NAT64 of a network's own. */
	if (!memcmp(a, "\x00\x64\xff\x9b\x00\x01", 6))
		return WEIR__HTTP_PRIVATE;
	/* Teredo: the other end's address, inverted. */
	if (!memcmp(a, "\x20\x01\x00\x00", 4))
		return rank_v4(~ntohl(v4));
	if (!memcmp(a, zero, 15) && a[15] <= 1)
		return WEIR__HTTP_LOOPBACK;
	if (!memcmp(a, zero, 12))
		return rank_v4(ntohl(v4));
	if (a[0] == 0x20 && a[1] == 0x02) { /* 6to4 */
		memcpy(&v4, a + 2, 4);
		return rank_v4(ntohl(v4));
	}
	if (a[0] == 0xff || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80))
		return WEIR__HTTP_LINK;
	/* The metadata service of AWS; it is in a private network. */
	if (!memcmp(a, "\xfd\x00\x0e\xc2", 4))
		return WEIR__HTTP_LINK;
	if ((a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && (a[1] & 0xc0) == 0xc0))
		return WEIR__HTTP_PRIVATE;
	return WEIR__HTTP_PUBLIC;
}

enum weir__http_rank weir__http_address_rank(const char *text)
{
	char buf[64];
	unsigned char a[16];
	struct in_addr v4;
	size_t len = strlen(text);

	/* Also the forms 127.1 and 0x7f000001, which resolvers accept. */
	if (inet_aton(text, &v4))
		return rank_v4(ntohl(v4.s_addr));
	if (!strcmp(text, "localhost") ||
	    (len > 10 && !strcmp(text + len - 10, ".localhost")))
		return WEIR__HTTP_LOOPBACK;
	if (len >= sizeof(buf))
		return WEIR__HTTP_NAME;
	if (*text == '[' && text[len - 1] == ']') {
		memcpy(buf, text + 1, len - 2);
		buf[len - 2] = '\0';
	} else {
		memcpy(buf, text, len + 1);
	}
	buf[strcspn(buf, "%")] = '\0';
	return inet_pton(AF_INET6, buf, a) == 1 ? rank_v6(a) : WEIR__HTTP_NAME;
}
