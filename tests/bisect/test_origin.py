from __future__ import annotations

import pytest

from torchperf_ci.identity import origin_page

PAGE = "https://github.com/octo/perf"


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://github.com/octo/perf", PAGE),
        ("https://github.com/octo/perf.git", PAGE),
        ("https://github.com/octo/perf/", PAGE),
        ("http://github.com/octo/perf.git", PAGE),
        ("https://x-access-token:ghs_secret@github.com/octo/perf.git", PAGE),
        ("https://ghs_secret@github.com/octo/perf", PAGE),
        ("git@github.com:octo/perf.git", PAGE),
        ("github.com:octo/perf.git", PAGE),
        ("git://github.com/octo/perf.git", PAGE),
        ("ssh://git@github.com/octo/perf.git", PAGE),
        ("ssh://git@github.com:22/octo/perf.git", PAGE),
        ("https://git.example:8443/octo/perf.git", "https://git.example:8443/octo/perf"),
        ("/srv/git/perf.git", ""),
        ("../perf", ""),
        ("file:///srv/git/perf.git", ""),
        ("https://user:p@ss/word@github.com/octo/perf", ""),
        ("https://github.com/octo/<img src=x>", ""),
        ("javascript:alert(1)", ""),
        ("javascript:alert", ""),
    ],
)
def test_the_page_of_a_remote_without_its_credentials(history, remote, page) -> None:
    history.git("remote", "add", "origin", remote)
    found = origin_page(history.folder)
    assert found == page
    assert "secret" not in found


def test_without_an_origin_there_is_no_page(history, tmp_path) -> None:
    assert origin_page(history.folder) == ""
    assert origin_page(tmp_path) == ""
