"""A small world, a stopped clock, and rules on a metric whose values a test sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from alerts.delivery.deliver import deliver_notifications
from alerts.evaluation.evaluate import evaluate_rules
from alerts.evaluation.notifications import create_notifications
from alerts.metrics import catalogue
from alerts.metrics.base import AlertMetric, Observation, Unit
from alerts.models import Alert, AlertRule, ChannelKind, NotificationChannel
from alerts.services.channel import create_channel
from alerts.services.rule import create_rule
from foundation.core import clock
from tenants.models import Tenant
from tests.builders.world import World, world
from tests.fixtures.http_receiver import Receiver, run_receiver

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
METRIC = "test.load"


@dataclass
class Bench:
    """The world, the clock, and the values of the metric `test.load` by subject."""

    world: World
    traveller: time_machine.Traveller
    receiver: Receiver
    values: dict[str, Observation] = field(default_factory=dict)
    broken: bool = False

    def read(self, _now: datetime) -> list[Observation]:
        if self.broken:
            raise RuntimeError("no connection to the store")
        return list(self.values.values())

    def observe(self, subject: str, value: float | None, **facts: Any) -> None:
        """From now on the metric has this value for a subject of team-a."""
        mine = self.world.workspace
        known = {"label": f"job {subject}", "tenant_id": mine.pk, "tenant_path": mine.path} | facts
        self.values[subject] = Observation(subject=subject, value=value, **known)

    def rule(self, tenant: Tenant | None = None, *, name: str = "load", **values: Any) -> AlertRule:
        """Create a rule on `test.load` above 10 with the channels given."""
        channels = values.pop("channels", ())
        known = {"name": name, "metric": METRIC, "threshold": 10.0, "hold_s": 0, "resolve_s": 0} | values
        actor = self.world.platform_admin
        return create_rule(acting_user=actor, tenant=tenant, values=known, channels=channels)

    def channel(
        self, kind: ChannelKind = ChannelKind.WEBHOOK, tenant: Tenant | None = None, **values: Any
    ) -> NotificationChannel:
        known = {"name": "hook", "address": f"{self.receiver.url}/hook", "language": "en"} | values
        return create_channel(acting_user=self.world.platform_admin, tenant=tenant, kind=kind, **known)

    def step(self, seconds: float = 15, *, deliver: bool = True) -> None:
        """Let time pass, then evaluate, create notifications and deliver once."""
        self.traveller.shift(timedelta(seconds=seconds))
        evaluate_rules(clock.now())
        create_notifications(clock.now())
        if deliver:
            deliver_notifications(clock.now())

    def states(self) -> dict[str, str]:
        return dict(Alert.unscoped.order_by("started_at").values_list("subject", "state"))


@pytest.fixture
def bench(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with time_machine.travel(START, tick=False) as traveller, run_receiver() as receiver:
        made = Bench(world(), traveller, receiver)
        metric = AlertMetric(
            METRIC, "Load", "", Unit.PERCENT, made.read, suggested=10, for_tenants=True, of_cluster=True
        )
        monkeypatch.setitem(catalogue.BY_NAME, METRIC, metric)
        yield made
