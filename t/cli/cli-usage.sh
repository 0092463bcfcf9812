#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage of the command, and its errors for wrong arguments.
. "${0%/*}/../cli.inc"

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

# Where the descriptors 0 and 1 are closed, and only one can be opened.
no_descriptors()
{
	(exec 2>"$tmp/err" <&- >&-
	ulimit -n 1
	LD_LIBRARY_PATH=$builddir/lib/.libs exec \
		"$builddir/tools/.libs/weir" --version)
	test $? = 1 && grep -q "^weir: standard output is closed, and '/' cannot be opened in its place: " \
		"$tmp/err"
}

plan 223
has_help --help
has_help help
has_help -h
for command in convert devices digest fetch graph inspect load run plan synth verify; do
	has_help $command --help
	has_help help $command
done
for command in '' run; do
	run weir $command --help
	grep -q 'Llama, Mistral, Qwen2 or Qwen3' "$tmp/out"
	t_result $? "weir${command:+ $command} --help names the models that run"
done
works 'weir --version succeeds' weir --version
is "$(cat "$tmp/out")" 'weir 0.1.0' 'weir --version prints its name and version'

wrong "'x' is one argument too many" --version x
wrong 'a command is missing'
wrong "unknown command 'fly'" fly
wrong "unknown option '--fly'" --fly
wrong 'one argument too many' help load more
wrong "unknown command 'fly'" help fly
wrong "unknown option '--fly'" devices --fly
wrong "unknown option '-x'" devices -x
wrong "'--json=yes' takes no value" devices --json=yes
wrong "'more' is one argument too many" devices more
wrong 'URL is missing' fetch
wrong 'DIR is missing' fetch https://a/b
wrong "'c' is one argument too many" fetch https://a/b d c
wrong "'--json=1' takes no value" fetch --json=1
wrong "'--progress-fd' needs a value" fetch --progress-fd
wrong 'MODEL is missing' inspect
wrong 'MODEL is missing' inspect --json
wrong "'b' is one argument too many" inspect a b
wrong "'--json' is one argument too many" inspect -- a --json
wrong 'MODEL is missing' load
wrong 'MODEL is missing' load --
wrong "'--depth' needs a value" load m --depth
wrong "--depth is '$big'" load m --depth $big
wrong "--depth is '0', not a number of 1 to 1024" load m --depth 0
wrong "--depth is '1025', not a number of 1 to 1024" load m --depth 1025
wrong "--depth is '-1'" load m --depth=-1
wrong "--depth is '4x'" load m --depth 4x
wrong "--depth is ' 4'" load m --depth ' 4'
wrong "--chunk is ''" load m --chunk ''
wrong "--chunk is '4Q'" load m --chunk 4Q
wrong "--chunk is '4MB'" load m --chunk 4MB
wrong 'chunk is ' load m --chunk 70000
wrong "--chunk is '1T', not a number of 65536 to 268435456" load m --chunk 1T
wrong "--chunk is '4K', not a number of 65536 to" load m --chunk 4K
wrong "--reactors is '17', not a number of 1 to 16" load m --reactors 17
wrong "--chunk is '16777216T'" load m --chunk 16777216T
wrong "--chunk is '${big}K'" load m --chunk ${big}K
wrong "--memory is 'vast', not one of plain, huge, locked" \
	load m --memory vast
wrong "--hugetlb is '3G', not one of 2M, 1G" load m --hugetlb=3G
wrong '--hugetlb needs a copy' load m --hugetlb --way map
wrong '--hugetlb needs huge pages: not with --memory plain' \
	load m --hugetlb --memory plain
for size in much 1.5G -1 G '' 4GB; do
	wrong "--budget is '$size', not a whole number of at least 1, with K" \
		load m --budget=$size
done
wrong "--budget is '0', not a number of 1 to" load m --budget 0
for option in trace=t digest digest=sha256 verify=v repeat=1 memory-map=m; do
	wrong "--${option%%=*} needs a load: not with --estimate" \
		load m --estimate --$option
