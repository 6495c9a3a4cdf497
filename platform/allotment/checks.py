"""Readiness of the broker and of the relay, for `/readyz` and `allotment doctor`."""

from __future__ import annotations

from kombu.exceptions import KombuError

from allotment.celery import app
from foundation import health


def broker() -> health.CheckResult:
    """Whether the broker takes a connection, asked once and for two seconds at most."""
    try:
        with app.connection_for_read(connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
            transport = str(connection.transport.driver_type)
    except (OSError, KombuError) as error:
        return health.CheckResult(
            "broker", False, str(error), "is ALLOTMENT_BROKER_URL right, and the server up?"
        )
    return health.CheckResult("broker", True, transport)


def register() -> None:
    """Adds the checks; called once, when the apps are loaded."""
    health.register("broker", broker)
    relay = health.heartbeat_check("relay", within_s=30, help_text="is `allotment relay` running?")
    health.register("relay", relay)
