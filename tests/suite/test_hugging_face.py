"""Workloads from configs of the real transformers library."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from torchperf_ci.suite import Task, huggingface, workload

pytestmark = pytest.mark.filterwarnings("default")  # the library's are its own

TEXT = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
SEQUENCES = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}


def built(entry, mode: str = "training") -> Task:
    torch.manual_seed(0)
    return entry.task_of(entry.batch_sizes[mode], mode)


@pytest.mark.parametrize(
    ("architecture", "settings", "model"),
    [
        ("bert", TEXT, "BertForMaskedLM"),
        ("gpt2", {"n_layer": 1, "n_embd": 32, "n_head": 2}, "GPT2LMHeadModel"),
        ("llama", TEXT, "LlamaForCausalLM"),
        (
            "t5",
            {"d_model": 32, "d_ff": 64, "num_layers": 1, "num_heads": 2, "d_kv": 16},
            "T5ForConditionalGeneration",
        ),
        (
            "esm",
            {**TEXT, "pad_token_id": 1, "mask_token_id": 32},
            "EsmForMaskedLM",
        ),  # without a part of its config
        ("vit", {**TEXT, "image_size": 32, "patch_size": 16}, "ViTForImageClassification"),
        (
            "whisper",
            {**SEQUENCES, "max_source_positions": 50, "pad_token_id": 0},
            "WhisperForConditionalGeneration",
        ),
    ],
)
def test_an_architecture_infers_and_learns_and_repeats_itself(architecture, settings, model):
    entry = huggingface(f"hf/{architecture}", architecture, tokens=8, batch=2, vocab_size=100, **settings)
    tasks = [built(entry), built(entry)]
    assert type(tasks[0].model).__name__ == model
    losses = [task.loss(task.call(task.model.train())) for task in tasks]
    assert losses[0] == losses[1]
    losses[0].backward()
    assert any(parameter.grad is not None for parameter in tasks[0].model.parameters())
    asked = built(entry, "inference")
    assert "labels" not in asked.inputs
    with torch.no_grad():
        assert asked.call(asked.model.eval())[0].shape[0] == 2


def test_without_a_batch_a_step_has_one_sample():
    entry = huggingface("hf/bert", "bert", tokens=8, batch=None, vocab_size=100, **TEXT)
    assert entry.task_of(1).inputs["input_ids"].shape == (1, 8)


def test_a_config_is_left_as_it_was_and_its_dropout_is_out():
    from transformers import GPT2Config

    config = GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100)
    made = built(huggingface("hf/gpt2", config, tokens=8)).model.config
    assert (made.resid_pdrop, made.use_cache) == (0.0, False)
    assert (config.resid_pdrop, config.use_cache) == (0.1, True)


def test_what_is_made_from_another_config_has_another_digest():
    small = {"n_embd": 32, "n_head": 2, "vocab_size": 100}
    one, again, deeper, longer = (
        built(huggingface("hf/gpt2", "gpt2", **settings, **small)).config_digest()
        for settings in ({"n_layer": 1}, {"n_layer": 1}, {"n_layer": 2}, {"n_layer": 1, "tokens": 8})
    )
    assert one == again != ""
    assert len({one, deeper, longer}) == 3


def test_inputs_and_class_may_be_given():
    entry = huggingface(
        "hf/classifier",
        "bert",
        model="BertForSequenceClassification",
        inputs=lambda batch: {
            "input_ids": torch.ones(batch, 4, dtype=torch.int64),
            "labels": torch.ones(batch).long(),
        },
        vocab_size=100,
        **TEXT,
    )
    task = built(entry)
    assert task.call(task.model).logits.shape == (1, 2)


def test_an_architecture_without_a_model_of_its_own_is_told():
    with pytest.raises(ValueError, match="no model for blip_vision_model: give huggingface\\(\\) its class"):
        built(huggingface("hf/blip", "blip_vision_model"))


def test_settings_beside_a_config_are_refused():
    with pytest.raises(TypeError, match="n_layer: write the settings of a config into the config"):
        huggingface("hf/gpt2", object(), n_layer=2)


def test_a_list_imports_no_model_library():
    code = (
        "import sys; from torchperf_ci.suite import huggingface; from torchperf_ci.suite.registry import catalogue; "
        "huggingface('hf/bert', 'bert', n=1).unavailable; catalogue(); "
        "print({'transformers', 'torchvision', 'timm', 'diffusers'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "set()\n"


def test_a_digest_is_of_what_a_task_says_of_itself():
    def with_config(config):
        return workload("a/b", "t")(lambda _: Task(torch.neg, (torch.ones(1),), config=config)).task_of(1)

    assert with_config(None).config_digest() == ""
    assert with_config({"a": 1, "b": 2}).config_digest() == with_config({"b": 2, "a": 1}).config_digest()
    assert with_config({"a": 1}).config_digest() != with_config({"a": 2}).config_digest()


def test_a_digest_is_the_same_in_every_process():
    def digest(numbers):
        def activation(x):
            """A function, whose address is another one in each process."""

        config = {"activation": activation, "layers": set(numbers), "dtype": torch.float32}
        return Task(torch.neg, config=config).config_digest()

    assert str({0, 8}) != str({8, 0})
    assert digest([0, 8]) == digest([8, 0])
    assert digest([0]) != digest([8])
