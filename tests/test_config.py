from __future__ import annotations

import json
import os
import re
import runpy
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

import torchperf_ci
from torchperf_ci.config import Config, Issues, Rule, Runner, Suite, Upload, find_config, load_config
from torchperf_ci.errors import ConfigError, UsageError
from torchperf_ci.metrics import METRICS

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((Path(torchperf_ci.__file__).parent / "config.schema.json").read_text(encoding="utf-8"))

# The text of a file, the line of its mistake, and words that the message must hold.
MISTAKES = {
    "empty": ("", 1, "is empty"),
    "only a comment": ("# nothing\n", 1, "is empty"),
    "not a mapping": ("- a\n", 1, "must be a mapping of keys to values, not a list"),
    "a word": ("nightly\n", 1, "must be a mapping"),
    "bad syntax": ("name: a\nrunners: {a: \n", 3, "is not valid YAML"),
    "a tab": ("runners:\n\tcpu: {}\n", 2, "cannot start any token: indent with spaces"),
    "two documents": ("name: a\n---\nname: b\n", 2, "expected a single document"),
    "unknown alias": ("name: *other\n", 1, "undefined alias"),
    "control character": ("name: a\nstore: \x01\n", 2, "special characters are not allowed"),
    "deep": ("a: " + "[" * 5000, 1, "nested too deeply"),
    "version 2": ("version: 2\n", 1, "version: must be 1"),
    "version as text": ('version: "1"\n', 1, "version: must be 1"),
    "unknown key": ("version: 1\nsuits: {}\n", 2, "unknown key 'suits'; did you mean 'suites'?"),
    "unlike any key": ("zzz: 1\n", 1, "known: version, name, runners, suites, policy, upload, store, issues"),
    "unknown nested key": (
        "suites:\n  a:\n    dtype: [fp32]\n",
        3,
        "suites.a: unknown key 'dtype'; did you mean 'dtypes'?",
    ),
    "a key twice": ("name: a\nstore: chdb://x\nname: b\n", 3, "'name' is already given on line 1"),
    "a runner twice": (
        "runners:\n  a: {}\n  a: {tune: true}\n",
        3,
        "runners: 'a' is already given on line 2",
    ),
    "a list as key": ("? [a]\n: b\n", 1, "a key must be a word"),
    "a merge key": (
        "suites:\n  a: &a {shards: 2}\n  b:\n    <<: *a\n",
        4,
        "suites.b: merge keys (<<) are not read here; write the keys themselves",
    ),
    "number for text": ("name: 2024\n", 1, "name: must be text, not '2024'; if you mean that text, quote it"),
    "no value": ("name:\n", 1, "name: must be text, not nothing"),
    "blank": ('name: "  "\n', 1, "name: must be text"),
    "list for text": ("name: [a]\n", 1, "name: must be text, not a list"),
    "text for list": ("runners: {a: {labels: ubuntu}}\n", 1, "runners.a.labels: must be a list"),
    "empty list": ("suites: {a: {modes: []}}\n", 1, "suites.a.modes: must be a list of at least one item"),
    "number in list": (
        "runners:\n  a:\n    labels:\n      - x\n      - 5\n",
        5,
        "runners.a.labels.1: must be text",
    ),
    "text for mapping": ("runners: all\n", 1, "runners: must be a mapping"),
    "text for a runner": ("runners: {a: ubuntu}\n", 1, "runners.a: must be a mapping"),
    "text for truth": (
        "runners: {a: {tune: maybe}}\n",
        1,
        "runners.a.tune: must be true or false, not 'maybe'",
    ),
    "text for number": (
        "suites: {a: {shards: four}}\n",
        1,
        "must be a whole number of at least 1, not 'four'",
    ),
    "glob": ("suites: {a: {workloads: [*]}}\n", 1, "but found ']'; quote a text that begins with *"),
    "quoted shards": ("suites: {a: {shards: '4'}}\n", 1, "whole number of at least 1, not the text '4'"),
    "zero shards": ("suites: {a: {shards: 0}}\n", 1, "must be a whole number of at least 1, not '0'"),
    "half a shard": ("suites: {a: {shards: 1.5}}\n", 1, "must be a whole number"),
    "negative": ("issues: {max_per_night: -1}\n", 1, "must be a whole number of at least 0, not '-1'"),
    "octal": ("issues: {max_per_night: 010}\n", 1, "must be a whole number of at least 0, not '010'"),
    "unknown device": (
        "runners: {a: {device: cuda0}}\n",
        1,
        "one of auto, cpu, cuda, mps, xpu, not 'cuda0'; did you mean 'cuda'?",
    ),
    "unknown mode": ("suites: {a: {modes: [train]}}\n", 1, "did you mean 'training'?"),
    "unknown dtype": ("suites: {a: {dtypes: [float]}}\n", 1, "one of fp32, tf32, bf16, fp16, amp"),
    "unknown direction": ('policy: {"latency(ms)": {direction: lower}}\n', 1, "one of up, down"),
    "percent as a number": ('policy: {"latency(ms)": {min_effect: 3}}\n', 1, "such as 3%, not '3'"),
    "a share of one": ('policy: {"latency(ms)": {min_effect: 1.0}}\n', 1, "below 100%"),
    "percent as words": ('policy: {"latency(ms)": {min_effect: 3 percent}}\n', 1, "such as 3%"),
    "negative percent": ('policy: {"latency(ms)": {min_effect: -3%}}\n', 1, "such as 3%"),
    "100 percent": ('policy: {"latency(ms)": {min_effect: 100%}}\n', 1, "below 100%"),
    "zero percent": ('policy: {"latency(ms)": {min_effect: 0%}}\n', 1, "above 0%"),
    "zero": ('policy: {"memory_leak(KiB/iter)": {min_effect: 0}}\n', 1, "above 0%"),
    "nothing to measure": (
        "suites: {a: {workloads: []}}\n",
        1,
        "at least one item, like [a, b], not an empty list",
    ),
    "unknown store": ("store: sqlite:///x\n", 1, "store: must be chdb://PATH or clickhouse://"),
    "a repository's URL": ("issues: {repo: https://github.com/a/b}\n", 1, "a repository such as org/name"),
    "a path as URL": ("upload: {lambda: results/}\n", 1, "a URL such as https://"),
    "a misspelled target": ("upload: {to: 's3:bucket'}\n", 1, "upload.to: must be s3://BUCKET, branch:NAME"),
    "a target for a branch": ("upload: {branch: 'branch:x'}\n", 1, "upload.branch: must be the name of a"),
    "an address without http://": (
        "upload: {to: '127.0.0.1:8080'}\n",
        1,
        "upload.to: must be s3://BUCKET, branch:NAME",
    ),
    "a branch that git refuses": (
        "upload: {branch: a..b}\n",
        1,
        "upload.branch: must be the name of a branch that git",
    ),
    "a role's name": ("upload: {to: s3://b, role: admin}\n", 1, "the ARN of a role"),
    "python object": (
        "name: !!python/object/apply:os.getcwd []\n",
        1,
        "name: must be text, not an empty list",
    ),
    "python name": ("name: !!python/name:os.getcwd x\n", 1, "name: must be text"),
}

