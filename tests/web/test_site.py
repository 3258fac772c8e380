"""The documents of a real store: their schema, which there are, and how a site of them is written."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from dashboard_nights import DAY, START, document, night_records, put_nights, series_id, take_in
from jsonschema import Draft202012Validator

from torchperf_ci import cli
from torchperf_ci.config import Config
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.command import PAGES, write_site
from torchperf_ci.web.documents import Documents, UnknownDocumentError

if TYPE_CHECKING:
    from pathlib import Path


SCHEMA = json.loads(PAGES.with_name("documents.schema.json").read_text())


def mistakes(path: str, content: Any) -> list[str]:
    """What the definition of the kind of document that is at ``path`` has against this one."""
    kind = path.partition("/")[0].removesuffix(".json")
    schema = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    return [error.json_path for error in Draft202012Validator(schema).iter_errors(content)]


def test_every_document_fits_the_published_schema(site: Path) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    paths = [str(path.relative_to(site / "data")) for path in sorted((site / "data").rglob("*.json"))]
    assert len({path.split("/")[0] for path in paths}) == 6
    assert [(path, found) for path in paths if (found := mistakes(path, document(site, path)))] == []


def test_the_schema_knows_every_field(site: Path) -> None:
    """What is added to an object of a document, or taken from it, is a mistake."""
    compared = next((site / "data/compare").rglob("*.json")).relative_to(site / "data")
    index = document(site, "index.json")
    paths = (
        *("index.json", "overview.json", "regressions.json", str(compared)),
        *(f"series/{series_id(site, 'slow')}/2026.json", f"run/{index['runs'][0]['id']}.json"),
    )
    for path in paths:
        for place in objects(document(site, path)):
            for spoil in (lambda found: found.update(planted=1), lambda found: found.pop(min(found))):
                content = document(site, path)
                found = content
                for step in place:
                    found = found[step]
                spoil(found)
                assert mistakes(path, content), (path, place)


# Objects with a member for each name that there is.
FREE = ("units", "counts", "machine", "subjects")


def objects(content: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The places of all objects with fields, of a list those of its first item."""
    if isinstance(content, list):
        return objects(content[0], (*place, 0)) if content and isinstance(content[0], dict | list) else []
    if not isinstance(content, dict):
        return []
    inner = [one for name, value in content.items() for one in objects(value, (*place, name))]
    is_free = {*place[-1:]} & {*FREE}
    return inner if is_free else [place, *inner]


def test_every_document_of_the_site_is_the_one_that_is_asked_for(nights: str, site: Path) -> None:
    """In another order, so that nothing depends on what was read before."""
    written = [str(path.relative_to(site / "data")) for path in (site / "data").rglob("*.json")]
    with open_store(nights) as store:
        documents = Documents(store, Config())
        for path in sorted(written, reverse=True):
            assert documents.document(path) == (site / "data" / path).read_bytes(), path


UNKNOWN = (
    *(
        "",
        "x.json",
        "series/0000000000/2026.json",
        "run/0000000000.json",
        "compare/0000000000/0000000000.json",
    ),
    *("../secret", "series/' OR 1/2026.json", "run/%2e%2e.json", "index.json\n"),
)


@pytest.mark.parametrize("path", UNKNOWN)
def test_what_is_not_there_is_told(nights: str, path: str) -> None:
    with open_store(nights) as store, pytest.raises(UnknownDocumentError, match="no such document"):
        Documents(store, Config()).document(path)


def test_a_series_has_documents_for_the_years_with_results_only(tmp_path: Path) -> None:
    """Milliseconds instead of seconds, or no time at all, must not make documents for centuries."""
    dsn = f"chdb://{tmp_path}/store"
    put_nights(tmp_path / "records", 0, 3)
    first = [record for record in night_records(0) if record["benchmark"]["name"] == "nightly"]
    odd = [{**record, "timestamp": time} for record in first for time in (0, 1000 * record["timestamp"])]
    (tmp_path / "records" / "odd.json").write_text("".join(f"{json.dumps(record)}\n" for record in odd))
    take_in(dsn, tmp_path / "records")
    with open_store(dsn) as store:
        write_site(Documents(store, Config()), tmp_path / "site")
    assert document(tmp_path / "site", "overview.json")["time"] == START + 2 * DAY
    index = document(tmp_path / "site", "index.json")
    assert {tuple(row[-1]) for row in index["series"]} == {(1970, 2026, 2299)}
    for row in index["series"]:
        years = sorted(path.stem for path in (tmp_path / "site" / "data" / "series" / row[0]).iterdir())
        assert years == ["1970", "2026", "2299"]


def test_a_new_night_changes_what_it_is_about_and_nothing_else(tmp_path: Path) -> None:
    dsn, site = f"chdb://{tmp_path}/store", tmp_path / "site"
    put_nights(tmp_path / "records", 0, 8)
    take_in(dsn, tmp_path / "records")
    with open_store(dsn) as store:
        _, files = write_site(Documents(store, Config()), site)
        assert write_site(Documents(store, Config()), site) == (0, files)
    stale = site / "data" / "run" / "0123456789.json"
    stale.write_text("{}")
    own = site / "data" / "run" / "mine.json"
    own.write_text("{}")
    put_nights(tmp_path / "records", 8, 9)
    take_in(dsn, tmp_path / "records")
    before = _times(site)
    with open_store(dsn) as store:
        written, _ = write_site(Documents(store, Config()), site)
    changed = {path for path, time in _times(site).items() if before.get(path) != time}
    assert len(changed) == written
    assert {path.split("/")[1] for path in changed} == {
        "compare",
        "index.json",
        "overview.json",
        "run",
        "series",
    }
    assert len([path for path in changed if path.startswith("data/run/")]) == 2
    assert (stale.exists(), own.exists()) == (False, True)


def test_a_new_version_has_scripts_at_new_addresses(site: Path) -> None:
    """Or a new page would run old scripts, which browsers keep."""
    pages = [*site.rglob("*.html"), *(site / "js").iterdir()]
    asked = [
        one
        for page in pages
        for one in re.findall(r'[.](?:js|css)((?:[?]v=[0-9a-f]{8})?)"', page.read_text())
    ]
    assert (len(asked) > 30, len({*asked}), min(asked) > "") == (True, 1, True)


def _times(site: Path) -> dict[str, int]:
    return {
        str(path.relative_to(site)): path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()
    }


def test_the_command_writes_the_site_of_an_empty_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = f"chdb://{tmp_path}/store"
    with open_store(dsn):
        pass
    out = tmp_path / "a site"
    assert cli.main(["site", str(out), "--store", dsn]) == 0
    assert f"python3 -m http.server --directory '{out}' 8000" in capsys.readouterr().err
    overview = json.loads((out / "data" / "overview.json").read_text())
    assert overview == {
        "sentence": "There are no results yet.",
        "tone": "warning",
        "time": 0,
        "causes": [],
        "groups": [],
        "culprits": [],
        "version": 5,
    }
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.html").write_text("<h1>My project</h1>")
    assert cli.main(["site", str(docs), "--store", dsn]) == 2
    assert "index.html is not the dashboard's, and would be overwritten" in capsys.readouterr().err
    assert [*docs.iterdir()] == [docs / "index.html"]
    (tmp_path / "file").write_text("")
    assert cli.main(["site", str(tmp_path / "file"), "--store", dsn]) == 2
    assert "the site cannot be written: Not a directory" in capsys.readouterr().err
