# SPDX-License-Identifier: MIT
# The module for URLs: needs libcurl, and does not link libweir. Not unloaded:
# libcurl's libraries may have handlers for the end of the process. Tests link its
# objects.
if HAVE_CURL
noinst_LTLIBRARIES += %D%/libhttp.la
%C%_libhttp_la_SOURCES = \
	%D%/address.c %D%/address.h %D%/answer.c %D%/answer.h \
	%D%/azure.c %D%/azure.h \
	%D%/azure_sign.c %D%/azure_sign.h %D%/client.c %D%/client.h \
	%D%/credentials.c %D%/credentials.h %D%/find.c %D%/hmac.c %D%/hmac.h \
	%D%/http.c %D%/http.h \
	%D%/hub.c %D%/hub.h %D%/limit.c %D%/limit.h \
	%D%/listing.c %D%/listing.h %D%/object.c %D%/object.h \
	%D%/part.c %D%/perform.c %D%/perform.h %D%/profile.c %D%/profile.h \
	%D%/providers.c %D%/proxy.c %D%/proxy.h %D%/remote.h %D%/renew.c \
	%D%/roles.c %D%/roles.h %D%/s3.c %D%/s3.h \
	%D%/snapshot.c %D%/snapshot.h %D%/sso.c \
	%D%/thread.c %D%/thread.h %D%/trust.c %D%/trust.h %D%/uri.c %D%/uri.h \
	%D%/wire.c %D%/wire.h
%C%_libhttp_la_CFLAGS = $(AM_CFLAGS) $(CURL_CFLAGS) $(JANSSON_CFLAGS)
pkglib_LTLIBRARIES += %D%/weir-http.la
%C%_weir_http_la_SOURCES =
%C%_weir_http_la_LIBADD = %D%/libhttp.la $(CURL_LIBS) $(JANSSON_LIBS)
%C%_weir_http_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,-z,defs -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/%D%/http.map
EXTRA_%C%_weir_http_la_DEPENDENCIES = %D%/http.map libdirs.stamp
endif
EXTRA_DIST += %D%/http.map %D%/README.md
