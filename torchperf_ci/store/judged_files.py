"""Store files of verdicts and culprits, and the subjects of commits, beside the results; and read them again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError, failing_as
from torchperf_ci.git import Git, GitError
from torchperf_ci.records.reading import kind_of_judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.store.client import Store

CULPRITS = "culprits"
_GIT_SECONDS = 120
_FIELDS = ("commit", "author", "date", "subject")
_FORMAT = "--format=%H%x00%an%x00%aI%x00%s"
_COMMITS_OF_CULPRITS = """\
INSERT INTO torchperf_commits (commit, date, author, subject)
SELECT commit, date, author, subject FROM torchperf_culprits
WHERE date != '' AND commit NOT IN (SELECT commit FROM torchperf_commits UNION ALL SELECT '')"""

_SUBJECTS = """\
SELECT commit, min(subject) FROM torchperf_commits
WHERE commit IN {commits:Array(String)} AND subject != '' GROUP BY commit ORDER BY commit"""


def add_judged_files(store: Store, bucket: str, files: Mapping[str, str]) -> tuple[int, list[str]]:
    """Store those of ``files``, texts by key, that are verdicts or culprits.

    Return how many there are, and the keys of those whose content is new: what the store has is not stored again.
    """
    rows = {
        hashlib.sha256(text.encode()).hexdigest(): {"kind": kind, "bucket": bucket, "key": key, "text": text}
        for key, text in files.items()
        if (kind := kind_of_judged(text))
    }
    if not rows:
        return 0, []
    rows_of_known = store.rows(
        "SELECT digest FROM torchperf_judged WHERE digest IN {digests:Array(String)}", {"digests": list(rows)}
    )
    known = {str(digest) for (digest,) in rows_of_known}
    new = {digest: row for digest, row in rows.items() if digest not in known}
    _insert(store, "torchperf_judged", [{"digest": digest, **row} for digest, row in new.items()])
    if CULPRITS in {row["kind"] for row in rows.values()}:
        store.run(_COMMITS_OF_CULPRITS)  # also of known ones: a kill may have come before this
    return len(rows), [row["key"] for row in new.values()]


def judged_texts(store: Store, kind: str) -> Sequence[str]:
    """Return the verbatim files of a kind in the order in which they were ingested, each content once."""
    if not store.has_table("torchperf_judged"):
        return []
    sql = "SELECT text FROM torchperf_judged WHERE kind = {kind:String} ORDER BY taken_at, key LIMIT 1 BY digest"
    return [text for (text,) in store.rows(sql, {"kind": kind})]


def commit_subjects(store: Store, commits: Iterable[str]) -> Mapping[str, str]:
    """Return the subjects of ``commits`` (full SHAs) by commit, as far as culprits or a clone have provided them."""
    if not store.has_table("torchperf_commits"):
        return {}
    asked = {"commits": sorted({commit for commit in commits if commit})}
    return dict(map(tuple, store.rows(_SUBJECTS, asked)))


def add_commits(store: Store, clone: Path) -> int:
    """Store subject, author and date of all commits of a clone, and return how many were new.

    Raises :class:`UsageError` if it is not a repository.
    """
    git = Git.within(_GIT_SECONDS, clone)
    with failing_as(UsageError, f"--git {clone}: its commits cannot be read: ", of=GitError):
        log = git("log", "--all", "-z", "--no-show-signature", "--encoding=UTF-8", _FORMAT)
    texts = log.decode(errors="replace").split("\0")[:-1]
    known = {str(commit) for (commit,) in store.rows("SELECT commit FROM torchperf_commits")}
    rows = [
        dict(zip(_FIELDS, texts[at : at + len(_FIELDS)], strict=True))
        for at in range(0, len(texts), len(_FIELDS))
    ]
    new = [row for row in rows if row["commit"] not in known]
    _insert(store, "torchperf_commits", new)
    return len(new)


def _insert(store: Store, table: str, rows: Sequence[Mapping[str, str]]) -> None:
    if rows:
        store.insert(table, list(rows[0]), "\n".join(map(json.dumps, rows)).encode())
