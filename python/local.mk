# SPDX-License-Identifier: MIT
# weir for Python: built by its own setup.py.
EXTRA_DIST += %D%/README.md %D%/HACKING.md %D%/pyproject.toml %D%/setup.py \
	%D%/glue/dlpack.c %D%/glue/dlpack.h %D%/glue/error.c %D%/glue/glue.h \
	%D%/glue/load.c %D%/glue/maker.c %D%/glue/memory.c %D%/glue/model.c \
	%D%/glue/module.c %D%/glue/read.c %D%/glue/request.c \
	%D%/glue/request.h %D%/glue/root.c %D%/glue/save.c %D%/glue/tensor.c \
	%D%/weir/__init__.py %D%/weir/_dtypes.py %D%/weir/_errors.py \
	%D%/weir/_frameworks.py %D%/weir/_geometry.py %D%/weir/_load.py \
	%D%/weir/_model.py %D%/weir/_open.py %D%/weir/_pending.py \
	%D%/weir/_recording.py %D%/weir/_root.py %D%/weir/_serialize.py \
	%D%/weir/_source.py %D%/weir/_weir.pyi %D%/weir/numpy.py %D%/weir/py.typed \
	%D%/weir/torch.py \
	%D%/tests/conftest.py %D%/tests/test_native.py %D%/tests/test_numpy.py \
	%D%/tests/test_recording.py
