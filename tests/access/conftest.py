"""The world of the access matrix, made once for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tenants.access.row_policies import WEB_ROLE
from tests.access.world import AccessWorld, build


@pytest.fixture(scope="module")
def w(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[AccessWorld]:
    """The world; each request is undone, and in the end all of it.

    On PostgreSQL requests meet the policies on rows, which a superuser would pass by.
    """
    admins = override_settings(ALLOTMENT_OIDC_ADMIN_GROUPS=["bosses"])
    with django_db_blocker.unblock(), admins, transaction.atomic():
        made = build()
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL ROLE {WEB_ROLE}")
        yield made
        transaction.set_rollback(True)
