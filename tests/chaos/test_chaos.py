"""Faults by the dozen; `ALLOTMENT_CHAOS` names how many, `ALLOTMENT_CHAOS_SEED` where the dice begin."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from django.db import connection
from pytest_django import Settings

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.client import api
from scheduling.models import MemoryResize
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.chaos.commit_laws import commits_looked_at, watch_commits
from tests.chaos.run import FAULTS, ChaosRun
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server

INJECTIONS: Final = int(os.environ.get("ALLOTMENT_CHAOS", "300"))
SEED: Final = int(os.environ.get("ALLOTMENT_CHAOS_SEED", "1"))
# Each with a world of its own, so that they run side by side and no world grows old.
_WORLDS: Final = max(2, INJECTIONS // 250)
# A server takes seconds to come back: a few such faults in every run, more by the dice.
_LISTED: Final = [
    fault
    for faults in FAULTS.values()
    for fault in faults
    if fault.kind != "server" or fault.point in ("execute.before_ensure", "kubernetes.after_create")
]


@pytest.fixture
def stage(
    kube: ControlPlane, on_postgres: PostgresServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubeStage]:
    monkeypatch.setattr(api, "_BACKOFF_S", 0.005)
    with kube_stage(kube, monkeypatch) as made:
        jobs.priority_class()
        watch_commits(connection)
        yield made


@pytest.mark.timeout(0 if INJECTIONS > 300 else 300)
@pytest.mark.parametrize("world", range(_WORLDS))
def test_no_fault_loses_takes_twice_or_frees_too_early(
    stage: KubeStage, kube: ControlPlane, monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    share, listed = -(-INJECTIONS // _WORLDS), _LISTED[world::_WORLDS]
    run = ChaosRun(stage, kube, random.Random(f"{SEED}/{world}"), monkeypatch)
    try:
        run.inject(share, listed=listed)
        run.heal()
    finally:
        run.close()

    assert run.injected.total() == share
    servers = any(fault.startswith("server") for fault in run.injected)
    assert servers or not any(fault.kind == "server" for fault in listed)
    assert commits_looked_at(connection) > 0
    assert not MemoryResize.unscoped.filter(ended_at=None).exists()
    print("changes of size:", dict(Counter(MemoryResize.unscoped.values_list("state", flat=True))))
    for fault, times in sorted(run.injected.items()):
        print(f"{times:5} {fault}")
