#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage of the command, and its errors for wrong arguments.
. "${0%/*}/cli.inc"

mkdir "$tmp/here" && cd "$tmp/here" || exit 1
big=99999999999999999999

# One line on stderr that names the help, status 2, nothing on stdout.
wrong()
{
	part=$1
	shift
	run weir "$@"
	is_refusal 2 "$part" && grep -q -e '; see weir .*--help$' "$tmp/err"
	t_result $? "weir $* is refused: $part" && return
	show_run weir "$@"
}

has_help()
{
	run weir "$@"
	test $status = 0 && test ! -s "$tmp/err" &&
		grep -q '^usage: weir' "$tmp/out"
	t_result $? "weir $* prints its usage" || show_run weir "$@"
}

full()
(
	exec weir "$@" >/dev/full
)

closed()
(
	exec weir "$@" >&-
)

plan 69
has_help --help
has_help help
has_help -h
for command in devices inspect load synth; do
	has_help $command --help
	has_help help $command
done
works 'weir --version succeeds' weir --version
is "$(cat "$tmp/out")" 'weir 0.1.0' 'weir --version prints its name and version'

wrong 'a command is missing'
wrong "unknown command 'fly'" fly
wrong "unknown option '--fly'" --fly
wrong 'one argument too many' help load more
wrong "unknown command 'fly'" help fly
wrong "unknown option '--fly'" devices --fly
wrong "unknown option '-x'" devices -x
wrong "'--json=yes' takes no value" devices --json=yes
wrong "'more' is one argument too many" devices more
wrong 'MODEL is missing' inspect
wrong 'MODEL is missing' inspect --json
wrong "'b' is one argument too many" inspect a b
wrong "'--json' is one argument too many" inspect -- a --json
wrong 'MODEL is missing' load
wrong 'MODEL is missing' load --
wrong "'--depth' needs a value" load m --depth
wrong "--depth is '$big'" load m --depth $big
wrong "--depth is '0'" load m --depth 0
wrong "--depth is '-1'" load m --depth=-1
wrong "--depth is '4x'" load m --depth 4x
wrong "--depth is ' 4'" load m --depth ' 4'
wrong "--chunk is ''" load m --chunk ''
wrong "--chunk is '4Q'" load m --chunk 4Q
wrong "--chunk is '4MB'" load m --chunk 4MB
wrong 'chunk is ' load m --chunk 70000
wrong 'chunk is ' load m --chunk 1T
wrong 'reactors' load m --reactors 4294967295
wrong "--chunk is '16777216T'" load m --chunk 16777216T
wrong "--chunk is '${big}K'" load m --chunk ${big}K
wrong "--memory is 'vast', not one of plain, huge, locked" \
	load m --memory vast
wrong "--way is 'milky', not one of auto, map" load m --way milky
wrong "--io is '', not one of auto, uring, sync" load m --io ''
wrong "--digest is 'md5', not one of xxh3, sha256" load m --digest=md5
wrong "--repeat is '$big'" load m --repeat $big
wrong 'OUT is missing' synth tiny
wrong 'PRESET is missing' synth
wrong "unknown preset 'huge'" synth huge out
wrong 'needs --count' synth many out
wrong 'only for the preset many' synth tiny out --count 4
wrong "--shards needs a directory" synth tiny o.safetensors --shards 2
wrong '--shards is 28, but there are 27 tensors' synth tiny out --shards 28
wrong "--scale is '0'" synth tiny out --scale 0
wrong "--scale is '-1'" synth tiny out --scale -1
wrong "--scale is 'nan'" synth tiny out --scale nan
wrong "--scale is '1e999'" synth tiny out --scale 1e999
wrong 'over 2^62 bytes' synth tiny out --scale 1e18
wrong "--seed is '18446744073709551616'" \
	synth tiny out --seed 18446744073709551616
is "$(ls)" '' 'a command that is refused writes no file'

refused 2 'x1b[31m' 'control characters of an argument are escaped' \
	weir "$(printf 'a\033[31m')"
refused 2 ... 'a very long argument is cut' \
	weir load "--$(head -c 100000 /dev/zero | tr '\0' x)"
works 'after -- a name may begin with a dash' weir synth -- tiny -dash
check 'a name after -- is used as it is' test -f ./-dash/model.safetensors
refused 1 'No space left on device' \
	'a full standard output is an error' full --help
refused 1 'standard output' 'a closed standard output is an error' closed --help
check 'a closed standard output is no error if it is not needed' \
	closed synth tiny file
check 'a file that is written does not get the closed descriptor' \
	reader check file
finish
