"""What a platform admin sees of a running platform, read from its database: prints pages and figures as JSON.

Run as `python -m tests.e2e.agents_view WORKSPACE JOB NODE…` in the platform's environment.
"""

from __future__ import annotations

import json
import sys
from secrets import token_urlsafe

import django

django.setup()

from django.test import Client  # noqa: E402  (Django has to be set up first)

from foundation.core import clock  # noqa: E402
from foundation.core.actor import SYSTEM  # noqa: E402
from telemetry.usage.record_measured import record_measured  # noqa: E402
from tenants.models import Role, User  # noqa: E402
from tenants.services.account import user_create  # noqa: E402
from tenants.services.member import member_set  # noqa: E402

VIEWER = "looks"


def main(workspace: str, job: str, *nodes: str) -> None:
    """Read pages, write down the measured use as the platform does each five minutes, and read the report."""
    client = Client(headers={"host": "127.0.0.1"})
    # The first operator has to change the password before any page opens.
    viewer = User.objects.filter(username=VIEWER).first() or user_create(
        acting_user=SYSTEM, username=VIEWER, password=token_urlsafe(), must_change_password=False
    )
    member_set(acting_user=SYSTEM, user=viewer, tenant=None, role=Role.PLATFORM_ADMIN)
    client.force_login(viewer)
    pages = {name: client.get(f"/ops/nodes/{name}") for name in nodes}
    pages["job"] = client.get(f"/w/{workspace}/jobs/{job}")
    statuses = {name: page.status_code for name, page in pages.items()}
    assert set(statuses.values()) == {200}, statuses
    record_measured(now=clock.now())
    report = client.get(f"/api/v1/workspaces/{workspace}/usage/report", {"group_by": "job"})
    assert report.status_code == 200, report.content
    texts = {name: page.content.decode() for name, page in pages.items()}
    sys.stdout.write(json.dumps({"pages": texts, "report": report.json()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
