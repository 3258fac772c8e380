"""No text about git's messages, commands or remotes contains a credential."""

from __future__ import annotations

import pytest

from torchperf_ci.git import without_secrets


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fatal: https://me:s3cret@host/r: no", "fatal: https://***host/r: no"),
        ("https://me:s3 cr et@host/r", "https://***host/r"),
        ("https://me:s3@cret@host/r", "https://***host/r"),
        ("https://s3cret@host/r", "https://***host/r"),
        ("https://host/r?token=s3cret&x=1", "https://host/r?token=***&x=1"),
        ("Authorization: Basic s3cret", "Authorization: Basic ***"),
        ("https://host:8080/r and me@host", "https://host:8080/r and me@host"),
        ("https://host:8080 me@host", "https://host:8080 me@host"),
    ],
)
def test_credentials_are_left_out(text: str, told: str) -> None:
    assert without_secrets(text) == told
