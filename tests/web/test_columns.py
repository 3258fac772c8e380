"""The columns of results in the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.metrics import kind_of
from torchperf_ci.series.outcomes import results_of_runs
from torchperf_ci.series.points import Point, Series
from torchperf_ci.web.catalogue import RunEntry
from torchperf_ci.web.result_documents import run_document

if TYPE_CHECKING:
    from watched_page import Watched


def test_an_outcome_told_as_a_word_is_a_pass_or_a_failure(watched: Watched) -> None:
    """TorchInductor's accuracy: its passes must not look like runs without a value, which a chart marks as failed."""
    run = RunEntry("0" * 10, "1.1", "r", "b", "cuda", "", "main", "", 0, 0, "")
    words = ('["pass"]', '["pass_due_to_skip"]', '["fail_accuracy"]', '["skipped"]')
    infos = [*({"benchmark_values": word} for word in words), {"status": "oom"}]
    metrics = [*["accuracy"] * len(words), "latency(ms)"]
    points = {
        Series("r", "b", f"m{place}", "", "", "", "cuda", "", metric): [Point(None, info=info, run="1.1")]
        for place, (metric, info) in enumerate(zip(metrics, infos, strict=True))
    }
    columns = run_document(run, None, results_of_runs(points), set(), set(), dict.fromkeys(points, 0)).values
    assert columns["value"] == [1, 1, 0, None, None]
    assert columns["why"] == ["", "", "fail_accuracy", "no number", "oom"]
    page = watched.open("")
    told = [
        page.evaluate(f"import('./js/dom.js').then((dom) => dom.reading({value}, {{ metric: '{metric}' }}))")
        for value, metric in (
            (1, "accuracy"),
            (0, "top1_accuracy"),
            (0, "status"),
            (0, "pass_rate"),
            (1, "graph_breaks"),
        )
    ]
    assert told == ["passes", "fails", "fails", "fails", "1"]
    extremes = "dom.extreme(1, { n: 1 }, { metric: 'status' }), dom.extreme(1.5, { n: 2 }, { metric: 'latency(ms)' })"
    assert page.evaluate(f"import('./js/dom.js').then((dom) => [{extremes}])") == ["–", "1.500"]


def test_what_is_a_pass_or_a_failure_is_so_on_the_pages(watched: Watched) -> None:
    """An accuracy drop of 0, the best there is, was told as a failure."""
    metrics = ("status", "top-1 accuracy", "pass__rate(%)", "accuracy_drop", "latency(ms)")
    page = watched.open("")
    script = """async (all) => {
        const { reading } = await import('./js/dom.js');
        return all.map((metric) => reading(0, { metric }) === 'fails');
    }"""
    assert page.evaluate(script, metrics) == [kind_of(metric) == "outcome" for metric in metrics]


def test_places_and_spreads_are_told_by_name_and_as_numbers(watched: Watched) -> None:
    page = watched.open("")
    machine = "{ repo: 'r', benchmark: 'b', device: 'cuda', arch: 'H100' }"
    places = """import('./js/data.js').then((data) => [2, 1].map((last) => {
        const items = [1, 2, 3, 4].map((id) => ({ ...RUN, id, device: id === 3 ? "cpu" : "cuda" }));
        try { return data.placed(items, RUN, [2, -1], last).map(({ id }) => id); }
        catch ({ message }) { return message; }
    }))""".replace("RUN", machine)
    assert page.evaluate(places) == [[4, 2], "The results are changing at the moment. Reload this page."]
    ends = """import('./js/data.js').then((data) => data.valuesOf(COLUMNS).map(({ low, high }) => [low, high]))"""
    spread = "{ value: [27.8231, null, 1, 0], below: [0.0712, null, null, 3], above: [0, null, null, 0.5] }"
    assert page.evaluate(ends.replace("COLUMNS", spread)) == [
        [27.7519, 27.8231],
        [None, None],
        [None, None],
        [-3, 0.5],
    ]
