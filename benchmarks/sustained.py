"""Compare measured times with an accelerator's sustained speed, for the sampling rules of CPUs and of accelerators.

    python benchmarks/sustained.py

The real sampling rules run on a simulated clock, on which a step takes as long as on a real H100 at its power limit:
once from recorded step times (``sustained.json``), once from the SM clock that NVML reported (see the tests). Apple's
GPUs are simulated by steps of equal length, and 0.3 ms more for each wait for the device.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING
from unittest import mock

from torchperf_ci.bench import pairs
from torchperf_ci.bench.worker import timing
from torchperf_ci.machine.devices.interface import Timing
from torchperf_ci.machine.devices.mps import Mps
from torchperf_ci.machine.devices.nvidia import Cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_ci.bench.worker.protocol import Block

HERE = Path(__file__).parent
WAIT = 3e-4
HANDING_OVER = 2e-3
TARGET, BUDGET = 0.01, 3.0
BEGINNINGS = [0.02 * n for n in range(25)]
"""Seconds of load that may have gone before: where in the swing of the clock a process begins is luck."""


class Replayed:
    """A device on a clock of its own, which times as ``timing`` says and waits for ``wait`` seconds."""

    def __init__(
        self, seconds: Callable[[float], float], timing: Timing, start: float, wait: float = 0.0
    ) -> None:
        self.timing = timing
        self.now, self._start, self._wait = start, start, wait
        self._seconds = seconds

    def clock(self) -> float:
        return self.now

    def step(self) -> None:
        self.now += self._seconds(self.now)

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        start, seconds = self.now, []
        for _ in range(count):
            before = self.now
            step()
            seconds.append(self.now - before)
        self.now += self._wait
        return [(self.now - start) / count] if self._wait else seconds

    def measure(self) -> tuple[float, float]:
        """The number of a process, and the seconds that it took the device."""
        with mock.patch.object(timing.time, "perf_counter", self.clock):
            inner = timing.warm_up(self, self.step, BUDGET).inner
            found = timing.sample(self, self.step, inner, TARGET, BUDGET)
        return median(found.seconds), self.now - self._start


def traced(values: Sequence[float], every: float) -> Callable[[float], float]:
    """A step's time by the time under load; after the end of the trace its last second comes again."""
    last = list(values[-round(1 / every) :])

    def seconds(now: float) -> float:
        index = int(now / every)
        return values[index] if index < len(values) else last[(index - len(values)) % len(last)]

    return seconds


def traces() -> dict[str, tuple[Callable[[float], float], float]]:
    """By name the step's time and what is kept up: the median of all but the first three seconds."""
    steps = json.loads((HERE / "sustained.json").read_text())
    clocks = json.loads((HERE.parent / "tests/machine/h100_under_load.json").read_text())["rows"]
    # As if the product took 1.6 ms at 1395 MHz, and its time went with the clock's.
    by_clock = [1.6e-3 * 1395 / row[1] for row in clocks]
    by_time = [value * 1e-6 for value in steps["microseconds"]]
    return {
        "step times": (traced(by_time, steps["seconds"]), median(by_time[150:])),
        "SM clock": (traced(by_clock, 0.106), median(by_clock[29:])),
    }


def table(*rows: Sequence[str]) -> None:
    """Nothing of the machine that this runs on is in it."""
    header, *body = rows
    for row in (header, ["---"] * len(header), *body):
        print(f"| {' | '.join(row)} |")
    print()


def power_limit() -> None:
    rules = {
        "a CPU's": Timing(),
        "1 s of load, 0.5 s of samples": Timing(load=1.0, total=0.5),
        "an accelerator's (1 s, 1.2 s)": Cuda.timing,
    }
    rows = []
    for name, (seconds, kept_up) in traces().items():
        for rule, timed in rules.items():
            told = [Replayed(seconds, timed, start).measure() for start in BEGINNINGS]
            errors = sorted(number / kept_up - 1 for number, _ in told)
            typical = median(abs(error) for error in errors)
            rows.append(
                (
                    name,
                    rule,
                    f"{typical:.1%}",
                    f"{errors[0]:+.1%} to {errors[-1]:+.1%}",
                    f"{median(took for _, took in told):.1f}",
                )
            )
    table(("H100 at its power limit, by", "rules", "typical error", "from, to", "device seconds"), *rows)


class SimulatedWorker:
    """Answers the blocks of a pair on a device that both sides share."""

    def __init__(self, device: Replayed) -> None:
        self._device = device

    def ask(self, _verb: str, kind: type[Block], steps: int) -> Block:
        """As a worker does, which is waited for at the end of its block."""
        start = self._device.now
        for _ in range(steps):
            self._device.step()
        seconds = (self._device.now - start) / steps
        self._device.now += HANDING_OVER
        return kind(seconds)


def pairs_of_equals() -> None:
    rows = []
    for name, (seconds, kept_up) in traces().items():
        for load in (0.0, 2.0):
            ratios = []
            for start in BEGINNINGS:
                worker = SimulatedWorker(Replayed(seconds, Timing(), start + load))
                quads = pairs.measured_quads(worker, worker, round(pairs.BLOCK_SECONDS / kept_up))
                ratios.append(median(math.log(head / base) for base, head in quads))
            typical = math.sqrt(fmean(ratio**2 for ratio in ratios))
            rows.append((name, f"{load:g} s", f"{typical:.1%}", f"{min(ratios):+.1%} to {max(ratios):+.1%}"))
    table(("pairs of two equal builds, by", "load before", "root mean square", "from, to"), *rows)


def waiting(lengths: Sequence[float]) -> None:
    rows = []
    for step in lengths:
        for rule, timed in {"before": Timing(), "now": Mps.timing}.items():
            device = Replayed(lambda _, step=step: step, timed, 0.0, WAIT)
            number, took = device.measure()
            rows.append((f"{step * 1e3:g}", rule, f"{number / step - 1:+.2%}", f"{took:.1f}"))
    table(("step (ms), waited for 0.3 ms", "rules", "error", "device seconds"), *rows)


if __name__ == "__main__":
    power_limit()
    pairs_of_equals()
    waiting([0.005e-3, 0.05e-3, 0.7e-3, 3e-3, 25e-3])
