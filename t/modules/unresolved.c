/* SPDX-License-Identifier: MIT */
/* A shared object that needs what nobody has. */
extern int weir_test_nowhere(void);
extern int weir_test_unresolved(void);

__attribute__((visibility("default"))) int weir_test_unresolved(void)
{
	return weir_test_nowhere();
}
