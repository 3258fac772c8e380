"""The registry: suites, missing providers, and users' files, valid and invalid."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from torchperf_ci.suite import registry
from torchperf_ci.suite.registry import CHOSEN_MODELS, BadSuiteFileError, catalogue

DOMAINS = {"vision", "language", "recommendation", "reinforcement", "speech", "scientific"}

GOOD = """\
import torch
from torchperf_ci.suite import Task, workload

@workload("mine/{name}", "nothing")
def entry(batch):
    return Task(torch.neg, (torch.ones(batch),))
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text: str, name: str = "suite.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def test_the_built_in_suites_cover_the_domains_and_operators():
    found = catalogue()
    core, operators, models = (found.suites[name] for name in ("core", "operators", "models"))
    alone = [name for name, entry in found.workloads.items() if not entry.requires and name not in operators]
    assert found.unavailable == {}
    assert len(core) >= 18
    assert len(operators) >= 32
    assert {name.split("/")[0] for name in core} == DOMAINS
    assert {name.split("/")[0] for name in operators} == {"operators"}
    assert sorted(found.suites["all"]) == sorted(found.workloads)
    assert sorted(core[: len(alone)]) == sorted(alone)
    assert core == models[: len(alone) + 30]
    assert len(models) >= 100
    assert set(found.suites["transformers"]) < set(models)


def test_core_covers_most_of_what_all_models_do():
    core = catalogue().suites["core"]
    _, *rows = map(str.split, CHOSEN_MODELS.read_text("utf-8").splitlines())
    adds = {name: int(added) for name, _, _, added, _ in rows}
    assert sum(adds[name] for name in core) >= 0.9 * sum(adds.values())


def test_every_name_of_every_suite_is_a_workload_of_that_name():
    found = catalogue()
    for names in found.suites.values():
        assert len(set(names)) == len(names)
        assert all(found.workloads[name].name == name for name in names)


def test_no_two_built_in_workloads_share_a_name():
    modules = [registry.importlib.import_module(provider) for provider in registry.PROVIDERS]
    names = [entry.name for module in modules for entry in registry._workloads_in(vars(module).values())]
    assert sorted(names) == sorted(catalogue().workloads)


def test_the_quick_suite_is_whole():
    found = catalogue()
    assert found.suites["quick"] == registry.QUICK
    operators = [name for name in registry.QUICK if name.startswith("operators/")]
    assert 2 <= len(operators) <= 3


@pytest.mark.filterwarnings("ignore:Implicit None:DeprecationWarning")
@pytest.mark.parametrize(
    "library", ["a-library-that-is-missing", "a.library.that.is.missing", "half-removed"]
)
def test_a_workload_whose_library_is_missing_is_there_with_the_reason(write, library, tmp_path, monkeypatch):
    (tmp_path / "half_removed-1.0.dist-info").mkdir()  # as an interrupted pip leaves it
    monkeypatch.syspath_prepend(str(tmp_path))
    path = write(GOOD.format(name="one").replace('"nothing"', f'"nothing", requires=("{library}",)'))
    found = catalogue([path])
    assert found.suites[str(path)] == ("mine/one",)
    (reason,) = found.unavailable.values()
    assert reason.startswith(f"needs {library}: ")
    assert reason.endswith(f" -m pip install {library}")


def test_all_is_what_can_be_built_here(monkeypatch):
    missing = property(lambda entry: "needs it" if entry.requires else "")
    monkeypatch.setattr(registry.Workload, "unavailable", missing)
    found = catalogue()
    assert [name for name in found.workloads if name not in found.unavailable] == [*found.suites["all"]]
    assert set(found.unavailable) == {name for name in found.workloads if found.workloads[name].requires}


def test_a_file_is_a_suite_named_like_its_path(write):
    path = write(GOOD.format(name="one"))
    found = catalogue([path, path])
    assert found.suites[str(path)] == ("mine/one",)
    assert found.workloads["mine/one"].build(3).inputs[0].shape == (3,)
    assert "mine/one" not in found.suites["all"]


def test_a_path_that_is_no_text_in_this_locale_works(write):
    """Such as one with accents under ``LC_ALL=C``, which Python reads as surrogates."""
    path = write(GOOD.format(name="one"), os.fsdecode(b"caf\xe9.py"))
    assert catalogue([path]).suites[str(path)] == ("mine/one",)


def test_a_relative_path_works(write, monkeypatch):
    path = write(GOOD.format(name="one"))
    monkeypatch.chdir(path.parent)
    assert catalogue([Path(path.name)]).suites[path.name] == ("mine/one",)


def test_files_of_one_basename_do_not_meet(write):
    first, second = write(GOOD.format(name="one"), "a/suite.py"), write(GOOD.format(name="two"), "b/suite.py")
    found = catalogue([first, second])
    assert found.suites[str(first)] == ("mine/one",)
    assert found.suites[str(second)] == ("mine/two",)


def test_a_file_of_any_suffix_loads_and_leaves_nothing_beside_it(write):
    path = write(GOOD.format(name="one"), "suite.txt")
    assert catalogue([path]).suites[str(path)] == ("mine/one",)
    assert [entry.name for entry in path.parent.iterdir()] == ["suite.txt"]


