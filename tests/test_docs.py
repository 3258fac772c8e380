"""Rules for all pages of the documentation: valid links, an entry in the index, and an example at the top."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from torchperf_ci import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

PROJECT = Path(__file__).parents[1]
INDEX = PROJECT / "docs/README.md"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "examples/**/*.md")
    for path in PROJECT.glob(pattern)
)
DOCS = [page for page in PAGES if page.parent == INDEX.parent and page != INDEX]
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


def name(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@cache
def tokens(page: Path) -> list[Token]:
    return PARSER.parse(page.read_text(encoding="utf-8"))


def addresses(page: Path) -> Iterator[str]:
    """What the page links to, and the pictures in it."""
    for token in tokens(page):
        for child in token.children or []:
            yield from (str(child.attrs[key]) for key in ("href", "src") if key in child.attrs)
        html = [token, *(token.children or [])]
        for part in html:
            if part.type in {"html_block", "html_inline"}:
                yield from re.findall(r'(?:href|src|srcset)="([^"]+)"', part.content)


@cache
def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    pairs = zip(tokens(page), tokens(page)[1:], strict=False)
    for heading in (inline for opening, inline in pairs if opening.type == "heading_open"):
        text = "".join(child.content for child in heading.children or [])
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for address in addresses(page):
        if re.match(r"https?://|mailto:", address):
            continue
        path, _, anchor = address.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{address} is not there"
        assert target.is_relative_to(PROJECT), f"{address} leads out of the repository"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name(target)} has no heading #{anchor}"


def test_the_index_has_every_page() -> None:
    linked = {(INDEX.parent / address.partition("#")[0]).resolve() for address in addresses(INDEX)}
    assert [name(page) for page in DOCS if page not in linked] == []


@pytest.mark.parametrize("page", DOCS, ids=name)
def test_every_page_opens_with_an_example(page: Path) -> None:
    """A block or a picture stands above the first heading, where a reader decides to go on."""
    opening = page.read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.search(r"^```|!\[|<img ", opening, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_markdown_changes_no_formula(page: Path) -> None:
    """GitHub reads a formula in dollars as Markdown first, which makes ``\\,`` a comma. It leaves ```math alone."""
    for token in tokens(page):
        text = "".join("\n" if child.type == "softbreak" else child.content for child in token.children or [])
        written = re.sub(r"(`+).*?\1", "", token.content) if token.children else ""
        for formula in re.findall(r"\$.*?\$", written, re.DOTALL):
            assert formula in text


def test_the_badges_say_what_is_so() -> None:
    badges = re.findall(r"img\.shields\.io/badge/([^)]+)\)\]", (PROJECT / "README.md").read_text("utf-8"))
    project = (PROJECT / "pyproject.toml").read_text("utf-8")
    python, torch, license_name = (unquote(badge).replace("--", "-").split("-", 1)[1] for badge in badges)
    assert f'requires-python = "{python.removesuffix("-blue").replace("≥ ", ">=")}"' in project
    assert f'license = "{license_name.removesuffix("-blue")}"' in project
    oldest = min(re.findall(r"(?m)^VERSIONS := ([\d.]+)\.\d+ ", (PROJECT / "Makefile").read_text("utf-8")))
    assert torch.removesuffix("-blue") == f"≥ {oldest}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_dependency_is_installed_by_hand_in_a_version_that_the_project_takes(page: Path) -> None:
    project = (PROJECT / "pyproject.toml").read_text("utf-8")
    for package, versions in re.findall(r"'([a-z0-9-]+)([<>=][^']+)'", page.read_text("utf-8")):
        if f'"{package}>=' in project:
            assert f'"{package}{versions}"' in project


def test_the_verdict_on_the_pictured_runs_is_the_one_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (PROJECT / "docs/how-a-change-is-judged.md").read_text(encoding="utf-8")
    monkeypatch.chdir(PROJECT)
    command = ["check", "docs/img/runs/new", "--against", "docs/img/runs/past"]
    assert f"$ torchperf {' '.join(command)}\n" in page
    assert cli.main([*command, "--out", str(tmp_path / "verdicts.json")]) == 1
    numbers = re.compile(r"[\d.]+ → [\d.]+ \w+ +\+.*?\)|rate\s+\S+")
    shown = numbers.findall(page.partition("torchperf check docs/img")[2].partition("```")[0])
    assert len(shown) == 4
    assert numbers.findall(capsys.readouterr().out) == shown


def drawn(script: str, source: str, target: Path) -> str:
    """Let a script of docs draw a picture, and return what it prints."""
    command = [sys.executable, PROJECT / "docs" / script, PROJECT / "docs/img" / source, target]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_the_table_of_the_pictured_bisection_is_the_one_on_the_page(tmp_path: Path) -> None:
    rows = drawn("draw_bisection.py", "bisection.state.jsonl", tmp_path / "bisection.svg")
    assert rows in (PROJECT / "docs/how-bisection-works.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("script", "source", "picture"),
    [
        ("draw_bisection.py", "bisection.state.jsonl", "bisection.svg"),
        ("draw_build_luck.py", "build_luck.json", "build_luck.svg"),
        ("draw_history.py", "runs", "runs.svg"),
    ],
)
def test_a_picture_is_what_its_script_draws(tmp_path: Path, script: str, source: str, picture: str) -> None:
    drawn(script, source, tmp_path / picture)
    assert (tmp_path / picture).read_bytes() == (PROJECT / "docs/img" / picture).read_bytes()
