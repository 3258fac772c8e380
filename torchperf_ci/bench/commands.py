"""The commands ``torchperf run``, ``list`` and ``doctor``."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions, console
from torchperf_ci.bench import selection, summary
from torchperf_ci.bench.case import Case, Settings, expected_seconds
from torchperf_ci.bench.pairs import Anchor, find_anchor
from torchperf_ci.bench.process import exercise_device
from torchperf_ci.bench.results import CaseResult, RunSetting
from torchperf_ci.bench.run import RunPlan, output_folder, run
from torchperf_ci.bench.selection import select_cases
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.command_output import print_json
from torchperf_ci.config import Config, find_config
from torchperf_ci.document import Column, Document, Table, counted, duration, text_of
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError, WorkloadsFailedError
from torchperf_ci.identity import identity_fields, uncommitted_note
from torchperf_ci.machine.devices import installed
from torchperf_ci.machine.doctor import diagnose, verdict
from torchperf_ci.machine.examination import DeviceExercise, machine_state
from torchperf_ci.machine.host import machine_text, read_host, runner_entry, take_fingerprint
from torchperf_ci.machine.interference import busy_warning, read_counters
from torchperf_ci.machine.tuning import TuningReport, quiet_cpus, tuned, untuned
from torchperf_ci.markdown import to_markdown
from torchperf_ci.records.record import Dependency

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.bench.worker.protocol import DescribedWorkload, EnvironmentUnderTest, TorchEnvironment
    from torchperf_ci.machine.devices.interface import Device
    from torchperf_ci.options.measurement_commands import DoctorOptions, ListOptions, RunOptions


PAPER_COLUMNS = (
    Column("in the paper"),
    Column("torchperf's own"),
    Column("the checkout's"),
    Column("why not", "prose"),
)
WORKLOAD_COLUMNS = (Column("workload"), Column("modes"), Column("task", "prose"))


def run_command(options: RunOptions) -> int:
    """Measure, write the records and report. Raises :class:`WorkloadsFailedError` if workloads failed."""
    config = find_config(options.config)
    out = output_folder(options.out, resume=options.resume)
    settings = _settings(options, config)
    console.say(f"this machine: {machine_text(read_host())}")  # at once: importing torch takes long
    before = read_counters()
    under_test = selection.describe_environment(settings)
    start_seconds = time.monotonic() - before.moment
    settings = settings.on(under_test.environment)
    chosen = selection.selection_of(
        options, config, options.suite, options.filter, options.shard, options.costs
    )
    cases = select_cases(chosen, under_test.known, settings.device)
    if not cases:
        return _nothing_in_shard(chosen.shard, json_output=options.json)
    anchor = find_anchor(options.anchor, settings)
    seconds = expected_seconds(cases, settings, start_seconds, anchored=bool(anchor))
    plan = _plan_text(cases, settings, under_test, anchor, seconds)
    if options.dry_run:
        console.say(*map(str, cases), f"{plan}; records to {out}", out=sys.stdout)
        return 0
    identity = identity_fields(options.repo, os.environ)
    changed = uncommitted_note(Path(options.repo), "but the records name its commit") if options.repo else ""
    console.say(f"{plan}; records go to {out}", *filter(None, [changed, busy_warning(before)]))
    with tuned(settings.hardware) if options.tune else nullcontext(untuned()) as tuning:
        if tuning.is_of_another:
            console.say(f"⚠ {tuning.refused['all']} and will restore it: no other records compare with these")
        if not options.no_pin:
            settings = replace(settings, cpus=quiet_cpus(settings.threads, settings.hardware))
        setting = _setting(options.benchmark_name or config.name, settings, under_test, anchor, tuning)
        setting = replace(setting, identity=identity)
        results = run(RunPlan(cases, setting, out, options.resume, under_test.imported))
        _publish_results(results, setting, out, json_output=options.json)
    failed = summary.failed_cases(results)
    if failed and options.on_failure != "warn":
        again = (
            "; --resume repeats none that failed: measure them anew with --filter" if options.resume else ""
        )
        msg = f"{summary.headline(results)}; the log of each is in its status record in {out}{again}"
        raise WorkloadsFailedError(msg)
    return 0


def _nothing_in_shard(shard: tuple[int, int], *, json_output: bool) -> int:
    """Say so; without the output ``records-dir``, later steps know that there is nothing to keep."""
    text = selection.NOTHING_IN_SHARD.format(*shard)
    console.say(text)
    actions.annotate([actions.Annotation("notice", text, title="torchperf run")])
    if json_output:
        print_json([])
    return 0


def _settings(options: RunOptions, config: Config) -> Settings:
    settings = selection.settings_of_options(options, config)
    return replace(settings, processes=options.processes, target_ci=options.target_ci, budget=options.budget)


def list_command(options: ListOptions) -> int:
    """Print the selected workloads of the environment under test, by default all of them."""
    config = find_config(options.config)
    checkout = [f"{selection.TORCHBENCH}{options.torchbench}"] if options.torchbench else []
    suite = [*options.suite, *checkout]
    under_test = selection.describe_environment(
        selection.settings_of(config, suite=suite, python=options.python, device=options.device)
    )
    as_json: object
    if checkout:
        models = [*paper_models(under_test.known.workloads)]
        as_json = [*map(asdict, models)]
        table = Table(PAPER_COLUMNS, [tuple(asdict(model).values()) for model in models])
    else:
        entries = selection.selected_workloads(options.suite, options.filter, config, under_test.known)
        unavailable = under_test.unavailable
        as_json = {
            "workloads": [*map(asdict, entries)],
            "suites": under_test.known.suites,
            "unavailable": unavailable,
        }
        table = Table(WORKLOAD_COLUMNS, [_listed(entry, unavailable) for entry in entries])
    if options.json:
        print_json(as_json)
    else:
        console.print_document(Document("", [table]), sys.stdout, most=len(table.rows))
    return 0


def _listed(entry: DescribedWorkload, unavailable: Mapping[str, str]) -> tuple[str, str, str]:
    if reason := unavailable.get(entry.name):
        return entry.name, "not available", reason
    return entry.name, ", ".join(entry.modes), entry.task


def doctor_command(options: DoctorOptions) -> int:
    """Print the findings about this machine and about the given device, or else the one that torch would use."""
    findings = diagnose(machine_state(*_to_examine(options)))
    if options.json:
        print_json({"verdict": verdict(findings), "findings": [asdict(finding) for finding in findings]})
    else:
        document = summary.findings_document(findings)
        console.say(text_of(document.title), "", out=sys.stdout)
        console.print_document(document, sys.stdout)
    return int(options.strict and any(finding.level != "ok" for finding in findings))


def _to_examine(options: DoctorOptions) -> tuple[Device, DeviceExercise | None]:
    """Return the device to examine and, if torch can run work on it, the timing of that work."""
    settings = selection.settings_of(Config(), python=options.python, device=options.device)
    try:
        settings = settings.on(selection.describe_environment(settings).environment)
    except (EnvironmentUnderTestError, UsageError) as error:
        if settings.device == "auto":
            console.say(f"torchperf: without --device, only the CPU is examined, because {error}")
        return installed(settings.device.replace("auto", "cpu")), None
    if settings.device == "cpu":
        return settings.hardware, None
    try:
        return settings.hardware, exercise_device(settings)
    except WorkerFailure as failure:
        console.say(f"torchperf: {settings.device} was given no work: {failure}")
        return settings.hardware, None


def _plan_text(
    cases: Sequence[Case],
    settings: Settings,
    under_test: EnvironmentUnderTest,
    anchor: Anchor | None,
    seconds: float,
) -> str:
    pairs = f" and pairs with {anchor.build}" if anchor else ""
    each = f"{counted(settings.processes, 'process', 'processes')}{pairs} each"
    gpu = "" if settings.device == "cpu" else f" ({settings.hardware.identity().type})"
    where = f"on {settings.device}{gpu} with torch {under_test.environment.torch_version}"
    return f"{counted(len(cases), 'case')}, {each}, {where}: about {duration(seconds)}"


def _publish_results(
    results: Sequence[CaseResult], setting: RunSetting, out: Path, *, json_output: bool
) -> None:
    """Print the results as a table or JSON; in a job also write the summary, annotations and outputs."""
    document, shown = summary.run_document(results, setting), sys.stderr if json_output else sys.stdout
    console.print_document(document, shown, most=len(results))
    if json_output:
        print_json(summary.results_as_json(results, setting))
    console.say(f"{summary.headline(results)}; records in {out}", *summary.run_notes(results))
    actions.append_summary(to_markdown(document))
    actions.annotate(summary.failure_annotations(results))
    actions.set_output("passed", str(sum(result.status == "pass" for result in results)))
    actions.set_output("failed", str(len(summary.failed_cases(results))))


def _setting(
    name: str,
    settings: Settings,
    under_test: EnvironmentUnderTest,
    anchor: Anchor | None,
    tuning: TuningReport,
) -> RunSetting:
    environment, device = under_test.environment, settings.hardware
    fingerprint = take_fingerprint(
        device, environment.observed, environment.comparable, tuning, cpus=settings.cpus
    )
    return RunSetting(
        benchmark=name,
        settings=settings,
        runner=runner_entry(device.identity(), fingerprint),
        dependencies=_dependencies(environment),
        fingerprint=fingerprint.digest,
        anchor=anchor,
    )


def _dependencies(environment: TorchEnvironment) -> dict[str, Dependency]:
    torch = Dependency(
        repo="pytorch/pytorch", sha=environment.torch_commit, version=environment.torch_version
    )
    others = {name: Dependency(version=version) for name, version in environment.dependencies.items()}
    return {"pytorch": torch, **others}


_PRINTED = """
alexnet densenet121 mnasnet1_0 mobilenet_v2 mobilenet_v2_quantized_qat mobilenet_v3_large phlippe_densenet
phlippe_resnet resnet152 resnet18 resnet50 resnet50_quantized_qat resnext50_32x4d shufflenet_v2_x1_0
squeezenet1_1 timm_efficientnet timm_nfnet timm_regnet timm_resnest vgg16 detectron2_fasterrcnn_r_101_c4
detectron2_fasterrcnn_r_101_dc5 detectron2_fasterrcnn_r_101_fpn detectron2_fasterrcnn_r_50_c4
detectron2_fasterrcnn_r_50_dc5 detectron2_fasterrcnn_r_50_fpn detectron2_maskrcnn doctr_det_predictor
doctr_reco_predictor timm_efficientdet timm_vovnet vision_maskrcnn timm_vision_transformer_large
pytorch_CycleGAN_and_pix2pix dcgan public_image_generator1 public_image_generator2
detectron2_maskrcnn_r_101_c4 detectron2_maskrcnn_r_101_fpn detectron2_maskrcnn_r_50_c4
detectron2_maskrcnn_r_50_fpn detectron2_fcos_r_50_fpn yolov3 Background_Matting pytorch_unet Super_SloMo
BERT_pytorch hf_Bert hf_Bert_large hf_Longformer fambench_xlmr hf_BigBird hf_Reformer hf_Albert
hf_DistilBert hf_T5 hf_T5_base hf_T5_large hf_Bart hf_public_text_generator1 hf_public_text_generator1_large
attention_is_all_you_need_pytorch fastNLP_Bert nvidia_deeprecommender dlrm drq soft_actor_critic
LearningToPaint speech_transformer demucs tacotron2 tts_angular pytorch_struct
pyhpc_turbulent_kinetic_energy pyhpc_equation_of_state pyhpc_isoneutral_mixing functorch_dp_cifar10
functorch_maml_omniglot opacus_cifar10 moco maml maml_omniglot lennard_jones
"""
PAPER = tuple(_PRINTED.split())
"""The models in table 1 of Hao et al., TorchBench: Benchmarking PyTorch with High API Surface Coverage, 2023.

The paper says 84 models and prints 83 names; two names are misprinted, and four are invented to hide who owns the
models, which are in :data:`HIDDEN`.
"""
HIDDEN = (
    *("hf_public_text_generator1", "hf_public_text_generator1_large"),
    *("public_image_generator1", "public_image_generator2"),
)
CHECKOUT = "torchbench"
"""The domain of workloads from a TorchBench checkout: the first part of their names."""


@dataclass(frozen=True)
class PaperModel:
    """A model of the paper: its built-in workload and that of the checkout, if any; else why neither exists."""

    name: str
    builtin: str
    checkout: str
    why_not: str


def paper_models(workloads: Mapping[str, object]) -> Iterator[PaperModel]:
    """Yield one entry per name, in the paper's order. ``workloads`` are a catalogue's workloads by name."""
    builtin = {name.partition("/")[2]: name for name in workloads if name.partition("/")[0] != CHECKOUT}
    for name in PAPER:
        checkout = f"{CHECKOUT}/{name}"
        there = checkout if checkout in workloads else ""
        gone = (
            "the paper does not say which model this is"
            if name in HIDDEN
            else "it is no longer in the checkout"
        )
        yield PaperModel(name, builtin.get(name, ""), there, "" if name in builtin or there else gone)
