"""Pages before the first `allotment init`: each opens and names the next step."""

from __future__ import annotations

import pytest
from django.test import Client

from allotment.setup.first_use import domain_ensure
from frontend.urls_operations import urlpatterns
from tests.builders import clusters, tenancy

pytestmark = pytest.mark.django_db

_CHANGES = {"jobs/batch", "users/batch", "cells/check", "teams/new/check", "setup/dismiss"}
_PAGES = [
    f"/ops/{pattern.pattern}"
    for pattern in urlpatterns
    if "<" not in str(pattern.pattern) and str(pattern.pattern) not in _CHANGES
]


@pytest.fixture
def boss() -> Client:
    """Return the client of a platform admin without any other object."""
    client = Client(raise_request_exception=False)
    client.force_login(tenancy.platform_admin())
    return client


@pytest.mark.parametrize("path", [*_PAGES, "/", "/account", "/account/keys", "/search?q=a"])
def test_no_page_fails_without_a_domain_or_without_a_cluster(boss: Client, path: str) -> None:
    assert boss.get(path, follow=True).status_code == 200
    domain_ensure()
    assert boss.get(path, follow=True).status_code == 200


@pytest.mark.parametrize("path", ["/ops/clusters/new", "/ops/quotas", "/ops/teams/new", "/ops/tenants"])
def test_a_page_that_needs_a_domain_names_the_command(boss: Client, path: str) -> None:
    clusters.cell()
    page = boss.get(path).content.decode()
    assert "allotment init" in page, "the root tenant is missing"
    assert "Ask a platform" not in page
    domain_ensure()
    assert "allotment init" not in boss.get(path).content.decode()
