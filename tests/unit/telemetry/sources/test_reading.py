"""Sources that hang, and addresses of which only some answer."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import pytest

from telemetry.models import SourceKind
from telemetry.sources.declarations import MeasureOrigin
from telemetry.sources.fetch import SourceFailed, SourceProblem, expand_address
from telemetry.sources.reading import SourcePlan, read_sources
from tests.builders import expositions as exp
from tests.fixtures.http_receiver import run_receiver


@pytest.mark.parametrize("by", ["fetch", "pass"])
def test_a_source_that_hangs_keeps_no_other_waiting(settings: Any, by: str) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with ExitStack() as stack:
        slow, good = stack.enter_context(run_receiver()), stack.enter_context(run_receiver())
        slow.body, slow.drip_s = b"x" * 2000, 0.02
        good.body = exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1})).encode()
        own_s, pass_s = (0.3, 9.0) if by == "fetch" else (1.0, 0.6)
        plans = [
            SourcePlan("slow", SourceKind.DCGM, slow.url, timeout_s=own_s),
            SourcePlan("good", SourceKind.DCGM, good.url, timeout_s=5),
        ]
        began = time.monotonic()
        results = read_sources(plans, now_ms=0, timeout_s=pass_s)
        assert time.monotonic() - began < 5
    failed = results["slow"].failed
    assert isinstance(failed, SourceFailed) and failed.problem == SourceProblem.TIMEOUT
    assert results["good"].failed is None
    assert results["good"].readings[MeasureOrigin.DCGM].used == 1


def test_what_nothing_expected_is_a_failure_of_its_source_alone(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]

    def broken(*_: object, **__: object) -> str:
        raise KeyError("a name that must not be shown")

    monkeypatch.setattr("telemetry.sources.fetch.fetch_exposition", broken)
    results = read_sources([SourcePlan("a", SourceKind.DCGM, "http://127.0.0.1:1/")], now_ms=0)
    failed = results["a"].failed
    assert failed is not None
    assert (failed.problem, failed.detail) == (SourceProblem.INTERNAL, "KeyError")


def test_an_address_is_expanded_for_each_node() -> None:
    assert expand_address("http://{node}:9400/metrics", ["a", "b"]) == [
        "http://a:9400/metrics",
        "http://b:9400/metrics",
    ]
    assert expand_address("http://x/", ["a", "b"]) == ["http://x/"]
