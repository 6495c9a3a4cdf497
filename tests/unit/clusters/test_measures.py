"""The catalogue of measures: names that cannot collide, in Prometheus' conventions."""

from __future__ import annotations

import re

import pytest

from clusters.gpu.measures import BY_NAME, MEASURES, GpuMeasure, MeasureKind

_BASE_UNITS = {"%": "_ratio", "MiB": "_bytes", "MiB/s": "_bytes_per_second", "°C": "_celsius", "W": "_watts"}


def test_no_name_is_used_twice() -> None:
    assert len(BY_NAME) == len(MEASURES) == len({measure.prometheus for measure in MEASURES})


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_the_exposed_name_follows_the_conventions_of_prometheus(measure: GpuMeasure) -> None:
    assert re.fullmatch(r"allotment_gpu_[a-z][a-z0-9_]*", measure.prometheus)
    assert measure.prometheus.endswith(_BASE_UNITS.get(measure.unit, ""))
    assert measure.prometheus.endswith("_total") == (measure.kind is MeasureKind.COUNTER)
    assert measure.help.endswith(".")