# Right in every part, and wrong together: no JSON Schema can say so.
CONTRADICTIONS = {
    "unknown runner": (
        "runners:\n  h100: {}\nsuites:\n  a:\n    runners:\n      - h100\n      - h10\n",
        7,
        "suites.a.runners.1: unknown runner 'h10'; did you mean 'h100'?",
    ),
    "no runner": ("suites:\n  a: {runners: [q]}\n", 2, "suites.a.runners.0: unknown runner 'q'; known: none"),
    "no direction": (
        "policy:\n  tokens: {min_effect: 3%}\n",
        2,
        "policy.tokens: it is no metric of torchperf itself; say which way",
    ),
    "a metric without its unit": (
        "policy:\n  latency: {min_effect: 3%}\n",
        2,
        "which way is better: `direction: up` or `down`; did you mean 'latency(ms)'?",
    ),
    "two places": (
        "upload:\n  to: s3://b\n  branch: perf-data\n",
        3,
        "upload.branch: records go to one place",
    ),
    "a role without S3": ("upload: {to: out, role: 'arn:aws:iam::1:role/x'}\n", 1, "set `to: s3://BUCKET`"),
    "a password": ("name: a\nstore: clickhouse://me:secret@host/db\n", 2, "store: holds a password"),
    "one of an upload API": (
        "upload: {lambda: https://me:secret@host/}\n",
        1,
        "upload.lambda: holds a password",
    ),
    "one of a git server": (
        "upload: {branch: b@https://secret@host/x}\n",
        1,
        "upload.branch: holds a password",
    ),
}

