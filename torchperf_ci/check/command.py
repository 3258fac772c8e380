"""The commands ``torchperf check`` and ``torchperf baseline update``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.check import baselines, pairing, recorded_past
from torchperf_ci.check.judging import judge_all
from torchperf_ci.check.missing_series import absent_machines
from torchperf_ci.check.sensitivity import show_calibration, show_sensitivity
from torchperf_ci.config import Config, find_config, misnamed_rules
from torchperf_ci.console import say
from torchperf_ci.document import counted
from torchperf_ci.errors import PlaceForbiddenError, RecordsError, RecordsRefusedError, UsageError
from torchperf_ci.options import is_given
from torchperf_ci.places import is_api, is_remote
from torchperf_ci.records.files import ARTIFACT_PREFIX, NO_RECORD, check_writable, job_folder
from torchperf_ci.records.schema import LATEST_SECOND, Problem
from torchperf_ci.series.from_records import RecordedPoints, points_of_records
from torchperf_ci.series.outcomes import disturbances
from torchperf_ci.stats.past import MIN_HISTORY
from torchperf_ci.verdicts.headline import suspect_machines
from torchperf_ci.verdicts.reproduction import portable_options
from torchperf_ci.verdicts.verdict import Judgement, RepeatOptions
from torchperf_ci.verdicts.verdict_document import publish_verdicts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from torchperf_ci.options.analysis_commands import BaselineUpdateOptions, CheckOptions
    from torchperf_ci.series.points import Points


def missing_jobs(root: Path, files: Iterable[Path], expected: Collection[str]) -> Sequence[str]:
    """Return a note on each of the ``expected`` jobs whose folder below ``root`` contains none of ``files``."""
    holding = {folder for file in files for folder in (file, *file.parents)}
    expected = dict.fromkeys(expected)
    measured = {job for job in expected if job_folder(root, job, len(expected)) in holding}
    named = any(folder.parent == root and folder.name.startswith(ARTIFACT_PREFIX) for folder in holding)
    if len(expected) > 1 and not measured and not named:
        return [
            f"which of the {len(expected)} expected jobs measured this is not known: no folder is {ARTIFACT_PREFIX}NAME"
        ]
    return [f"{job}: nothing was measured" for job in expected if job not in measured]


_SHOWN = 20
_UPLOAD_TO = "TORCHPERF_UPLOAD_TO"
"""Variable with the destination of the root action's upload, empty if it has none; unset outside that action."""
_NOTHING_COMPARED = "nothing is compared: the history has no other runs than the new ones themselves"
_NAME_A_PAST = "say what the past is with --against (input against) or --store"


def check_command(options: CheckOptions) -> int:
    """Judge new records, or report the gate's sensitivity or calibration. Returns 1 if something is red.

    Raises :class:`RecordsRefusedError` if some elements are not records and nothing is red.
    """
    config = find_config(options.policy)
    if not _source_of_past(options, config):
        say(f"nothing is judged: the records are stored nowhere that can be read; {_NAME_A_PAST}")
        return 0
    format_name = options.format or ""
    collected = _collected(options.new_dir, format_name) if options.new_dir else None
    if options.sensitivity or options.calibrate:
        _show_sensitivity_or_calibration(collected.points if collected else {}, options, config)
        return 0
    if collected is None:
        raise UsageError("say which records are new: torchperf check DIR")
    check_writable(Path(options.out))
    try:
        judgement = _judgement(collected, options, config)
    except PlaceForbiddenError as error:
        if options.against or _UPLOAD_TO not in os.environ:
            raise
        message = f"nothing is judged: {error}; or {_NAME_A_PAST}; `against: none` judges nothing"
        say(message)
        actions.annotate([actions.Annotation("warning", message, title="torchperf check")])
        return 0
    _show_refused(collected.refused)
    publish_verdicts(judgement, Path(options.out), json_output=options.json)
    if options.on_failure == "warn":
        return 0
    if judgement.red:
        return 1
    _raise_refused(collected, "the rest is judged")
    return 0


