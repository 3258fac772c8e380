from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bisect.commits import LinearHistory, brought_in, path_changes, read_range
from torchperf_ci.environments.revisions import find_revision
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def shas(commits: LinearHistory | None) -> list[str]:
    assert commits
    return [commit.sha for commit in commits.commits]


def refusal(repo, good: str, bad: str) -> str:
    with pytest.raises(UsageError) as error:
        read_range(repo, good, bad)
    return str(error.value)


def test_a_range_begins_after_good_and_ends_with_bad(history) -> None:
    made = [history.commit(f"Change {i}") for i in range(5)]
    history.git("tag", "-a", "v1", made[1], "-m", "a tag that is an object of its own")
    commits = read_range(history.folder, "v1", "main~1")
    assert shas(commits) == made[1:4]
    assert commits.good.sha == made[1]
    assert [commit.subject for commit in commits.suspects] == ["Change 2", "Change 3"]
    assert commits.suspects[0].parents == (made[1],)
    assert commits.repo == history.folder
    assert shas(read_range(history.folder, ":/Change 1", "HEAD^{/Change 3}")) == made[1:4]


def test_the_first_commit_of_all_can_be_good(history) -> None:
    root, second = history.commit("Begin"), history.commit("Go on")
    commits = read_range(history.folder, root, second)
    assert shas(commits) == [root, second]
    assert commits.good.parents == ()


def test_a_commit_is_told_as_the_mailmap_and_its_message_have_it(history, monkeypatch) -> None:
    root = history.commit("Begin")
    history.commit("Map", ".mailmap")
    (history.folder / ".mailmap").write_text("Ada Lovelace <ada@a.invalid> <old@a.invalid>\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-02-03T04:05:06+05:30")
    body = "Pull Request resolved: https://github.com/pytorch/pytorch/pull/61056"
    bad = history.commit(f"Fuse the norm\n\n{body}", author="al <old@a.invalid>")
    found = read_range(history.folder, root, bad).suspects[-1]
    assert (found.author, found.date) == ("Ada Lovelace", "2026-02-03T04:05:06+05:30")
    assert (found.subject, found.pull_request) == ("Fuse the norm", 61056)


EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

