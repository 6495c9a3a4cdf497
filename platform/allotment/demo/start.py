"""Prepares an installation before `allotment up` starts the platform."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
from django.db import transaction

from allotment.demo.history.jobs import DAYS
from allotment.demo.history.record import record_week
from allotment.demo.history.recording import write_predictions, write_recording
from allotment.demo.history.seed import seed_history, setup_in_past, week_start
from allotment.demo.setup import demo_setup, operator_ensure
from allotment.setup.first_use import domain_ensure, find_admins
from clusters.models import Cluster
from foundation.core import clock

log = structlog.get_logger(__name__)


@transaction.atomic
def prepare_installation(*, home: Path, demo: bool) -> None:
    """Create what an installation needs before the first sign-in and, with `demo`, the missing parts of the
    demo. A new demo gets a week of history.

    Without the demo it does the same as `allotment init`, and stores the one-time password in `home`.
    """
    if not demo:
        if not find_admins():
            operator_ensure(home=home)
        domain_ensure()
        return
    if Cluster.unscoped.exists():
        demo_setup(home=home)
        return
    now = clock.now()
    with setup_in_past(now):
        demo_setup(home=home)
    counted = seed_history(now=now)
    log.info("a simulated week of history is written", **counted)


@transaction.atomic
def record_history() -> int:
    """Record the week again, into the package; return the number of runs. The database is left as it was.

    It needs a database without clusters: jobs there would take part.
    """
    with TemporaryDirectory() as home:
        demo_setup(home=Path(home))
    week = record_week(start=week_start(clock.now()), days=DAYS)
    write_recording(week.runs)
    write_predictions(week.predictions)
    transaction.set_rollback(True)
    return len(week.runs)
