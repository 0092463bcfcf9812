# SPDX-License-Identifier: MIT
T_PY_SH = %D%/tests.sh %D%/bare.sh %D%/cuda.sh %D%/types.sh
dist_check_SCRIPTS += $(T_PY_SH)
TESTS += $(T_PY_SH)
EXTRA_DIST += %D%/python.inc