done
wrong '--fresh works only with --repeat' load m --fresh
wrong '--verify needs whole tensors: not with --slice or --rank' \
	load m --verify v --rank 0/2
wrong "--kind is 'md5', not one of xxh3, sha256" digest m --kind md5
wrong "--way is 'map', not one of auto, buffered, direct" digest m --way map
wrong "OUT is '-'" digest m -
wrong 'MODEL is missing' verify
wrong "'o' is one argument too many" verify m v o
wrong "--memory-map and --trace are one file: 'o'" \
	load m --trace o --memory-map o
wrong "--way is 'milky', not one of auto, map" load m --way milky
wrong "--io is '', not one of auto, uring, sync" load m --io ''
wrong "--digest is 'md5', not one of xxh3, sha256" load m --digest=md5
wrong "--repeat is '$big'" load m --repeat $big
for slice in x x: x:a x:8 x:-1 :0 x:0:+2 x:0:1+ x:0:-1+2 x:0:1+2+3 \
	x:0:1+$big; do
	wrong "--slice $slice is not GLOB:DIM or" load m --slice "$slice"
done
wrong '--slice x:1 needs --rank' load m --slice x:1
wrong '--rank is used only by --slice' load m --rank 0/2
wrong '--rank is used only by --slice' load m --rank 0/2 --slice x:0:1+2
for rank in '' 1 /2 1/ 2/2 1/0 -1/2 1/2/3 0/4294967296; do
	wrong "--rank is '$rank'" load m --slice x:0 --rank "$rank"
done
wrong "--dtype is 'F31', not one of f32, f16, bf16" load m --dtype F31
wrong "--align is '0'" load m --align 0
wrong "--align is '48', not a power of two" load m --align 48
wrong "--align is '8K'" load m --align 8K
for place in x =CPU x= x=@1; do
	wrong "--place $place is not GLOB=NAME" load m --place "$place"
done
for size in '' 0 4Q; do
	wrong "the SIZE of --place is '$size'" load m --place "x=CPU@$size"
done
for option in only slice first; do
	wrong '--place with a SIZE does not work with' \
		load m --place x=CPU@1 --$option x:0:0+1
done
wrong 'not with --way map' load m --way map --dtype f32
wrong 'not with --way map' load m --way map --align 64
for option in trace memory-map; do
	wrong "--$option is '-', which is no name of an output" load m --$option -
done
wrong "--svg is '-', which is no name of an output" plan f --svg -
wrong "OUT is '-', which is no name of an output" graph m --svg -
wrong 'FILE is missing' plan
wrong "'b' is one argument too many" plan a b
wrong "--capacity is '0'" plan f --capacity 0
wrong "--capacity is '-1'" plan f --capacity -1
wrong "--capacity is '9223372036854775808'" plan f --capacity 9223372036854775808
wrong "--time is '-1', not a number of seconds" plan f --time -1
wrong "--time is 'nan'" plan f --time nan
wrong "--time is 'inf'" plan f --time inf
wrong "--time is '1s'" plan f --time 1s
wrong "--time is ''" plan f --time ''
wrong "--threads is '0'" plan f --threads 0
wrong "--threads is '1025', not a number of 1 to 1024" plan f --threads 1025
wrong "'--svg' needs a value" plan f --svg
wrong 'MODEL is missing' run
wrong "'-n' needs a value" run m -n
wrong "-n is '0', not a number of 1 to" run m -n 0
wrong "-n is '2147483648'" run m -n 2147483648
wrong "--temp is '-1', not a number of at least 0" run m --temp -1
wrong "--temp is 'nan'" run m --temp nan
wrong 'only one of --prompt and --prompt-file is possible' run m --prompt a \
	--prompt-file b
wrong '--chat needs --prompt or --prompt-file' run m --chat
wrong '--system works only with --chat' run m --system a --prompt b
wrong '--template works only with --chat' run m --template gemma --prompt b
wrong "--template is 'phi3', not one of chatml, llama2" run m --chat \
	--template phi3 --prompt b
