"""What may be chosen, and what a word on the command line becomes.

The functions raise ``ValueError`` or ``KeyError`` for a word that is none of these.
"""

from __future__ import annotations

import datetime
import re

from torchperf_ci.machine.devices import DEVICE_TYPES

DTYPES = ("fp32", "tf32", "bf16", "fp16", "amp")
MODES = ("inference", "training")
DEVICES = ("auto", *sorted(DEVICE_TYPES))
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BACKENDS = ("eager", "inductor", *(f"inductor:{mode}" for mode in COMPILE_MODES))


def text(value: str) -> str:
    """Any text."""
    return value


def positive_int(value: str) -> int:
    """A whole number from 1."""
    number = int(value)
    if number < 1:
        raise ValueError
    return number


def positive(value: str) -> float:
    """A number above 0."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def share(value: str) -> float:
    """A share between 0 and 1, such as 0.03 or 3%."""
    number = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    if not 0 < number < 1:
        raise ValueError
    return number


def batch_size(value: str) -> int:
    """A whole number from 1, or ``auto``."""
    return 0 if value == "auto" else positive_int(value)


def shard(value: str) -> tuple[int, int]:
    """``I/N`` with 1 ≤ I ≤ N."""
    number, _, of = value.partition("/")
    if not 1 <= int(number) <= int(of):
        raise ValueError
    return int(number), int(of)


def address(value: str) -> tuple[str, int]:
    """A host and a port, as in 127.0.0.1:8080 or [::1]:8080."""
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not 0 <= int(port) < 2**16:
        raise ValueError
    return host, int(port)


def moment(value: str) -> int:
    """Unix seconds, or a date such as 2026-08-31 or 2026-08-31T12:00:00Z, in UTC where it names no zone."""
    if value.isdecimal():
        return int(value)
    # Python 3.10 reads neither the Z nor a fraction of other than three or six digits
    found = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    seconds = int((found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).timestamp())
    if seconds < 0:
        raise ValueError
    return seconds


def full_sha(value: str) -> str:
    """The 40 hexadecimal digits of a commit."""
    if not re.fullmatch("[0-9a-f]{40}", value):
        raise ValueError
    return value


def truth(value: str) -> bool:
    """``true`` or ``false``, as an action's inputs spell them."""
    return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
