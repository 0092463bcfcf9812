# SPDX-License-Identifier: MIT
"""vLLM: ``--load-format weir``.

The model's own load_weights() gets recording tensors. It narrows and copies
them as always; then one load reads what was copied, straight into the
parameters. ``--model-loader-extra-config '{"record": false}'`` or WEIR_RECORD=0
give it ordinary tensors. ``{"url": "s3://..."}`` says where the weights of the
model are.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Iterator, Optional, Set, Tuple

import torch
from vllm.distributed import get_tp_group
from vllm.logger import init_logger
from vllm.model_executor.model_loader import default_loader
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight

from .._ranks import Ranks
from .._recording import Report
from . import _loader

logger = init_logger("vllm.weir")

# These choose between iterators of vLLM that weir takes the place of.
_ITERATORS = ("enable_multithread_load", "num_threads")


class WeirModelLoader(default_loader.DefaultModelLoader):  # type: ignore[misc]
    """Loads safetensors through weir, other files as vLLM does.

    `report` says what the last load has read, and what was not noted.
    """

    counter_before_loading_weights: float  # of vLLM, for its log

    def __init__(self, load_config: Any) -> None:
        self.options, rest = _loader.take_options(
            load_config.model_loader_extra_config
        )
        rest = {k: v for k, v in rest.items() if k not in _ITERATORS}
        # vLLM's own code decides by these which files there are.
        super().__init__(
            dataclasses.replace(
                load_config,
                load_format="safetensors",
                model_loader_extra_config=rest,
            )
        )
        self.report: Optional[Report] = None
        self._model: Optional[str] = None

    def download_model(self, model_config: Any) -> None:
        """Download the weights, unless they are at a URL."""
        if not self.options.url:
            super().download_model(model_config)

    def _from_url(self, prefix: str) -> Iterator[Tuple[str, torch.Tensor]]:
        if self.counter_before_loading_weights == 0.0:
            self.counter_before_loading_weights = time.perf_counter()
        experts = getattr(self, "local_expert_ids", None)
        for name, tensor in self._tensors(
            [self.options.url], local_expert_ids=experts
        ):
            yield prefix + name, tensor

    def _get_weights_iterator(self, source: Any) -> Any:
        # Weights of other models, such as an adapter's, stay where they are.
        if self.options.url and source.model_or_path == self._model:
            return self._from_url(source.prefix)
        original = default_loader.safetensors_weights_iterator
        default_loader.safetensors_weights_iterator = self._tensors
        try:
            return super()._get_weights_iterator(source)
        finally:
            default_loader.safetensors_weights_iterator = original

    def _tensors(
        self,
        files: Any,
        *unused: Any,
        local_expert_ids: Optional[Set[int]] = None,
        **more: Any,
    ) -> Iterator[Tuple[str, torch.Tensor]]:
        shared = get_tp_group().world_size > 1
        for name, tensor in _loader.weights(
            sorted(files), self.options, shared
        ):
            if not should_skip_weight(name, local_expert_ids):
                yield name, tensor

    def load_weights(self, model: Any, model_config: Any) -> None:
        """Load the weights of a model on all ranks of its group."""
        self._model = model_config.model
        ranks = Ranks.of_torch(get_tp_group().cpu_group)
        with _loader.recorder(model, ranks) as recorder:
            super().load_weights(model, model_config)
        self.report = recorder.report
        logger.info("weir: %s", self.report)


def register() -> None:
    """The entry point of vllm.general_plugins."""
    register_model_loader("weir")(WeirModelLoader)