def baseline_update_command(options: BaselineUpdateOptions) -> int:
    """Replace the baselines of the machines that measured the records, and keep the others."""
    if not (options.dir and options.reason):
        raise UsageError("say why and with what: torchperf baseline update --reason TEXT DIR")
    collected = _collected(options.dir, options.format or "")
    path = Path(options.baseline)
    where = ["--baseline", options.baseline] if is_given(options, "baseline") else []
    command = ["torchperf", "baseline", "update", *where, "--reason", options.reason, options.dir]
    new = baselines.baselines_of(collected.points, baselines.provenance(options.reason, command))
    if not new:
        raise RecordsError(f"{options.dir}: no record has a number or an outcome, so {path} stays as it is")
    old = baselines.read_baselines(path) if path.exists() else []
    updated = baselines.updated_baselines(old, new)
    baselines.write_baselines(path, updated)
    _show_refused(collected.refused)
    for digest in dict.fromkeys(baseline.digest for baseline in new):
        say(f"{path}: {_baseline_line([baseline for baseline in new if baseline.digest == digest])}")
    before, after = (
        {(one.digest, row.series) for one in some for row in one.series} for some in (old, updated)
    )
    if gone := len(before - after):
        removed = counted(gone, "series is", "series are")
        say(f"{path}: {removed} gone that these records do not have: give all records of a machine at once")
    _raise_refused(collected, "the rest is in the baseline")
    return 0


def _collected(folder: str, format_name: str) -> RecordedPoints:
    """Return the records of a directory or file. Raises :class:`RecordsError` if there is no valid one."""
    collected = points_of_records([Path(folder)], format_name)
    if collected.points:
        return collected
    if collected.refused:
        _show_refused(collected.refused)
        _raise_refused(collected, f"{folder} has no other")
    msg = f"{folder}: {NO_RECORD}, so there is nothing to do; give one that `torchperf run` has written"
    raise RecordsError(msg)


def _judgement(collected: RecordedPoints, options: CheckOptions, config: Config) -> Judgement:
    past = _past(collected.points, options, config)
    _show_refused(past.refused)
    groups = recorded_past.groups_of_past(
        {series.group for series in collected.points}, past.groups, options.repo_name or ""
    )
    new = recorded_past.as_in_past(collected.points, groups, past.points)
    unknown = {*groups.values()}.difference(past.groups if past.points else ())
    others = recorded_past.without_new_runs(past.points, new)
    verdicts = judge_all(others, new, config.policy)
    absent = missing_jobs(Path(options.new_dir or ""), collected.files, options.expect)
    notes = [
        *_notes(collected, past, recorded_past.why_unknown(unknown, past.groups) if unknown else ""),
        pairing.several_machines(new),
        pairing.several_numbers(others, new),
        pairing.judged_by_earlier(verdicts, new),
        pairing.unseen_between(verdicts),
        pairing.crept_up(verdicts),
        pairing.subtracted(verdicts),
        *suspect_machines(verdicts).values(),
        _NOTHING_COMPARED if past.points and not any(others.values()) else "",
        *misnamed_rules(config.policy, {series.metric for series in (*new, *past.points)}),
        *absent,
        *absent_machines(others, new),
    ]
    by_torchperf = any(series.mode for series in new)  # the results of other tools have no mode
    reproduction = _repeat_options(options, config) if by_torchperf else None
    head = _head_name(options.new_dir or "", new)
    return Judgement(
        "check", past.name, head, verdicts, notes=[*filter(None, notes)], reproduction=reproduction
    )


def _repeat_options(options: CheckOptions, config: Config) -> RepeatOptions | None:
    """Return the options to repeat the measurement; None if no suite of the configuration is a Python file."""
    if not any(suite.files for suite in config.suites.values()):
        return None
    words, folder = portable_options({"config": options.policy}, ("config",))
    return RepeatOptions(options=words, folder=folder)


def _show_sensitivity_or_calibration(new: Points, options: CheckOptions, config: Config) -> None:
    """Show sensitivity or calibration for the series of the new records, or for all of the past without new records."""
    if options.sensitivity and options.calibrate:
        raise UsageError("--sensitivity and --calibrate are two questions: ask one")
    past = _past(new, options, config)
    _show_refused(past.refused)
    say(*filter(None, [_left_out(past)]))
    show = show_sensitivity if options.sensitivity else show_calibration
    show(past, config.policy, json_output=options.json)


def _source_of_past(options: CheckOptions, config: Config) -> str:
    """Return the source of the past: the given one, else the given store, else a readable upload destination.

    The default is the store, but empty inside the root action if it keeps its records nowhere readable.
    """
    if options.against:
        return options.against
    if options.store or config.store != Config().store:
        return recorded_past.STORE
    uploads = os.environ.get(_UPLOAD_TO) or config.upload.destination
    if uploads and not is_api(uploads):
        return uploads
    return "" if _UPLOAD_TO in os.environ else recorded_past.STORE