GOOD = {
    "least": "version: 1\n",
    "byte order mark": "\ufeffversion: 1\n",
    "names alone": "runners:\n  ubuntu-latest:\nsuites:\n  quick:\n",
    "share as a number": 'policy: {"latency(ms)": {min_effect: 0.03}}\n',
    "share on a line of its own": 'policy:\n  "latency(ms)":\n    min_effect: |\n      3%\n',
    "yes": "runners: {a: {tune: yes}}\n",
    "anchors": "runners:\n  a: &all {labels: [x]}\n  b: *all\n",
    "lambda": "upload: {lambda: https://example.org/upload}\n",
    "a directory": "upload: {to: ../kept/2026-08-31T12:00}\n",
    "a branch elsewhere": "upload: {branch: perf/data@https://example.org/data}\n",
}


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "torchperf.yml"
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [*MISTAKES.values(), *CONTRADICTIONS.values()],
    ids=[*MISTAKES, *CONTRADICTIONS],
)
def test_a_mistake_is_reported_with_its_line(write, text, line, words):
    path = write(text)
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}:{line}: ")


def test_a_gpu_is_no_misspelt_xpu(write):
    with pytest.raises(ConfigError) as error:
        load_config(write("runners: {a: {device: gpu}}\n"))
    assert str(error.value).endswith("must be one of auto, cpu, cuda, mps, xpu, not 'gpu'")


def test_a_password_is_not_repeated_in_the_message(write):
    with pytest.raises(ConfigError) as error:
        load_config(write("store: clickhouse://me:secret@host/db\n"))
    assert "secret" not in str(error.value)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "torchperf.yml")
    with pytest.raises(UsageError, match="it is a pipe"):
        load_config(tmp_path / "torchperf.yml")


def test_bytes_that_are_not_utf8_are_reported_with_their_line(tmp_path):
    path = tmp_path / "torchperf.yml"
    path.write_bytes(b"version: 1\nname: caf\xe9\n")
    with pytest.raises(ConfigError, match=":2: is not valid YAML: "):
        load_config(path)


@pytest.mark.parametrize("name", ["missing.yml", "."])
def test_a_file_that_cannot_be_read_is_an_error_of_the_call(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path / name)


def test_a_recursive_alias_ends(write):
    with pytest.raises(ConfigError, match="unknown key 'x'"):
        load_config(write("runners: &a\n  x: *a\n"))


def test_every_key_is_read(write):
    config = load_config(
        write(
            """
version: 1
name: PyTorch nightly
runners:
  h100: {labels: [linux.aws.h100, big], device: cuda, tune: true}
  m2: {device: mps}
suites:
  core:
    workloads: ["vision/*"]
    modes: [inference, training]
    dtypes: [bf16]
    backends: [inductor]
    runners: [h100]
    shards: 4
policy:
  "latency(ms)": {min_effect: 2.5%}
  "tokens": {direction: up}
upload: {to: "s3://bucket", role: "arn:aws:iam::1:role/x"}
store: "clickhouse://user@host/benchmark"
issues:
  repo: org/name
  labels: ["module: performance"]
  max_per_night: 0
  recovered_nights: 2
  broken_nights: 4
  mention_authors: true
"""
        )
    )
    assert config.name == "PyTorch nightly"
    assert config.runners == {
        "h100": Runner(("linux.aws.h100", "big"), "cuda", True),
        "m2": Runner(("m2",), "mps", False),
    }
    assert config.suites == {
        "core": Suite(("vision/*",), ("inference", "training"), ("bf16",), ("inductor",), ("h100",), 4)
    }
    assert config.policy["latency(ms)"] == Rule("down", 0.025)
    assert config.policy["tokens"] == Rule("up", 0.03)
    assert config.policy["throughput(samples/s)"] == Rule("up", 0.03)
    assert config.upload == Upload(to="s3://bucket", role="arn:aws:iam::1:role/x")
    assert config.store == "clickhouse://user@host/benchmark"
    assert config.issues == Issues("org/name", ("module: performance",), 0, 2, 4, True)


