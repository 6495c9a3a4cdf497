"""The placement policy of a pool: set on its page and by REST, and used by the next cycle."""

from __future__ import annotations

import pytest
from django.test import Client

from clusters.models import Flavor, Node, PlacementPolicy
from foundation.models import AuditRecord
from scheduling.models import Allocation
from scheduling.services.cycle import cycle_run
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def start_two_jobs(here: World) -> set[str]:
    """Start two jobs of one GPU each in a cycle, and return the nodes that they got."""
    for _ in range(2):
        jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=1)])
    cycle_run(cell_id=here.cell.pk)
    held = Allocation.unscoped.filter(released_at__isnull=True)
    return set(Node.unscoped.filter(allocations__in=held).values_list("name", flat=True))


@pytest.mark.parametrize(("policy", "nodes"), [("compact", 1), ("spread", 2)])
def test_the_next_cycle_chooses_nodes_by_it(policy: str, nodes: int, client: Client) -> None:
    here = world()
    client.force_login(here.platform_admin)
    address = f"/ops/flavors/{here.cluster.name}/a100"
    form = {"placement": policy, "cpu_per_gpu": "", "memory_per_gpu": "", "version": "0"}
    assert "Pool a100 updated" in client.post(address, form, follow=True).content.decode()
    assert len(start_two_jobs(here)) == nodes
    record = AuditRecord.unscoped.get(action="flavor.set")
    assert (record.before["placement"], record.after["placement"]) == ("default", policy)


def test_the_page_offers_all_policies_and_refuses_others(client: Client) -> None:
    here = world()
    client.force_login(here.platform_admin)
    address = f"/ops/flavors/{here.cluster.name}/a100"
    text = client.get(address).content.decode()
    assert all(f'value="{policy}"' in text and policy.help in text for policy in PlacementPolicy)
    form = {"placement": "fgd", "cpu_per_gpu": "", "memory_per_gpu": "", "version": "0"}
    assert client.post(address, form).status_code == 400
    assert Flavor.unscoped.get(pk=here.flavor.pk).placement == "default"


def test_a_policy_that_is_not_offered_any_more_is_shown_as_the_default(client: Client) -> None:
    here = world()
    Flavor.unscoped.filter(pk=here.flavor.pk).update(placement="fgd")
    client.force_login(here.platform_admin)
    found = client.get(f"/api/v1/admin/flavors/{here.cluster.name}/a100")
    assert found.json()["placement"] == "default"
    assert client.get(f"/ops/flavors/{here.cluster.name}/a100").status_code == 200


def test_over_rest_a_ratio_alone_keeps_the_policy(client: Client) -> None:
    here = world()
    client.force_login(here.platform_admin)
    address = f"/api/v1/admin/flavors/{here.cluster.name}/a100"
    answer = client.get(address)
    for more in ({"placement": "balance"}, {}):
        body = {"cpu_per_gpu": None, "memory_per_gpu": None, **more}
        etag = {"If-Match": answer.headers["ETag"]}
        answer = client.patch(address, body, content_type="application/json", headers=etag)
        assert (answer.status_code, answer.json()["placement"]) == (200, "balance")
