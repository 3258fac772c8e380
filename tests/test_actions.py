"""The output for GitHub Actions, read back as the runner reads it."""

from __future__ import annotations

import ast
import json
import re
import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner_log import commands

from torchperf_ci import actions
from torchperf_ci.actions import Annotation
from torchperf_ci.command_output import publish_result
from torchperf_ci.document import Bullets, Column, Document, Folded, Note, Paragraph, Table

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = 'a|b `c` <img src=x> **d** [e](http://f) @g #1\r\n| h | ::error::i "$(j)" \\ ~~k~~ $l$'


UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def unseen(text: str) -> str:
    """The characters of a text that are not seen where they stand."""
    return "".join(char for char in text if unicodedata.category(char) in UNSEEN)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A step of a job: the folder that holds its ``output`` and ``summary`` files."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    return tmp_path


def read_outputs(text: str) -> dict[str, str]:
    """The runner's reading of an output file: ``name<<delimiter``, lines, ``delimiter``."""
    outputs = {}
    lines = iter(text.split("\n"))
    for line in lines:
        name, arrow, delimiter = line.partition("<<")
        if arrow:
            outputs[name] = "\n".join(iter(lambda: next(lines), delimiter))
    return outputs


@actions.literal()
def write_in_vain(text: str) -> None:
    sys.stderr.write(text)
    raise KeyError


def unescape(text: str) -> str:
    for code, character in {"%2C": ",", "%3A": ":", "%0A": "\n", "%0D": "\r", "%25": "%"}.items():
        text = text.replace(code, character)
    return text


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({"GITHUB_ACTIONS": "true"}, True), ({"GITHUB_ACTIONS": "false"}, False), ({"CI": "true"}, False)],
)
def test_a_job_is_told_by_the_variable_that_only_the_runner_sets(environ, expected) -> None:
    assert actions.in_actions(environ) is expected


def test_outside_a_job_nothing_is_printed_or_written(job, monkeypatch, capfd) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS")
    actions.set_output("name", "value")
    actions.append_summary("# title")
    actions.annotate([Annotation("error", "message")])
    actions.mask("secret")
    assert list(job.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", ["plain", "", "two\nlines", "name<<EOF\nvalue\nEOF", "ends\n", HOSTILE])
def test_an_output_reaches_the_next_step_unchanged(job, value) -> None:
    actions.set_output("before", "1")
    actions.set_output("value", value)
    actions.set_output("after", "2")
    outputs = read_outputs((job / "output").read_bytes().decode())
    assert outputs == {"before": "1", "value": value, "after": "2"}


def test_a_file_of_the_runner_that_cannot_be_written_is_a_warning(job, monkeypatch, capsys) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(job / "missing" / "output"))
    actions.set_output("name", "value")
    assert capsys.readouterr().err.startswith("::warning::GITHUB_OUTPUT cannot be written")


def test_summaries_are_appended_each_as_a_block_of_its_own(job) -> None:
    (job / "summary").write_text("from the step\n\n")
    actions.append_summary("| a |\n| - |\n| 1 |")
    actions.append_summary("## next\n\n\n")
    assert (job / "summary").read_text() == "from the step\n\n| a |\n| - |\n| 1 |\n\n## next\n\n"


@pytest.mark.usefixtures("job")
def test_text_that_looks_like_a_command_is_fenced_by_a_word_nobody_can_guess(capsys) -> None:
    for _ in range(2):
        with pytest.raises(KeyError):
            write_in_vain("::error::text\n")
    lines = capsys.readouterr().err.splitlines()
    tokens = [line.removeprefix("::stop-commands::") for line in lines[::3]]
    assert lines[1::3] == ["::error::text"] * 2
    assert lines[2::3] == [f"::{token}::" for token in tokens]
    assert len(set(tokens)) == 2
    assert min(map(len, tokens)) >= 32


@pytest.mark.usefixtures("job")
def test_an_annotation_is_one_command_whatever_it_holds(capsys) -> None:
    actions.annotate([Annotation("error", HOSTILE, title=f"a,b:{HOSTILE}")])
    (line,) = capsys.readouterr().err.splitlines()
    match = re.fullmatch("::error title=([^,:]*)::(.*)", line)
    assert match
    assert [unescape(part) for part in match.groups()] == [f"a,b:{HOSTILE}", HOSTILE]


@pytest.mark.usefixtures("job")
def test_an_annotation_holds_nothing_unseen_but_its_lines(capsys) -> None:
    actions.annotate([Annotation("error", "a\nb\x1b[0m\u202e", title="t\0")])
    assert capsys.readouterr().err == "::error title=t\\x00::a%0Ab\\x1b[0m\\u202e\n"


@pytest.mark.usefixtures("job")
def test_an_annotation_without_a_title_has_none(capsys) -> None:
    actions.annotate([Annotation("notice", "100% done")])
    assert capsys.readouterr().err == "::notice::100%25 done\n"


