"""Templates and workflows of the documentation as users copy them, with as little as possible replaced."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from seaweedfs import BUCKET, ROLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROJECT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs/*.md")
TEMPLATES = "workflows-templates/*.yml"
_BLOCK = re.compile(r"^( *)```ya?ml\n(.*?)^\1```", re.MULTILINE | re.DOTALL)

# What a test does not have, and what takes its place.
_TORCH = (
    r'python3 -m venv "\$RUNNER_TEMP/torch"\n +"\$RUNNER_TEMP/torch/bin/pip" install .*',
    'ln -s "$TORCH" "$RUNNER_TEMP/torch"',
)
_INSTALL = (
    r"pip install --pre torch .*",
    """|
            site=$("$TORCH/bin/python" -c 'import site; print(site.getsitepackages()[0])')
            printf '%s\\n' "$site" >"$(echo "$VENV"/lib/python*/site-packages)/torch.pth\"""",
)
_ROLE = (r"arn:aws:iam::ACCOUNT:role/ROLE", ROLE)
_SMALL = "benchmarks/my_suite.py"
ARCHITECTURES = (
    "vision/timm_starnet_s1",
    "vision/torchvision_inception_v3",
    "vision/timm_efficientnet_b0",
)
"""Of which the first runs; the second does not, as images of 128 by 128 are too small; and the third we have."""


def _bucket(prefix: str) -> tuple[str, str]:
    return r"s3://BUCKET", f"s3://{BUCKET}/granted/{prefix}"


REPLACED: Mapping[str, Sequence[tuple[str, str]]] = {
    "README.md: Benchmarks": (_INSTALL, (r"upload-to:", f"suite: {_SMALL}\n          upload-to:")),
    "docs/actions.md: Benchmarks": (_INSTALL, _ROLE, _bucket("benchmarks"), (r" +quick\n", "")),
    "docs/actions.md: Upload": (_ROLE, _bucket("upload")),
    "docs/checking.md: Nightly": (
        _TORCH,
        (r"suite: core", f"suite: {_SMALL}"),
        (r"clickhouse://user@host/benchmark", "chdb://${{ vars.STORE }}"),
    ),
    "workflows-templates/bisect.yml": (
        _TORCH,
        (r"suite: all #", "suite: benchmarks/narrow.py #"),
        (r"min-effect: 0.03 #", "min-effect: 0.9 #"),  # what is planted is many times as slow
    ),
    # PyTorch is there already, and so is the repository itself, whose machines are alike.
    "workflows-templates/nightly.yml": (
        (r" +anchor: .*\n", ""),
        (r" +build: .*\n", ""),
        (
            r"install: .*",
            """install: |
        [[ $RUNNER_KIND != lost ]]
        site=$("$TORCH/bin/python" -c 'import site; print(site.getsitepackages()[0])')
        printf '%s\\n' "$site" "$PWD" >"$(echo "$VENV"/lib/python*/site-packages)/here.pth\"""",
        ),
    ),
    "workflows-templates/dashboard.yml": (),
    # The libraries are where the tests are, and two models are tried beside a small suite.
    "workflows-templates/discover.yml": (
        (r' +python3 -m venv "\$RUNNER_TEMP/models"\n', ""),
        (r' +"\$RUNNER_TEMP/models/bin/pip" install .*\n', ""),
        (
            r"name: Install the newest libraries\n +run: \|",
            "name: Install the newest libraries\n        run: 'true'",
        ),
        (r"python=\$RUNNER_TEMP/models/bin/python", "python=$STAND_IN_PYTHON"),
        (r"suite discover", f"suite discover --suite {_SMALL} --filter {' '.join(ARCHITECTURES)}"),
    ),
    "workflows-templates/pull-request.yml": (_TORCH,),
    "workflows-templates/pull-request-comment.yml": (),
    "workflows-templates/upload-only.yml": (_ROLE, _bucket("upload-only")),
    "workflows-templates/watchdog.yml": (),
}
"""Patterns and what stands in their places, by the names of :func:`workflows`; each must be there."""


def copied(name: str) -> str:
    """The workflow as a test can run it."""
    text = workflows()[name]
    for pattern, replacement in REPLACED[name]:
        text, count = re.subn(pattern, lambda _, put=replacement: put, text)
        assert count, f"{name} has nothing like {pattern!r} any more"
    return text


def workflows() -> dict[str, str]:
    """All that are whole, by the file and, in a page, the workflow's name."""
    templates = {str(path.relative_to(PROJECT)): path.read_text() for path in sorted(PROJECT.glob(TEMPLATES))}
    found = [(f"{page}: {yaml.safe_load(text)['name']}", text) for page, text in blocks() if _is_whole(text)]
    named = dict(found)
    assert len(named) == len(found), "two workflows of a page have the same name"
    return {**named, **templates}


def parts() -> list[tuple[str, str]]:
    """All that are not whole, each in the least that makes a workflow of it, and the page that it is on."""
    return [
        (page, _whole(text))
        for page, text in blocks()
        if not _is_whole(text) and not _is_configuration(yaml.safe_load(text))
    ]


def blocks() -> list[tuple[str, str]]:
    """All blocks of YAML, and the page that each is on."""
    pages = [path for pattern in PAGES for path in sorted(PROJECT.glob(pattern))]
    return [
        (str(page.relative_to(PROJECT)), re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for page in pages
        for indent, text in _BLOCK.findall(page.read_text())
    ]


def _is_whole(text: str) -> bool:
    return "\njobs:\n" in text


def _is_configuration(content: Any) -> bool:
    """Whether it is of torchperf.yml, or of another file in which every entry is below a version."""
    return isinstance(content, dict) and bool(
        content.keys() & {"version", "runners", "suites", "issues", "policy"}
    )


def _whole(text: str) -> str:
    """A workflow around steps, around a job that runs after one that plans, or around what a called one is given."""
    content, text = yaml.safe_load(text), textwrap.dedent(text)
    job = {"runs-on": "ubuntu-24.04", "strategy": {"matrix": "${{ fromJSON(vars.MATRIX) }}"}, "steps": []}
    if isinstance(content, list):
        earlier = {*re.findall(r"\bsteps\.([\w-]+)\.", text)} - {step.get("id") for step in content}
        before = [
            {"id": name, "uses": f"OWNER/torchperf-ci/actions/{name}@COMMIT"} for name in sorted(earlier)
        ]
        jobs = {"copied": {**job, "steps": [*before, *content]}}
    elif all(isinstance(value, dict) and "runs-on" in value for value in content.values()):
        outputs = {"matrix": "${{ vars.MATRIX }}", "count": "1"}
        plan = {"runs-on": "ubuntu-24.04", "outputs": outputs, "steps": [{"run": "true"}]}
        after = {name: {**given, "steps": [{"run": "true"}]} for name, given in content.items()}
        jobs = {"plan-bisections": plan, **after}
    else:
        call = content if content.keys() <= {"with", "secrets"} else {"with": content}
        jobs = {"copied": {"uses": "OWNER/torchperf-ci/.github/workflows/benchmark.yml@COMMIT", **call}}
    return yaml.safe_dump({"name": "Copied", "on": "push", "permissions": {}, "jobs": jobs}, sort_keys=False)
