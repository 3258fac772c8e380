from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.console import print_document
from torchperf_ci.culprits.culprit import ProfileChange, read_culprits
from torchperf_ci.culprits.culprit_document import (
    bisection_annotations,
    bisection_document,
    publish_bisection,
)

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.culprits.culprit import Bisection, Culprit


@pytest.fixture(autouse=True)
def _not_in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def shown(bisection: Bisection) -> str:
    out = io.StringIO()
    print_document(bisection_document(bisection), out)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def outputs(job: Path) -> dict[str, str]:
    found = re.findall(r"^(.+)<<(.+)\n(.*)\n\2$", (job / "output").read_text(), re.MULTILINE)
    return {name: value for name, _, value in found}


def test_the_table_has_the_culprit_first_and_the_command_last(bisection: Bisection) -> None:
    assert shown(bisection) == (
        """\
Between 900d900d90 and bad0bad0ba of https://github.com/octo/perf on AMD EPYC 7763, 2 cores
What is left of the slowdown is below 1%.
one measurement was repeated

1a2b3c4d5e Check the shapes twice (#123)
by Ada Lovelace, 2026-11-01, pull request 123, 99.7% sure
Dependencies that changed with it: triton 3.5.0 → 3.6.0, nvidia-nccl – → 2.28
change (95%)       pairs  series
+7.1% (+6.5…+7.8)  12     vision/resnet18 latency(ms) (inference fp32 eager cpu)
−6.6% (−7.0…−6.0)  12     vision/resnet18 throughput(samples/s) (inference fp32 eager cpu)

Remaining suspects
commit      likely  subject
1a2b3c4d5e  99.7%   Check the shapes twice (#123)
bad0bad0ba  <0.1%

Details
Bad against good (in the file)
Commits that could not be measured: 1 (in the file)
Measurements: 3 (in the file)
57 runs, 7 builds; 12 min of measuring, 90 s of building

To repeat it, in a clone of the repository, with PyTorch 2.13.0 in the active Python \
(pip install torch==2.13.0):
    cd perf
    git fetch origin 900d900d900d900d900d900d900d900d900d900d bad0bad0bad0bad0bad0bad0bad0bad0bad0bad0
    torchperf bisect --good 900d --bad bad0 --command './measure  "*.py" @all'"""
    )


def test_what_moved_inside_is_below_the_culprit_with_how_to_look_further(
    bisection: Bisection, culprit: Culprit, inside: ProfileChange
) -> None:
    text = shown(replace(bisection, culprits=(replace(culprit, inside=inside),)))
    assert text.partition("eager cpu)\n\n")[2].startswith(
        """\
What changed inside vision/resnet18 inference fp32 eager batch 16
change (ms)  ms per step     times per step  kind      name
+0.138       0.0629 → 0.201  53 → 66         operator  aten::copy_
+0.0152      – → 0.0152      – → 13          operator  aten::clone
−204         1,204 → 1,000   1               phase     backward
0            0 → 0           1 → 1.5         operator  cudaStreamSynchronize
- new graph break: print: it writes

To investigate further
Saved with the culprits: culprits.profiles/1a2b3c4d5e/operators.tsv, culprits.profiles/1a2b3c4d5e/new.trace.json.gz
    column -t culprits.profiles/1a2b3c4d5e/operators.tsv
    # open in https://ui.perfetto.dev

Remaining suspects
"""
    )


def test_where_nothing_stands_out_inside_that_is_said_and_long_tables_are_cut(
    bisection: Bisection, culprit: Culprit, inside: ProfileChange
) -> None:
    quiet, busy = ProfileChange(inside.probe), replace(inside, moved=inside.moved * 5)
    texts = [shown(replace(bisection, culprits=(replace(culprit, inside=one),))) for one in (quiet, busy)]
    assert "\nNothing stands out inside vision/resnet18 inference fp32 eager batch 16\n" in texts[0]
    assert "\nand 10 more, all of them in the file\n" in texts[1]