def test_a_changed_file_is_loaded_anew(write):
    catalogue([write(GOOD.format(name="one"))])
    path = write(GOOD.format(name="two"))
    assert catalogue([path]).suites[str(path)] == ("mine/two",)


def test_workloads_in_lists_count_and_aliases_count_once(write):
    path = write(GOOD.format(name="one") + "entries = [entry, entry]\nalias = entry\n")
    assert catalogue([path]).suites[str(path)] == ("mine/one",)


DECORATED = 4 if sys.version_info >= (3, 11) else 5
"""The line of an error in the decorator of the good file: Python 3.10 tells that of the function."""

IN_A_LOOP = """
for width in (8, 16):
    @workload(f"mine/width_{width}", "nothing")
    def entry(batch, width=width):
        return Task(torch.neg, (torch.ones(batch, width),))
"""


def test_workloads_that_are_made_in_a_loop_count(write):
    path = write(GOOD.format(name="one") + IN_A_LOOP)
    assert catalogue([path]).suites[str(path)] == ("mine/one", "mine/width_8", "mine/width_16")


MADE_BY_OTHERS = """
from functools import partial
from helper import make
from torchperf_ci.suite import huggingface, workload

for width in (8, 16):
    workload(f"mine/width_{width}", "nothing")(partial(make, width))
for name in ("bert", "gpt2"):
    model = huggingface(f"mine/{name}", name)
"""


def test_workloads_that_are_made_in_a_loop_by_functions_of_other_modules_count(write, monkeypatch):
    helper = write(GOOD.format(name="of_the_helper") + "def make(width, batch): ...\n", "helper.py")
    monkeypatch.syspath_prepend(helper.parent)
    path = write(MADE_BY_OTHERS)
    assert catalogue([path]).suites[str(path)] == ("mine/width_8", "mine/width_16", "mine/bert", "mine/gpt2")


def test_a_file_may_take_a_built_in_workload_into_its_suite(write):
    path = write("from torchperf_ci.suite.vision import resnet18\n")
    assert catalogue([path]).suites[str(path)] == ("vision/resnet18",)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("x = 1\ndef broken(:\n", 2, "syntax error"),
        ("import broken\n", 1, "/broken.py:2: syntax error: "),
        ("x = 1\n\nraise RuntimeError('planted')\n", 3, "RuntimeError: planted"),
        (
            "import a_library_that_is_missing\n",
            1,
            "a_library_that_is_missing'; install it, or name the folder",
        ),
        ("from .beside import model\n", 1, "no known parent package; import by absolute names"),
        ("def f():\n    raise SystemExit(3)\nf()\n", 2, "SystemExit: 3"),
        ("import json\njson.loads('[')\n", 2, "JSONDecodeError"),
        ("x = 1\n", None, "defines no workload"),
        ("", None, "defines no workload"),
        (GOOD.format(name="a/b"), DECORATED, "write domain/model"),
        (GOOD.format(name="a b"), DECORATED, "write domain/model"),
        (GOOD.format(name="one") + "\n" + GOOD.format(name="one").replace("entry", "other"), 11, "twice"),
        (GOOD.format(name="x").replace("mine/x", "vision/resnet18"), 4, "taken by the built-in suite"),
        *(
            (
                GOOD.format(name="a-b") + "\n" + GOOD.replace("mine/{name}", name).replace("entry", "other"),
                11,
                "its records would be in the file of mine/a-b",
            )
            for name in ("mine-a/b", "mine/A-b")
        ),
    ],
)
def test_a_bad_file_is_refused_with_path_line_and_reason(write, monkeypatch, text, line, problem):
    monkeypatch.syspath_prepend(write("x = 1\ndef broken(:\n", "broken.py").parent)
    path = write(text)
    with pytest.raises(BadSuiteFileError, match=re.escape(problem)) as caught:
        catalogue([path])
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "suite.py"
    path.write_bytes(b"x = '\xff'\n")
    with pytest.raises(BadSuiteFileError, match=r"(?i)utf-8"):
        catalogue([path])


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadSuiteFileError, match="no such file: give the path of a Python file"):
        catalogue([tmp_path / "missing.py"])


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(BadSuiteFileError, match="is not a file"):
        catalogue([tmp_path])


def test_two_files_cannot_share_a_name(write):
    first, second = write(GOOD.format(name="one"), "a/suite.py"), write(GOOD.format(name="one"), "b/suite.py")
    with pytest.raises(BadSuiteFileError, match=re.escape(f"taken by {first}")) as caught:
        catalogue([first, second])
    assert str(caught.value).startswith(f"{second}:")


def test_a_file_and_one_that_imports_it_are_told_which_to_give(write, monkeypatch):
    imported = write(GOOD.format(name="one"), "imported.py")
    importing = write("from imported import entry\n", "importing.py")
    monkeypatch.syspath_prepend(imported.parent)
    assert catalogue([importing]).suites[str(importing)] == ("mine/one",)
    with pytest.raises(BadSuiteFileError, match="or only the file that imports the other"):
        catalogue([imported, importing])


def test_a_bad_file_leaves_no_module_behind(write):
    before = set(registry.sys.modules)
    with pytest.raises(BadSuiteFileError):
        catalogue([write("raise RuntimeError\n")])
    assert set(registry.sys.modules) == before
