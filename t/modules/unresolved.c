/* SPDX-License-Identifier: MIT */
/* A shared object with a symbol that no library defines. */
extern int weir_test_nowhere(void);
extern int weir_test_unresolved(void);

__attribute__((visibility("default"))) int weir_test_unresolved(void)
{
	return weir_test_nowhere();
}
