"""Run a server in the background of a test."""

from __future__ import annotations

import datetime
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from socketserver import BaseServer, TCPServer

Running = TypeVar("Running", bound="BaseServer")


@contextmanager
def serving(server: Running) -> Iterator[Running]:
    """Close it in the end, whatever happens: one whose socket is closed beneath it would spin forever."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def encrypt(server: TCPServer, folder: Path) -> None:
    """Let a server speak TLS, with a certificate that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    file = folder / "certificate.pem"
    file.write_bytes(
        unsigned.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