def test_without_a_file_every_key_has_its_default(write):
    config = Config()
    assert config == load_config(write("version: 1\n"))
    assert (config.name, config.store) == ("torchperf", "chdb://.torchperf/store")
    assert (config.runners, config.suites) == ({}, {})
    assert {rule.min_effect for rule in config.policy.values()} == {0.03}
    assert {metric: rule.direction for metric, rule in config.policy.items()} == {
        name: metric.direction for name, metric in METRICS.items()
    }


def test_below_the_folder_of_the_file_a_warning_names_it(write, tmp_path, monkeypatch, capsys):
    write("version: 1\n")
    below, other = tmp_path / "src/package", tmp_path / "other/docs"
    for folder in (below, other):
        folder.mkdir(parents=True)
    (tmp_path / "other/.git").mkdir()
    for folder in (tmp_path, other):
        monkeypatch.chdir(folder)
        find_config(None)
    assert capsys.readouterr().err == ""
    monkeypatch.chdir(below)
    assert find_config(None) == find_config("") == Config()
    assert capsys.readouterr().err == (
        "warning: ../../torchperf.yml is not read: run the command in its folder, "
        "or give --config ../../torchperf.yml (files that it names are then looked for here)\n"
    )


def test_a_file_with_the_other_suffix_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "torchperf.yaml").write_text("version: 1\n")
    monkeypatch.chdir(tmp_path)
    assert find_config(None) == Config()
    assert capsys.readouterr().err == (
        "warning: torchperf.yaml is not read: rename it to torchperf.yml, or give --config torchperf.yaml\n"
    )


@pytest.mark.parametrize(
    ("upload", "destination"),
    [
        (Upload(), None),
        (Upload(to="s3://b"), "s3://b"),
        (Upload(lambda_="https://x"), "https://x"),
        (Upload(branch="perf"), "branch:perf"),
    ],
)
def test_the_destination_is_written_as_the_upload_command_takes_it(upload, destination):
    assert upload.destination == destination


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_the_schema_accepts_what_is_read(write, text):
    load_config(write(text))
    assert Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text.lstrip("\ufeff")))


NOT_IN_PARSED_DATA = {
    "bad syntax",
    "a tab",
    "two documents",
    "unknown alias",
    "glob",
    "control character",
    "deep",
    "a list as key",
    "a merge key",
    "octal",
}
NOT_IN_PARSED_DATA |= {"a key twice", "a runner twice", "python object", "python name"}


@pytest.mark.parametrize("name", sorted(set(MISTAKES) - NOT_IN_PARSED_DATA))
def test_the_schema_refuses_what_is_not_read(name):
    assert not Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(MISTAKES[name][0]))


def test_generated_files_are_up_to_date():
    for path, text in runpy.run_path(str(ROOT / "docs" / "generate.py"))["outputs"]().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path} is out of date: run `python docs/generate.py`"
        )


def test_the_example_of_the_page_is_read(write):
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example
    assert load_config(write(example[1])).suites["edge"].runners == ("m2",)


def test_a_link_that_leads_nowhere_is_no_missing_file(tmp_path, monkeypatch):
    """As into a submodule that was not checked out."""
    (tmp_path / "torchperf.yml").symlink_to("shared/torchperf.yml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        find_config(None)
