"""Celery tasks: three lines each; safe to run repeatedly, late, or concurrently."""

from __future__ import annotations

from celery import shared_task

from foundation.core import clock
from quotas.services.budget import budgets_watch
from quotas.services.ledger import months_close
from quotas.services.overrides.override import overrides_sweep
from quotas.services.requests.quota_request import quota_requests_expire


@shared_task(name="quotas.tasks.sweep_loans")
def sweep_loans() -> None:
    """Start loans that are due and end loans that are over."""
    overrides_sweep(now=clock.now())


@shared_task(name="quotas.tasks.expire_requests")
def expire_requests() -> None:
    """Close requests whose time is over."""
    quota_requests_expire(now=clock.now())


@shared_task(name="quotas.tasks.watch_budgets")
def watch_budgets() -> None:
    """Close past months of the ledger, and notify of budget thresholds."""
    months_close(now=clock.now())
    budgets_watch(now=clock.now())