HOSTILE = {
    "quotes": "\"'`$(touch hooked)`; touch hooked #",
    "a format": "%H%x00%n --format=%H",
    "an escape": "red \x1b[31m and \x07 and \x01\x1e\x1f",
    "a workflow command": "::error::%0A::stop-commands::x",
    "long": "x" * 10_000,
    "other lines": "a\u2028b\x85c\x0bd\x0ce",
    "a sha": "0" * 40,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_message_or_a_name_holds_is_data(history, text: str) -> None:
    text = f"A{text}Z"  # git itself strips the ends
    root = history.commit("Begin")
    made = [
        root,
        history.commit(f"{text}\n\nbody\n{text}", author=f"{text} <ada@a.invalid>"),
        history.commit("After"),
    ]
    before = sorted(history.folder.parent.rglob("*"))
    commits = read_range(history.folder, root, made[-1])
    assert shas(commits) == made
    assert commits.suspects[0].subject == commits.suspects[0].author == text
    assert commits.suspects[1].subject == "After"
    assert sorted(history.folder.parent.rglob("*")) == before


def test_bytes_that_are_no_text_are_replaced_and_other_encodings_read(history) -> None:
    root = history.commit("Begin")
    broken = _raw_commit(history.folder, root, b"caf\xe9 \xff", b"caf\xe9 \xff\n")
    latin = _raw_commit(history.folder, broken, b"caf\xe9", b"caf\xe9\n", b"encoding ISO-8859-1\n")
    cut = _raw_commit(history.folder, latin, b"t", b"one\x00two\x00three\n")
    commits = read_range(history.folder, root, cut)
    assert shas(commits) == [root, broken, latin, cut]
    told = [(commit.author, commit.subject) for commit in commits.suspects]
    assert told == [("caf\ufffd \ufffd", "caf\ufffd \ufffd"), ("café", "café"), ("t", "one")]


def _raw_commit(repo: Path, parent: str, name: bytes, message: bytes, header: bytes = b"") -> str:
    """A commit as other programs than git may write it."""
    ids = f"tree {EMPTY_TREE}\nparent {parent}\n".encode()
    people = b"".join(
        b"%s %s <t@t.invalid> 1700000000 +0000\n" % (role, name) for role in (b"author", b"committer")
    )
    command = ["git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"]
    body = ids + people + header + b"\n" + message
    return (
        subprocess.run(command, cwd=repo, input=body, capture_output=True, check=True).stdout.decode().strip()
    )


def test_a_commit_without_any_message_is_one(history) -> None:
    root = history.commit("Begin")
    history.git("commit", "--quiet", "--allow-empty", "--allow-empty-message", "--message", "")
    assert [commit.subject for commit in read_range(history.folder, root, "HEAD").suspects] == [""]


def test_what_the_user_has_set_for_reading_by_hand_changes_nothing(history) -> None:
    made = [history.commit("Begin"), history.commit("Go on", "here/a")]
    signature = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
    made.append(_raw_commit(history.folder, made[-1], b"t", b"Signed\n", signature))
    verifier = history.folder.parent / "verify"
    verifier.write_text("#!/bin/sh\necho noise >&2\n")
    verifier.chmod(0o755)
    for key, value in [
        ("log.showSignature", "true"),
        ("gpg.program", str(verifier)),
        ("log.date", "relative"),
        ("format.pretty", "oneline"),
        ("color.ui", "always"),
        ("diff.renames", "copies"),
        ("diff.relative", "true"),
        ("log.diffMerges", "on"),
        ("i18n.logOutputEncoding", "UTF-16"),
    ]:
        history.git("config", key, value)
    for folder in (history.folder, history.folder / "here"):
        commits = read_range(folder, made[0], made[-1])
        assert shas(commits) == made
        assert path_changes(commits) == [{"here/a"}, {"0", "here/a"}]


def test_a_merge_is_one_suspect_and_what_it_brought_in_a_range_of_its_own(history) -> None:
    good = history.commit("Begin")
    history.start("feature", good)
    inside = [history.commit("Inside 1"), history.commit("Inside 2")]
    history.go_to("main")
    first = history.commit("First")
    merge = history.merge("feature", message="Merge pull request #12 from user/feature")
    last = history.commit("Last")
    commits = read_range(history.folder, good, last)
    assert shas(commits) == [good, first, merge, last]
    assert commits.suspects[1].pull_request == 12
    assert path_changes(commits) == [frozenset({"3"}), frozenset({"1", "2"}), frozenset({"5"})]
    assert shas(brought_in(commits, 2)) == [good, *inside]
    assert brought_in(commits, 1) is None
    assert brought_in(commits, 3) is None


def test_a_good_commit_of_a_merged_branch_stays_position_0_and_every_suspect_holds_it(history) -> None:
    """First parents alone would lead past it: to commits that were made before it was merged."""
    root = history.commit("Begin")
    history.start("feature", root)
    good, after_good = history.commit("Good", "feature"), history.commit("After good", "feature")
    history.go_to("main")
    beside = [history.commit("Beside 1", "main"), history.commit("Beside 2", "other")]
    merge, bad = history.merge("feature"), history.commit("Bad", "bad")
    commits = read_range(history.folder, good, bad)
    assert shas(commits) == [good, after_good, merge, bad]
    assert path_changes(commits)[1] == {"main", "other"}
    assert shas(brought_in(commits, 2)) == [root, *beside]


def test_a_branch_that_main_was_merged_into_begins_where_it_last_was_main(history) -> None:
    root = history.commit("Begin")
    history.start("feature", root)
    early = history.commit("Early", "feature")
    history.go_to("main")
    moved_on = history.commit("Moved on", "main")
    history.go_to("feature")
    update, late = history.merge("main", message="Update the branch"), history.commit("Late", "feature")
    history.go_to("main")
    commits = read_range(history.folder, root, history.merge("feature"))
    inside = brought_in(commits, 2)
    assert inside
    assert shas(inside) == [moved_on, update, late]
    assert path_changes(inside)[0] == {"feature"}
    assert shas(brought_in(inside, 1)) == [root, early]


def test_an_octopus_an_unrelated_history_and_an_old_commit_bring_in_no_range(history) -> None:
    root = history.commit("Begin")
    for name in ("one", "two"):
        history.start(name, root)
        history.commit(name)
    history.go_to("main")
    history.commit("Go on")
    octopus = history.merge("one", "two")
    history.git("switch", "--quiet", "--orphan", "unrelated")
    history.commit("Elsewhere")
    history.go_to("main")
    history.git("merge", "--quiet", "--allow-unrelated-histories", "--message", "Adopt", "unrelated")
    adopted = history.git("rev-parse", "HEAD")
    again = history.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-p", root, "-m", "Merge what is there")
    commits = read_range(history.folder, root, again)
    assert shas(commits)[2:] == [octopus, adopted, again]
    with pytest.raises(UsageError, match="it merges 2 branches at once"):
        brought_in(commits, 2)
    with pytest.raises(UsageError, match="they have no commit in common with those before it"):
        brought_in(commits, 3)
    assert brought_in(commits, 4) is None


def test_changed_paths_are_whole_whatever_they_are_named(history) -> None:
    names = ["a b/c\nd", 'qu"ote', "ünï", "$(x)", ":colon", "0" * 40, os.fsdecode(b"\xff"), "tab\t"]
    root = history.commit("Begin", "old")
    history.commit("Write", *names)
    history.git("mv", "old", "new")
    history.commit("Rename", "other")
    history.git("commit", "--quiet", "--allow-empty", "--message", "Nothing")
    commits = read_range(history.folder, root, "HEAD")
    assert path_changes(commits) == [frozenset(names), frozenset({"old", "new", "other"}), frozenset()]


def test_unknown_names_are_told_with_how_to_get_them(history) -> None:
    sha = history.commit("Begin")
    assert "--good 'nonsense' is not a commit, branch or tag" in refusal(history.folder, "nonsense", sha)
    assert "`git fetch` it first" in refusal(history.folder, sha, "f" * 40)
    assert "--bad '--all' is not a commit" in refusal(history.folder, sha, "--all")
    assert "there is no directory" in refusal(history.folder / "missing", sha, sha)


def test_one_commit_is_no_range(history) -> None:
    sha = history.commit("Begin")
    assert "are the same commit" in refusal(history.folder, "main", sha)


def test_swapped_ends_are_told(history) -> None:
    older, newer = history.commit("Begin"), history.commit("Go on")
    assert "good is newer than bad: swap them" in refusal(history.folder, newer, older)


def test_of_two_branches_it_is_told_where_they_parted(history) -> None:
    parted = history.commit("Begin")
    release = history.commit("Release")
    history.start("other", parted)
    bad = history.commit("Bad")
    told = refusal(history.folder, release, bad)
    assert f"they parted at {parted}" in told
    assert shas(read_range(history.folder, parted, bad)) == [parted, bad]


def test_unrelated_commits_are_told(history) -> None:
    here = history.commit("Begin")
    history.git("switch", "--quiet", "--orphan", "unrelated")
    assert "no commit in common" in refusal(history.folder, here, history.commit("Elsewhere"))


def test_a_shallow_clone_is_read_as_far_as_it_reaches_and_then_told(history, tmp_path, git) -> None:
    made = [history.commit(f"Change {i}") for i in range(6)]
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=3", history.folder.as_uri(), str(shallow))
    assert shas(read_range(shallow, made[3], made[5])) == made[3:]
    assert "fetch-depth: 0" in refusal(shallow, made[2], made[5])
    assert "fetch-depth: 0" in find_revision("HEAD~3", shallow)[1]
    assert "swap them" in refusal(shallow, made[5], made[3])
    assert "fetch-depth" not in refusal(history.folder, "HEAD~9", made[5])
    git(shallow, "fetch", "--quiet", "--depth=1", "origin", f"{made[0]}:refs/heads/good")
    told = refusal(shallow, "good", "main")
    assert "shallow clone" in told
    assert "fetch-depth: 0" in told


def test_a_history_with_a_hole_is_an_error_with_gits_own_words(history) -> None:
    made = [history.commit(f"Change {i}") for i in range(5)]
    (history.folder / ".git/objects" / made[2][:2] / made[2][2:]).unlink()
    told = refusal(history.folder, made[0], made[4])
    assert "cannot be read: git rev-list ended with" in told
    assert "git fsck" in told


def test_in_any_history_the_line_runs_from_child_to_parent_and_prefers_the_first(tmp_path, git) -> None:
    parents = _random_history(tmp_path, git, seed=5, commits=60)
    reached = {sha: _ancestors(parents, sha) for sha in parents}
    pairs = [(good, bad) for bad in parents for good in reached[bad]]
    for good, bad in random.Random(1).sample(pairs, 25):
        commits = read_range(tmp_path, good, bad)
        line = shas(commits)
        assert (line[0], line[-1]) == (good, bad)
        for before, after in zip(commits.commits, commits.suspects, strict=False):
            assert after.parents == parents[after.sha]
            holding = [sha for sha in after.parents if good in {sha, *reached[sha]}]
            assert before.sha == holding[0]


def _random_history(folder, git, seed: int, commits: int) -> dict[str, tuple[str, ...]]:
    """Commits with one to three parents among those just before them: SHA → parents."""
    git(folder, "init", "--quiet")
    chance, stream = random.Random(seed), ""
    links = [
        chance.sample(range(max(0, i - 4), i), k=min(i, chance.choice([1, 1, 2, 3]))) for i in range(commits)
    ]
    for i, before in enumerate(links):
        stream += f"commit refs/heads/c{i}\nmark :{i + 1}\ncommitter t <t@t.invalid> {i} +0000\ndata 0\n"
        stream += "".join(f"{'merge' if n else 'from'} :{p + 1}\n" for n, p in enumerate(before))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=stream, text=True, check=True)
    names = git(folder, "rev-parse", *(f"c{i}" for i in range(commits))).split()
    return {names[i]: tuple(names[p] for p in before) for i, before in enumerate(links)}


def _ancestors(parents: dict[str, tuple[str, ...]], sha: str) -> list[str]:
    found: dict[str, None] = {}
    queue = list(parents[sha])
    while queue:
        found[queue[-1]] = None
        queue += [parent for parent in parents[queue.pop()] if parent not in found]
    return list(found)
