from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from torchperf_ci.bench import case
from torchperf_ci.check.baselines import BASELINE_FORMAT
from torchperf_ci.culprits.culprit import CULPRITS_FORMAT
from torchperf_ci.errors import JsonFileError
from torchperf_ci.issues import memory
from torchperf_ci.json_files import JsonFormat, json_text, typed, write_json_file
from torchperf_ci.records.files import MAX_BYTES
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import VERDICTS_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


@pytest.fixture
def made(tmp_path: Path) -> JsonFormat:
    """A format whose files hold texts by name."""
    schema = {
        "title": "texts.json",
        "type": "object",
        "required": ["version"],
        "properties": {
            "version": {"type": "integer"},
            "texts": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    return JsonFormat(tmp_path / "schema.json", 3)


def told(made: JsonFormat, path: Path) -> str:
    with pytest.raises(JsonFileError) as error:
        made.read(path)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value).removeprefix(f"{path}: ")


def test_an_array_has_one_item_a_line() -> None:
    text = json_text(
        {"version": 1, "none": [], "pairs": (Pair(1, 2), Pair([3], {"x": "é"})), "one": {"y": [4]}}
    )
    assert text.splitlines() == [
        "{",
        ' "version": 1,',
        ' "none": [],',
        ' "pairs": [',
        '  {"left": 1, "right": 2},',
        '  {"left": [3], "right": {"x": "é"}}',
        " ],",
        ' "one": {"y": [4]}',
        "}",
    ]


def test_what_json_cannot_hold_becomes_null_or_a_question_mark() -> None:
    written = json.loads(json_text({"n": [nan, {"x": (-inf, 1.5)}], "t": "caf\udce9", 1: True}))
    assert written == {"n": [None, {"x": [None, 1.5]}], "t": "caf?", "1": True}


@pytest.mark.parametrize("effect", [Effect(1.1, 1.0, 1.2, 12), Effect(1.1, 0.0, inf, 3)])
def test_an_effect_survives_with_its_open_ends(effect: Effect) -> None:
    written = json.loads(json_text({"effect": effect}))["effect"]
    assert typed(written, Effect) == effect
    assert (written["low"] is None, written["high"] is None) == (not effect.low, effect.high == inf)


@pytest.mark.parametrize("pairs", [12.0, 1e22, -0.0])
def test_a_whole_number_is_an_integer_however_it_is_written(pairs: float) -> None:
    assert typed({"ratio": 2, "low": 1, "high": 3.5, "pairs": pairs}, Effect) == Effect(2, 1, 3.5, int(pairs))


def test_what_is_written_is_read(made: JsonFormat, tmp_path: Path) -> None:
    members = {"version": 3, "texts": {"a": "b"}, "future": [1, 2.5, None]}
    write_json_file(tmp_path / "new/folder/f.json", json_text(members))
    assert made.read(tmp_path / "new/folder/f.json") == members
    assert made.parse("of an editor", b"\xef\xbb\xbf" + json_text(members).encode()) == members


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is not valid JSON: Input data was truncated; expected: texts.json"),
        (b"\xff\xfe", "is not valid JSON: "),
        ("NaN", "is not valid JSON: JSON is malformed"),
        ("[1e999]", "is not valid JSON: Number out of range"),
        ("1" * 400, "holds a number beyond all bounds"),
        ("1" * 9000, "is not valid JSON: Integer value out of range"),
        ('{"version": 1, "\\ud800": 1}', "is not valid JSON: "),
        ('{"version": 4}', "version 4 is newer than this torchperf, which reads 3: install a newer one"),
        ('{"version": 4, "texts": 1}', "version 4 is newer"),
        ("{}", "$: 'version' is a required property; expected: texts.json"),
        ('{"version": 1, "texts": {"a": 1}}', "$.texts.a: 1 is not of type 'string'"),
    ],
)
def test_what_is_no_such_file_is_refused_with_the_place(
    made: JsonFormat, tmp_path: Path, content: str | bytes, problem: str
) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert problem in told(made, path)


@pytest.mark.parametrize("depth", [*range(100, 1100, 50), 100_000])
def test_what_is_nested_deeply_is_refused_in_a_few_words(
    made: JsonFormat, tmp_path: Path, depth: int
) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"version": 1, "texts": {"a": %s}}' % ("[" * depth + "]" * depth))
    assert len(told(made, path)) < 300


