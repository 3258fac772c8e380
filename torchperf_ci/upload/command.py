"""The commands ``torchperf upload`` and ``torchperf pack``."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.config import Config, find_config
from torchperf_ci.console import say
from torchperf_ci.deadline import Deadline
from torchperf_ci.document import Document, counted
from torchperf_ci.errors import NotDeliveredError, RecordsError, TorchperfError, UsageError
from torchperf_ci.markdown import to_markdown
from torchperf_ci.places import is_api
from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.packs import QUARTER, month_before
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.upload.metadata import Metadata, gather_metadata, prepare
from torchperf_ci.upload.payload import RecordsSource, read_source
from torchperf_ci.upload.report import Delivery, UploadReport, print_report
from torchperf_ci.upload.spool import Spool, SpooledBatch
from torchperf_ci.upload.targets import Target, open_target, target_address

if TYPE_CHECKING:
    from torchperf_ci.options.storage_commands import PackOptions, UploadOptions


_TO = "TORCHPERF_TO"
_DEFAULT_TO = "TORCHPERF_DEFAULT_TO"
"""Where ``actions/upload`` sends records without a configuration; set only in a step that does nothing but upload."""


@dataclass(frozen=True)
class UploadRoute:
    """Where records are sent, the flags needed to reach it, and the spool where they wait."""

    to: str
    target: Target
    spool: Spool
    flags: tuple[str, ...] = ()

    def deliver(self, batch: SpooledBatch) -> tuple[Delivery, ...]:
        """Send a batch, and remove from the spool what was kept.

        Should this process not live to report, the job's outputs say by then what is in the spool.
        """
        actions.set_output("spooled", str(sum(payload.entries for payload in batch.payloads)))
        actions.set_output("spool-dir", str(self.spool.root.absolute()))
        outcomes = self.target.put_all(batch.bodies)
        self.spool.settle(batch, [key for key, outcome in outcomes.items() if isinstance(outcome, str)])
        return tuple(Delivery(payload, outcomes[payload.key]) for payload in batch.payloads)

    def report(self) -> UploadReport:
        """Return an empty report."""
        return UploadReport(self.spool.target, self.spool.root, self.spool.quarantine, reaching=self.flags)


def upload_command(options: UploadOptions) -> int:
    """Upload and report. Raises the error of :meth:`UploadReport.failure`, or :class:`RecordsError` without records."""
    config = find_config(options.config)
    to = options.to or config.upload.destination
    if not to and actions.in_actions():
        _say_that_there_is_no_target(options)
        return 0
    folder, route = _folder(options), _route(to, options, config)
    resumed = _resume(route, options) if options.resume else ()
    sent = _upload(folder, route, options, config) if folder else route.report()
    report = replace(sent, deliveries=(*resumed, *sent.deliveries), left_out=route.spool.left_out())
    if options.dry_run:
        report = replace(report, quarantine=None)
    elif actions.in_actions():  # elsewhere nobody publishes the folder, and what is in it is the user's own
        for path in route.spool.remove_irregular():
            say(f"{path}: was a link or a pipe, which no spool holds; removed")
    error = _error(report, options) or (RecordsError(report.headline()) if route.spool.damaged else None)
    missing_matters = options.if_no_files_found == "warn"
    print_report(report, error, json_output=options.json, missing_matters=missing_matters)
    if error:
        raise error
    return 0


def _say_that_there_is_no_target(options: UploadOptions) -> None:
    """Say that nothing is uploaded, and warn if the job was meant to: other credentials may serve another step."""
    text = "there is no target, so nothing is uploaded"
    signs = options.to is not None, options.role, os.environ.get("UPLOADER_PASSWORD")
    if any(signs) or {_TO, _DEFAULT_TO} & os.environ.keys():
        text += ": name one with --to (input to), or as `upload` in torchperf.yml"
        actions.annotate([actions.Annotation("warning", text, title="Upload")])
        actions.append_summary(to_markdown(Document(f"⚠️ Upload: {text}")))
    say(text)


def _error(report: UploadReport, options: UploadOptions) -> TorchperfError | None:
    """Return the error that the command ends with, if any."""
    fails = options.on_failure or ("warn-invalid" if options.dry_run else "error")
    failure = report.failure(invalid=fails == "error") if fails != "warn" else None
    if not failure and report.missing and options.if_no_files_found == "error":
        return RecordsError(report.headline())
    return failure


def _route(to: str | None, options: UploadOptions, config: Config) -> UploadRoute:
    if not to:
        raise UsageError("upload where? give --to, or `upload` in torchperf.yml")
    root = Path(options.spool or _default_spool())
    target = open_target(to, _access(options, config), root)
    # Without these flags the same --to may be another place.
    reaching = {"--region": options.region, "--endpoint": options.endpoint}
    flags = [part for flag, value in reaching.items() if value for part in (flag, value)]
    return UploadRoute(to, target, Spool(root, target_address(to)), tuple(flags))


def _default_spool() -> Path:
    temporary = os.environ.get("RUNNER_TEMP")
    root = (
        Path(temporary, "torchperf-spool") if temporary and actions.in_actions() else Path(".torchperf/spool")
    )
    if root.is_symlink():
        msg = f"{root}: is a link, and what it leads to would be offered as an artifact; remove it, or give --spool"
        raise UsageError(msg)
    return root


def _access(options: UploadOptions, config: Config) -> PlaceAccess:
    return PlaceAccess(
        deadline=options.deadline,
        region=options.region,
        endpoint=options.endpoint,
        role=options.role or config.upload.role,
        session_name=options.role_session_name,
        duration=options.role_duration,
        git_token=os.environ.get("GITHUB_TOKEN", ""),
        mask=actions.mask,
    )


def _folder(options: UploadOptions) -> Path | None:
    """Return the directory of the records; None if only the spool is to be sent."""
    folders = {folder for folder in (options.dir, options.benchmark_results) if folder}
    if len(folders) > 1:
        raise UsageError("DIR and --benchmark-results name two directories: give one of them")
    if not folders and not options.resume:
        raise UsageError("upload what? give the directory that holds the records")
    return Path(folders.pop()) if folders else None


def _resume(route: UploadRoute, options: UploadOptions) -> tuple[Delivery, ...]:
    """Send what waits in the spool; of many batches, none is begun after the deadline."""
    pending, deadline = route.spool.pending(), Deadline.after(options.deadline)
    late = NotDeliveredError(f"{route.spool.target}: the time was up before its turn")

    def sent(batch: SpooledBatch) -> tuple[Delivery, ...]:
        if deadline.left and not options.dry_run:
            return route.deliver(batch)
        return tuple(Delivery(payload, None if options.dry_run else late) for payload in batch.payloads)

    return tuple(delivery for batch in pending for delivery in sent(batch))


def _upload(folder: Path, route: UploadRoute, options: UploadOptions, config: Config) -> UploadReport:
    source = read_source(folder, options.format or "")
    if source.is_empty:
        why = "holds no record" if folder.exists() else "there is no such directory"
        missing = f"{folder}: {why}, so nothing is uploaded"
        return replace(route.report(), missing=missing, unread=source.unread, has_below=source.has_below)
    metadata = gather_metadata(options, os.environ, source.digest, config.name, source.commit)
    identity = _source_in_run(source, metadata)
    if options.resume and route.spool.knows(identity):
        return _about(source, route)
    payloads, source = prepare(source, metadata, options, api=is_api(route.to))
    missing = "" if payloads else f"{folder}: holds no valid record, so nothing is uploaded"
    if options.dry_run:
        deliveries = tuple(map(Delivery, payloads))
    else:  # everything is on disk, what was refused and what is sent, before the first is sent
        route.spool.set_aside(source.refused)
        deliveries = route.deliver(route.spool.keep(identity, payloads)) if payloads else ()
    return replace(_about(source, route), metadata=metadata, deliveries=deliveries, missing=missing)


def _source_in_run(source: RecordsSource, metadata: Metadata) -> str:
    """Return a digest of the files and of whose they are: another commit's or run's may have the same content."""
    commit = (metadata.repo, metadata.head_branch, metadata.head_sha)
    run = (metadata.workflow_id, metadata.run_attempt)
    parts = (source.digest, *commit, *run, *(file.text for file in source.judged))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _about(source: RecordsSource, route: UploadRoute) -> UploadReport:
    return replace(
        route.report(),
        refused=tuple(source.problems("refused")),
        refused_count=len(source.refused),
        changed=tuple(source.problems("changed")),
        flagged=tuple(problem for problem in source.problems("flag") if problem.path != "$"),
        judged_left_out=len(source.judged) if is_api(route.to) else 0,
        unread=source.unread,
        has_below=source.has_below,
        # asv's files about the machine and the benchmarks have no problem, either
        without_records=tuple(
            file.name for file in source.files if file.reading.is_empty and file.reading.problems
        ),
    )


_BRANCH = "branch:"
_SECONDS = 3600.0
"""Most seconds for packing. Years of nightly records that were never packed take minutes."""


def pack_command(options: PackOptions) -> int:
    """Pack the data branch. If uploads go to another place this does nothing, so any nightly workflow can call it."""
    target = options.place or find_config(options.config).upload.destination or ""
    if options.place and not target.startswith(_BRANCH):
        raise UsageError(f"{target}: only a data branch is packed; give branch:NAME[@REMOTE]")
    if not target.startswith(_BRANCH):
        say("records are kept on no data branch: there is nothing to pack")
        return 0
    token = os.environ.get("GITHUB_TOKEN", "")
    access = PlaceAccess(deadline=_SECONDS, git_token=token, mask=actions.mask)
    first_kept = month_before(datetime.datetime.now(datetime.timezone.utc).date(), QUARTER)
    outcome = BranchPlace.at(target, access).pack(first_kept)
    done = f"{counted(outcome.files, 'file')} from before {first_kept} packed into {', '.join(outcome.packs)}"
    say(done if outcome.files else f"everything from before {first_kept} is packed")
    return 0
