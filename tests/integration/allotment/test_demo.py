"""The demo is made once, and its users submit what a real cluster's users did."""

from __future__ import annotations

import json
import random
import stat
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from allotment.demo import philly
from allotment.demo.setup import demo_setup
from allotment.demo.workload import workload_tick
from allotment.setup.accounts import SIGN_IN_FILE
from clusters.models import Device, Node
from foundation.core import clock
from quotas.models import Queue, Quota
from scheduling.models import Job
from tenants.models import Tenant, User

pytestmark = pytest.mark.django_db


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    demo_setup(home=tmp_path)
    counted = (Tenant, Queue, Quota, Node, Device)
    before = [model._base_manager.count() for model in counted]
    file = tmp_path / SIGN_IN_FILE
    account = json.loads(file.read_text())
    file.unlink()

    demo_setup(home=tmp_path)

    assert [model._base_manager.count() for model in counted] == before
    assert not file.exists()
    operator = User.objects.get(username=account["user"])
    assert operator.check_password(account["password"])
    assert operator.must_change_password


def test_the_one_time_password_is_for_its_owner_only(tmp_path: Path) -> None:
    demo_setup(home=tmp_path)

    assert stat.S_IMODE((tmp_path / SIGN_IN_FILE).stat().st_mode) == 0o600


def test_jobs_arrive_at_the_pace_of_the_clock_and_not_of_the_calls(tmp_path: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        demo_setup(home=tmp_path)
        first = workload_tick()
        assert first == Job.unscoped.count() > 20
        assert workload_tick() == 0  # nothing new in no time
        Job.unscoped.update(state="succeeded")

        start, arrived = clock.now(), 0
        while clock.now() - start < timedelta(minutes=5):
            traveller.shift(3)
            arrived += workload_tick()
            Job.unscoped.filter(state="queued").update(state="succeeded")
        one_by_one = arrived

        assert 20 < one_by_one < 200
        traveller.shift(3600)  # the laptop was asleep: no flood when it wakes up
        assert workload_tick() <= 8


def test_sizes_and_run_times_are_those_that_were_published() -> None:
    chance = random.Random(1)
    sizes = Counter(philly.draw_gpus(chance) for _ in range(20_000))
    total = sum(philly.JOBS_BY_GPUS.values())
    for gpus, jobs in philly.JOBS_BY_GPUS.items():
        assert sizes[gpus] / 20_000 == pytest.approx(jobs / total, abs=0.015)
    for gpus, quantiles in philly.RUN_S_BY_GPUS.items():
        drawn = sorted(philly.draw_run_s(chance, gpus) for _ in range(4_000))
        # The draws stop at the 95th percentile, so the published median is at 0.50 / 0.95 of them.
        assert drawn[int(4_000 * 0.50 / 0.95)] == pytest.approx(quantiles[3], rel=0.25)