@pytest.mark.usefixtures("job")
def test_more_annotations_than_a_step_may_have_are_counted_in_the_last(capsys) -> None:
    warnings = [Annotation("warning", f"w{n}") for n in range(8)]
    errors = [Annotation("error", f"e{n}") for n in range(4)]
    actions.annotate([*warnings, *errors])
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == [f"::error::e{n}" for n in range(4)]
    assert lines[4:] == [
        *(f"::warning::w{n}" for n in range(5)),
        "::warning::and 3 more; the job summary lists all of them",
    ]


def test_the_ten_annotations_of_a_step_are_all_shown() -> None:
    annotations = [Annotation("error", str(n)) for n in range(actions.ANNOTATION_LIMIT)]
    assert actions.fit_annotations(annotations) == annotations


@pytest.mark.usefixtures("job")
def test_a_secret_is_masked_whole_and_never_as_nothing(capsys) -> None:
    actions.mask("first\nsecond%")
    actions.mask(" ")
    assert capsys.readouterr().err == "::add-mask::first%0Asecond%25\n"


def test_code_that_is_measured_can_neither_steer_the_job_nor_be_it() -> None:
    caches = {"ACTIONS_RUNTIME_TOKEN", "ACTIONS_CACHE_URL", "ACTIONS_RESULTS_URL"}
    rights = {
        *("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
        *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"),
        *("GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
        *("UPLOADER_USERNAME", "UPLOADER_PASSWORD"),
        *("TORCHPERF_STORE", "TORCHPERF_STORE_PASSWORD", "TORCHPERF_TO", "TORCHPERF_READER_PASSWORD"),
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        *("AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    }
    facts = {
        "PATH": "/bin",
        "GITHUB_SHA": "a" * 40,
        "GITHUB_ACTIONS": "true",
        "AWS_REGION": "x",
        "HF_TOKEN": "x",
    }
    given = facts | dict.fromkeys(rights | caches, "x")
    assert actions.without_rights(given) == facts
    assert actions.without_rights(given, keep_caches=True) == facts | dict.fromkeys(caches, "x")


@given(st.text())
def test_one_line_is_one_line_and_commands_no_terminal(text) -> None:
    line = actions.one_line(text)
    assert len(line.splitlines()) <= 1
    assert unseen(line) == ""


@given(st.text(st.characters(categories=UNSEEN) | st.sampled_from("ab🧑⚠\ufe0f \n")))
def test_what_is_printable_is_seen_and_what_differs_looks_different(text) -> None:
    shown = actions.printable(text, keep="\n")
    assert unseen(shown).strip("\n") == ""
    assert shown.encode().decode() == shown
    assert ast.literal_eval('"""' + shown + '"""') == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x9b31m\0\x7f", r"\x1b[2J\x9b31m\x00\x7f"),
        ("main\u202e)(", r"main\u202e)("),
        ("a\u200bb\u2066c\ufeffd\xade", r"a\u200bb\u2066c\ufeffd\xade"),
        ("\ud800\u2028\U000e0041", r"\ud800\u2028\U000e0041"),
        ("naïve ✓ ⚠️ 性能 C:\\new", "naïve ✓ ⚠️ 性能 C:\\new"),
    ],
)
def test_what_nobody_would_see_is_written_out(text, shown) -> None:
    assert actions.printable(text) == shown


def test_one_line_is_the_text_where_that_is_one() -> None:
    assert actions.one_line("naïve ✓ at::add\t#1\n::error::") == r"naïve ✓ at::add\t#1\n::error::"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", r"\x3a:error::x"),
        ("words ::error::x", r"words \x3a:error::x"),
        ("\u2003::error::x", "\u2003\\x3a:error::x"),
        (":::error::x", r"\x3a::error::x"),
        ("a##[error]b", r"a#\x23[error]b"),
        ("###[error]", r"##\x23[error]"),
        ("##" + "##[group]", r"###\x23[group]"),
    ],
)
def test_one_line_commands_no_runner(text, shown) -> None:
    """It looks for ``::`` where a line begins, spaces aside, and for ``##[`` everywhere."""
    assert actions.one_line(text) == shown


@given(st.text(st.sampled_from('#[\\": ')))
def test_inert_json_says_the_same_and_holds_no_command(text) -> None:
    inert = actions.inert_json(json.dumps({text: text}))
    assert json.loads(inert) == {text: text}
    assert "##[" not in inert


@pytest.mark.usefixtures("job")
def test_a_result_is_annotated_however_far_a_runner_has_read_the_other_channel(capsys) -> None:
    """It reads each by itself, and what stops commands on one of them stops those of both."""
    text = "::error::pwned ##[error]pwned"
    table = Table([Column(text), Column(text, "prose")], [[text, text]] * 2, title=text)
    document = Document(
        text, [Paragraph(text), Note([text]), Bullets([text]), table, Folded(text, [Paragraph(text)])]
    )
    publish_result(document, text, as_json=None, annotations=[Annotation("error", "worse")], outputs={})
    out, err = (shown.splitlines() for shown in capsys.readouterr())
    for read in range(len(out) + 1):
        assert [*commands([*out[:read], *err, *out[read:]])] == ["::error::worse"]
