"""ClickHouse's HTTP interface in front of the embedded engine, for as much of it as our client uses.

It stands in for a server, which cannot be installed from a package registry. The engine is the real one; the only
user may do everything, or only read.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from email.parser import BytesParser
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import chdb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_INSERT = re.compile(rb"(INSERT INTO .*) (FORMAT \w+)\s*")
_FIELD = 128 << 10
"""Most bytes of a parameter, http_max_field_value_size since version 23.6."""
_CODE = re.compile(r"Code: (\d+)\.")
_WHILE_ROWS_COME = {"159", "241", "396"}
"""Codes of errors for too much time, memory and rows, which are seen while an answer is made."""
_SETTINGS = (
    "max_execution_time",
    "max_result_bytes",
    "result_overflow_mode",
    "max_query_size",
    "date_time_input_format",
)
"""The settings that are heeded; the others concern the connection."""


class _ClickHouseHttp(ThreadingHTTPServer):
    """A server whose engine has its data in ``directory``; statements take turns."""

    daemon_threads = True

    def __init__(self, directory: str, readonly: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._connect = cache(lambda _session: self._session(directory, readonly))
        self._turn = threading.Lock()

    def _session(self, directory: str, readonly: str) -> chdb.Connection:
        engine = chdb.connect(directory)
        quoted = (
            f"output_format_json_quote_64bit_integers = {readonly}"  # as servers before 25.8 do by default
        )
        engine.query(f"SET {quoted}, readonly = {readonly}")
        return engine

    def answer(self, sql: bytes, asked: Mapping[str, str]) -> bytes:
        """Run a statement as the parameters of a request ask. Raises ``RuntimeError`` with the engine's message."""
        parameters = {name[6:]: value for name, value in asked.items() if name.startswith("param_")}
        settings = {name: asked[name] for name in _SETTINGS if name in asked}
        with self._turn:
            engine = self._connect(asked.get("session_id"))
            if "database" in asked:
                engine.query(f"USE `{asked['database']}`")
            try:
                for name, value in settings.items():
                    engine.query(f"SET {name} = '{value}'")
                return engine.query(sql, "TabSeparated", params=parameters).bytes() or b""
            finally:
                for name in settings:
                    engine.query(f"SET {name} = DEFAULT")

    def insert(self, into: bytes, form: bytes, lines: bytes, asked: Mapping[str, str]) -> None:
        """Insert rows that are given in one of ClickHouse's formats."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(lines)
            file.flush()
            self.answer(into + f" FROM INFILE '{file.name}' ".encode() + form, asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _ClickHouseHttp

    def do_POST(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get_content_type() == "multipart/form-data":
            asked |= self._fields(body)
            body = asked.pop("query").encode()
        elif "query" in asked:
            body = f"{asked.pop('query')}\n".encode() + body
        if any(len(value.encode()) > _FIELD for value in asked.values()):
            self._send(
                400, b"Poco::Exception. Code: 1000, HTML Form Exception: Field value too long (version)\n"
            )
            return
        try:
            self._send(200, self._answer(body, asked))
        except RuntimeError as error:
            match = _CODE.search(str(error))
            code = match[1] if match else "1002"
            content = f"{error}\n".encode()
            if code in _WHILE_ROWS_COME and asked.get("wait_end_of_query") != "1":
                self._send(200, content)  # the head of the answer was sent before
            else:
                self._send(500, content, {"X-ClickHouse-Exception-Code": code})

    def _answer(self, body: bytes, asked: Mapping[str, str]) -> bytes:
        head, _, lines = body.partition(b"\n")
        if insert := _INSERT.fullmatch(head):
            self.server.insert(*insert.groups(), lines, asked)
            return b""
        return self.server.answer(body, asked)

    def _fields(self, body: bytes) -> Mapping[str, str]:
        """The fields of a form."""
        form = BytesParser().parsebytes(
            f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode() + body
        )
        return {
            str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True).decode()
            for part in form.get_payload()
        }

    def _send(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (
            {"X-ClickHouse-Timezone": "UTC", "X-ClickHouse-Summary": "{}"} | (headers or {})
        ).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def clickhouse_server(directory: Path, *, readonly: bool = False) -> Iterator[str]:
    """Yield the address of a store on a server, in a process of its own since a process has one engine."""
    command = [sys.executable, __file__, str(directory), str(int(readonly))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"clickhouse://127.0.0.1:{int(process.stdout.readline())}/benchmark"
        finally:
            process.kill()


if __name__ == "__main__":
    with _ClickHouseHttp(*sys.argv[1:]) as started:
        print(started.server_port, flush=True)
        started.serve_forever()