def _past(new: Points, options: CheckOptions, config: Config) -> recorded_past.RecordedPast:
    """Read the past of the new points' groups, or all of it if there are no new points."""
    against = _source_of_past(options, config)
    if options.store and against != recorded_past.STORE:
        say("--store is not read: --against names another history")
    is_of_uploads = not options.against and against != recorded_past.STORE
    knows_branches = against == recorded_past.STORE or is_remote(against) or is_of_uploads
    branch = options.branch or (recorded_past.branch_of(new) if knows_branches else "")
    points = [point for row in new.values() for point in row]
    stop = _end_of_past({point.timestamp for point in points})
    dsn = options.store or config.store
    branch = branch.removeprefix("refs/heads/")
    # The first run of a new branch has no past on it, so --branch may then name a branch without points.
    is_named = bool(options.branch) and branch not in {point.branch for point in points}
    role = options.role or config.upload.role
    format_name = options.format or ""
    groups, repo = {series.group for series in new}, options.repo_name or ""
    # A job of a matrix that judges only its own results knows nothing of the others.
    is_fleet = min(len({point.job_id for point in points}), len({group.machine for group in groups})) > 1
    with_others = is_fleet and not (options.expect or options.sensitivity or options.calibrate)
    source = recorded_past.PastSource(
        against, dsn, branch, stop, role, options.region, is_named, is_of_uploads, format_name, with_others
    )
    return source.read(
        {group.benchmark for group in groups},
        lambda known: recorded_past.groups_of_past(groups, known, repo).values() if groups else known,
    )


def _end_of_past(times: Collection[int]) -> int:
    """Return the second after the newest of ``times``, or now if some are unknown; 0, no end, if they are no dates."""
    if LATEST_SECOND in times:  # capped, as one in milliseconds is
        return 0
    return max(times) + 1 if times and all(times) else int(time.time())


def _head_name(folder: str, new: Points) -> str:
    """Return the directory's name, with the commit if there is only one, and that of PyTorch if it is another."""
    points = [point for row in new.values() for point in row]
    commits, torches = {point.commit for point in points}, {point.torch for point in points} - {""}
    commit = commits.pop()[:10] if len(commits) == 1 else ""
    torch = torches.pop()[:10] if len(torches) == 1 else ""
    named = [commit, f"PyTorch {torch}" if torch != commit and torch else ""]
    return f"{folder} ({', '.join(filter(None, named))})" if any(named) else folder


def _notes(collected: RecordedPoints, past: recorded_past.RecordedPast, strange: str) -> Sequence[str]:
    """Return notes on what is unexpected in the new records and in the past; some may be empty.

    ``strange`` is the note on measured groups that the past does not have.
    """
    refused = f"{_refused_text(len(collected.refused))}, and not judged" if collected.refused else ""
    count = collected.duplicates
    twice = f"there twice, and counted once: {counted(count, 'record')}" if count else ""
    of_past = [past.note, strange] if past.points else [past.note or strange]
    return [*disturbances(collected.points), *of_past, _left_out(past), refused, twice]


def _left_out(past: recorded_past.RecordedPast) -> str:
    count = len(past.refused)
    return f"{_refused_text(count, f' of {past.name}')}, and left out of the past" if count else ""


def _refused_text(count: int, where: str = "") -> str:
    kind = "is not a valid record" if count == 1 else "are not valid records"
    return f"{counted(count, 'element')}{where} {kind}"


def _show_refused(refused: Sequence[Problem]) -> None:
    say(*map(str, refused[:_SHOWN]))


def _raise_refused(collected: RecordedPoints, rest: str) -> None:
    if collected.refused:
        raise RecordsRefusedError(f"{_refused_text(len(collected.refused))}; {rest}")


def _baseline_line(some: Sequence[baselines.Baseline]) -> str:
    """Describe the baselines of one machine, one for each commit."""
    machine, digest = some[0].machine, some[0].digest
    known = (machine.get(name) for name in ("device_type", "device", "cpu", "gpu_info", "cpu_info"))
    device = next(filter(None, known), "machines that are not described")
    series = {row.series for baseline in some for row in baseline.series}
    runs = sum(baseline.runs for baseline in some)
    text = f"{len(series)} series of {counted(runs, 'run')} on {device} ({digest})"
    few = f"; it takes at least {MIN_HISTORY} runs to estimate the noise, so measure more"
    return text + (few if runs < MIN_HISTORY else "")
