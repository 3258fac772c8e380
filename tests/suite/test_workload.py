"""The rules that every workload, built-in or not, has to keep."""

from __future__ import annotations

from collections import UserDict

import pytest
import torch

from torchperf_ci.suite import Task, Workload, per_device, workload


def build(batch: int) -> Task:
    return Task(torch.neg, (torch.ones(batch),))


def test_the_decorator_makes_a_workload_with_one_default_for_all_modes():
    entry = workload("vision/tiny", "nothing", batch=3)(build)
    assert entry == Workload("vision/tiny", "nothing", build, {"inference": 3, "training": 3})
    assert entry.domain == "vision"


def test_per_device_tells_the_device_classes_apart_in_both_modes():
    sizes = per_device(cpu=2, accelerator=128)
    assert sizes == {
        "inference": 2, "inference/accelerator": 128, "training": 2, "training/accelerator": 128
    }  # fmt: skip
    assert workload("a/b", "t", batch=sizes)(build).batch_sizes == sizes


def test_without_a_batch_the_function_gets_none_and_a_step_is_one_sample():
    entry = workload("a/b", "t", batch=None)(lambda: Task(torch.neg, (torch.ones(3),)))
    assert entry.task_of(1).inputs[0].shape == (3,)


def test_a_requirement_that_is_no_tuple_is_refused():
    with pytest.raises(ValueError, match=r'write a tuple, such as \("transformers",\)'):
        workload("a/b", "t", requires="transformers")(build)
    with pytest.raises(
        ValueError, match=r"'timm>=1\.0' in requires: write a package's name, without a version"
    ):
        workload("a/b", "t", requires=("timm>=1.0",))(build)


@pytest.mark.parametrize(
    "name",
    ["resnet", "a/b/c", "/b", "a/", "a b/c", "a/b\n", ".a/b", "vision/ré", "", f"a/{'b' * 159}"],
    ids=lambda name: name[:12],
)
def test_a_malformed_name_is_refused(name):
    with pytest.raises(ValueError, match="write domain/model"):
        workload(name, "t")(build)


def test_a_task_or_an_origin_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="workload a/b: the task is an int; write a text, such as"):
        workload("a/b", 8)(build)
    with pytest.raises(ValueError, match="workload a/b: the origin is None; write a text, such as 'torch'"):
        workload("a/b", "t", origin=None)(build)


@pytest.mark.parametrize("modes", [(), ("train",), ("inference", "eval")])
def test_unknown_modes_are_refused(modes):
    with pytest.raises(ValueError, match="choose from"):
        workload("a/b", "t", modes=modes)(build)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "8"])
def test_a_batch_size_that_is_no_positive_integer_is_refused(size):
    with pytest.raises(ValueError, match="must be a positive integer"):
        workload("a/b", "t", batch=size)(build)


def test_a_batch_size_for_something_unknown_is_refused():
    with pytest.raises(ValueError, match="'inference/gpu' in batch_sizes is none of"):
        workload("a/b", "t", batch={"inference": 1, "training": 1, "inference/gpu": 64})(build)


def test_a_mode_without_a_batch_size_is_refused():
    with pytest.raises(ValueError, match="for mode 'training'"):
        workload("a/b", "t", batch={"inference": 1})(build)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.ones(4, 2), r"inputs is a Tensor; write a tuple, such as \(x,\)"),
        (None, "inputs is None; write a tuple"),
        ("abc", "inputs is a str; write a tuple"),
        ((torch.ones(1) for _ in range(3)), "inputs is a generator; write a tuple"),
        ({0: torch.ones(1)}, "names of arguments, so they must be texts"),
    ],
)
def test_inputs_that_would_be_taken_apart_or_used_up_are_refused(inputs, message):
    with pytest.raises(TypeError, match=message):
        Task(torch.neg, inputs)


def test_an_optimizer_that_is_made_already_is_refused():
    made = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    with pytest.raises(TypeError, match="is a SGD; write a function that makes one"):
        Task(abs, optimizer=made)


def test_a_model_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="the model is a tuple, which cannot be called"):
        Task((torch.ones(1),), torch.neg)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            torch.nn.Embedding(2, 2),
            "workload a/b: the function returned an Embedding; end it with: return Task",
        ),
        (None, "workload a/b: the function returned None"),
        ((torch.neg, torch.ones(1)), "workload a/b: the function returned a tuple"),
    ],
)
def test_a_function_that_returns_no_task_is_told_what_to_return(returned, message):
    with pytest.raises(TypeError, match=message):
        workload("a/b", "t")(lambda _: returned).task_of(1)


def test_inputs_by_name_reach_the_arguments_of_that_name():
    def power(base, exponent):
        return base**exponent

    two, three = torch.tensor(2), torch.tensor(3)
    assert Task(power, {"exponent": three, "base": two}).call(power) == 8
    assert Task(power, (three, two)).call(power) == 9
    assert Task(power, [three, two]).call(power) == 9


def test_a_tokenizers_answer_becomes_a_dict():
    """``BatchEncoding`` of transformers is a ``UserDict``, into which torch's tools for nested inputs do not look."""
    assert type(Task(torch.neg, UserDict(input=torch.ones(1))).inputs) is dict


@pytest.mark.parametrize("config", [{1: 2, "layers": 3}, {"layers": {None: 1, "a": 2}}, {(1, 2): 3}])
def test_a_config_whose_keys_have_no_order_is_told_which_keys_have(config):
    with pytest.raises(TypeError, match=r"Task\(config=...\): the keys .* must all be texts, or all numbers"):
        Task(torch.neg, config=config).config_digest()
