# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/server.py %D%/s3_store.py
dist_check_SCRIPTS += %D%/http-moto.sh
TESTS += %D%/http-moto.sh
if HAVE_CURL
T_HTTP_C = %D%/http-answer.t %D%/http-azure.t %D%/http-budget.t \
	%D%/http-cloud.t \
	%D%/http-limit.t %D%/http-load.t \
	%D%/http-nginx.t %D%/http-older.t %D%/http-profile.t %D%/http-proxy.t \
	%D%/http-redirect.t %D%/http-refused.t %D%/http-resolver.t \
	%D%/http-tls.t \
	%D%/http-snapshot.t %D%/http-transfer.t %D%/http-url.t
check_PROGRAMS += $(T_HTTP_C)
TESTS += $(T_HTTP_C)
T_SERVING = t/http/serving.c t/http/serving.h
T_HTTP_LIBS = lib/http/libhttp.la t/libtap.la lib/libweir.la $(CURL_LIBS) $(JANSSON_LIBS)
%C%_http_answer_t_SOURCES = %D%/http-answer.c
%C%_http_answer_t_LDADD = $(T_HTTP_LIBS)
%C%_http_azure_t_SOURCES = %D%/http-azure.c $(T_SERVING)
%C%_http_azure_t_LDADD = $(T_HTTP_LIBS)
%C%_http_budget_t_SOURCES = %D%/http-budget.c $(T_SERVING)
%C%_http_budget_t_LDADD = $(T_HTTP_LIBS)
%C%_http_cloud_t_SOURCES = %D%/http-cloud.c $(T_SERVING)
%C%_http_cloud_t_LDADD = $(T_HTTP_LIBS)
%C%_http_limit_t_SOURCES = %D%/http-limit.c
%C%_http_limit_t_LDADD = $(T_HTTP_LIBS)
%C%_http_load_t_SOURCES = %D%/http-load.c $(T_SERVING)
%C%_http_load_t_LDADD = $(T_HTTP_LIBS)
%C%_http_nginx_t_SOURCES = %D%/http-nginx.c
%C%_http_nginx_t_LDADD = $(T_HTTP_LIBS)
%C%_http_older_t_SOURCES = %D%/http-older.c $(T_SERVING)
%C%_http_older_t_LDADD = $(T_HTTP_LIBS)
%C%_http_profile_t_SOURCES = %D%/http-profile.c $(T_SERVING)
%C%_http_profile_t_LDADD = $(T_HTTP_LIBS)
%C%_http_proxy_t_SOURCES = %D%/http-proxy.c $(T_SERVING)
%C%_http_proxy_t_LDADD = $(T_HTTP_LIBS)
%C%_http_redirect_t_SOURCES = %D%/http-redirect.c $(T_SERVING)
%C%_http_redirect_t_LDADD = $(T_HTTP_LIBS)
%C%_http_refused_t_SOURCES = %D%/http-refused.c $(T_SERVING)
%C%_http_refused_t_LDADD = $(T_HTTP_LIBS)
%C%_http_resolver_t_SOURCES = %D%/http-resolver.c $(T_SERVING)
%C%_http_resolver_t_LDADD = $(T_HTTP_LIBS)
%C%_http_snapshot_t_SOURCES = %D%/http-snapshot.c $(T_SERVING)
%C%_http_snapshot_t_LDADD = $(T_HTTP_LIBS)
%C%_http_tls_t_SOURCES = %D%/http-tls.c $(T_SERVING)
%C%_http_tls_t_LDADD = $(T_HTTP_LIBS)
%C%_http_transfer_t_SOURCES = %D%/http-transfer.c $(T_SERVING)
%C%_http_transfer_t_LDADD = $(T_HTTP_LIBS)
%C%_http_url_t_SOURCES = %D%/http-url.c
%C%_http_url_t_LDADD = $(T_HTTP_LIBS)
endif