def test_a_hostile_name_in_a_file_commands_no_terminal_and_fills_no_screen(
    made: JsonFormat, tmp_path: Path
) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"version": 1, "texts": {"\x1b[31m\n::error::" + "x" * 1000: ["y" * 1000]}}))
    message = told(made, path)
    assert message.isprintable()
    assert len(message) < 420


def test_a_file_that_is_not_there_or_endless_is_told(made: JsonFormat, tmp_path: Path) -> None:
    assert told(made, tmp_path / "f.json").startswith("cannot be read: No such file")
    assert told(made, tmp_path).startswith("cannot be read: Is a directory")
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(2**40)
    assert told(made, tmp_path / "zeros") == "cannot be read: it holds more than 64 MiB"


def test_a_file_of_just_the_limit_is_read(made: JsonFormat, tmp_path: Path) -> None:
    text = '{"version": 1}'
    (tmp_path / "f.json").write_text(text + " " * (MAX_BYTES - len(text)))
    assert made.read(tmp_path / "f.json") == {"version": 1}


FORMATS = (VERDICTS_FORMAT, CULPRITS_FORMAT, BASELINE_FORMAT, memory._FORMAT, case._COSTS_FORMAT)
TEXTS = ("", "a", "0a" * 5, "0a" * 8, "0a" * 8 + "\n", "x" * 101, "2026-01-02", "2026-01-02T03:04:05+00:00")
NUMBERS = (
    0,
    1,
    6.0,
    1.5,
    -1,
    -1e-320,
    1e300,
    1.0000000000000002e300,
    10**300,
    -int(1e300) - 1,
    2**64,
    10**6 + 1,
)
LISTS: tuple[Any, ...] = ([], [1], [1, 2], [1, None, None, 3.5], [None], ["a"], [{}])
ODD = (*TEXTS, *NUMBERS, *LISTS, None, True, False, {}, {"a": 1}, {"a": "b"})


REAL_VALIDATOR = jsonschema.Draft202012Validator


class _SchemaAskedError(Exception):
    """The types have not accepted a file."""


@pytest.fixture
def types_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No validator of a whole schema."""

    def validator(rules: dict[str, Any]) -> Any:
        if "properties" in rules:
            raise _SchemaAskedError
        return REAL_VALIDATOR(rules)

    monkeypatch.setattr(jsonschema, "Draft202012Validator", validator)


def sample(rules: Any, definitions: Any) -> Any:
    """A value that conforms to a schema, with every member."""
    if "$ref" in rules:
        rules = {**definitions[rules["$ref"].removeprefix("#/$defs/")], **rules}
    kind = rules.get("type", ["enum"])
    match kind if isinstance(kind, str) else kind[0]:
        case "enum":
            return rules.get("enum", [rules.get("const")])[0]
        case "object":
            members = rules.get("properties") or {"a": rules["additionalProperties"]}
            return {name: sample(rule, definitions) for name, rule in members.items()}
        case "array":
            items = rules.get("prefixItems") or [rules["items"]] * rules.get("minItems", 1)
            return [sample(rule, definitions) for rule in items]
        case "string":
            least = max(1, rules.get("minLength", 0))
            return next(
                text for text in TEXTS if text[least - 1 :] and re.search(rules.get("pattern", ""), text)
            )
        case other:
            return {"boolean": True, "integer": 1, "number": 1}[other]


def changes(whole: Any) -> Iterator[None]:
    """Change ``whole`` again and again: one value in it is replaced or removed, or a member is added."""
    for name in [*whole, "future"] if isinstance(whole, dict) else range(len(whole)):
        kept = whole.get(name, ...) if isinstance(whole, dict) else whole[name]
        for value in [1, kept] if kept is ... else [*ODD, *([...] * isinstance(whole, dict)), kept]:
            whole[name] = value
            if value is ...:
                del whole[name]
            yield
        if isinstance(kept, dict | list):
            yield from changes(kept)


@pytest.mark.usefixtures("types_alone")
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.schema["title"])
def test_what_is_valid_is_accepted_without_its_schema(form: JsonFormat) -> None:
    whole = sample(form.schema, form.schema.get("$defs"))
    assert form.parse("whole", json.dumps(whole).encode()) == whole


@pytest.mark.usefixtures("types_alone")
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.schema["title"])
def test_what_is_accepted_without_its_schema_is_valid(form: JsonFormat) -> None:
    is_valid = REAL_VALIDATOR(form.schema).is_valid
    whole = sample(form.schema, form.schema.get("$defs"))
    for _ in changes(whole):
        with suppress(JsonFileError, _SchemaAskedError):
            assert is_valid(form.parse("changed", json.dumps(whole).encode())), whole
