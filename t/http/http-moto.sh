#!/bin/sh
# SPDX-License-Identifier: MIT
# Models from a store of S3 that checks signatures and rights: moto, which
# ./bootstrap check-long installs. $WEIR_T_MOTO_PYTHON is a Python that has it.
. "${0%/*}/../cli.inc"

test "$WEIR_T_MOTO_PYTHON" ||
	skip_all 'WEIR_T_MOTO_PYTHON names no Python; ./bootstrap check-long does'
test -e "$builddir/lib/http/.libs/weir-http.so" ||
	skip_all 'built without libcurl'
for name in $(env | sed -n 's/^\(AWS_[A-Z0-9_]*\|[a-zA-Z]*_proxy\)=.*/\1/p'); do
	unset "$name"
done
"$WEIR_T_MOTO_PYTHON" -c 'import boto3, moto.server' 2>"$tmp/why" ||
	skip_all "$WEIR_T_MOTO_PYTHON lacks a package: $(tail -n 1 "$tmp/why")"
WEIR_MODULE_PATH=$builddir/lib/http/.libs
AWS_EC2_METADATA_DISABLED=true
HOME=$tmp
export WEIR_MODULE_PATH AWS_EC2_METADATA_DISABLED HOME

objects=$tmp/objects
odd='a b+c=d~(1)!&é%2F'
mkdir -p "$objects/$odd"
weir synth tiny "$objects/$odd/m.safetensors" >/dev/null 2>&1
weir synth tinyllama-1.1b "$objects/shards" --scale 0.002 --shards 3 \
	>/dev/null 2>&1

# The store ends when this shell does: its input is a pipe of the shell's.
mkfifo "$tmp/input"
"$WEIR_T_MOTO_PYTHON" -B "$srcdir/t/http/s3_store.py" "$objects" <"$tmp/input" \
	>"$tmp/vars" 2>"$tmp/said" &
store=$!
exec 9>"$tmp/input"
until test -s "$tmp/vars"; do
	kill -0 $store 2>/dev/null || {
		plan 1
		check 'the store starts' sh -c 'cat "$1"; false' - "$tmp/said"
		finish
	}
	sleep 0.1
done
. "$tmp/vars"
AWS_ENDPOINT_URL=$url
export AWS_ENDPOINT_URL

# as KEY SECRET [TOKEN]: requests are signed with these.
as()
{
	AWS_ACCESS_KEY_ID=$1 AWS_SECRET_ACCESS_KEY=$2 AWS_SESSION_TOKEN=$3
	export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
	test "$3" || unset AWS_SESSION_TOKEN
}

# same PATH: the object or prefix has the bytes of the files of that name.
same()
{
	weir load --quiet --digest "$objects/$1" >"$tmp/near" &&
		weir load --quiet --digest "s3://models/$1" >"$tmp/far" &&
		test -s "$tmp/near" && cmp "$tmp/near" "$tmp/far"
}

denied()
{
	refused 1 "$@" weir load --quiet "s3://models/$odd/m.safetensors"
}

# same_there PATH: the object or prefix loads into a CUDA device with these bytes.
same_there()
{
	weir load --quiet --digest "$objects/$1" >"$tmp/near" &&
		with_gpu weir load --quiet --digest --device CUDA0 \
			"s3://models/$1" >"$tmp/far" &&
		test -s "$tmp/near" && cmp "$tmp/near" "$tmp/far"
}

plan 11
as "$key" "$secret"
check 'a key with blanks, +, =, ~, (, !, &, % and letters of UTF-8 loads' \
	same "$odd/m.safetensors"
check 'a prefix with an index and shards loads as a model' same shards
if test -e "$builddir/lib/cuda/.libs/weir-cuda.so"; then
	. "$srcdir/t/gpu.inc"
	mkdir "$tmp/modules"
	cp "$module/weir-cuda.so" "$builddir/lib/http/.libs/weir-http.so" \
		"$tmp/modules"
	WEIR_MODULE_PATH=$tmp/modules
	check 'an object loads into a CUDA device with the same digests' \
		same_there "$odd/m.safetensors"
	check 'and so does a prefix' same_there shards
else
	skip 2 'built without CUDA'
fi
refused 1 'no such' 'a key that is not there is reported' \
	weir load --quiet s3://models/none.safetensors
as "$key" "x$secret"
denied 'secret' 'a wrong secret is named as the reason'
as NOSUCHKEY "$secret"
denied 'no such access key' 'a key that the store does not know is named as the reason'
as "$other_key" "$other_secret"
denied '403' 'a user without rights is refused'
as "$lent_key" "$lent_secret" "$lent_token"
check 'temporary credentials load a model' same "$odd/m.safetensors"
as "$lent_key" "$lent_secret"
denied '403' 'temporary credentials without their token are refused'
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
denied '403' 'a request without a signature is refused'
exec 9>&-
wait $store
finish
