"""What is shown of commands, URLs and headers contains no credential."""

from __future__ import annotations

import pytest

from torchperf_ci.masking import without_secrets


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fatal: https://me:s3cret@host/r: no", "fatal: https://***host/r: no"),
        ("https://me:s3 cr et@host/r", "https://***host/r"),
        ("https://me:s3@cret@host/r", "https://***host/r"),
        ("https://me:s3/cr/et@host/r", "https://***host/r"),
        ("https://s3cret@host/r", "https://***host/r"),
        ("https:/me:s3cret@host/r", "https:/***host/r"),
        ("no directory /home/me/https:/s3cret@host/r", "no directory /home/me/https:/***host/r"),
        ("HTTPS://s3cret@host/r", "HTTPS://***host/r"),
        ("s3://bucket: give branch:NAME[@REMOTE]",) * 2,
        ("http://host:8080: no; ask me@host",) * 2,
        ("--store clickhouse://me@host/db and ssh://git@host/r",) * 2,
        ("https://host/r?token=s3cret&x=1", "https://host/r?token=***&x=1"),
        ("https://host/{sha}.whl?sv=1&sig=s3cret&x=1", "https://host/{sha}.whl?sv=1&sig=***&x=1"),
        ("https://host/r?X-Amz-Signature=s3cret", "https://host/r?X-Amz-Signature=***"),
        ("Authorization: Basic s3cret", "Authorization: Basic ***"),
        ("AUTHORIZATION: token s3cret", "AUTHORIZATION: token ***"),
        ("HF_TOKEN=s3cret python b.py", "HF_TOKEN=*** python b.py"),
        ("export API_KEY='s3 cr et'; make", "export API_KEY=***; make"),
        ("login --token s3cret && make", "login --token *** && make"),
        ("PATH=/usr/bin:/bin:/opt/python@3.12/bin make",) * 2,
        ("HF_TOKEN=$HF python b.py", "HF_TOKEN=$HF python b.py"),
        ("b.py --max-tokens=5 --sort-key=name", "b.py --max-tokens=5 --sort-key=name"),
        ("of a basic block", "of a basic block"),
        ("https://host:8080/r and me@host", "https://host:8080/r and me@host"),
        ("https://host:8080 me@host", "https://host:8080 me@host"),
    ],
)
def test_credentials_are_left_out(text: str, told: str) -> None:
    assert without_secrets(text) == told
