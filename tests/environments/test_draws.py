"""What differs between two builds of one commit, and that it would be noticed if nothing did."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.environments.build_environment import Builder, open_environment
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.revisions import Revision

if TYPE_CHECKING:
    from torchperf_ci.environments.build_environment import BuildEnvironment


def drawn(checkout, quick: str, command: str, *draws: int) -> list[str]:
    """What builds with these numbers have left in ``env/told``."""
    revision = Revision(checkout.folder, checkout.first, "Say red")
    with ExitStack() as stack:
        made = [
            stack.enter_context(open_environment(revision, Builder(quick, command), draw)) for draw in draws
        ]
        return [(environment.folder / "env/told").read_text().strip() for environment in made]


def test_a_draw_is_told_its_number_in_two_ways(checkout, quick) -> None:
    told = drawn(checkout, quick, "echo {seed} $SEED >{env}/told", 0, 1, 7)
    assert told == ["0 0", "1 1", "7 7"]


def test_draws_differ_in_the_length_of_their_path_and_the_size_of_their_environment(checkout, quick) -> None:
    told = drawn(checkout, quick, "echo $(pwd | wc -c) ${#TORCHPERF_PADDING} >{env}/told", *range(6), 0)
    for lengths in zip(*(line.split() for line in told), strict=True):
        assert len(set(lengths)) == 6
        assert lengths[0] == lengths[-1]


COMPILED = """
printf '__attribute__((visibility("default"))) int answer(void) { return 42; }' >answer.c
printf "int other(void) { return 1; }" >other.c
cc -fPIC -c answer.c other.c -g -ffile-prefix-map="$PWD"=. && cc -shared -o {env}/answer.so ORDER
"""
ALIKE = COMPILED.strip().replace("ORDER", "answer.o other.o")
BY_SEED = COMPILED.strip().replace(
    "ORDER", "$(test {seed} = 1 && echo other.o answer.o || echo answer.o other.o)"
)

IN_PLACE = "echo {seed} >bench && chmod +x bench"
"""As by ``make``, whose program a ``--command`` runs in the worktree."""


def repeated(checkout, quick: str, command: str) -> bool:
    revision = Revision(checkout.folder, checkout.first, "Say red")
    with EnvironmentCache(partial(open_environment, builder=Builder(quick, command))) as environments:
        environments.get(revision)
        again: BuildEnvironment = environments.get(revision, 1)
        assert subprocess.run([again.python, "-c", ""], check=True).returncode == 0
        return environments.is_repeated(revision, 1)


def test_a_build_that_comes_out_the_same_is_noticed_wherever_it_lies(checkout, quick) -> None:
    assert repeated(checkout, quick, f"{ALIKE} && echo {{env}} {{worktree}} >{{env}}/paths")


@pytest.mark.parametrize("command", [BY_SEED, "echo {seed} >{env}/told", "echo {seed} >ext.so", IN_PLACE])
def test_a_build_that_comes_out_otherwise_is_a_draw(checkout, quick, command) -> None:
    assert not repeated(checkout, quick, command)


def test_a_draw_has_nothing_to_be_compared_with_where_the_others_made_room(checkout, quick) -> None:
    revision = Revision(checkout.folder, checkout.first, "Say red")
    with EnvironmentCache(partial(open_environment, builder=Builder(quick, "true")), limit=0) as environments:
        for draw in range(4):
            environments.get(revision, draw)
        assert environments.is_repeated(revision, 3)
        for name in (checkout.second,):
            other = Revision(checkout.folder, name, "")
            environments.get(other)
            assert not environments.is_repeated(other, 0)
