# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES +=
