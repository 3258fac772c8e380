"""Answers of a store that changes while people look."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from dashboard_nights import put_nights

from torchperf_ci import config
from torchperf_ci.culprits.culprit import Bisection, Culprit, culprits_json
from torchperf_ci.places import open_place
from torchperf_ci.stats.effect import Effect
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.judged import keep_judged
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.answers import Answers

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_taken_in_is_told_from_then_on(nights: str, tmp_path: Path) -> None:
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path}/store") as store:
        answers = Answers(store, config.find(None))
        first, known = answers.document("overview.json"), answers.document("regressions.json")
        assert answers.document("overview.json") is first

        culprit = Culprit("30" * 20, ("30" * 20,), 0.998, Effect(1.08, 1.07, 1.09, 12))
        found = Bisection("found", "29" * 20, "30" * 20, culprits=(culprit,))
        keep_judged(store, "b", {"judged/1": culprits_json(found)})
        told = answers.document("regressions.json")
        assert told.etag != known.etag

        put_nights(tmp_path / "records", 40, 41)
        ingest_place(store, open_place(str(tmp_path / "records")))
        assert (
            json.loads(answers.document("overview.json").content)["time"] > json.loads(first.content)["time"]
        )
