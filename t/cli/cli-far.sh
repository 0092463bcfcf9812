#!/bin/sh
# SPDX-License-Identifier: MIT
# weir devices and weir load where NUMA nodes only have memory: a /sys of our own
# says that node 0, the machine's only node, has no CPUs, and a node 1 has some.
. "${0%/*}/../env.inc"

# bandwidth NODE RATE
bandwidth()
{
	mkdir -p "nodes/node$1/access1/initiators"
	echo "$2" >"nodes/node$1/access1/initiators/read_bandwidth"
}

on_nodes()
{
	alone sh -c 'mount --bind nodes /sys/devices/system/node && exec "$@"' \
		sh "$@"
}

plan 12
refused 1 'CPU has no memory of kind HBM: no NUMA node without CPUs' \
	'memory of nodes that the machine lacks is refused by its name' \
	weir load "$tmp" --place '*=CPU_HBM'
refused 1 'CPU has no memory of kind FAR: every NUMA node has CPUs' \
	'memory of nodes that the machine lacks is refused by its kind' \
	weir load "$tmp" --memory far
refused 1 "'CPU_Fast'" 'memory of a name that no device has is refused' \
	weir load "$tmp" --place '*=CPU_Fast'
weir synth tiny m.safetensors 2>/dev/null || exit 1
works 'a place may be a kind of memory of the CPU' \
	weir load m.safetensors --place '*=CPU_Locked' --json
check 'tensors are loaded into the kind of memory that their place names' \
	says 'all(t["memory"] == "locked" for t in j["tensors"])'
can_mount || {
	skip 7 "$why_not"
	finish
	exit
}
mkdir -p nodes/node0
echo 0-1 >nodes/online
echo 1 >nodes/has_cpu
echo 0-1 >nodes/has_memory
bandwidth 0 900000
bandwidth 1 200000
printf 'Node 0 MemTotal: 2000000 kB\nNode 0 MemFree: 1000000 kB\n' \
	>nodes/node0/meminfo
works 'weir devices lists high-bandwidth memory' on_nodes weir devices
has "$(cat out)" 'hbm     CPU_HBM, 1.02 GB free of 2.05 GB' \
	'weir devices says how much high-bandwidth memory there is'
on_nodes weir devices --json >out
check 'weir devices --json has the memory of each kind' says \
	'kind["hbm"]["memory"] == {"free": 1024000000, "total": 2048000000}
	and kind["plain"]["memory"] != kind["hbm"]["memory"]'
works 'a load places tensors into high-bandwidth memory up to a size' \
	on_nodes weir load m.safetensors --place '*=CPU_HBM@1G' --json
check 'the report of a load names high-bandwidth memory' says \
	'all(t["memory"] == "hbm" for t in j["tensors"])'
bandwidth 0 100000
works 'a load to far memory works' \
	on_nodes weir load m.safetensors --memory far --json
check 'memory of a lower bandwidth is far' says \
	'j["memory"]["kind"] == "far" and not j["memory"]["why"]'
finish
