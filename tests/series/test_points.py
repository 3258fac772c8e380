from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from made_points import series

from torchperf_ci.series.points import differing_facts, restating

FACTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5)


@given(FACTS, FACTS)
def test_a_difference_is_empty_where_facts_are_equal(a, b):
    assert (differing_facts(a, b) == []) == (a == b)


def test_a_difference_reads_well():
    a, b = {"governor": "powersave", "smt": "on"}, {"governor": "performance", "smt": "on", "turbo": "off"}
    assert differing_facts(a, b) == ["governor: powersave → performance", "turbo: not known → off"]


def test_a_throughput_restates_the_latency_of_its_own_case():
    latency, throughput = series("latency(ms)"), series("throughput(samples/s)")
    alone, other = series("throughput(samples/s)", model="vit"), series("throughput(tokens/s)")
    assert restating([latency, throughput, alone, other, series("peak_memory(MiB)")]) == {throughput}
