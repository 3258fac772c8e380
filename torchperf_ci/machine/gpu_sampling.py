"""Sample a GPU ten times per second while it works, and summarize the samples for the record."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean, median

from torchperf_ci.machine.devices.interface import Device, GpuReading, ThrottleCounters

INTERVAL_SECONDS = 0.1
"""Interval between readings. One reading of an H100 takes 4 ms, most of it for the energy counter."""
ENERGY_SECONDS = 0.5
"""Shortest window for mean power: five steps of NVML's energy counter, so that one step more or less matters little."""
LIMITED_SHARE = 0.05
"""The share of the time above which throttling is reported; the counters of an H100 advance in steps of 0.1 s."""


@contextmanager
def sample_gpu(device: Device, *, closely: bool) -> Iterator[list[GpuReading]]:
    """Collect readings of the device at both ends of the block and, if ``closely``, at regular intervals in between.

    The intervals are aligned to the clock, so that a counter with regular updates is equally old at each reading. A
    device without readings is left alone.
    """
    readings: list[GpuReading] = []
    over = threading.Event()

    def add() -> None:
        if (reading := device.tools.reading()) is not None:
            readings.append(reading)

    def repeat() -> None:
        while not over.wait(INTERVAL_SECONDS - time.monotonic() % INTERVAL_SECONDS):
            add()

    add()
    thread = threading.Thread(target=repeat, daemon=True)
    if closely and readings:
        thread.start()
    try:
        yield readings
    finally:
        over.set()
        if thread.ident:
            thread.join()
        add()


def summarize_samples(readings: Sequence[GpuReading]) -> Mapping[str, str]:
    """Summarize readings as flat strings for the record, without those that are unknown.

    They are the clock (median, MHz), power (mean, W), temperature (maximum, °C), and mean power by the energy
    counter.
    """
    clocks = [reading.sm_mhz for reading in readings if reading.sm_mhz is not None]
    watts = [reading.watts for reading in readings if reading.watts is not None]
    temperatures = [reading.temperature for reading in readings if reading.temperature is not None]
    by_energy = _watts_by_energy(readings)
    facts = {
        "gpu_sm_mhz": f"{median(clocks):.0f}" if clocks else None,
        "gpu_watts": f"{fmean(watts):.0f}" if watts else None,
        "gpu_celsius": f"{max(temperatures):.0f}" if temperatures else None,
        "energy_watts": None if by_energy is None else f"{by_energy:.4g}",
    }
    return {name: value for name, value in facts.items() if value is not None}


def _watts_by_energy(readings: Sequence[GpuReading]) -> float | None:
    energies = [(reading.moment, reading.joules) for reading in readings if reading.joules is not None]
    if not energies:
        return None
    (start, before), (end, after) = energies[0], energies[-1]
    return (after - before) / (end - start) if end - start >= ENERGY_SECONDS else None


def clock_limits(
    before: ThrottleCounters | None, after: ThrottleCounters | None, readings: Sequence[GpuReading]
) -> Mapping[str, str]:
    """Why and for which share of the time the clock was throttled, as facts for the record.

    ``throttling`` names the reasons that void a measurement, and ``throttled_share`` is the share of the longest one.
    ``power_capped`` is the share of the time at the power limit, which is normal under heavy load. Shares come from
    the counters ``before`` and ``after``; for reasons without a counter, from ``readings``.
    """
    counted, seen = _by_counters(before, after), _by_readings(readings)
    # Counters are more precise than the share of a few readings.
    voiding = {**seen.voiding, **counted.voiding}
    power = seen.power if counted.power is None else counted.power
    reasons = sorted(name for name, share in voiding.items() if share > LIMITED_SHARE)
    facts = {}
    if reasons:
        facts["throttling"] = ", ".join(reasons)
        facts["throttled_share"] = f"{max(voiding[name] for name in reasons):.3f}"
    if power is not None and power > LIMITED_SHARE:
        facts["power_capped"] = f"{power:.3f}"
    return facts


def _by_counters(before: ThrottleCounters | None, after: ThrottleCounters | None) -> ThrottleCounters:
    """The shares of the time between two readings of the counters."""
    if before is None or after is None or after.total <= before.total:
        return ThrottleCounters(0.0, {})
    total = after.total - before.total
    shares = {name: share(before.voiding.get(name), count, total) for name, count in after.voiding.items()}
    voiding = {name: known for name, known in shares.items() if known is not None}
    return ThrottleCounters(total, voiding, share(before.power, after.power, total))


def share(before: float | None, after: float | None, total: float) -> float | None:
    """How much a counter has grown as a share of ``total``, at most 1; None if it was not read at both ends."""
    return None if before is None or after is None else min((after - before) / total, 1.0)


def _by_readings(readings: Sequence[GpuReading]) -> ThrottleCounters:
    """The shares of the readings that show each reason."""
    if not readings:
        return ThrottleCounters(0.0, {})
    voiding = Counter(name for reading in readings for name in reading.throttling.voiding)
    power = sum(bool(reading.throttling.warning) for reading in readings)
    total = len(readings)
    return ThrottleCounters(total, {name: count / total for name, count in voiding.items()}, power / total)