def test_a_long_table_says_how_much_is_left_out(bisection: Bisection) -> None:
    many = replace(bisection, credible=bisection.credible[:1] * 111, culprits=bisection.culprits * 22)
    assert shown(many).count("\n1a2b3c4d5e  99.7%") == 100
    assert "\nand 11 more, all of them in the file\n" in shown(many)
    assert shown(many).count("by Ada Lovelace") == 20
    assert "\nand 2 more culprits; the file lists all of them\n" in shown(many)


def test_nothing_hostile_reaches_a_terminal(hostile: Bisection) -> None:
    assert "\x1b" not in shown(hostile)
    assert "octocat" in shown(hostile)
    assert not re.search("^::", shown(hostile), re.MULTILINE)


def test_outside_a_job_there_is_a_table_and_a_file(bisection: Bisection, tmp_path: Path, capsys) -> None:
    publish_bisection(bisection, tmp_path / "c.json", json_output=False)
    printed = capsys.readouterr()
    assert "vision/resnet18" in printed.out
    assert printed.err.startswith("1 culprit found: 1a2b3c4d5e ")
    assert printed.err.endswith(f"; culprits in {tmp_path / 'c.json'}\n")
    assert read_culprits(tmp_path / "c.json") == bisection


def test_as_json_the_file_itself_is_printed(bisection: Bisection, tmp_path: Path, capsys) -> None:
    publish_bisection(bisection, tmp_path / "c.json", json_output=True)
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "c.json").read_text()
    assert json.loads(printed)["status"] == "found"


def test_a_job_gets_a_summary_annotations_and_outputs(bisection: Bisection, job: Path, capsys) -> None:
    publish_bisection(bisection, job / "c.json", json_output=False)
    assert (job / "summary").read_text().startswith("### 🎯 Bisection: 1 culprit found")
    assert outputs(job) == {
        "culprits": str(job / "c.json"),
        "status": "found",
        "commit": "1a2b3c4d5e" * 4,
        "found": "1",
    }
    commands = re.findall(
        r"^::(error|warning|notice) title=([^:]*)::(.*)$", capsys.readouterr().err, re.MULTILINE
    )
    [(level, title, message), reason, notice] = commands
    assert (level, title) == ("warning", "culprit%3A 1a2b3c4d5e Check the shapes twice (#123)")
    assert message == (
        "+7.1%25 (+6.5…+7.8) vision/resnet18 latency(ms) (inference fp32 eager cpu). "
        "by Ada Lovelace, 2026-11-01, pull request 123, 99.7%25 sure"
    )
    assert reason == ("notice", "torchperf bisect", "What is left of the slowdown is below 1%25.")
    assert notice == ("notice", "torchperf bisect", "one measurement was repeated")


def test_where_nobody_is_named_the_step_has_no_commit_and_a_notice(bisection: Bisection, job: Path) -> None:
    nobody = replace(bisection, status="inconclusive", culprits=(), notes=())
    publish_bisection(nobody, job / "c.json", json_output=False)
    assert (outputs(job)["status"], outputs(job)["commit"], outputs(job)["found"]) == (
        "inconclusive",
        "",
        "0",
    )
    [annotation] = bisection_annotations(nobody)
    assert (annotation.level, annotation.message) == (
        "notice",
        "inconclusive: What is left of the slowdown is below 1%.",
    )


def test_one_of_several_commits_is_no_commit(bisection: Bisection, one_of: Culprit, job: Path) -> None:
    publish_bisection(replace(bisection, culprits=(one_of,)), job / "c.json", json_output=False)
    assert (outputs(job)["commit"], outputs(job)["found"]) == ("", "1")


def test_an_enterprise_server_is_linked_to(
    bisection: Bisection, culprit: Culprit, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.corp.example")
    at_home = replace(culprit, url=f"https://git.corp.example/octo/perf/commit/{culprit.commit}")
    publish_bisection(replace(bisection, culprits=(at_home,)), job / "c.json", json_output=False)
    assert f"[commit]({at_home.url})" in (job / "summary").read_text()


def test_a_job_takes_hostile_text_as_text(hostile: Bisection, job: Path, capsys) -> None:
    publish_bisection(hostile, job / "c.json", json_output=False)
    lines = capsys.readouterr().err.splitlines()
    assert not [line for line in lines if line.startswith("::err")]
    assert outputs(job)["found"] == "2"
