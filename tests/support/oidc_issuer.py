"""An OpenID Connect issuer and the token endpoint of a GitHub job, in this process."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST_TOKEN = "the-job-s-request-token"


@dataclass
class Issuer:
    """Signs tokens as GitHub does, publishes its key, and answers a job that asks for a token.

    ``faults`` holds statuses that the next requests for a token get instead of an answer.
    """

    url: str
    key: rsa.RSAPrivateKey = field(repr=False)
    issued: list[str] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)

    def token(self, audience: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "repo:octo/perf:ref:refs/heads/main",
            "aud": audience,
            "iat": now,
            "exp": now + 300,
        }
        self.issued.append(jwt.encode(claims, self.key, "RS256", headers={"kid": "test"}))
        return self.issued[-1]

    def job(self) -> dict[str, str]:
        """What a job with ``id-token: write`` has in its environment."""
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }

    def answer(self, path: str, authorization: str) -> tuple[int, object]:
        """Status and JSON body for a GET."""
        parts = urlsplit(path)
        if parts.path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}
        if parts.path == "/jwks":
            public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            return 200, {"keys": [{**public, "kid": "test", "alg": "RS256", "use": "sig"}]}
        if parts.path != "/token":
            return 404, {}
        if self.faults:
            return self.faults.pop(0), {}
        if authorization.lower() != f"bearer {REQUEST_TOKEN}":
            return 401, {}
        return 200, {"value": self.token(parse_qs(parts.query)["audience"][0])}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    issuer: Issuer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path, self.headers.get("Authorization", ""))
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        issuer = Issuer(
            f"http://127.0.0.1:{server.server_port}",
            rsa.generate_private_key(public_exponent=65537, key_size=2048),
        )
        yield issuer