wrong "--temp is '1e999'" run m --temp 1e999
wrong "--top-k is '-1', not a number of 0 to" run m --top-k -1
wrong "--top-k is '2147483648'" run m --top-k 2147483648
wrong "--top-p is '1.01', not a number of 0 to 1" run m --top-p 1.01
wrong "--top-p is 'x'" run m --top-p x
wrong "--min-p is '-0.1'" run m --min-p -0.1
wrong "--repeat-penalty is '0', not a number greater than 0" run m \
	--repeat-penalty 0
wrong "--seed is '-1'" run m --seed -1
wrong "--seed is '9223372036854775808'" run m --seed 9223372036854775808
wrong "--threads is '0'" run m --threads 0
wrong "--budget is '0'" run m --budget 0
wrong "--budget is '4Q'" run m --budget 4Q
wrong "unknown option '-x'" run m -x
wrong "unknown option '--n'" run m --n 4
wrong "'b' is one argument too many" run a b
wrong 'OUT is missing' convert in.gguf
wrong "'more' is one argument too many" convert in.gguf out.gguf more
wrong "--dtype is 'q9'" convert in.gguf out.gguf --dtype q9
wrong '--shard' convert in.gguf out.gguf --shard 0
wrong "--cache is 'lose'" convert in.gguf out.gguf --cache lose
wrong "--rename 'x' is not PATTERN=REPLACEMENT" convert a b --rename x
wrong "the pattern '(': " convert a b --rename '(=x'
wrong 'before neither a backslash nor a group' convert a b --rename '(x)=\2'
wrong "--set 'x' is not KEY=TYPE:VALUE" convert a b --set x
wrong "'u7' is none of the types" convert a b --set x=u7:1
wrong "'256' is no value of type u8" convert a b --set x=u8:256
wrong "'-129' is no value of type i8" convert a b --set x=i8:-129
wrong "'maybe' is no value of type bool" convert a b --set x=bool:maybe
wrong "'u7' is none of the types" convert a b --set 'x=u7[]:1'
wrong "item 2, '256', is no value of type u8" convert a b --set 'x=u8[]:1,256'
wrong "item 1, '', is no value of type u8" convert a b --set 'x=u8[]:,1'
wrong "item 2, 'b\\c', has a backslash before neither a comma" \
	convert a b --set 'x=string[]:a,b\c'
wrong '--slice x:1 needs --rank or a range' convert a b --slice x:1
wrong '--rank is used only by --slice' convert a b --rank 0/2
wrong 'OUT is missing' synth tiny
wrong 'PRESET is missing' synth
wrong "unknown preset 'huge'" synth huge out
wrong "'o.gguf' is not a name of a safetensors file" \
	synth tiny o.gguf --format safetensors
wrong "'o.safetensors' is not a name of a GGUF file" \
	synth tiny o.safetensors --format gguf
wrong 'needs --count' synth many out
wrong 'only for the preset many' synth tiny out --count 4
wrong "--shards needs a directory" synth tiny o.safetensors --shards 2
wrong '--shards is 28, and the model has 27 tensors' synth tiny out --shards 28
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
refused 1 "weir: '': No such file" 'an empty name of a model is quoted' \
	weir load ''
refused 1 "weir: '': cannot be created" 'an empty name of an output is quoted' \
	weir synth tiny ''
works 'after -- a name may begin with a dash' weir synth -- tiny -dash
check 'a name after -- is used as it is' test -f ./-dash/model.safetensors
refused 1 'No space left on device' \
	'a full standard output is an error' full --help
refused 1 'standard output' 'a closed standard output is an error' closed --help
check 'a closed standard output is no error if it is not needed' \
	closed synth tiny file
check 'a file that is written does not get the closed descriptor' \
	reader check file
if test -x "$builddir/tools/.libs/weir"; then
	check 'a missing descriptor that cannot be replaced has its sentence' \
		no_descriptors
else
	skip 1 'weir has no shared library beside it'
fi
finish
