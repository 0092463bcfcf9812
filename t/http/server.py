# SPDX-License-Identifier: MIT
"""A server of HTTP for tests, which does what the path says.

It prints its ports, "PORT PORT-OF-TLS", and ends when its input ends. An object
of N bytes has the number of each 8-byte word in it, little-endian. The first
part of the path is one of the functions of `Paths`; its other parts are theirs.
GET /log has a line for each request, and for each handshake of TLS, since the
last one; GET /base does nothing.
"""
import array
import base64
import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse
import zlib

USER_PASSWORD = "Basic " + base64.b64encode(b"user:pa55").decode()

lock = threading.Lock()
log = []
counts = {}
state = {"busy": 0.0}


def count(key):
    """How often this was asked before."""
    with lock:
        n = counts.get(key, 0)
        counts[key] = n + 1
    return n


def content(start, end):
    """The bytes [start, end) of an object."""
    first = start // 8
    words = array.array("Q", range(first, end // 8 + 1))
    if sys.byteorder != "little":
        words.byteswap()
    return words.tobytes()[start - 8 * first : end - 8 * first]


class Answer:
    def __init__(self, status, headers, body=b""):
        self.status, self.headers, self.body = status, headers, body
        self.cut = None  # bytes of the whole answer after which to close
        self.hold = None  # bytes after which nothing comes for a while
        self.rate = None  # bytes per second
        self.raw = None

    def text(self):
        if self.raw is not None:
            return self.raw
        headers = dict(self.headers)
        if "Transfer-Encoding" not in headers:
            headers.setdefault("Content-Length", str(len(self.body)))
        lines = [f"HTTP/1.1 {self.status} Reason"]
        lines += [f"{name}: {value}" for name, value in headers.items()
                  if value is not None]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body


class Request:
    def __init__(self, line, headers, body, tls):
        self.method, self.target, _ = line.split(" ", 2)
        if self.target.startswith("http://"):  # to a proxy
            self.target = "/proxied/" + self.target[7:]
        self.path, _, self.query = self.target.partition("?")
        self.headers, self.body, self.tls = headers, body, tls

    def range(self, size):
        """The bytes that are asked for, or None."""
        text = self.headers.get("range", "")
        if not text.startswith("bytes="):
            return None
        start, _, end = text[6:].partition("-")
        return int(start), min(int(end), size - 1) + 1


def ranged(request, size, etag='"one"', headers=None, data=content):
    match = request.headers.get("if-match")
    if match and match != etag:
        return Answer(412, {"ETag": etag})
    wanted = request.range(size)
    if wanted and wanted[0] >= size:
        return Answer(416, {"Content-Range": f"bytes */{size}"},
                      b"<html>416</html>")
    start, end = wanted or (0, size)
    answer = Answer(206 if wanted else 200, {"ETag": etag}, data(start, end))
    if wanted:
        answer.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    answer.headers.update(headers or {})
    return answer


def shared_key(request):
    """What Azure takes as Authorization, as its reference says."""
    key = base64.b64decode("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsu"
                           "Fq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
    names = ("content-encoding content-language content-length content-md5 "
             "content-type date if-modified-since if-match if-none-match "
             "if-unmodified-since range").split()
    text = request.method + "\n"
    text += "".join(request.headers.get(name, "") + "\n" for name in names)
    text += "".join(f"{name}:{request.headers[name]}\n"
                    for name in sorted(request.headers)
                    if name.startswith("x-ms-"))
    text += "/devstoreaccount1" + request.path
    for name, values in sorted(urllib.parse.parse_qs(
            request.query, keep_blank_values=True).items()):
        text += f"\n{name}:{','.join(sorted(values))}"
    mac = hmac.new(key, text.encode(), hashlib.sha256).digest()
    return "SharedKey devstoreaccount1:" + base64.b64encode(mac).decode()


class Paths:
    """Each takes the request and the further parts of its path."""

    def base(self, request):
        return Answer(200, {})

    def log(self, request):
        with lock:
            text = "\n".join(log) + "\n"
            log.clear()
        return Answer(200, {}, text.encode())

    def plain(self, request, size, *rest):
        return ranged(request, int(size))

    def matrix(self, request, rows, *rest):
        """The same, of F32 with 1024 columns."""
        return self.model(request, 4096 * int(rows), "F32", int(rows), 1024)

    def model(self, request, size, dtype="U8", *shape):
        """A safetensors file with one tensor of so many bytes."""
        if dtype != "F32":  # the name of the file
            dtype, shape = "U8", [int(size)]
        header = json.dumps({"w": {"dtype": dtype, "shape": shape,
                                   "data_offsets": [0, int(size)]}})
        header = header.ljust(128).encode()
        head = struct.pack("<Q", len(header)) + header

        def data(start, end):
            at = len(head)
            return head[start:end] + (
                content(max(start, at) - at, end - at) if end > at else b"")

        return ranged(request, len(head) + int(size), data=data)

    def file(self, request, *rest):
        """A file of the folder in which the server was started."""
        name = urllib.parse.unquote("/".join(rest))
        if ".." in name or not os.path.isfile(name):
            return Answer(404, {})
        with open(name, "rb") as opened:
            whole = opened.read()
        return ranged(request, len(whole), etag=f'"{zlib.crc32(whole)}"',
                      data=lambda start, end: whole[start:end])

    def account(self, request, *rest):
        """Blobs of Azure, by a token."""
        if "sig=hidden4" not in request.query:
            return Answer(403, {})
        return self.store(request, *rest[1:])

    def store(self, request, *rest):
        """The files of the folder as objects of a bucket."""
        query = urllib.parse.parse_qs(request.query)
        if "list-type" not in query and query.get("comp") != ["list"]:
            return self.file(request, *rest)
        prefix = query.get("prefix", [""])[0]
        folder = prefix.rstrip("/") or "."
        names = os.listdir(folder) if os.path.isdir(folder) else []
        if "comp" in query:
            rows = "".join(f"<Blob><Name>{prefix}{name}</Name><Properties>"
                           "<Content-Length>"
                           f"{os.path.getsize(prefix + name)}"
                           "</Content-Length></Properties></Blob>"
                           for name in names)
            return Answer(200, {}, "<EnumerationResults><Blobs>"
                          f"{rows}</Blobs><NextMarker /></EnumerationResults>"
                          .encode())
        rows = "".join(f"<Contents><Key>{prefix}{name}</Key><Size>"
                       f"{os.path.getsize(prefix + name)}</Size></Contents>"
                       for name in names)
        return Answer(200, {}, f"<ListBucketResult>{rows}</ListBucketResult>"
                      .encode())

    def stops(self, request, at, *rest):
        """The same, but ranges from so many MiB on have no body until /go."""
        answer = self.file(request, *rest)
        wanted = request.range(1 << 62)
        if "go" not in state and wanted and wanted[0] >= int(at) << 20:
            answer.hold = len(answer.text()) - len(answer.body)
        return answer

    def go(self, request):
        state["go"] = True
        return Answer(200, {})

    def keyed(self, request, *rest):
        """The same by a URL with a signature."""
        if request.query != "sig=secret/key":
            return Answer(403, {})
        return self.file(request, *rest)

    def silent(self, request, when, *rest):
        """The same without an answer: to all ranges, or all but the first."""
        answer = self.file(request, *rest)
        asked = request.headers["range"]
        if when == "open" or not asked.startswith("bytes=0-"):
            answer.hold = 0
            with lock:
                log.append(f"silent-{when}")
        return answer

    def weak(self, request, size):
        return ranged(request, int(size), etag='W/"weak"')

    def bare(self, request, size, *rest):
        """Neither ETag nor time."""
        return ranged(request, int(size), etag=None)

    def dated(self, request, size, *rest):
        """A time, no ETag, no conditions; it changes at the third request."""
        day = 1 if count(request.path) < 2 else 2
        return ranged(request, int(size), etag=None, headers={
            "Last-Modified": f"Mon, 0{day} Jan 2024 00:00:00 GMT"})

    def bare_whole(self, request, size):
        """Neither ETag nor time nor ranges."""
        request.headers.pop("range", None)
        return ranged(request, int(size), etag=None)

    def drip(self, request, size):
        answer = ranged(request, int(size))
        answer.rate = 200
        return answer

    def trailer(self, request, size):
        """In chunks, with headers after them."""
        answer = ranged(request, int(size))
        answer.headers["Transfer-Encoding"] = "chunked"
        answer.body = (b"%x\r\n" % len(answer.body) + answer.body +
                       b"\r\n0\r\nETag: \"two\"\r\n"
                       b"Content-Range: bytes 0-1/2\r\n\r\n")
        return answer

    def shrinks(self, request, size, *rest):
        size = int(size)
        if count(request.path):
            size -= 1
        return ranged(request, size, etag=None)

    def cut(self, request, at, size, *rest):
        """The answer to the first request for each range is cut."""
        answer = ranged(request, int(size))
        if not count((request.path, request.headers.get("range"))):
            answer.cut = int(at)
        return answer

    def cuts(self, request, at, size, *rest):
        """Each answer is cut."""
        answer = ranged(request, int(size))
        if request.headers.get("if-match"):
            answer.cut = int(at)
        return answer

    def busy(self, request, per_second, size, *rest):
        """No more than so many requests in a second: nginx's limit_req."""
        with lock:
            now = time.monotonic()
            if now < state["busy"]:
                return Answer(503, {"Content-Type": "text/html"}, b"<html>")
            state["busy"] = now + 1 / float(per_second)
        return ranged(request, int(size))

    def later(self, request, form, size, *rest):
        """503 with Retry-After once for each path."""
        if not count(request.path):
            after = "1"
            if form == "date":
                after = time.strftime("%a, %d %b %Y %H:%M:%S GMT",
                                      time.gmtime(time.time() + 1))
            return Answer(503, {"Retry-After": after})
        return ranged(request, int(size))

    def status(self, request, code, *rest):
        return Answer(int(code), {}, b"")

    def error(self, request, status, code, *rest):
        """An error of S3."""
        return Answer(int(status), {"Content-Type": "application/xml"},
                      f"<?xml version='1.0'?><Error><Code>{code}</Code>"
                      "<Message>m</Message></Error>".encode())

    def later_error(self, request, status, code, size, *rest):
        """The same, from the second request on."""
        if count(request.path):
            return self.error(request, status, code)
        return ranged(request, int(size))

    def stall(self, request, size, *rest):
        """The first answer after the opening stops in the middle."""
        answer = ranged(request, int(size))
        if count(request.path) == 1:
            answer.hold = 100000
        return answer

    def dead(self, request, size, *rest):
        """All answers after the opening stop before their body."""
        answer = ranged(request, int(size))
        if count(request.path):
            answer.hold = len(answer.text()) - len(answer.body)
        return answer

    def slow(self, request, size, *rest):
        """Of the answers after the opening one is slow, three are steady."""
        answer = ranged(request, int(size))
        n = count(request.path)
        if 1 <= n <= 4:
            answer.rate = 10000 if n == 2 else 1400000
        return answer

    def changes(self, request, size, *rest):
        """Another ETag from the third request on."""
        return ranged(request, int(size),
                      '"one"' if count(request.path) < 2 else '"two"')

    def changes_silently(self, request, size, *rest):
        """The same, but If-Match is ignored."""
        request.headers.pop("if-match", None)
        return self.changes(request, size)

    def whole(self, request, size, *rest):
        """No ranges."""
        request.headers.pop("range", None)
        return ranged(request, int(size))

    def whole_later(self, request, size, *rest):
        """No ranges from the second request on."""
        if count(request.path):
            request.headers.pop("range", None)
        return ranged(request, int(size))

    def html(self, request, *rest):
        return Answer(200, {"Content-Type": "text/html; charset=utf-8"},
                      b"<html>Please log in</html>")

    def gzip(self, request, size, *rest):
        return ranged(request, int(size), headers={"Content-Encoding": "gzip"})

    def wrong(self, request, what, size, *rest):
        """Headers that do not match what was asked for."""
        size = int(size)
        answer = ranged(request, size)
        start, end = request.range(size) or (0, size)
        length = end - start
        if not request.headers.get("if-match"):
            if what not in ("open", "nototal"):
                return answer
        if what == "shift":
            answer.headers["Content-Range"] = f"bytes {start + 1}-{end}/{size}"
        elif what == "total":
            answer.headers["Content-Range"] = (
                f"bytes {start}-{end - 1}/{size + 1}")
        elif what in ("none", "open"):
            answer.headers["Content-Range"] = None
        elif what == "nototal":
            answer.headers["Content-Range"] = f"bytes {start}-{end - 1}/*"
        elif what == "less":
            answer.headers["Content-Length"] = str(length - 1)
        elif what == "long":
            answer.headers["Transfer-Encoding"] = "chunked"
            answer.body = (b"%x\r\n" % (length + 8) + answer.body +
                           b"x" * 8 + b"\r\n0\r\n\r\n")
        elif what == "short":
            answer.headers["Transfer-Encoding"] = "chunked"
            answer.body = (b"%x\r\n" % (length - 3) + answer.body[:-3] +
                           b"\r\n0\r\n\r\n")
        elif what == "garbage":
            answer.raw = b"SSH-2.0-OpenSSH_9.2\r\n"
        elif what == "huge":
            answer.headers["Content-Range"] = (
                "bytes 99999999999999999999-99999999999999999999/1")
        return answer

    def loop(self, request, *rest):
        return Answer(302, {"Location": request.target})

    def hops(self, request, n, size, *rest):
        n = int(n)
        to = f"/hops/{n - 1}/{size}" if n else f"/plain/{size}"
        return Answer(302, {"Location": to})

    def to(self, request, *rest):
        """Redirect to the query."""
        return Answer(302, {"Location": urllib.parse.unquote(request.query)})

    def signed(self, request, size, *rest):
        """A redirect to a URL that ends after four uses."""
        n = count(request.path)
        return Answer(302, {"Location": f"/ending/{n}/{size}?signature=x"})

    def ending(self, request, n, size, *rest):
        if count(request.path) >= 4:
            return self.error(request, 403, "AccessDenied")
        return ranged(request, int(size))

    def proxied(self, request, host, *rest):
        """What a proxy is asked for."""
        if host == "metadata.example":
            return Answer(302, {"Location": "http://127.0.0.1:9/x"})
        if host == "inward.example":
            return Answer(302, {"Location":
                                f"http://{socket.gethostname()}/plain/1"})
        if host == "secret.example" and \
                request.headers.get("proxy-authorization") != USER_PASSWORD:
            return Answer(407, {"Proxy-Authenticate": "Basic"})
        return getattr(self, rest[0])(request, *rest[1:])

    # Keys of S3: a bucket whose requests must be signed.
    def bucket(self, request, *key):
        auth = request.headers.get("authorization", "")
        if "AWS4-HMAC-SHA256" not in auth:
            return self.error(request, 403, "AccessDenied")
        if "Credential=old" in auth:
            return self.error(request, 403, "ExpiredToken")
        if "list-type" in request.query:
            return self.listing(request)
        return ranged(request, 300000)

    def rotating(self, request, *key):
        """A bucket that takes the first key for opening only."""
        first = "Credential=first" in request.headers.get("authorization", "")
        answer = ranged(request, 300000)
        if first and request.headers.get("if-match"):
            return self.error(request, 403, "ExpiredToken")
        if not first and key[0] == "hangs":
            answer.hold = 0
        return answer

    def leads(self, request, *key):
        """A bucket whose requests are led to another host."""
        if "AWS4-HMAC-SHA256" not in request.headers.get("authorization", ""):
            return self.error(request, 403, "AccessDenied")
        return Answer(307, {"Location":
                            f"http://localhost:{state['port']}/plain/300000"})

    def away(self, request, *key):
        """A bucket that claims to be in a region that is none."""
        answer = self.error(request, 400, "AuthorizationHeaderMalformed")
        answer.headers["x-amz-bucket-region"] = "x.evil.example/"
        return answer

    def many(self, request, *key):
        """A bucket of 100,000 keys, 1000 on each page."""
        query = urllib.parse.parse_qs(request.query)
        page = int(query.get("continuation-token", ["0"])[0])
        rows = "".join(f"<Contents><Key>{page * 1000 + i:06}</Key>"
                       "<Size>7</Size></Contents>" for i in range(1000))
        more = ("<IsTruncated>true</IsTruncated><NextContinuationToken>"
                f"{page + 1}</NextContinuationToken>") if page < 99 else ""
        return Answer(200, {}, f"<ListBucketResult>{rows}{more}"
                      "</ListBucketResult>".encode())

    def endless(self, request, *key):
        return Answer(200, {}, b"<ListBucketResult><IsTruncated>true"
                      b"</IsTruncated></ListBucketResult>")

    def listing(self, request):
        query = urllib.parse.parse_qs(request.query)
        prefix = query.get("prefix", [""])[0]
        names = ["a.json", "b&amp;c.safetensors", "sub/deep"]
        after = query.get("continuation-token", [""])[0]
        page = names[2:] if after else names[:2]
        rows = "".join(f"<Contents><Key>{prefix}{name}</Key>"
                       f"<Size>{10 + len(name)}</Size></Contents>"
                       for name in page)
        more = "" if after else ("<IsTruncated>true</IsTruncated>"
                                 "<NextContinuationToken>t/1=="
                                 "</NextContinuationToken>")
        return Answer(200, {"Content-Type": "application/xml"},
                      f"<ListBucketResult>{rows}{more}</ListBucketResult>"
                      .encode())

    # An account of Azure, by the path as in its emulator.
    def devstoreaccount1(self, request, container, *name):
        query = urllib.parse.parse_qs(request.query)
        auth = request.headers.get("authorization", "")
        token = query.get("sig", [""])[0]
        if request.headers.get("x-ms-version") != "2021-12-02":
            return self.error(request, 400, "InvalidHeaderValue")
        if container == "missing":
            return self.error(request, 404, "ContainerNotFound")
        if container != "public":
            if not auth and not token:
                return self.error(request, 409, "PublicAccessNotPermitted")
            if token == "old" or (token == "ends" and
                                  request.headers.get("if-match")):
                return self.error(
                    request, 403, "AuthenticationFailed</Code><Message/>"
                    "<AuthenticationErrorDetail>Signature not valid in the "
                    "specified time frame: Start [x] - Expiry [y]"
                    "</AuthenticationErrorDetail><Code>x")
            if token == "write" or (token == "blobs" and "comp" in query):
                return self.error(request, 403,
                                  "AuthorizationPermissionMismatch")
            if token not in ("", "good/=", "ends", "blobs") or (
                    not token and auth != shared_key(request)):
                return self.error(request, 403, "AuthenticationFailed")
        if query.get("comp") == ["list"]:
            return self.blobs(query)
        if name[-1] == "none":
            return self.error(request, 404, "BlobNotFound")
        if name[-1] == "leads":
            return Answer(302, {"Location": f"http://localhost:{state['port']}"
                                            "/plain/300000"})
        if name[-1].startswith("busy") and count(request.path) < 3:
            return self.error(request, 503, "ServerBusy")
        etag = '"0x8D1"'
        if name[-1] == "changes" and request.headers.get("if-match"):
            etag = '"0x8D2"'
        return ranged(request, 300000, etag)

    def blobs(self, query):
        """A list of two pages."""
        prefix = query.get("prefix", [""])[0]
        if query["restype"] != ["container"] or query["delimiter"] != ["/"]:
            return Answer(400, {})
        after = query.get("marker", [""])[0]
        names = ["a.json", "b&amp;c.safetensors"]
        if after:
            names = ["d.json"] if after == "m/1==&" else []
        rows = "".join(f"<Blob><Name>{prefix}{name}</Name><Properties>"
                       "<Etag>0x8D1</Etag><Content-Length>"
                       f"{10 + len(name)}</Content-Length></Properties></Blob>"
                       for name in names)
        rows += f"<BlobPrefix><Name>{prefix}sub/</Name></BlobPrefix>"
        more = "<NextMarker />" if after else \
            "<NextMarker>m/1==&amp;</NextMarker>"
        return Answer(200, {"Content-Type": "application/xml"},
                      "\ufeff<?xml version='1.0'?><EnumerationResults "
                      f"ContainerName='c'><Blobs>{rows}</Blobs>{more}"
                      "</EnumerationResults>".encode())

    # A hub.
    def me(self, request, model, verb, revision, *path):
        commit = ("a" if revision in ("main", "a" * 40) else "b") * 40
        if model == "gated":
            if request.headers.get("authorization") != "Bearer good":
                return Answer(401, {"X-Error-Code": "GatedRepo"})
        if model == "moving":
            commit = ("ab"[min(1, count("moving"))]) * 40
        if model == "files":
            return self.published(request, commit, "/".join(path))
        if path[-1] == "config.json":
            return Answer(200, {"X-Repo-Commit": commit, "ETag": '"git"'},
                          b'{"model_type": "llama"}')
        size = int(path[-1])
        headers = {"X-Repo-Commit": commit, "X-Linked-Size": str(size),
                   "X-Linked-Etag": '"' + "c" * 64 + '"',
                   "Location": f"/hosted/{size}?sig=secret"}
        if model == "liar":
            headers["X-Linked-Size"] = str(size + 1)
        if model == "inward":
            headers["Location"] = "http://10.0.0.1/x"
        if model == "metadata":
            headers["Location"] = "http://169.254.169.254/latest/"
        if model == "elsewhere":
            headers["Location"] = f"http://localhost:{state['port']}" + \
                headers["Location"]
        return Answer(302, headers)

    def published(self, request, commit, name):
        """A file of the folder; NAME.published has its sum, if it has one."""
        answer = self.file(request, name)
        answer.headers["X-Repo-Commit"] = commit
        if os.path.exists(name + ".published"):
            with open(name + ".published", encoding="ascii") as opened:
                answer.headers["X-Linked-Etag"] = f'"{opened.read(64)}"'
        return answer

    def hosted(self, request, size, *rest):
        answer = ranged(request, int(size))
        if request.headers["host"].startswith("localhost"):
            answer.headers["X-Repo-Commit"] = "d" * 40
            answer.headers["X-Linked-Etag"] = "d" * 64
        return answer

    def api(self, request, *rest):
        rows = [{"type": "file", "path": "config.json", "size": 23},
                {"type": "directory", "path": "sub", "size": 0},
                {"type": "file", "path": "model.safetensors", "size": 7000}]
        headers = {"X-Repo-Commit": "a" * 40}
        if "away" in rest:
            headers["Link"] = '<http://localhost:9/x>; rel="next"'
        elif not request.query:
            rows, headers["Link"] = rows[:1], \
                f'<http://127.0.0.1:{state["port"]}{request.path}?p=2>; ' \
                'rel="next"'
        else:
            rows = rows[1:]
        return Answer(200, headers, json.dumps(rows).encode())

    # Services of credentials.
    def keys(self, request, *rest):
        if request.headers.get("authorization") not in (None, "container"):
            return Answer(403, {})
        return Answer(200, {}, json.dumps({
            "AccessKeyId": "container", "SecretAccessKey": "s",
            "Token": "t", "Expiration": "2036-01-01T00:00:00Z"}).encode())

    def federation(self, request, *rest):
        """IAM Identity Center."""
        if request.headers.get("x-amz-sso_bearer_token") != "sso-token":
            return Answer(401, {}, b'{"message": "Session token not found"}')
        if request.query != "account_id=123&role_name=Read%2BList":
            return Answer(403, {}, b'{"message": "No access"}')
        return Answer(200, {}, json.dumps({"roleCredentials": {
            "accessKeyId": "center", "secretAccessKey": "s",
            "sessionToken": "t", "expiration": 2082758400000}}).encode())

    def latest(self, request, *rest):
        if rest == ("api", "token"):
            if request.method != "PUT":
                return Answer(405, {})
            return Answer(200, {}, b"imds-token")
        if request.headers.get("x-aws-ec2-metadata-token") != "imds-token":
            return Answer(401, {})
        if rest[-1] == "":
            return Answer(200, {}, b"my-role\n")
        if rest[-1] == "region":
            return Answer(200, {}, b"ap-east-1")
        return Answer(200, {}, json.dumps({
            "AccessKeyId": "instance", "SecretAccessKey": "s",
            "Token": "t", "Expiration": "2036-01-01T00:00:00Z"}).encode())

    def sts(self, request, *rest):
        form = urllib.parse.parse_qs(request.body.decode())
        action = form["Action"][0]
        name = "web"
        if action == "AssumeRole":
            if "AWS4-HMAC-SHA256" not in request.headers.get(
                    "authorization", ""):
                return self.error(request, 403, "AccessDenied")
            name = "assumed"
            if "secret" in form["RoleArn"][0] and \
                    (form.get("ExternalId"), form.get("DurationSeconds"),
                     form["RoleSessionName"]) != (["a+b/="], ["900"], ["me"]):
                return self.error(request, 403, "AccessDenied")
        elif form["WebIdentityToken"] != ["jwt+/="]:
            return self.error(request, 403, "InvalidIdentityToken")
        return Answer(200, {}, (
            "<AssumeRoleResponse><Credentials>"
            f"<AccessKeyId>{name}</AccessKeyId>"
            "<SecretAccessKey>s</SecretAccessKey>"
            "<SessionToken>t</SessionToken>"
            "<Expiration>2036-01-01T00:00:00Z</Expiration>"
            "</Credentials></AssumeRoleResponse>").encode())


paths = Paths()


def answer(request):
    parts = request.path.lstrip("/").split("/")
    call = getattr(paths, parts[0].replace("-", "_"), None)
    if not call or parts[0].startswith("_"):
        return Answer(404, {})
    return call(request, *parts[1:])


def tunnel(target, headers):
    """The status of a proxy for CONNECT; all hosts are this server."""
    host = target.partition(":")[0]
    if host == "secret.example" and \
            headers.get("proxy-authorization") != USER_PASSWORD:
        return 407
    if ".amazonaws.com" in host:
        return 403
    return {"forbidden.example": 403, "away.example": 502}.get(host, 200)


def send(connection, reply):
    """False: the connection ends."""
    text = reply.text()
    if reply.cut is not None and reply.cut < len(text):
        connection.sendall(text[:reply.cut])
        return False
    if reply.hold is not None and reply.hold < len(text):
        connection.sendall(text[:reply.hold])
        connection.settimeout(120)
        try:
            connection.recv(1)  # until the client gives up
        except OSError:
            pass
        return False
    if reply.rate:
        step = max(1, reply.rate // 20)
        for at in range(0, len(text), step):
            connection.sendall(text[at : at + step])
            time.sleep(0.05)
        return True
    connection.sendall(text)
    return reply.raw is None


def serve(connection, tls):
    if tls:
        with lock:
            log.append("handshake")
        connection = context.wrap_socket(connection, server_side=True)
    file = connection.makefile("rb")
    while True:
        line = file.readline().decode("latin-1").strip()
        if not line:
            return
        headers = {}
        while True:
            header = file.readline().decode("latin-1").strip()
            if not header:
                break
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        if line.startswith("CONNECT "):
            target = line.split(" ")[1]
            with lock:
                log.append(f"CONNECT {target} "
                           f"auth={headers.get('authorization', '')} "
                           f"proxy={headers.get('proxy-authorization', '')}")
            status = tunnel(target, headers)
            connection.sendall(Answer(status, {"Content-Length": None}).text()
                               if status == 200 else
                               Answer(status, {"Connection": "close"}).text())
            if status == 200:
                serve(connection, True)
            return
        body = file.read(int(headers.get("content-length", 0)))
        request = Request(line, headers, body, tls)
        if not request.path.startswith("/log"):
            with lock:
                log.append(f"{request.method} {request.target} "
                           f"range={headers.get('range', '')} "
                           f"host={headers.get('host', '')} "
                           f"auth={headers.get('authorization', '')} "
                           f"match={headers.get('if-match', '')} "
                           f"token={headers.get('x-amz-security-token', '')} "
                           f"ms={headers.get('x-ms-date', '')} "
                           f"coding={headers.get('accept-encoding', '')} "
                           f"proxy={headers.get('proxy-authorization', '')}")
        if not send(connection, answer(request)):
            connection.shutdown(socket.SHUT_RDWR)
            return


def guarded(connection, tls):
    try:
        serve(connection, tls)
    except (OSError, ValueError):
        pass
    finally:
        connection.close()


def listen(tls):
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def accept():
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=guarded, args=(connection, tls),
                             daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


threading.stack_size(256 * 1024)
state["port"] = listen(False)
secure = 0
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    secure = listen(True)
print(f"{state['port']} {secure}", flush=True)
sys.stdin.read()
