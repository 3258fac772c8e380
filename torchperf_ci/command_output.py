"""Report a command's outcome: on stdout and stderr, and in a job also as summary, annotations and step outputs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import print_document, say
from torchperf_ci.markdown import to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchperf_ci.document import Document


def publish_result(
    document: Document,
    *lines: str,
    as_json: str | None,
    annotations: Iterable[actions.Annotation],
    outputs: Mapping[str, object],
    rest: str = "all of them in the file",
) -> None:
    """Print the document, or ``as_json`` if given, on stdout, and ``lines`` on stderr.

    In a job, also append the document to the summary, annotate, and set ``outputs``. ``rest`` says where to find the
    rows that a terminal does not show.
    """
    if as_json is None:
        print_document(document, sys.stdout, rest=rest)
    else:
        sys.stdout.write(actions.inert_json(as_json))
    sys.stdout.flush()
    say(*lines)
    if not actions.in_actions():
        return
    actions.append_summary(to_markdown(document))
    actions.annotate(annotations)
    for name, value in outputs.items():
        actions.set_output(name, str(value))


def print_json(data: object, indent: int = 2) -> None:
    """Print data as JSON on stdout, in which a runner finds no workflow command. The numbers must be finite."""
    sys.stdout.write(f"{actions.inert_json(json.dumps(data, indent=indent, allow_nan=False))}\n")
