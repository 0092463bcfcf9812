# SPDX-License-Identifier: MIT
"""SGLang: ``--load-format private``.

SGLang knows no load format that it has no name for; ``private`` is the one for
loaders of others. With ``--model-loader-extra-config '{"loader": "weir"}'``, or
without a loader's name, weir answers for it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Optional, Tuple

import torch

from .. import _errors
from .._ranks import Ranks
from .._recording import Report
from . import _loader

_GET = "sglang.srt.model_loader.loader.get_model_loader"


def _loader_class() -> Any:
    """The class of the loader, which needs modules of SGLang."""
    import torch.distributed as dist
    from sglang.srt.configs.load_config import LoadFormat
    from sglang.srt.distributed import get_tp_group
    from sglang.srt.model_loader.loader import DefaultModelLoader, logger

    def ranks() -> Ranks:
        if not dist.is_initialized():
            return Ranks(0, 1, lambda sentence: sentence, lambda *unused: None)
        return Ranks.of_torch(get_tp_group().cpu_group)

    class WeirModelLoader(DefaultModelLoader):  # type: ignore[misc]
        """Loads safetensors through weir, other files as SGLang does."""

        def __init__(self, load_config: Any) -> None:
            self.options, rest = _loader.take_options(
                load_config.model_loader_extra_config
            )
            if self.options.url:
                raise _errors.make(22, "url is an option of vLLM's plug-in only")
            rest.pop("loader", None)
            super().__init__(
                dataclasses.replace(
                    load_config,
                    load_format=LoadFormat.SAFETENSORS,
                    model_loader_extra_config=rest,
                )
            )
            self.report: Optional[Report] = None

        def _get_weights_iterator(
            self, source: Any, *, resolved_source: Any = None, **more: Any
        ) -> Iterator[Tuple[str, torch.Tensor]]:
            if resolved_source is None:
                _, files, safe = self._prepare_weights(
                    source.model_or_path,
                    source.revision,
                    source.fall_back_to_pt,
                    source.allow_patterns_overrides,
                )
            else:
                files = list(resolved_source.weight_files)
                safe = resolved_source.use_safetensors
            if not safe:
                yield from super()._get_weights_iterator(
                    source, resolved_source=resolved_source, **more
                )
                return
            shared = ranks().size > 1
            for name, tensor in _loader.weights(
                sorted(files), self.options, shared
            ):
                yield source.prefix + name, tensor

        def load_weights_and_postprocess(
            self, model: Any, weights: Any, target_device: Any
        ) -> None:
            """Load the weights of a model on all ranks of its group."""
            with _loader.recorder(model, ranks()) as recorder:
                DefaultModelLoader.load_weights_only(
                    model, weights, target_device
                )
            self.report = recorder.report
            logger.info("weir: %s", self.report)
            DefaultModelLoader.postprocess_weights(model, target_device)

    return WeirModelLoader


def _answer(original: Any, load_config: Any, model_config: Any = None) -> Any:
    """get_model_loader(), with weir's for the format ``private``."""
    name = getattr(load_config.load_format, "value", load_config.load_format)
    extra = load_config.model_loader_extra_config
    wanted = extra.get("loader", "weir") if isinstance(extra, dict) else "weir"
    if name != "private" or wanted != "weir":
        return original(load_config, model_config)
    return _loader_class()(load_config)


def register() -> None:
    """The entry point of sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(_GET, _answer, HookType.AROUND)
