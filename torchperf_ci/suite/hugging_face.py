"""Workloads from configs of the transformers library, with random weights and no downloads, and a suite of its models.

The library is imported when a workload is built, not when it is listed. The settings of the suite ``transformers`` must
never change, because a workload's name identifies its series. Each of its models runs in less than a second on one CPU
thread.
"""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.suite.library_model import import_library
from torchperf_ci.suite.workload import MODES, Task, Workload, per_device, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Inputs = dict[str, torch.Tensor]
    Settings = Mapping[str, Any]
    """What the library's configs take."""


_HEADS = (
    *("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CAUSAL_LM", "IMAGE_CLASSIFICATION"),
    *("AUDIO_CLASSIFICATION", "VIDEO_CLASSIFICATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION"),
)
"""Heads in the library's tables of models, ordered by how characteristic they are of an architecture."""
_AUDIO_SAMPLES = 16_000
_TRANSCRIBED = 32
"""Number of tokens of a transcription."""


def huggingface(
    name: str,
    config: object,
    *,
    model: str = "",
    task: str = "transformers model",
    batch: int | Mapping[str, int] | None = 1,
    modes: tuple[str, ...] = MODES,
    tokens: int = 128,
    inputs: Callable[[int], Mapping[str, torch.Tensor]] | None = None,
    **settings: object,
) -> Workload:
    """Return a workload for a config of the transformers library, or for the name of an architecture and its settings.

    ``model`` is a class of the library, such as ``GPT2ForSequenceClassification``; by default the architecture with
    its most characteristic head. ``tokens`` is the length of texts. ``inputs`` replaces the default inputs: it returns
    inputs by name for a batch size, including labels if training needs them. Dropout, caches and random masking are
    disabled, so that eager and compiled steps can be compared.
    """

    if settings and not isinstance(config, str):
        msg = f"huggingface({name!r}): {', '.join(settings)}: write the settings of a config into the config"
        raise TypeError(msg)

    def build(batch_size: int = 1, *, mode: str) -> Task:
        made = _prepared(config, settings)
        kind = _model_class(made, model)
        given = inputs(batch_size) if inputs else _inputs(kind, made, batch_size, tokens, mode)
        facts = {**_facts(made), "class": kind.__name__, "tokens": tokens}
        return Task(kind(made), given, loss=_loss, optimizer=_optimizer, config=facts)

    decorate = workload(
        name, task, batch=batch, modes=modes, origin="transformers", requires=("transformers",)
    )
    return decorate(build)


def _optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-5, eps=1e-3)


def _loss(output: Any) -> torch.Tensor:
    """Return the model's own loss or, if it has none, the mean square of its first output."""
    loss = getattr(output, "loss", None)
    if loss is None:
        loss = output[0].float().square().mean()
    return loss.float()


def _prepared(config: object, settings: Mapping[str, object]) -> Any:
    """Return a copy of the config (or a new one) with dropout, caches and random masking disabled."""
    transformers = import_library("transformers")
    named = isinstance(config, str)
    made: Any = transformers.AutoConfig.for_model(config, **settings) if named else copy.deepcopy(config)
    for part in filter(None, (made, *(getattr(made, name) for name in made.sub_configs))):
        for key, value in part.to_dict().items():
            if "drop" in key and isinstance(value, float):
                setattr(part, key, 0.0)
        for switch in ("use_cache", "apply_spec_augment"):
            if hasattr(part, switch):
                setattr(part, switch, False)
    return made


def _model_class(config: Any, name: str) -> Any:
    """Return the class ``name`` of the library, or the architecture's own. Raises ValueError if it has none."""
    transformers = importlib.import_module("transformers")
    if name:
        return getattr(transformers, name)
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    tables = [getattr(auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {}) for head in _HEADS]
    known = (
        table[config.model_type]
        for table in (*tables, auto.MODEL_MAPPING_NAMES)
        if config.model_type in table
    )
    model_class = next(known, None)
    if model_class is None:
        msg = f"the library lists no model for {config.model_type}: give huggingface() its class, as model='NAME'"
        raise ValueError(msg)
    return getattr(transformers, model_class if isinstance(model_class, str) else model_class[0])


def _inputs(kind: Any, config: Any, batch: int, tokens: int, mode: str) -> Inputs:
    """Return random inputs for the model's main input, with labels in training.

    Raises ValueError if that input is of an unknown kind.
    """
    name = kind.main_input_name
    makers: dict[str, Callable[[Any, int, int], torch.Tensor]] = {
        "input_ids": _texts,
        "pixel_values": _images,
        "input_values": _sounds,
        "input_features": _spectrograms,
    }
    if name not in makers:
        msg = f"{kind.__name__} takes {name}: give huggingface() the inputs, as inputs=lambda batch: {{...}}"
        raise ValueError(msg)
    inputs = {name: makers[name](config, batch, tokens)}
    labels = _labels(kind.__name__, config, inputs[name], batch)
    if labels is not None and config.is_encoder_decoder:
        inputs["decoder_input_ids"] = labels
    if labels is not None and mode == "training":
        inputs["labels"] = labels
    return inputs


def _texts(config: Any, batch: int, tokens: int) -> torch.Tensor:
    return torch.randint(config.get_text_config().vocab_size, (batch, tokens))


def _images(config: Any, batch: int, _: int) -> torch.Tensor:
    part = getattr(config, "vision_config", config)
    size = getattr(part, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    return torch.randn(batch, getattr(part, "num_channels", 3), height, width)


def _sounds(_config: Any, batch: int, _: int) -> torch.Tensor:
    return torch.randn(batch, _AUDIO_SAMPLES)


def _spectrograms(config: Any, batch: int, _: int) -> torch.Tensor:
    return torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)


def _labels(kind: str, config: Any, given: torch.Tensor, batch: int) -> torch.Tensor | None:
    """Return labels for the model's head: the text itself, a transcription or a class; None for an unknown head."""
    if kind.endswith(("LMHeadModel", "ForMaskedLM", "ForCausalLM")):
        return given
    if kind.endswith("ForConditionalGeneration"):
        length = given.shape[1] if given.ndim == 2 and not given.is_floating_point() else _TRANSCRIBED
        return torch.randint(config.get_text_config().vocab_size, (batch, length))
    if kind.endswith(("ForImageClassification", "ForSequenceClassification", "ForAudioClassification")):
        return torch.randint(config.num_labels, (batch,))
    if kind.endswith("ForTokenClassification"):
        return torch.randint(config.num_labels, given.shape)
    return None


def _facts(config: Any) -> dict[str, object]:
    """Return the config's settings without empty ones, because a later release may add settings that are unset."""
    members = config.to_dict()
    return {
        key: value
        for key, value in members.items()
        if key != "transformers_version" and value not in (None, False, [], {}, "")
    }


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
_SPEECH: dict[str, Settings] = {"whisper": {**_SEQUENCES, "max_source_positions": 300}}
_SOUNDS: dict[str, Settings] = {"wav2vec2": _SOUND, "hubert": _SOUND}
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
SOUNDS = _workloads("speech", "audio classification", _SOUNDS)
VISION = _workloads("vision", "image classification", _VISION)
