from __future__ import annotations

import pytest

from torchperf_ci.bisect.commits import pull_request_number

TRAILER = "Summary.\n\nPull Request resolved: https://github.com/pytorch/pytorch/pull/61056\nApproved by: somebody\n"


@pytest.mark.parametrize(
    ("subject", "body", "number"),
    [
        ("Fuse the norm (#1234)", "", 1234),
        ("Fix #7 (#8) (#9)", "", 9),
        ("Merge pull request #55 from user/branch", "Fuse the norm (#3)", 55),
        ("Fuse the norm", TRAILER, 61056),
        ("Fuse the norm", TRAILER.replace("\n", "\r\n"), 61056),
        ("Pick a commit to a release (#70)", TRAILER, 70),
        ('Revert "Fuse the norm (#1234)"', "Reverted https://github.com/pytorch/pytorch/pull/1234", None),
        ('Revert "Fuse the norm (#1234)" (#1300)', "", 1300),
        ("Fuse the norm (#1234) again", "", None),
        ("Follow up on Merge pull request #55 from user", "", None),
        ("Fuse the norm", "See Pull Request resolved: https://github.com/a/b/pull/1", None),
        ("Fuse the norm", "Pull Request resolved: https://github.com/a/b/issues/1", None),
        ("(#0٣)", "", None),
        (f"Long (#{'9' * 5000})", "", None),
        ("", "", None),
    ],
)
def test_the_number_is_the_one_that_the_message_gives_itself(
    subject: str, body: str, number: int | None
) -> None:
    assert pull_request_number(subject, body) == number
