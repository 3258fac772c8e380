"""The command as users call it, with real git, worktrees, environments and processes that print a number."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from wheels import made_wheel

from torchperf_ci.culprits.culprit import culprits_json

if TYPE_CHECKING:
    from pathlib import Path

SLOW = (100, 100, 100, 120, 120, 120)
"""The fourth commit is the culprit, at position 3."""
CULPRIT = 3


def test_the_culprit_is_named_with_what_its_commit_says_and_by_fresh_pairs_alone(
    bisect, history, temporary: Path
) -> None:
    good, _ = history.cost(100, "Start"), history.cost(100, "Say more")
    culprit = history.cost(120, "Validate what is looked up (#123)", author="Grace <g@g.invalid>")
    bad = history.cost(120, "Say less")
    before = history.git("worktree", "list")
    found = bisect("--good", good, "--bad", bad)
    assert (found.status, found.good, found.bad) == ("found", good, bad)
    [named] = found.culprits
    assert (named.commit, named.set, named.pull_request) == (culprit, (culprit,), 123)
    assert (named.author, named.subject) == ("Grace", "Validate what is looked up (#123)")
    assert named.posterior > 0.95
    assert (named.effect.pairs, found.runs) == (6, len(found.readings))
    assert named.effect.ratio == pytest.approx(1.2, rel=0.01)
    assert named.series[0].log_ratios == tuple(
        one.log_ratios["the command's number"] for one in found.readings if one.purpose == "verify"
    )
    assert list(temporary.iterdir()) == []
    assert history.git("worktree", "list") == before
    assert history.git("status", "--porcelain") == ""


def test_a_busy_machine_is_told_of_also_by_the_call_that_concludes(
    bisect, history, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = {"seconds": "3.0", "cpus": "2", "load": "9.00", "other_cpus": "1.70", "cpu_pressure": "0.930"}
    good, *_, bad = history.costs(100, 100, 120)
    with monkeypatch.context() as once:
        once.setattr("torchperf_ci.bisect.laboratory.watch_interference", lambda *_: nullcontext(busy))
        assert bisect("--good", good, "--bad", bad, "--max-runs", "3", code=5).status == "inconclusive"
    monkeypatch.setattr("torchperf_ci.bisect.laboratory.watch_interference", lambda *_: nullcontext({}))
    [note] = bisect("--good", good, "--bad", bad).notes
    assert note.startswith("⚠ disturbed during the measurement (3 pairs): load 9.0 on 2 CPUs")


@pytest.mark.parametrize("ends", [(100, 100), ("echo 100000", "echo 99800")])
def test_a_range_that_got_no_slower_is_not_reproduced(
    bisect, history, ends: tuple[int | str, int | str]
) -> None:
    """A number that is surely lower, but by less than matters, is no sign of the other direction."""
    good, _, bad = history.costs(ends[0], 100, ends[1])
    found = bisect("--good", good, "--bad", bad)
    assert (found.status, found.culprits) == ("not-reproduced", ())
    assert "bad is not slower than good on this machine" in found.why
    assert "--metric" not in found.why
    assert "A copy that is installed, or beside the script, is the same for every commit" in found.why
    assert found.why.endswith("; and commits have submodules only if your checkout has them")


@pytest.mark.parametrize("named", [(), ("--metric", "examples/s")])
def test_a_number_that_fell_asks_whether_lower_is_better(bisect, history, named: tuple[str, ...]) -> None:
    """As the throughput that somebody's own script prints, and that got slower."""
    good, *_, bad = history.costs(100, 100, 50)
    found = bisect("--good", good, "--bad", bad, *named)
    assert found.status == "not-reproduced"
    assert found.why.endswith(
        "Lower numbers count as better; if not, name the --metric, or its direction in torchperf.yml"
    )


