"""The demo's users, who submit the jobs of `history.jobs` without end.

Each call submits the jobs that have arrived since the last call. Arrivals are spread evenly: training jobs
and notebooks as often as in the simulated week, and experiments, which are short, more often, so that a user
sees some arrive; all rates are multiplied by the speed of the simulated cluster. A late or repeated call
submits no more jobs than a punctual one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from allotment.demo.history.jobs import DAY_S, EXPERIMENT, NOTEBOOK, TRAINING, draw_job
from clusters.backends.simulated.timeline import Timeline
from clusters.models import SimulatedCluster
from foundation.core import clock
from foundation.models import Heartbeat
from scheduling.job_file import parse_job
from scheduling.models import WAITING_STATES, Job
from scheduling.services.jobs.job import job_submit
from tenants.models import Tenant, User

_CLOCK: Final = "demo-workload"
_EXPERIMENTS: Final = 4
"""How many times as often as in the week experiments arrive: three jobs of all classes in ten minutes."""
_MOST_AT_ONCE: Final = 8
_MOST_WAITING: Final = 40


def workload_tick() -> int:
    """Submit the jobs that are due; return their number."""
    rates = _rates()
    with transaction.atomic():
        due = _due(sum(rates.values()))
    if Job.unscoped.filter(state__in=WAITING_STATES).count() >= _MOST_WAITING:
        return 0
    number = Job.unscoped.count()
    for offset in range(due):
        _submit(number + offset, rates)
    return due


def _due(rate: float) -> int:
    """Return the number of jobs due since the last call; the clock advances by exactly their time."""
    now = clock.now()
    mark, new = Heartbeat.unscoped.select_for_update().get_or_create(name=_CLOCK, defaults={"at": now})
    if new:
        return 0
    whole = int((now - mark.at).total_seconds() * rate)
    if whole:
        mark.at = now if whole > _MOST_AT_ONCE else mark.at + timedelta(seconds=whole / rate)
        mark.save(update_fields=["at"])
    return min(whole, _MOST_AT_ONCE)


def _rates() -> dict[str, float]:
    """Return how many jobs of each class arrive in a second."""
    anchors = SimulatedCluster.unscoped.order_by("id").values_list("anchors", flat=True).first()
    speed = Timeline.from_json(anchors).speed if anchors else 1.0
    return {
        TRAINING.name: speed * TRAINING.per_day / DAY_S,
        NOTEBOOK.name: speed * NOTEBOOK.per_day / DAY_S,
        EXPERIMENT.name: speed * _EXPERIMENTS * EXPERIMENT.per_day / DAY_S,
    }


def _submit(number: int, rates: Mapping[str, float]) -> None:
    chance = random.Random(f"{settings.SECRET_KEY}:{number}")
    kinds = {kind.name: kind for kind in (TRAINING, EXPERIMENT, NOTEBOOK)}
    name = chance.choices(list(rates), weights=list(rates.values()))[0]
    job = draw_job(chance, number, kinds[name], 0)
    job_submit(
        acting_user=User.objects.get(username=job.user),
        workspace=Tenant.unscoped.get(slug=job.workspace),
        spec=parse_job(job.body),
    )
