"""What ``torchperf init`` writes in repositories of all kinds, and what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from workflow_linters import TOOLS, actionlint, findings, zizmor

from torchperf_ci import config
from torchperf_ci.init.starter_files import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Newcomer

FILES = {
    "benchmarks/suite.py",
    "torchperf.yml",
    ".github/workflows/torchperf-nightly.yml",
    ".github/workflows/torchperf-pull-request.yml",
    ".github/workflows/torchperf-pull-request-comment.yml",
    ".github/workflows/torchperf-dashboard.yml",
}
PROJECT = Path(__file__).parents[2]
MADE_BY_TOOLS = PROJECT / "tests/imports/made_by_tools"
RESULTS = {
    "pytest_benchmark": "pytest-benchmark",
    "google_benchmark": "Google Benchmark",
    "hyperfine": "hyperfine",
}
NIGHTLY, PULL_REQUEST, DASHBOARD = (
    f".github/workflows/torchperf-{name}.yml" for name in ("nightly", "pull-request", "dashboard")
)
CPU = "https://download.pytorch.org/whl/cpu"
HOSTILE = """x"'${{ vars.PWNED }}: [a, b] # $(touch pwned)
- run: pwned"""


def package(newcomer: Newcomer, folder: str = "") -> None:
    newcomer.write(f"{folder}pyproject.toml", '[project]\nname = "smallnet"\n')
    newcomer.write(f"{folder}smallnet/__init__.py")


def scripts(newcomer: Newcomer) -> None:
    newcomer.write("train.py", "import torch\n")
    newcomer.write("requirements.txt", "numpy\n")


def empty(newcomer: Newcomer) -> None:
    pass


def pytorch(newcomer: Newcomer) -> None:
    newcomer.write("torch/__init__.py")
    newcomer.write("aten/src/README")
    newcomer.write("setup.py")


def inputs(newcomer: Newcomer, name: str) -> dict[str, Any]:
    """What the workflow gives to what measures."""
    (job,) = yaml.safe_load(newcomer.read(name))["jobs"].values()
    steps = [step for step in job.get("steps", [job]) if "octo/torchperf-ci" in step.get("uses", "")]
    found: dict[str, Any] = steps[0]["with"]
    return found


@pytest.mark.parametrize("kind", [package, scripts, empty, pytorch])
def test_what_is_written_is_content_of_the_linters_and_of_torchperf(
    newcomer: Newcomer, kind: Callable[[Newcomer], None]
) -> None:
    kind(newcomer)
    newcomer.git(newcomer.folder, "add", "--all")
    code, _ = newcomer.init()
    assert code == 0
    workflows = sorted((newcomer.folder / ".github/workflows").iterdir())
    assert zizmor("--pedantic", *workflows) == []
    assert actionlint(*workflows) == []
    assert config.load_config(newcomer.folder / "torchperf.yml").name == "smallnet"
    for name, text in newcomer.written().items():
        assert "OWNER" not in text, name
        assert "pip install torch &&" not in text, name
        if name.endswith(".py"):
            assert (
                findings(TOOLS / "ruff", "check", "--isolated", "--select=E,F", newcomer.folder / name) == []
            )


def test_a_package_is_installed_with_torch_for_cpus_at_every_commit(newcomer: Newcomer) -> None:
    package(newcomer)
    newcomer.git(newcomer.folder, "add", "--all")
    code, said = newcomer.init()
    assert (code, newcomer.written().keys()) == (0, FILES)
    line = f"pip install torch . --extra-index-url {CPU}"
    assert (inputs(newcomer, NIGHTLY)["install"], inputs(newcomer, NIGHTLY)["build"]) == (line, line)
    assert inputs(newcomer, PULL_REQUEST)["build"] == line
    assert inputs(newcomer, PULL_REQUEST)["suite"] == "benchmarks/suite.py"
    suites = config.load_config(newcomer.folder / "torchperf.yml").suites
    assert {name: suite.workloads for name, suite in suites.items()} == {"main": ("benchmarks/suite.py",)}
    assert "# from smallnet import" in newcomer.read("benchmarks/suite.py")
    assert "https://github.com/octo/smallnet" in said
    assert f"octo/torchperf-ci/actions/compare@{'1' * 40} # torchperf" in newcomer.read(PULL_REQUEST)
    commands = re.findall(r"(?m)^    (\S.*)", said.partition("Try next:")[2])
    assert [command.split()[0] for command in commands] == ["torchperf", "git", "git"]
    assert "the two workloads measure PyTorch alone: call your code in benchmarks/suite.py" in said
    assert commands[1] == "git add benchmarks torchperf.yml .github && git commit -m 'Add torchperf'"


def test_an_extension_is_built_with_the_torch_that_it_is_measured_with(newcomer: Newcomer) -> None:
    newcomer.write("setup.py", "from torch.utils.cpp_extension import CppExtension\n")
    newcomer.init()
    first = f"pip install torch setuptools wheel ninja --extra-index-url {CPU}"
    line = f"{first} && pip install --no-build-isolation . --extra-index-url {CPU}"
    assert (inputs(newcomer, NIGHTLY)["install"], inputs(newcomer, NIGHTLY)["build"]) == (line, line)
    assert inputs(newcomer, PULL_REQUEST)["build"] == line


def test_the_libraries_of_core_are_those_that_it_was_measured_with() -> None:
    template = (PROJECT / "workflows-templates/nightly.yml").read_text()
    assert template.count(f"torchvision --index-url {CPU} && pip install {LIBRARIES} && ") == 2
    tested = (PROJECT / "pyproject.toml").read_text()
    assert all(re.search(rf'"{re.escape(library)}[;"]', tested) for library in LIBRARIES.split())


def test_scripts_run_as_they_are_with_what_they_require(newcomer: Newcomer) -> None:
    scripts(newcomer)
    newcomer.init()
    line = f"pip install torch -r requirements.txt --extra-index-url {CPU}"
    assert inputs(newcomer, NIGHTLY)["install"].startswith(f'{line} && echo "$PWD" >')
    assert inputs(newcomer, NIGHTLY)["build"] == ""
    assert inputs(newcomer, PULL_REQUEST)["build"] == ""
    assert f'/bin/pip" {line.removeprefix("pip ")}\n' in newcomer.read(PULL_REQUEST)


def test_pytorch_itself_is_measured_by_its_wheels_and_never_built(newcomer: Newcomer) -> None:
    pytorch(newcomer)
    newcomer.git(newcomer.folder, "add", "--all")
    code, said = newcomer.init()
    assert (code, newcomer.written().keys()) == (0, {"torchperf.yml", NIGHTLY, DASHBOARD})
    given = inputs(newcomer, NIGHTLY)
    assert re.match(r"pip install --pre torch torchvision --index-url \S+ && ", given["install"])
    assert given["install"].endswith(LIBRARIES)
    assert given["anchor"].endswith(LIBRARIES)
    suites = config.load_config(newcomer.folder / "torchperf.yml").suites
    assert [suite.workloads for suite in suites.values()] == [("quick",), ("core",)]
    assert "    torchperf run --suite quick" in said
    assert (given["suspects"], given["bisect-budget"]) == ("pytorch/pytorch", 0)
    assert "no workflow for pull requests" in said


@pytest.mark.parametrize(("own", "named"), [("venv", ""), ("another", " --python {}/venv/bin/python")])
def test_the_environment_that_torchperf_is_in_needs_no_name(
    newcomer: Newcomer, tmp_path: Path, own: str, named: str
) -> None:
    """``python`` and ``python3`` of one environment are the same."""
    torch = tmp_path / "venv/lib/python3.11/site-packages/torch/__init__.py"
    torch.parent.mkdir(parents=True)
    torch.touch()
    newcomer.monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    newcomer.monkeypatch.setattr("sys.executable", str(tmp_path / own / "bin/python3"))
    assert f"    torchperf run{named.format(tmp_path)}\n" in newcomer.init()[1]


def test_nothing_is_overwritten_and_the_exit_code_tells(newcomer: Newcomer) -> None:
    newcomer.init()
    newcomer.write("benchmarks/suite.py", "from torchperf_ci.suite import workload\n# mine\n")
    before = newcomer.written()
    code, said = newcomer.init()
    assert (code, newcomer.written()) == (3, before)
    assert all(name in said for name in FILES - {"benchmarks/suite.py"})
    assert "0 files written, 5 left unchanged: to have one written anew, delete it first" in said
    assert "Try next" not in said


def test_a_dry_run_prints_each_file_and_writes_none(newcomer: Newcomer) -> None:
    code, said = newcomer.init("--dry-run")
    assert (code, newcomer.written()) == (0, {})
    newcomer.init()
    for name, text in newcomer.written().items():
        assert f"--- {name}\n{text}" in said


def test_a_reader_that_has_seen_enough_does_not_keep_files_from_being_written(newcomer: Newcomer) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "torchperf_ci", "init", "--uses=octo/torchperf-ci@v1"]
    with os.fdopen(writing, "w") as out:
        done = subprocess.run(command, cwd=newcomer.folder, stdout=out, timeout=60, check=False)
    assert (done.returncode, newcomer.written().keys()) == (141, FILES)


def test_a_configuration_that_is_there_says_what_is_measured(newcomer: Newcomer) -> None:
    text = "version: 1\nsuites: {mine: {workloads: [perf/mine.py, quick]}}\n"
    newcomer.write("torchperf.yml", text)
    code, said = newcomer.init()
    assert (code, newcomer.read("torchperf.yml")) == (3, text)
    assert inputs(newcomer, PULL_REQUEST)["suite"] == "perf/mine.py"
    assert newcomer.written().keys() == FILES - {"benchmarks/suite.py"}
    assert "Already there" in said


@pytest.mark.parametrize(("named", "left_out"), [("core", True), ("'./perf/mine.py'", False)])
def test_a_suite_that_the_configuration_that_is_there_does_not_name_is_told(
    newcomer: Newcomer, named: str, left_out: bool
) -> None:
    newcomer.write("torchperf.yml", f"version: 1\nsuites: {{main: {{workloads: [{named}]}}}}\n")
    told = "every night leaves out benchmarks/suite.py: name it in torchperf.yml"
    said = newcomer.init()[1]
    assert (told in said) == left_out
    assert "no night can be measured yet: torchperf.yml names no runners" in said


def test_a_configuration_that_is_wrong_is_told_before_anything_is_written(newcomer: Newcomer) -> None:
    newcomer.write("torchperf.yml", "version: 1\nsuits: {}\n")
    code, said = newcomer.init()
    assert (code, newcomer.written().keys()) == (2, {"torchperf.yml"})
    assert "torchperf.yml:2: unknown key 'suits'" in said


def test_a_configuration_under_a_wrong_name_is_told_before_another_one_is_written(newcomer: Newcomer) -> None:
    newcomer.write("torchperf.yaml", "version: 1\n")
    code, said = newcomer.init()
    assert (code, newcomer.written().keys()) == (2, {"torchperf.yaml"})
    assert "torchperf.yaml is not read: rename it to torchperf.yml" in said


def test_suites_that_are_there_are_measured(newcomer: Newcomer) -> None:
    newcomer.write("perf/vision.py", "from torchperf_ci.suite import workload\n")
    newcomer.write(f"perf/{HOSTILE.replace('/', '')}.py", "from torchperf_ci.suite import workload\n")
    for test in ("tests/test_perf.py", "tests/suites.py", "perf/test_vision.py"):
        newcomer.write(test, "from torchperf_ci.suite import workload\n")
    newcomer.write("src/mine/__init__.py")
    newcomer.monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    code, said = newcomer.init()
    assert code == 0
    assert "    PYTHONPATH=$PWD/src:$PYTHONPATH torchperf run" in said
    assert config.load_config(newcomer.folder / "torchperf.yml").suites["main"].workloads == (
        "perf/vision.py",
    )
    assert inputs(newcomer, PULL_REQUEST)["suite"] == "perf/vision.py"
    assert "is left out: its name has characters" in said


@pytest.mark.parametrize("setting", [("submodule.recurse", "true"), ("color.ui", "always")])
def test_suites_are_found_whatever_git_is_configured_to_do(
    newcomer: Newcomer, setting: tuple[str, str]
) -> None:
    newcomer.git(newcomer.folder, "config", *setting)
    newcomer.write("perf/vision.py", "from torchperf_ci.suite import workload\n")
    newcomer.init()
    assert inputs(newcomer, PULL_REQUEST)["suite"] == "perf/vision.py"


def test_a_workflow_that_does_the_same_under_another_name_is_left(newcomer: Newcomer) -> None:
    call = "jobs: {night: {uses: me/torchperf-ci/.github/workflows/benchmark.yml@v1}}\n"
    newcomer.write(".github/workflows/nightly.yml", call)
    code, said = newcomer.init()
    assert (code, newcomer.written().keys()) == (3, FILES - {NIGHTLY} | {".github/workflows/nightly.yml"})
    assert re.search(r"Already there.*\n.*\n\.github/workflows/nightly\.yml", said)


def test_asv_does_not_get_the_suite_into_its_folder(newcomer: Newcomer) -> None:
    newcomer.write("asv.conf.json", "{}\n")
    code, said = newcomer.init()
    assert code == 0
    assert "benchmarks/suite.py" not in newcomer.written()
    assert "parents[0]" in newcomer.read("torchperf_suite.py")
    assert "asv (asv.conf.json)" in said


@pytest.mark.parametrize(
    ("file", "text", "tool"),
    [
        ("requirements-dev.txt", "pytest-benchmark>=4\n", "pytest-benchmark"),
        (
            "tests/test_sort.py",
            "def test_sort(data, benchmark):\n    benchmark(sorted, data)\n",
            "pytest-benchmark",
        ),
        ("bench/CMakeLists.txt", "target_link_libraries(b benchmark::benchmark)\n", "Google Benchmark"),
        ("bench.sh", "hyperfine 'python train.py'\n", "hyperfine"),
        *((f"results/{file}.json", file, tool) for file, tool in RESULTS.items()),
    ],
)
def test_benchmarks_of_other_tools_and_their_results_are_seen(
    newcomer: Newcomer, file: str, text: str, tool: str
) -> None:
    newcomer.write(file, (MADE_BY_TOOLS / f"{text}.json").read_text() if text in RESULTS else text)
    said = newcomer.init()[1]
    assert f"{tool} ({file})" in said
    assert f"results of {tool} can be kept as well: torchperf upload FOLDER" in said


def test_files_are_those_of_the_whole_repository_wherever_the_user_is(newcomer: Newcomer) -> None:
    package(newcomer, "libs/small net/src/")
    (newcomer.folder / "libs/small net/src/pyproject.toml").rename(
        newcomer.folder / "libs/small net/pyproject.toml"
    )
    newcomer.git(newcomer.folder, "add", "--all")
    code, said = newcomer.init(below="libs/small net/src")
    assert (code, newcomer.written().keys()) == (0, FILES)
    line = f"pip install torch './libs/small net' --extra-index-url {CPU}"
    assert inputs(newcomer, PULL_REQUEST)["build"] == line
    assert 'parents[1] / "libs/small net/src"' in newcomer.read("benchmarks/suite.py")
    assert "cd ../../.. && torchperf run" in said


def test_a_project_that_no_shell_line_can_name_is_refused(newcomer: Newcomer) -> None:
    package(newcomer, f"{HOSTILE}/")
    newcomer.git(newcomer.folder, "add", "--all")
    code, said = newcomer.init(below=HOSTILE)
    assert (code, newcomer.written()) == (2, {})
    assert "has characters that a shell line could misread" in said


@pytest.mark.parametrize("remote", ["", f"https://github.com/octo/{HOSTILE}", f"/srv/{HOSTILE}.git"])
def test_hostile_names_reach_no_file(newcomer: Newcomer, tmp_path: Path, remote: str) -> None:
    newcomer.git(newcomer.folder, "remote", "remove", "origin")
    if remote:
        newcomer.git(newcomer.folder, "remote", "add", "origin", remote)
    moved = newcomer.folder.rename(tmp_path / HOSTILE)
    elsewhere = type(newcomer)(moved, newcomer.git, newcomer.monkeypatch, newcomer.capsys)
    code, said = elsewhere.init()
    assert code == 0
    assert config.load_config(moved / "torchperf.yml").name.startswith("x-vars.PWNED-a-b-touch-pwned")
    assert not any("vars.PWNED }}" in text or "$(touch" in text for text in elsewhere.written().values())
    assert ("no remote yet" in said) is (not remote)


def test_where_there_is_no_repository_nothing_is_written(newcomer: Newcomer, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    code, said = newcomer.init(below="../plain")
    assert (code, list((tmp_path / "plain").iterdir())) == (2, [])
    assert "is in no checkout of a repository: call `torchperf init` in a clone, or after `git init`" in said
    assert newcomer.init(below=".git")[1] == said.replace(f"{tmp_path}/plain", str(newcomer.folder / ".git"))


@pytest.mark.parametrize(
    ("file", "unwritten", "before"),
    [
        (".github", "torchperf-nightly.yml", "written before: benchmarks/suite.py, torchperf.yml"),
        ("benchmarks", "suite.py", "nothing was written"),
    ],
)
def test_a_file_in_place_of_a_folder_is_told_with_what_was_written(
    file: str, unwritten: str, before: str, newcomer: Newcomer
) -> None:
    newcomer.write(file, "a file")
    code, said = newcomer.init()
    assert code == 2
    why = f"{newcomer.folder / file} is a file, not a folder: rename it"
    assert f"{unwritten} cannot be written: {why}; {before}" in said


def test_no_link_leads_out_of_the_repository(newcomer: Newcomer, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (newcomer.folder / ".github").symlink_to(tmp_path / "outside")
    (newcomer.folder / "torchperf.yml").symlink_to(tmp_path / "outside/nothing")
    code, said = newcomer.init()
    assert (code, list((tmp_path / "outside").iterdir())) == (2, [])
    assert "its folder is a link that leads out of the repository" in said


@pytest.mark.parametrize("has_torch", [True, False])
def test_nothing_that_is_printed_is_wider_than_a_terminal(
    newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch, has_torch: bool
) -> None:
    package(newcomer)
    if not has_torch:
        monkeypatch.setattr("torchperf_ci.init.command.find_torch_python", lambda _: None)
    said = newcomer.init(uses="octo/torchperf-ci@v1")[1]
    shown = [
        line.rstrip() for line in said.splitlines() if "torchperf run" not in line
    ]  # a path of this machine's
    assert [line for line in shown if len(line) > 80] == []
