"""The metrics of the agent as a table for docs/agent.md, generated from the catalogue."""

from __future__ import annotations

from pathlib import Path

from clusters.gpu.measures import MEASURES, Level, MeasureKind
from telemetry.agent.assembly import TelemetryOptions, assemble_telemetry
from telemetry.agent.nvml.events import XID_MEASURES
from telemetry.agent.nvml.rates import FIELD_MEASURES, GPM_MEASURES
from telemetry.agent.nvml.readers import DEVICE_READERS, PCIE_READERS
from telemetry.agent.pods import PodTable
from telemetry.agent.slices import SLICE_MEASURES


def list_given_measures() -> set[str]:
    """Return the measures of devices that the agent provides if the device supports them."""
    readers = (reader for alternatives in (*DEVICE_READERS, *PCIE_READERS) for reader in alternatives)
    called = {name for reader in readers for name in reader.measures}
    return called | {*FIELD_MEASURES, *GPM_MEASURES, *XID_MEASURES}


def metrics_table() -> str:
    """Return the tables of device, slice and own metrics in Markdown."""
    lines: list[str] = []
    given = {Level.DEVICE: list_given_measures(), Level.SLICE: set(SLICE_MEASURES)}
    for level, title in ((Level.DEVICE, "Devices"), (Level.SLICE, "Slices")):
        lines += [f"### {title}", "", "| metric | type | | measure of the platform |", "|---|---|---|---|"]
        for measure in MEASURES:
            if measure.name in given[level]:
                kind = "counter" if measure.kind is MeasureKind.COUNTER else "gauge"
                unit = f" ({measure.unit})" if measure.unit else ""
                name = measure.prometheus_name(level)
                lines.append(f"| `{name}` | {kind} | {measure.help} | `{measure.name}`{unit} |")
        lines.append("")
    lines += ["### The agent itself", "", "| metric | by | |", "|---|---|---|"]
    options = TelemetryOptions("", Path(), Path())
    for metric in assemble_telemetry(options, PodTable()).exposition.self_metrics:
        lines.append(f"| `{metric.name}` | {f'`{metric.by}`' if metric.by else ''} | {metric.help} |")
    return "\n".join(lines) + "\n"
