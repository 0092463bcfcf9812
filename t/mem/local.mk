# SPDX-License-Identifier: MIT
T_MEM_C = %D%/dtype.t %D%/convert.t %D%/quants.t %D%/quantise.t \
	%D%/tensor.t %D%/buf.t %D%/data.t
check_PROGRAMS += $(T_MEM_C)
TESTS += $(T_MEM_C)
%C%_dtype_t_SOURCES = %D%/dtype.c
%C%_tensor_t_SOURCES = %D%/tensor.c $(T_TESTMOD) $(T_KIND)
%C%_buf_t_SOURCES = %D%/buf.c $(T_TESTMOD) $(T_KIND)
%C%_data_t_SOURCES = %D%/data.c $(T_TESTMOD) $(T_KIND)
%C%_convert_t_SOURCES = %D%/convert.c $(T_CONVERSIONS)
%C%_quants_t_SOURCES = %D%/quants.c $(T_CONVERSIONS)
%C%_quantise_t_SOURCES = %D%/quantise.c $(T_CONVERSIONS)
dist_check_SCRIPTS += %D%/dtype-page.sh
TESTS += %D%/dtype-page.sh
