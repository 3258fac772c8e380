#!/usr/bin/env python3
"""Picture the dashboard: a store of made-up nights, its site, and two of its pages in a browser, on light and on dark.

    python docs/draw_dashboard.py docs/img

It takes Debian's chromium; nothing is asked of any network.
"""

from __future__ import annotations

import json
import random
import sys
from math import exp
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1] / "tests/support"))

from chromium import chromium

from torchperf_ci import cli
from torchperf_ci.culprits.culprit import Bisection, Culprit, SeriesEffect, write_culprits
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Iterator

NIGHTS, STEP, RECOVERY = 60, 44, 30
START, DAY = 1_783_123_200, 86_400
MACHINES = {"h100": ("cuda", "NVIDIA H100 80GB HBM3"), "spr": ("cpu", "Intel Xeon Platinum 8488C")}
LEVELS = {
    "vision/resnet50": 12.4,
    "vision/vit": 9.1,
    "language/bert": 21.7,
    "language/gpt2": 33.2,
    "speech/conformer": 17.5,
    "recommendation/dlrm": 3.6,
    "scientific/fno": 6.8,
    "ops/softmax": 0.0412,
}
COMMITS = random.Random(4)
SHAS = [f"{COMMITS.getrandbits(160):040x}" for _ in range(NIGHTS)]
PAGES = {"dashboard": "", "dashboard-series": "series/?s={series}&from=30"}
SIZES = {"dashboard": (1000, 660), "dashboard-series": (1000, 640)}


def main() -> None:
    """Records, store, site, pictures."""
    pictures = Path(sys.argv[1])
    with TemporaryDirectory() as name:
        folder = Path(name)
        records, store, site = folder / "records", f"chdb://{folder}/store", folder / "site"
        put_records(records)
        assert cli.main(["ingest", str(records), "--store", store]) == 0
        assert cli.main(["site", str(site), "--store", store]) == 0
        draw(site, pictures)


def put_records(folder: Path) -> None:
    """A file a night, and what a bisection found."""
    folder.mkdir()
    for night in range(NIGHTS):
        (folder / f"{night:03}.json").write_text("\n".join(map(json.dumps, night_of_records(night))))
    series = tuple(SeriesEffect(f"{model} latency(ms)") for model in ("language/bert", "language/gpt2"))
    culprit = Culprit(
        *(SHAS[STEP], (SHAS[STEP],), 0.9991, Effect(1.064, 1.058, 1.071, 12), series),
        author="Lucía Fernández",
        date="2026-08-18T09:12:00+00:00",
        subject="Keep the attention mask in float32",
        url=f"https://github.com/octo/models/commit/{SHAS[STEP]}",
    )
    found = Bisection(
        "found", SHAS[STEP - 1], SHAS[STEP], repo="https://github.com/octo/models", culprits=(culprit,)
    )
    write_culprits(folder / "culprits.json", found)


def night_of_records(night: int) -> Iterator[dict[str, Any]]:
    """Two models are slower from one night on, another one for a while; a case runs out of memory in the end."""
    for name, (device, arch) in MACHINES.items():
        noise = random.Random(f"{night} {name}")
        driver = "580.65" if night < 50 else "580.95"
        facts = {"fingerprint_of": "driver", "driver": driver if device == "cuda" else "none"}
        facts["fingerprint"] = facts["driver"]
        about = {
            "timestamp": START + night * DAY + (1800 if device == "cpu" else 0),
            "repo": "octo/models",
            "head_branch": "main",
            "head_sha": SHAS[night],
            "workflow_id": 17_000_000 + night,
            "run_attempt": 1,
            "job_id": 1,
            "runners": [{"name": device, "type": arch, "extra_info": facts}],
        }
        for model, level in LEVELS.items():
            slower = 1.064 if model.startswith("language") and device == "cuda" and night >= STEP else 1.0
            slower *= 1.05 if model == "vision/vit" and RECOVERY - 12 <= night < RECOVERY else 1.0
            now = level * slower * (4 if device == "cpu" else 1) * exp(noise.gauss(0, 0.002))
            fails = model == "scientific/fno" and device == "cuda" and night >= NIGHTS - 2
            status = {"status": "oom", "reason": "CUDA out of memory"} if fails else {"status": "pass"}
            case = {"benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"}}
            case |= about | {"model": {"name": model, "backend": "inductor"}}
            yield {
                **case,
                "metric": {"name": "status", "benchmark_values": [int(not fails)], "extra_info": status},
            }
            if not fails:
                values = [now * exp(noise.gauss(0, 0.003)) for _ in range(3)]
                yield {**case, "metric": {"name": "latency(ms)", "benchmark_values": values}}


def draw(site: Path, pictures: Path) -> None:
    """Each page as it is seen first."""
    told = json.loads((site / "data/regressions.json").read_text())["changes"]
    found = (entry for entry in told if entry["name"]["model"] == "language/bert" and entry["culprits"])
    series = next(found)["series"]
    with chromium() as browser:
        for name, path in PAGES.items():
            width, height = SIZES[name]
            for scheme, suffix in (("light", ""), ("dark", "-dark")):
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page = context.new_page()
                page.add_init_script(f"Date.now = () => {(START + NIGHTS * DAY) * 1000}")
                page.route("**/*", lambda route: answer(route, site))
                page.goto(f"http://dashboard.local/{path.format(series=series)}")
                page.wait_for_selector("main:not([aria-busy]) > *")
                if series in page.url:
                    page.wait_for_selector(".canvas canvas")
                    page.wait_for_timeout(500)
                page.screenshot(path=pictures / f"{name}{suffix}.png")
                context.close()


def answer(route: Any, site: Path) -> None:
    """A file of the site, without a server."""
    path = site / route.request.url.partition("?")[0].removeprefix("http://dashboard.local/")
    route.fulfill(path=path / "index.html" if path.is_dir() else path)


if __name__ == "__main__":
    main()
