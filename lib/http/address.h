/* SPDX-License-Identifier: MIT */
/* Addresses of hosts: public, of inner networks, of this machine. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

/*
 * How far inside of a network an address is: the ranks of
 * weir__http_address_rank, which takes the text of an IPv4 or IPv6 address.
 * An answer may lead only to an address that is at most as far inside as the
 * one that it came from, and never to one of WEIR__HTTP_LINK, which are those
 * of services of the machine itself, such as metadata of an instance.
 */
enum weir__http_rank {
	WEIR__HTTP_NAME, /* no address */
	WEIR__HTTP_PUBLIC,
	WEIR__HTTP_PRIVATE,
	WEIR__HTTP_LOOPBACK,
	WEIR__HTTP_LINK,
};
enum weir__http_rank weir__http_address_rank(const char *text);

#endif
