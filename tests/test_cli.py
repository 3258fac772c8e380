from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from torchperf_ci import cli

HELP = Path(__file__).parent / "help"
HEAVY = {
    "torch",
    "numpy",
    "rich",
    "jsonschema",
    "yaml",
    "pynvml",
    "clickhouse_connect",
    "asyncio",
    "subprocess",
}


def torchperf(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    # Wide enough that help never wraps at the width of somebody's terminal.
    env = {**os.environ, "COLUMNS": "100", **environ}
    command = [sys.executable, "-m", "torchperf_ci", *argv]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=env, timeout=120)


@pytest.mark.parametrize("command", ["", *(command.name for command in cli.COMMANDS)])
def test_the_help_is_the_stored_one(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line never changes by accident; ``UPDATE_HELP=1 pytest tests/test_cli.py`` stores a new one."""
    monkeypatch.setenv("COLUMNS", "100")  # it never wraps at the width of somebody's terminal
    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    stored = HELP / f"{command or 'torchperf'}.txt"
    if os.environ.get("UPDATE_HELP"):
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(shown)
    assert words(shown) == words(stored.read_text())
    if sys.version_info < (3, 13):  # newer ones lay it out differently
        assert shown == stored.read_text()


def words(shown: str) -> list[str]:
    """Its words; Python before 3.13 repeats an option's value after each of its names."""
    return re.sub(r" [A-Z]+(?=, --)", "", shown).split()


def test_a_variable_that_is_nearly_called_like_one_of_an_option_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Variables of other commands, of actions and of workflows are not: they are for others."""
    root = Path(__file__).parents[1]
    files = [
        *root.glob("action.yml"),
        *root.glob("actions/*/action.yml"),
        *root.glob(".github/workflows/*.yml"),
    ]
    for name in re.findall(r"TORCHPERF_[A-Z_]+", "".join(path.read_text() for path in files)):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("TORCHPERF_WITHN", "2h")
    assert cli.main(["completion", "bash"]) == 0
    assert (
        capsys.readouterr().err
        == "warning: TORCHPERF_WITHN has no effect; did you mean 'TORCHPERF_WITHIN'?\n"
    )


@pytest.mark.parametrize("command", [command.name for command in cli.COMMANDS])
def test_every_help_has_an_example(command: str) -> None:
    assert re.search(rf"example:\n  torchperf {command}", (HELP / f"{command}.txt").read_text())


@pytest.mark.parametrize("command", ["", "watch", "check"])
def test_help_fits_a_terminal_of_80_columns(command: str) -> None:
    shown = torchperf(*command.split(), "--help", COLUMNS="80").stdout
    told = shown.partition("example:")[0]  # a command is one line, to be copied
    assert max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [["query", "--help"], ["doctor"]])
def test_a_terminal_that_is_not_utf_8_breaks_nothing(arguments: list[str]) -> None:
    done = torchperf(*arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert not done.stdout.isascii()


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_every_action_is_there(command: cli.Command) -> None:
    assert callable(resolve_name(f"torchperf_ci.{command.action}"))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from torchperf_ci.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert HEAVY.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("name", ["plan", "upload", "watch"])
def test_what_only_reads_and_tells_needs_no_numpy(name: str) -> None:
    [command] = [command for command in cli.COMMANDS if command.name == name]
    module = f"torchperf_ci.{command.action.partition(':')[0]}"
    code = "import importlib, sys; sys.modules['numpy'] = None; importlib.import_module(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_users_error_is_one_line_and_exit_code_2() -> None:
    done = torchperf("run", "--dtype", "fp31")
    assert done.returncode == 2
    assert (
        done.stderr
        == "torchperf: error: unknown value for --dtype 'fp31': did you mean fp32 or fp16 or tf32?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chekc"], "unknown command 'chekc': did you mean check?"),
        (["hlep"], "unknown command 'hlep': did you mean help?"),
        (["--verison"], "unknown option '--verison': did you mean --version?"),
        (["baseline", "updat"], "unknown command 'baseline updat': did you mean baseline update?"),
        (["run", "--sute", "quick"], "unknown option of torchperf run '--sute': did you mean --suite?"),
        (["check", "--branhc=x"], "unknown option of torchperf check '--branhc': did you mean --branch"),
        (
            ["doctor", "h100"],
            "torchperf doctor got an unexpected argument: 'h100'; see torchperf doctor --help",
        ),
        (
            ["run", "--shard", "0/3"],
            "--shard cannot be '0/3': it is a part, counted from 1, and the number of",
        ),
        (["compare", "--base"], "argument --base: expected one argument; see torchperf compare --help"),
        (
            ["report", "--to", "isues"],
            "--to isues: did you mean issues? For a directory of that name write ./isues",
        ),
        (
            ["report", "--to", "s3://b"],
            "--to cannot be 's3://b': it is summary, comment, issues or a directory",
        ),
        (
            ["site", "branch:gh-pages"],
            "DIR cannot be 'branch:gh-pages': it is a directory of this machine, as ./NAME if it has a colon",
        ),
        (["-v"], "unknown option '-v': known: --help, --version"),
    ],
)
def test_a_misspelt_call_is_told_what_is_near(
    arguments: list[str], said: str, tmp_path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"torchperf: error: {said}")
    assert not [*tmp_path.iterdir()]


def test_a_bug_of_ours_has_a_traceback_and_exit_code_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "read", lambda *_: {}["clickhouse://me:s3cret@host"])
    assert cli.main(["doctor"]) == 70
    shown = capsys.readouterr().err
    assert "KeyError: 'clickhouse://***host'" in shown
    assert "s3cret@" not in shown
    assert "please report it" in shown


@pytest.mark.parametrize(
    ("command", "refused", "says"),
    [
        ("list", "ulimit -f 0", "No usable temporary directory"),  # like a full disk
        ("list", 'cd "$(mktemp -d)" && rmdir "$PWD"', "No such file or directory"),
        ("list", "ulimit -n 9", "the system refused: [Errno 24] Too many open files"),
        ("plan", "exec >/dev/full", "No space left on device"),
    ],
)
def test_what_the_system_refuses_is_no_bug_of_ours(command: str, refused: str, says: str) -> None:
    shell = ["sh", "-c", f'{refused} && exec "$@"', "sh", sys.executable, "-m", "torchperf_ci", command]
    done = subprocess.run(shell, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 2
    assert says in done.stderr
    assert "bug" not in done.stderr
    assert done.stderr.count("torchperf: error: ") == 1


def test_a_name_that_no_file_can_have_is_no_bug_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", json.dumps([{}] * 100)]) == 2
    told = capsys.readouterr().err
    # Python 3.14 answers that there is no such file.
    assert ("no such file" if sys.version_info >= (3, 14) else os.strerror(errno.ENAMETOOLONG)) in told
    assert "bug" not in told


def test_in_a_job_an_error_is_an_annotation() -> None:
    done = torchperf("run", "--dtype", "fp31", GITHUB_ACTIONS="true")
    assert "::error title=torchperf::unknown value for --dtype 'fp31'" in done.stderr


def test_an_error_quotes_no_password_of_a_url_in_the_place_of_a_name() -> None:
    done = torchperf("check", "https://me:s3cret@host/records", GITHUB_ACTIONS="true")
    assert done.returncode == 2
    assert done.stderr.count("https:/***host/records: there is no such file or directory") == 2
    assert "s3cret" not in done.stderr


def test_no_command_is_a_usage_error() -> None:
    assert torchperf().returncode == 2


def test_help_of_a_command_is_asked_for_in_two_ways(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["help", "baseline", "update"], ["baseline", "update", "--help"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(argv)
        assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]
    assert cli.main(["help", "rnu"]) == 2
    assert "unknown command 'rnu': did you mean run?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shell", "begins"), [("bash", "#compdef"), ("zsh", "#compdef"), ("fish", "\nfunction")]
)
def test_each_shell_has_its_script(shell: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert capsys.readouterr().out.startswith(begins)
