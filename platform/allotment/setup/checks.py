"""Checks of broker, relay and set-up, for the readiness addresses and `allotment doctor`."""

from __future__ import annotations

from typing import Final

from kombu.exceptions import KombuError

from allotment.celery import app
from allotment.setup.first_use import find_admins
from clusters.models import Cluster, Flavor
from clusters.selectors.cell import has_cells
from foundation.audit import chain_heads
from foundation.monitoring import health
from foundation.monitoring.health import CheckResult
from foundation.sql import row_scope
from tenants.selectors.tenant import has_root_tenant

_BROKER_S: Final = 0.8
"""A Kubernetes probe waits for one second, and a frozen broker must not fail the probes of web processes."""


def check_broker() -> CheckResult:
    """Check once whether the broker answers."""
    limits = {"socket_timeout": _BROKER_S, "socket_connect_timeout": _BROKER_S}
    try:
        with app.connection_for_read(transport_options=limits) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=_BROKER_S)
            transport = str(connection.transport.driver_type)
    except (OSError, KombuError) as error:
        return CheckResult(
            "broker", False, str(error), "check ALLOTMENT_BROKER_URL and that the broker is running"
        )
    return CheckResult("broker", True, transport)


def check_installation() -> CheckResult:
    """Fail until the installation has been set up; name the next command."""
    with row_scope.whole():
        parts = {
            "platform admin": bool(find_admins()),
            "cell": has_cells(),
            "root tenant": has_root_tenant(),
        }
        missing = [part for part, there in parts.items() if not there]
        if missing:
            return CheckResult(
                "installation", False, f"no {', no '.join(missing)} yet", "run: allotment init"
            )
        if not Cluster.unscoped.exists():
            return CheckResult("installation", True, "no cluster yet; next: allotment cluster add")
        if not Flavor.unscoped.exists():
            return CheckResult("installation", True, "no flavor yet; next: allotment flavor discover CLUSTER")
    return CheckResult("installation", True, "complete")


def check_audit_head() -> CheckResult:
    """Fail if the audit chain lacks the head that was last stored outside the database."""
    noted = chain_heads.noted_head()
    if noted is None:
        return CheckResult("audit", True, f"no head stored in {chain_heads.heads_file()}")
    if chain_heads.is_in_chain(noted):
        return CheckResult("audit", True, f"latest stored head {noted.number} is present")
    return CheckResult(
        "audit",
        False,
        f"head {noted.number}, stored in {chain_heads.heads_file()}, is missing",
        "records were deleted. After restoring an older database, run: allotment audit-verify --accept",
    )


def register_checks() -> None:
    """Register the checks; called once, when the apps are loaded."""
    health.register_check("broker", check_broker)
    relay = health.heartbeat_check("relay", within_s=30, help_text="check that `allotment relay` is running")
    health.register_check("relay", relay)
    health.register_check("installation", check_installation)
    health.register_check("audit", check_audit_head)
