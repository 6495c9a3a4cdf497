"""Faults by the dozen; `ALLOTMENT_CHAOS` names how many, `ALLOTMENT_CHAOS_SEED` where the dice begin."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Final

import pytest
from pytest_django import Settings

from benchmarks.control_plane import ControlPlane
from clusters.backends.kubernetes import api
from foundation import outbox
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.chaos.run import ChaosRun
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server

INJECTIONS: Final = int(os.environ.get("ALLOTMENT_CHAOS", "60"))
SEED: Final = int(os.environ.get("ALLOTMENT_CHAOS_SEED", "1"))
_PARTS: Final = 3  # each with a world of its own, so that they run side by side


@pytest.fixture
def stage(
    kube: ControlPlane, on_postgres: PostgresServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubeStage]:
    settings.ALLOTMENT_LEASE_S = 0.5  # so long it takes until somebody takes over from the dead
    monkeypatch.setattr(api, "_BACKOFF_S", 0.005)
    for topic in outbox.Topic:  # what is published goes nowhere: the rounds do the work
        monkeypatch.setitem(outbox._publishers, topic.value, lambda key: None)
    with kube_stage(kube, monkeypatch) as made:
        jobs.priority_class()
        yield made


@pytest.mark.timeout(0 if INJECTIONS > 60 else 300)
@pytest.mark.parametrize("part", range(_PARTS))
def test_no_fault_loses_takes_twice_or_frees_too_early(stage: KubeStage, part: int) -> None:
    share = -(-INJECTIONS // _PARTS)
    run = ChaosRun(stage, random.Random(f"{SEED}/{part}"))
    try:
        run.inject(share, first=part * share)
        run.heal()
    finally:
        run.close()

    assert run.injected.total() == share
