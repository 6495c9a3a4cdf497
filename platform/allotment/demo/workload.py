"""The demo's users: they submit jobs with the sizes and run times of a real cluster, for ever.

Each call submits what has arrived since the last one. Arrivals are spread evenly at the rate that keeps
the simulated cards busy; sizes and run times are drawn from the published Philly statistics. A call that
comes late or twice submits no more than one that comes on time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from allotment.demo import philly
from allotment.demo.setup import IDLE_TEAM, WORKSPACES
from clusters.backends.simulated.timeline import Timeline
from clusters.models import Device, SimulatedCluster
from foundation.core import clock
from foundation.models import Heartbeat
from scheduling.job_file import parse_job
from scheduling.models import WAITING_STATES, Job, JobRole
from scheduling.services.jobs.job import job_submit
from tenants.models import Tenant, User

_CLOCK: Final = "demo-workload"
_LOAD: Final = 1.5  # a little more than there is, so that somebody always waits
_FIRST_BURST: Final = 60
_MOST_AT_ONCE: Final = 8
_MOST_WAITING: Final = 60
_MOST_LARGE_WAITING: Final = 8  # beyond that nobody asks for a whole node: the small ones keep it lively
_WHOLE_NODE: Final = 8
_IDLE_RUN_S: Final = 1_500_000  # forgotten jobs run for weeks; here that is most of an hour
_SLICE_SHARE: Final = 0.35
_WORDS: Final = ("llama-sft", "asr-train", "resnet", "ctr-rank", "diffusion", "policy-grad", "embed", "eval")


def workload_tick() -> int:
    """Submit the jobs that are due; returns how many."""
    with transaction.atomic():
        due = _due()
    if Job.unscoped.filter(state__in=WAITING_STATES).count() >= _MOST_WAITING:
        return 0
    waiting = JobRole.unscoped.filter(job__state__in=WAITING_STATES, gpu_cards__gte=_WHOLE_NODE)
    crowded = waiting.count() >= _MOST_LARGE_WAITING
    number = Job.unscoped.count()
    for offset in range(due):
        _submit(number + offset, largest=_WHOLE_NODE // 2 if crowded else None)
    return due


def _due() -> int:
    """Whole jobs since the last call; the clock is moved on by exactly what they stand for."""
    now = clock.now()
    mark, new = Heartbeat.unscoped.select_for_update().get_or_create(name=_CLOCK, defaults={"at": now})
    if new:
        return _FIRST_BURST
    every_s = 1 / _rate()
    whole = int((now - mark.at).total_seconds() / every_s)
    if whole:
        mark.at = now if whole > _MOST_AT_ONCE else mark.at + timedelta(seconds=whole * every_s)
        mark.save(update_fields=["at"])
    return min(whole, _MOST_AT_ONCE)


def _rate() -> float:
    """Jobs per second that offer `_LOAD` times the work the cards can do at the cluster's pace."""
    cards = Device.unscoped.filter(healthy=True, node__present=True).count()
    anchors = SimulatedCluster.unscoped.order_by("id").values_list("anchors", flat=True).first()
    speed = Timeline.from_json(anchors).speed if anchors else 1.0
    return max(_LOAD * cards * speed / philly.mean_gpu_seconds(), 1e-6)


def _submit(number: int, *, largest: int | None) -> None:
    chance = random.Random(f"{settings.SECRET_KEY}:{number}")
    plan = chance.choices(WORKSPACES, weights=[w.a100_cards for w in WORKSPACES])[0]
    user = User.objects.get(username=chance.choice(plan.people))
    workspace = Tenant.unscoped.get(slug=plan.slug)
    spec = parse_job(_mapping(chance, number, plan.slug, largest))
    job_submit(acting_user=user, workspace=workspace, spec=spec)


def _mapping(chance: random.Random, number: int, slug: str, largest: int | None) -> Mapping[str, Any]:
    gpus = min(philly.draw_gpus(chance), largest or max(philly.JOBS_BY_GPUS))
    sliced = gpus == 1 and chance.random() < _SLICE_SHARE
    roles = [_slice_role(chance)] if sliced else _roles(gpus)
    body: dict[str, Any] = {
        "kind": "notebook" if sliced else ("batch" if gpus == 1 else "pytorch"),
        "name": f"{chance.choice(_WORDS)}-{number}",
        "queue": "default",
        "priority_class": _priority(chance, slug),
        "roles": roles,
        "simulate": {
            # What is there at first has been running for a while: the short ones have already ended.
            "run_s": max(
                philly.draw_run_s(chance, gpus, 0.6 if number < _FIRST_BURST else 0.0),
                _IDLE_RUN_S if slug == IDLE_TEAM else 60,
            ),
            "exit_code": 1 if chance.random() < 0.04 else 0,
            "gpu_utilisation": _utilisation(chance, slug),
        },
    }
    return body


def _utilisation(chance: random.Random, slug: str) -> float:
    """Draw the mean use of what a job holds; those of the idle team do next to nothing with it."""
    if slug == IDLE_TEAM:
        return round(chance.uniform(0.0, 0.02), 3)
    return round(min(0.98, max(0.03, chance.gauss(0.62, 0.24))), 2)


def _priority(chance: random.Random, slug: str) -> str:
    if slug == "search-ads" and chance.random() < 0.2:
        return "high"
    return "low" if chance.random() < 0.2 else "normal"


def _slice_role(chance: random.Random) -> dict[str, Any]:
    cores = chance.choice((10, 20, 25, 30, 50))
    gpu = {"cards": 1, "mode": "slice", "cores": cores, "memory": f"{460 * cores}Mi", "model": ["L40S"]}
    resources = {"cpu": 2, "memory": "16Gi", "gpu": gpu}
    return {"name": "main", "replicas": 1, "image": "jupyter/pytorch:2.8", "resources": resources}


def _roles(gpus: int) -> list[dict[str, Any]]:
    """Return the roles: up to eight cards on one node; more as one master and workers of a whole node
    each.
    """
    per_task, tasks = min(gpus, 8), max(1, gpus // 8)
    resources = {
        "cpu": 8 * per_task,
        "memory": f"{64 * per_task}Gi",
        "gpu": {"cards": per_task, "mode": "whole", "model": ["A100-40G"]},
    }
    common = {"image": "pytorch/pytorch:2.8", "command": ["python", "train.py"], "resources": resources}
    master = {"name": "master", "replicas": 1, **common}
    return [master] if tasks == 1 else [master, {"name": "worker", "replicas": tasks - 1, **common}]
