"""Find architectures in the installed libraries that the suite lacks, and the call that makes a workload of each."""

from __future__ import annotations

import importlib.util
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from torchperf_ci.suite.library_model import import_library

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    Wanted = Callable[[str], bool]

_SMALL: Mapping[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim"), 256),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff"), 512),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(
        ("encoder_attention_heads", "decoder_attention_heads", "num_local_experts", "num_experts"), 4
    ),
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 8000,
    "image_size": 128,
}
"""Small values for the size settings of transformers configs, by all the names that the configs use for them."""
_DOMAINS = {
    "language": ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM"),
    "speech": ("AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ"),
    "vision": ("IMAGE_CLASSIFICATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "VIDEO_CLASSIFICATION"),
}
_SIZES = (
    *("atto", "femto", "pico", "nano", "xxtiny", "xxs", "xtiny", "tiny", "mini", "small"),
    *("_s", "_t", "_b0"),
)
_TOKENS = 64
_IMAGE_SIZE = 128


def find_architectures(known: Collection[str], filters: Sequence[str]) -> dict[str, str]:
    """Return the architectures of installed libraries that no workload named in ``known`` uses.

    They are named as their workloads would be, each with the Python expression that creates the workload. If there are
    ``filters`` (globs), one of them must match the name. The result is untested: a small config does not fit every
    architecture.
    """

    def wanted(name: str) -> bool:
        return name not in known and (not filters or any(fnmatchcase(name, glob) for glob in filters))

    finders = {"transformers": _transformers, "timm": _timm, "torchvision": _torchvision}
    return {
        name: call
        for library, finder in finders.items()
        if importlib.util.find_spec(library)
        for name, call in finder(known, wanted)
    }


def _transformers(_known: Collection[str], wanted: Wanted) -> Iterator[tuple[str, str]]:
    transformers = import_library("transformers")
    auto = import_library("transformers.models.auto.modeling_auto")
    for domain, heads in _DOMAINS.items():
        architectures = {
            name for head in heads for name in getattr(auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {})
        }
        for architecture in sorted(architectures):
            if wanted(name := f"{domain}/hf_{architecture}"):
                settings = {"tokens": _TOKENS, **_small_settings(transformers, architecture)}
                arguments = "".join(f", {key}={value}" for key, value in settings.items())
                yield name, f'huggingface("{name}", "{architecture}"{arguments})'


def _small_settings(transformers: Any, architecture: str) -> dict[str, int]:
    """Return the small values for those integer settings whose default in the architecture's config is larger."""
    try:
        config = transformers.AutoConfig.for_model(architecture).to_dict()
    except Exception:  # noqa: BLE001  # a library's config may raise anything, such as for a missing package
        return {}
    return {
        key: value for key, value in _SMALL.items() if type(config.get(key)) is int and config[key] > value
    }


def _timm(known: Collection[str], wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield the smallest network, judging by its name, of each module from which the suite has no network."""
    timm = import_library("timm")
    for module in timm.list_modules():
        networks = timm.list_models(module=module, exclude_filters="test_*")
        names = [f"vision/timm_{network}" for network in networks]
        if networks and not {*names} & {*known}:
            network = min(networks, key=_size)
            if wanted(name := f"vision/timm_{network}"):
                size = timm.get_pretrained_cfg(network).input_size[-1]
                yield name, f'timm_classifier("{network}", {size})'


def _torchvision(known: Collection[str], wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield the smallest network, judging by its name, of each module from which the suite has no network."""
    models = import_library("torchvision.models")
    modules: dict[str, list[str]] = {}
    for network in models.list_models(module=models):
        modules.setdefault(models.get_model_builder(network).__module__, []).append(network)
    for networks in modules.values():
        if not {f"vision/torchvision_{network}" for network in networks} & {*known}:
            network = min(networks, key=_size)
            if wanted(name := f"vision/torchvision_{network}"):
                yield name, f'torchvision_classifier("{network}", {_IMAGE_SIZE})'


def _size(network: str) -> tuple[int, int, str]:
    """Sort key for the size of a network according to its name."""
    named = [number for number, size in enumerate(_SIZES) if size in network]
    return min(named, default=len(_SIZES)), len(network), network
