"""The view of a platform admin on a running platform, read from its database: prints the answers as JSON.

Run as `python -m tests.e2e.agents_view PATH…` in the platform's environment. Measured use is written down
first, as the platform does each five minutes.
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


def main(*paths: str) -> None:
    """Read pages, charts and reports by their paths."""
    client = Client(headers={"host": "127.0.0.1"})
    # The first operator has to change the password before any page opens.
    viewer = User.objects.filter(username=VIEWER).first() or user_create(
        acting_user=SYSTEM, username=VIEWER, password=token_urlsafe(), must_change_password=False
    )
    member_set(acting_user=SYSTEM, user=viewer, tenant=None, role=Role.PLATFORM_ADMIN)
    client.force_login(viewer)
    record_measured(now=clock.now())
    answers = {path: client.get(path) for path in paths}
    statuses = {path: answer.status_code for path, answer in answers.items()}
    assert set(statuses.values()) == {200}, statuses
    texts = {path: answer.content.decode() for path, answer in answers.items()}
    sys.stdout.write(json.dumps(texts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
