"""Which names a data branch may have, for torchperf.yml and for ``branch:NAME``."""

from __future__ import annotations

BRANCH_NAME = r"(?![^@]*\.lock(?:[/@]|$))[A-Za-z0-9_=-]+(?:[./][A-Za-z0-9_=-]+)*"
"""A regular expression of Python and of JSON Schema; git refuses empty parts, two dots, and dots around a part."""
BRANCH_FORM = "that git accepts, of the letters and digits of ASCII and . _ = - /"
"""The same for messages."""