def test_records_that_say_themselves_that_higher_is_better_are_believed(bisect, history) -> None:
    """What the name says is the contrary."""

    def free(number: float) -> str:
        return json.dumps(
            {
                "benchmark": {"name": "b"},
                "model": {"name": "net"},
                "metric": {
                    "name": "memory_headroom(MiB)",
                    "benchmark_values": [number],
                    "extra_info": {"direction": "up"},
                },
            }
        )

    shas = history.costs(*(f"echo '{free(number)}'" for number in (100, 100, 50, 50)))
    ends = ("--good", shas[0], "--bad", shas[-1])
    for _ in ("measured", "resumed"):
        [named] = bisect(*ends).culprits
        assert named.commit == shas[2]
        assert named.effect.ratio == pytest.approx(0.5, rel=0.01)


def test_a_benchmark_that_every_other_run_lacks_is_named_as_not_measured(bisect, history) -> None:
    """As one that fails in every other process: nothing said that it was left out."""

    def printed(name: str, number: int) -> str:
        metric = {"name": "latency(ms)", "benchmark_values": [number]}
        return json.dumps({"benchmark": {"name": "b"}, "model": {"name": name}, "metric": metric})

    flaky = f"echo >> runs; if [ $(( $(wc -l < runs) % 2 )) = 0 ]; then echo '{printed('flaky', 1)}'; fi"
    shas = history.costs(*(f"echo '{printed('net', number)}'; {flaky}" for number in (100, 100, 120)))
    for _ in ("measured", "resumed"):
        found = bisect("--good", shas[0], "--bad", shas[-1])
        assert [one.commit for one in found.culprits] == [shas[2]]
        [note] = (note for note in found.notes if note.startswith("not known whether slower"))
        assert "because no pair of bad and good yields it: flaky latency(ms)" in note


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("--max-builds", "3"), "the limit of --max-builds ended it"),
        (("--max-runs", "8"), "the limit of --max-runs ended it"),
        (("--deadline", "0.5"), "the limit of --deadline ended it"),
    ],
)
def test_a_limit_ends_it(bisect, history, limit: tuple[str, str], said: str) -> None:
    shas = history.costs(*SLOW)
    command = "sleep 0.02; sh cost.sh"  # so that even a fast machine is not done before the deadline
    stopped = bisect("--good", shas[0], "--bad", shas[-1], *limit, command=command, code=5)
    assert (stopped.status, stopped.culprits) == ("inconclusive", ())
    assert said in stopped.why


def test_a_deadline_that_the_build_of_good_exceeds_is_told_as_one_that_may_never_suffice(
    bisect, history, quick: str
) -> None:
    """It was told to raise it as any other, so that night after night went by with nothing measured."""
    good, bad = history.costs(100, 120)
    call = ("--good", good, "--bad", bad, "--python", quick, "--build", "sleep 0.5", "--deadline", "0.5")
    for _ in range(2):
        stopped = bisect(*call, code=5)
        [note] = (note for note in stopped.notes if "measured nothing" in note)
        assert (stopped.runs, "a night's bisect-budget" in note) == (0, True)


def test_commits_that_the_command_does_not_run_on_end_in_a_set(bisect, history) -> None:
    shas = history.costs(100, 100, "exit 3", "exit 3", 120, 120)
    found = bisect("--good", shas[0], "--bad", shas[-1])
    [named] = found.culprits
    assert (named.commit, named.set) == (None, tuple(shas[2:5]))
    assert [one.commit for one in found.skipped] == shas[2:4]
    assert "it exited with code 3" in found.skipped[0].why


def test_a_command_that_runs_on_no_end_is_told(bisect, history, capsys) -> None:
    good, broken = history.costs(100, "echo no such operator >&2; exit 3")
    found = bisect("--good", good, "--bad", broken, code=5)
    assert "none of the things to measure runs on both the good and the bad commit: choose ends" in found.why
    assert found.notes[-1].endswith("on the bad commit: failed: it exited with code 3 … no such operator")
    swapped = history.costs("exit 3", 100)
    assert bisect.code("--good", swapped[0], "--bad", swapped[1], "--state", f"{bisect.state}.2") == 3
    assert "choose a --good on which it runs" in capsys.readouterr().err


