"""Periodic tasks while the broker is away: the log has one line per task, and the other tasks are sent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from structlog.testing import capture_logs

from allotment.celery import app as platform_app
from foundation.messaging.periodic import OutageTolerantScheduler


@pytest.mark.parametrize(
    ("failure", "has_stack"), [(OperationalError("Broken pipe"), False), (TypeError("x"), True)]
)
def test_a_task_that_could_not_be_sent_is_logged_and_the_others_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, has_stack: bool
) -> None:
    app = Celery(set_as_current=False)
    app.conf.beat_schedule = {
        name: {"task": name, "schedule": timedelta(seconds=1)} for name in ("first", "second", "third")
    }
    sent: list[str] = []

    def send_task(name: str, *args: Any, **options: Any) -> None:
        if name == "second":
            raise failure
        sent.append(name)

    monkeypatch.setattr(app, "send_task", send_task)
    scheduler = OutageTolerantScheduler(app=app, schedule_filename=str(tmp_path / "schedule"))
    try:
        with capture_logs() as lines:
            for entry in scheduler.schedule.values():
                if not entry.name.startswith("celery."):
                    scheduler.apply_entry(entry, producer=object())
    finally:
        scheduler.close()
    assert sorted(sent) == ["first", "third"]
    assert [(line["event"], line["log_level"], line["exc_info"]) for line in lines] == [
        ("could not send a periodic task", "warning", has_stack)
    ]
    assert str(failure) in lines[0]["error"] and "second" in lines[0]["error"]


def test_the_platform_uses_this_scheduler() -> None:
    assert platform_app.conf.beat_scheduler == (
        f"{OutageTolerantScheduler.__module__}:{OutageTolerantScheduler.__qualname__}"
    )
