from __future__ import annotations

import pytest

from torchperf_ci.bisect.commits import Commit, find_reverts, read_range, reverted_commit

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("subject", "body", "named"),
    [
        ('Revert "Fuse the norm (#12)" (#15)', f"This reverts commit {SHA}.\n", SHA),
        ('Revert "Fuse the norm (#12)"', "Reverted on behalf of somebody", "Fuse the norm (#12)"),
        ('Back out "Fuse the norm" (#17)', "Original commit changeset: 0123456789ab\n", "Fuse the norm"),
        ('Revert "Revert "Fuse the norm (#12)"" (#16)', "", 'Revert "Fuse the norm (#12)"'),
        ("Fuse the norm", f"It was lost.\n\nThis reverts commit {SHA[:10]} in part.", SHA[:10]),
        ("Fuse the norm", f"See how `This reverts commit {SHA}` reads.", ""),
        ("Revert the order", "", ""),
        ("", "", ""),
    ],
)
def test_a_revert_names_what_it_takes_back(subject: str, body: str, named: str) -> None:
    assert reverted_commit(subject, body) == named


def _commit(sha: str, subject: str, reverted: str = "") -> Commit:
    return Commit(sha, "", "", subject, None, (), reverted)


def test_the_last_one_before_it_is_meant() -> None:
    fused, other = "Fuse the norm (#12)", "a" * 40
    line = [
        _commit(other, fused),
        _commit(SHA, fused),
        _commit("b" * 40, f'Revert "{fused}"', fused),
        _commit("c" * 40, "Take it back", other[:7]),
        _commit("d" * 40, "Take back what is not here", "e" * 40),
        _commit("f" * 40, "Be brief", "a"),
    ]
    assert find_reverts(line) == {2: 1, 3: 0}


def test_a_revert_on_github_is_known_by_the_titles_of_pull_requests(bisect, history) -> None:
    """Merges have the title below their subject; a squash has the number behind it, which its revert lacks."""
    start = history.cost(100, "Start")
    for number, (title, cost) in enumerate([("Be careful", 120), ('Revert "Be careful"', 100)], start=1):
        history.start(f"branch-{number}", "main")
        history.cost(cost, "Work in progress")
        history.go_to("main")
        history.merge(
            f"branch-{number}", message=f"Merge pull request #{number} from o/branch-{number}\n\n{title}"
        )
        for _ in range(6 - 3 * number):
            history.commit("Say less")
    culprit = history.cost(120, "Check twice (#3)")
    bad = history.commit("Say more")
    [named] = bisect("--good", start, "--bad", bad).culprits
    assert named.commit == culprit
    history.cost(100, 'Revert "Check twice" (#4)')
    assert find_reverts(read_range(history.folder, start, "main").commits) == {5: 1, 8: 6}
