# SPDX-License-Identifier: MIT
T_CPU_C = %D%/cpu-devices.t %D%/compute.t
check_PROGRAMS += $(T_CPU_C)
TESTS += $(T_CPU_C)
%C%_cpu_devices_t_SOURCES = %D%/cpu-devices.c $(T_STREAMS)
%C%_compute_t_SOURCES = %D%/compute.c $(T_STREAMS)
