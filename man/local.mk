# SPDX-License-Identifier: MIT
# The pages, and a link for each name that has no page of its own.
dist_man_MANS = \
	%D%/weir.1 %D%/weir-graph.1 %D%/weir-load.1 \
	%D%/weir-convert.1 %D%/weir-plan.1 %D%/weir-run.1 \
	%D%/weir_buf.3 %D%/weir_buf_share.3 %D%/weir_buft.3 \
	%D%/weir_convert.3 %D%/weir_cuda.3 %D%/weir_dev.3 %D%/weir_dtype_info.3 \
	%D%/weir_error.3 %D%/weir_event.3 %D%/weir_exec.3 %D%/weir_fetch.3 %D%/weir_file_open.3 \
	%D%/weir_graph.3 %D%/weir_graph_compute.3 %D%/weir_graph_copy.3 \
	%D%/weir_heap.3 %D%/weir_load.3 %D%/weir_model.3 %D%/weir_module_load.3 \
	%D%/weir_mul_mat_precision.3 %D%/weir_op_info.3 \
	%D%/weir_open.3 %D%/weir_ops.3 %D%/weir_placement.3 %D%/weir_plan.3 \
	%D%/weir_plan_add_tensors.3 %D%/weir_plan_sink.3 %D%/weir_plan_verify.3 %D%/weir_run.3 \
	%D%/weir_save.3 \
	%D%/weir_sched.3 %D%/weir_sched_pin.3 %D%/weir_source_add.3 %D%/weir_stream.3 \
	%D%/weir_tensor.3 %D%/weir_trace.3 %D%/weir_weights.3 %D%/weir_weights_park.3 %D%/weir_weights_share.3 \
	%D%/weir-manifest.5 \
	%D%/weir.7 %D%/weir-backend.7 %D%/weir-hooks.7 %D%/weir-http.7 %D%/weir-io.7 %D%/weir-source.7
EXTRA_DIST += %D%/links %D%/README.md

install-data-hook:
	@$(SHELL) $(srcdir)/man/links | while read -r page name; do \
		rm -f "$(DESTDIR)$(man3dir)/$$name.3"; \
		$(LN_S) "$$page" "$(DESTDIR)$(man3dir)/$$name.3" || exit 1; \
	done

uninstall-hook:
	@$(SHELL) $(srcdir)/man/links | while read -r page name; do \
		rm -f "$(DESTDIR)$(man3dir)/$$name.3"; \
	done
