"""The pages of asv and github-action-benchmark for given numbers, with what they load beside them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from filled_store import DAY, DAYS, START

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def put_asv(folder: Path, rows: Mapping[str, Sequence[float]], asv: str, packages: Path) -> None:
    """What ``asv publish`` makes of them, each a benchmark; what its page loads lies beside it."""
    commits = put_repository(folder / "repository")
    results = folder / "results/machine"
    results.mkdir(parents=True)
    machine = {"arch": "x86_64", "cpu": "", "machine": "machine", "num_cpu": "", "os": "", "ram": ""}
    (results / "machine.json").write_text(json.dumps({**machine, "version": 1}))
    about = {"param_names": [], "params": [], "type": "time", "unit": "seconds", "timeout": 60, "number": 0}
    benchmarks = {
        f"time.{name}": {**about, "name": f"time.{name}", "code": "", "version": "1"} for name in rows
    }
    (folder / "results/benchmarks.json").write_text(json.dumps({**benchmarks, "version": 2}))
    for night, commit in enumerate(commits):
        told = {"commit_hash": commit, "env_name": "env", "date": (START + night * DAY) * 1000}
        told |= {
            "params": {**machine, "python": "3.12"},
            "python": "3.12",
            "requirements": {},
            "env_vars": {},
        }
        told |= {"result_columns": ["result", "params", "version"], "durations": {}, "version": 2}
        told["results"] = {f"time.{name}": [[values[night]], [], "1"] for name, values in rows.items()}
        (results / f"{commit[:8]}-env.json").write_text(json.dumps(told))
    settings = {"version": 1, "project": "nightly", "repo": "repository", "branches": ["main"]}
    settings |= {"results_dir": "results", "html_dir": "html", "environment_type": "virtualenv"}
    (folder / "asv.conf.json").write_text(json.dumps(settings))
    subprocess.run([asv, "publish"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    beside(folder / "html/index.html", packages)


def put_repository(folder: Path) -> list[str]:
    """A commit a night; their hashes."""
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    stream = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {START + night * DAY} +0000\ndata 1\n.\n"
        for night in range(DAYS)
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=stream, text=True, check=True)
    told = subprocess.run(
        ["git", "rev-list", "--reverse", "main"], cwd=folder, text=True, check=True, capture_output=True
    )
    return told.stdout.split()


def put_peer(folder: Path, rows: Mapping[str, Sequence[float]], page: Path, packages: Path) -> None:
    """The data of github-action-benchmark, with its page."""
    folder.mkdir()
    person = {"email": "a@b", "name": "a", "username": "a"}
    entries = []
    for night in range(DAYS):
        commit: dict[str, object] = {
            "id": f"{night:040x}",
            "message": "night",
            "timestamp": "2026-01-01T00:00:00Z",
        }
        people = {"author": person, "committer": person}
        commit = {**commit, **people, "url": "https://github.com/o/r/commit/0"}
        benches = [
            {"name": name, "value": values[night], "unit": "ms", "range": "± 0.1", "extra": ""}
            for name, values in rows.items()
        ]
        entries.append(
            {
                "commit": commit,
                "date": (START + night * DAY) * 1000,
                "tool": "customSmallerIsBetter",
                "benches": benches,
            }
        )
    data = {
        "lastUpdate": START * 1000,
        "repoUrl": "https://github.com/o/r",
        "entries": {"Benchmark": entries},
    }
    (folder / "data.js").write_text(f"window.BENCHMARK_DATA = {json.dumps(data, indent=2)}")
    shutil.copy(page, folder / "index.html")
    beside(folder / "index.html", packages)


def beside(page: Path, packages: Path) -> None:
    """What a page loads from the net is put beside it, the smallest file where there are several."""

    def local(match: re.Match[str]) -> str:
        name = re.sub(r"-[\d.]+(?=\.min)", "", match[2])
        names = (name, name.replace(".min.js", ".js"))
        found = next(path for one in names for path in sorted(packages.rglob(one)))
        shutil.copy(found, page.parent / match[2])
        return f'{match[1]}="{match[2]}"'

    loaded = r'(src|href)="https://[^"]+/([^"/]+\.(?:js|css))"(?: integrity="[^"]*")?(?: crossorigin="\w+")?'
    page.write_text(re.sub(loaded, local, page.read_text()))
