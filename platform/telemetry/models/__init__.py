from telemetry.models.channel import Channel, Scope
from telemetry.models.gap import GapCause, TelemetryGap
from telemetry.models.reading import Reading, RollUp, Tick

__all__ = ["Channel", "GapCause", "Reading", "RollUp", "Scope", "TelemetryGap", "Tick"]
