"""Small models of the architectures in the transformers library: the suite ``transformers``.

The settings must never change, because a workload's name identifies its series. Each model runs in less than a second
on one CPU thread. The library is imported only when a model is built, and nothing is downloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_ci.suite.hugging_face import huggingface
from torchperf_ci.suite.workload import Workload, per_device

if TYPE_CHECKING:
    from collections.abc import Mapping

    Settings = Mapping[str, Any]
    """What the library's configs take."""

_TOKENS = 64
_WIDE = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT = {**_WIDE, "intermediate_size": 1024}
_DECODER = {**_TEXT, "vocab_size": 32000}
_GROUPED = {**_DECODER, "num_key_value_heads": 2}
_SEQUENCES = {
    "d_model": 256,
    "encoder_layers": 2,
    "encoder_ffn_dim": 1024,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_ffn_dim": 1024,
    "decoder_attention_heads": 4,
}
_IMAGE = {"image_size": 128}
_SOUND = {**_TEXT, "num_conv_pos_embeddings": 32}

_LANGUAGE: dict[str, Settings] = {
    "albert": {**_TEXT, "embedding_size": 128},
    "bert": _TEXT,
    "deberta-v2": _TEXT,
    "distilbert": {"dim": 256, "n_layers": 2, "n_heads": 4, "hidden_dim": 1024},
    "electra": _TEXT,
    "roberta": _TEXT,
    "modernbert": _TEXT,
    "fnet": {"hidden_size": 256, "num_hidden_layers": 2, "intermediate_size": 1024},
    "longformer": {**_TEXT, "attention_window": 64},
    "bloom": {"hidden_size": 256, "n_layer": 2, "n_head": 4, "vocab_size": 32000},
    "falcon": {**_WIDE, "vocab_size": 32000},
    "gemma": {**_GROUPED, "head_dim": 64},
    "gpt2": {"n_embd": 256, "n_layer": 2, "n_head": 4},
    "gpt_neox": _DECODER,
    "llama": _GROUPED,
    "mamba": {"hidden_size": 256, "num_hidden_layers": 2, "vocab_size": 32000},
    "mistral": {**_GROUPED, "sliding_window": 64},
    "mixtral": {**_GROUPED, "num_local_experts": 4},
    "opt": {**_WIDE, "ffn_dim": 1024, "word_embed_proj_dim": 256, "vocab_size": 32000},
    "phi": _DECODER,
    "qwen3": {**_GROUPED, "head_dim": 64},
    "bart": {**_SEQUENCES, "vocab_size": 32000},
    "t5": {"d_model": 256, "d_ff": 1024, "num_layers": 2, "num_heads": 4, "d_kv": 64},
}
_SPEECH: dict[str, Settings] = {
    "whisper": {**_SEQUENCES, "max_source_positions": 300},
    "wav2vec2": _SOUND,
    "hubert": _SOUND,
}
_VISION: dict[str, Settings] = {
    "beit": {**_TEXT, **_IMAGE},
    "convnext": {"depths": [2, 2, 2, 2], "hidden_sizes": [32, 64, 128, 256], **_IMAGE},
    "dinov2": {**_TEXT, "image_size": 126},
    "mobilenet_v2": _IMAGE,
    "mobilevit": _IMAGE,
    "resnet": {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic", **_IMAGE},
    "segformer": _IMAGE,
    "swin": {"embed_dim": 48, "depths": [2, 2, 2, 2], "window_size": 4, **_IMAGE},
    "vit": {**_TEXT, **_IMAGE},
}


def _workloads(domain: str, task: str, architectures: Mapping[str, Settings]) -> tuple[Workload, ...]:
    return tuple(
        huggingface(
            f"{domain}/hf_{architecture}",
            architecture,
            task=task,
            batch=per_device(cpu=1, accelerator=32),
            tokens=_TOKENS,
            **settings,
        )
        for architecture, settings in architectures.items()
    )


LANGUAGE = _workloads("language", "language modelling", _LANGUAGE)
SPEECH = _workloads("speech", "speech recognition", _SPEECH)
VISION = _workloads("vision", "image classification", _VISION)