BUILD = "test ! -e broken && cp cost.sh {env}/cost.sh"
FROM_ENV = ("--build", BUILD)


def test_a_build_is_measured_in_its_own_environment(bisect, history, quick: str, temporary: Path) -> None:
    shas = history.costs(100, 100)
    (history.folder / "broken").touch()
    shas.append(history.cost(120, "Break the build"))
    (history.folder / "broken").unlink()
    shas += history.costs(120, 120)
    command = 'sh "$VIRTUAL_ENV/cost.sh"'
    found = bisect("--good", shas[0], "--bad", shas[-1], "--python", quick, *FROM_ENV, command=command)
    [named] = found.culprits
    assert named.set == tuple(shas[2:4])
    [skipped] = found.skipped
    assert (skipped.commit, "--build of" in skipped.why) == (shas[2], True)
    assert list(temporary.iterdir()) == []


def test_builds_that_differ_in_plain_files_alone_have_no_luck_and_are_not_rebuilt(
    bisect, history, quick: str
) -> None:
    """As where ``pip install .`` copies a package of Python files: 5% could not be proven by one build of each."""
    shas = history.costs(100, 100, 105, 105)
    build = ("--python", quick, "--build", "cp cost.sh {env}/cost.txt")
    found = bisect("--good", shas[0], "--bad", shas[-1], *build, command='sh "$VIRTUAL_ENV/cost.txt"')
    [named] = found.culprits
    assert (named.commit, named.builds, found.builds) == (shas[2], None, 4)


def test_a_build_that_installs_what_an_earlier_one_left_is_told(
    bisect, history, quick: str, tmp_path: Path
) -> None:
    good, bad = history.costs(100, 120)
    stale = f"test -e {tmp_path}/cost.sh || cp cost.sh {tmp_path}; cp {tmp_path}/cost.sh {{env}}"
    build = ("--python", quick, "--build", stale)
    found = bisect("--good", good, "--bad", bad, *build, command='sh "$VIRTUAL_ENV/cost.sh"')
    assert found.status == "not-reproduced"
    assert "it installed the same for good and bad, byte for byte" in " ".join(found.notes)


@pytest.mark.parametrize("which", ["good", "bad"])
def test_an_end_that_cannot_be_built_is_told_and_leaves_no_state(
    bisect, history, quick: str, capsys, which: str
) -> None:
    ends = history.costs(100, 120)
    broken = ends[which == "bad"]
    build = f'test "$SHA" != {broken}'
    code = bisect.code("--good", ends[0], "--bad", ends[1], "--python", quick, "--build", build)
    assert code == 2
    assert f"the {which} commit cannot be built, so there is nothing to compare" in capsys.readouterr().err
    assert not bisect.state.exists()
    assert not bisect.out.exists()


def throughput(number: int) -> str:
    """A program that prints a record of so many samples a second, give or take a thousandth."""
    record = {
        "benchmark": {"name": "b"},
        "model": {"name": "latency net"},
        "metric": {"name": "throughput(samples/s)", "benchmark_values": ["@"]},
    }
    text = json.dumps(record).replace('"@"', f"{number}.$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')")
    return "cat <<EOF\n" + text + "\nEOF"


def test_a_throughput_that_falls_is_a_regression_and_its_effect_is_below_one(bisect, history) -> None:
    shas = history.costs(throughput(120), throughput(120), throughput(100), throughput(100))
    found = bisect("--good", shas[0], "--bad", shas[-1])
    [named] = found.culprits
    assert named.commit == shas[2]
    assert named.effect.ratio == pytest.approx(100 / 120, rel=0.01)
    assert named.series[0].name == "latency net throughput(samples/s) (cpu)"
    assert all(one.log_ratios[named.series[0].name] > 0 for one in found.readings if one.purpose == "verify")


