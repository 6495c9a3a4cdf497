"""The samples of exporters, before and after conversion to the units and names of the catalogue.

Pure Python: no Django, network or clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusters.gpu.measures import Level


@dataclass(frozen=True, slots=True)
class RawSample:
    """One line of an exposition, or one element of an instant vector. `at_ms` is None for "now"."""

    name: str
    labels: Mapping[str, str]
    value: float
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class MeasuredTarget:
    """The GPU, slice or process that a value belongs to.

    `instance` is the id of a MIG GPU instance on the GPU `device`, if the exporter does not report the UUID
    of the instance. A slice has a pod by namespace and name, or by uid if that is reported; `namespace` is ""
    if an exporter reports only the name. `container` is its name, `#0` if only its number is known.
    """

    level: Level
    device: str
    instance: str = ""
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""


@dataclass(slots=True)
class Readings:
    """The readings in one answer of one source.

    `values` by target and measure; `xids` is the last XID code of each GPU, 0 for none; `instances` gives the
    UUID of a MIG instance by its GPU and instance id; `monitored` holds the GPUs whose containers the source
    monitors; `used` counts samples that became a value (twice if of a GPU and of its pod), `refused` invalid
    samples. `times` is when a target was measured, and `hosts` gives the node of a GPU, if it is reported.
    """

    values: dict[MeasuredTarget, dict[str, float]] = field(default_factory=dict)
    xids: dict[str, int] = field(default_factory=dict)
    instances: dict[tuple[str, str], str] = field(default_factory=dict)
    monitored: set[str] = field(default_factory=set)
    used: int = 0
    refused: int = 0
    times: dict[MeasuredTarget, int] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)

    def list_measures(self) -> set[tuple[Level, str]]:
        """Return every measure that occurs, with its level."""
        return {(target.level, name) for target, found in self.values.items() for name in found}
