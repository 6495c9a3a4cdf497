from telemetry.models.agent import AgentKey, NodeAgent
from telemetry.models.channel import Channel, Scope
from telemetry.models.device import GpuEvent, GpuProcess
from telemetry.models.gap import GapCause, TelemetryGap
from telemetry.models.reading import (
    PendingBucket,
    Reading,
    Rolled,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    RollUp,
    Tick,
)
from telemetry.models.source import SourceKind, SourceNode, SourceStatus, TelemetrySource
from telemetry.models.usage import MeasuredProgress, MeasuredUse, Price, StoredReport

__all__ = [
    "AgentKey",
    "Channel",
    "GapCause",
    "GpuEvent",
    "GpuProcess",
    "MeasuredProgress",
    "MeasuredUse",
    "NodeAgent",
    "PendingBucket",
    "Price",
    "Reading",
    "RollUp",
    "Rolled",
    "RolledMinute",
    "RolledTenMinutes",
    "RolledTwoHours",
    "Scope",
    "SourceKind",
    "SourceNode",
    "SourceStatus",
    "StoredReport",
    "TelemetryGap",
    "TelemetrySource",
    "Tick",
]