def test_a_number_of_several_words_has_the_direction_of_its_metric(bisect, history) -> None:
    shas = history.costs(120, 100)
    found = bisect("--good", shas[0], "--bad", shas[-1], "--metric", "tokens per second")
    assert found.culprits[0].effect.ratio == pytest.approx(100 / 120, rel=0.01)


def test_numbers_without_any_noise_are_fine(bisect, history) -> None:
    shas = history.costs("echo 100", "echo 100", "echo 104", "echo 104")
    assert [one.commit for one in bisect("--good", shas[0], "--bad", shas[-1]).culprits] == [shas[2]]


def test_a_clock_of_whole_seconds_proves_nothing_within_a_second(bisect, history, capsys) -> None:
    shas = history.costs("echo 12", "echo 13")
    found = bisect("--good", shas[0], "--bad", shas[-1], code=5)
    assert (found.status, found.culprits) == ("inconclusive", ())
    assert "one unit of their last digit is 8.3%, too coarse" in found.why
    assert "a command that prints more digits" in found.why


def test_what_got_faster_is_no_regression(bisect, history) -> None:
    shas = history.costs(120, 100)
    assert bisect("--good", shas[0], "--bad", shas[-1]).status == "not-reproduced"


def test_paths_that_are_right_save_work(bisect, history, capsys) -> None:
    shas = history.costs(*[100] * 14, *[120] * 3)
    ends = ("--good", shas[0], "--bad", shas[-1])
    builds = [bisect(*ends, *more).builds for more in ((), ("--paths", "14", "--state", f"{bisect.state}.2"))]
    assert " suspects, 1 of them likelier because of --paths; " in capsys.readouterr().err
    assert builds[1] < builds[0]


def test_a_dry_run_says_the_plan_and_makes_nothing(bisect, history, capsys, temporary: Path) -> None:
    shas = history.costs(*SLOW)
    assert (
        bisect.code("--good", shas[0], "--bad", shas[-1], "--dry-run", "--max-runs", "9", "--max-builds", "1")
        == 0
    )
    said = capsys.readouterr()
    assert said.out == ""
    assert f"good: {shas[0][:10]} Change 0\nbad:  {shas[-1][:10]} Change 5\n5 suspects" in said.err
    assert "at most 1 build\nat most 9 pairs\n" in said.err
    assert not bisect.state.exists()
    assert not bisect.out.exists()
    assert list(temporary.iterdir()) == []


def test_json_is_the_file_and_nothing_else_on_standard_output(bisect, history, capsys) -> None:
    shas = history.costs(100, 120)
    found = bisect("--good", shas[0], "--bad", shas[-1], "--json")
    assert capsys.readouterr().out == bisect.out.read_text() == culprits_json(found)


def test_a_wheel_of_each_commit_is_measured(
    bisect, history, with_pip: str, shelf: Path, temporary: Path
) -> None:
    shas = history.costs(*SLOW[1:-1])
    for sha, cost in zip(shas, SLOW[1:-1], strict=True):
        if sha != shas[1]:
            files = {
                "lamp/__init__.py": "",
                "lamp/cost": f"{cost}",
                "lamp/version.py": f"git_version = '{sha}'",
            }
            made_wheel(shelf, f"lamp-1+git{sha[:8]}-py3-none-any", files)
    command = 'echo $(( $(cat "$VIRTUAL_ENV"/lib/python*/site-packages/lamp/cost)00 + $$ % 10 ))'
    wheels = ("--builder", "wheel", "--wheels", str(shelf), "--python", with_pip)
    found = bisect("--good", shas[0], "--bad", shas[-1], *wheels, command=command)
    assert found.culprits[0].set == (shas[1], shas[2])
    assert "has no wheel" in found.skipped[0].why
    assert list(temporary.iterdir()) == []
