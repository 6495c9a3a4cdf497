"""Clusters in the console, the checklist of the first steps, and the sample job of a new team."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.backends.registry import backend_for
from clusters.models import Cell, Cluster, Flavor, GpuMode, Node
from clusters.services.inventory import inventory_sync
from clusters.services.kubeconfig_files import kubeconfig_connection
from clusters.services.simulated import SimulatedSize, simulated_cluster_add, simulated_speed
from foundation.core.actor import SYSTEM
from foundation.core.errors import Invalid
from foundation.core.quantities import Resource
from foundation.models import AuditRecord, Installation
from quotas.models import Quota
from quotas.services.pool_quota import pools_create
from quotas.services.team import TeamPlan, TeamPool, team_create
from scheduling.models import Job
from tenants.models import Role, User
from tests.builders import clusters, jobs, tenancy
from tests.unit.frontend.pages.forms import fields_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss() -> User:
    """The admin of an installation that has a domain and a root, and nothing else."""
    clusters.cell()
    tenancy.root()
    return tenancy.platform_admin()


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def steps_of(client: Client) -> tuple[int, bool]:
    """Return how many steps are done, and whether the list is shown at all."""
    page = text(client, "/ops/overview")
    return page.count('<li class="done"'), 'id="setup"' in page


def new_cluster(**fields: str) -> dict[str, str]:
    return {"kind": "simulated", "name": "demo", "size": "small", "speed": "60", **fields}


def test_the_checklist_follows_an_installation_to_its_first_job(boss: User) -> None:
    client = signed_in(boss)
    assert steps_of(client) == (0, True)
    made = client.post("/ops/clusters/new", new_cluster(), follow=True).content.decode()
    assert "16 GPUs on 2 nodes" in made and "Create the proposed pools." in made
    assert steps_of(client) == (1, True)
    after = client.post("/ops/clusters/demo", {"do": "pools"}, follow=True).content.decode()
    assert "All GPU nodes belong to a pool." in after
    assert steps_of(client) == (2, True)
    flavor, root = Flavor.unscoped.get(), tenancy.root()
    own = Quota.unscoped.get(node__tenant=root, resource=Resource.GPU_CARDS)
    assert own.own_nominal == 16, "the root has what the pools have"
    team = team_create(acting_user=boss, plan=TeamPlan(root, "Vision", pools=[TeamPool(flavor, 8)]))
    assert steps_of(client) == (3, True)
    jobs.priority_class()
    job = jobs.job(team.queue, boss)
    assert steps_of(client) == (3, True), "a job that waits has not run"
    jobs.allocate(job, Node.unscoped.first())  # type: ignore[arg-type]
    assert steps_of(client) == (0, False)


def test_the_checklist_is_hidden_for_all_users_by_a_platform_admin(boss: User) -> None:
    viewer = signed_in(tenancy.user("vera", None, Role.PLATFORM_VIEWER))
    assert steps_of(viewer) == (0, False), "it is no matter of who can't do the steps"
    assert viewer.post("/ops/setup/dismiss").status_code == 403
    assert Installation.unscoped.filter(setup_dismissed_at__isnull=False).count() == 0
    client = signed_in(boss)
    assert client.post("/ops/setup/dismiss", follow=True).status_code == 200
    assert steps_of(client) == (0, False) == steps_of(signed_in(tenancy.platform_admin("other")))
    assert AuditRecord.unscoped.filter(action="setup.dismiss").exists()


def test_what_a_cluster_lacks_is_said(boss: User) -> None:
    cluster = clusters.cluster(Cell.unscoped.get(), "bare")
    client = signed_in(boss)
    assert "No nodes found." in text(client, "/ops/clusters/bare")
    plain = Node.unscoped.create(cluster=cluster, name="cpu-1", cpu_millicores=1, memory_mib=1)
    assert "No GPUs found." in text(client, "/ops/clusters/bare")
    pool = clusters.flavor(cluster)
    clusters.node(pool, "gpu-1")
    Node.unscoped.filter(name="gpu-1").update(flavor=None, labels={})
    pool.delete()
    page = text(client, "/ops/clusters/bare")
    assert "No label nvidia.com/gpu.product on gpu-1." in page and plain.name not in page
    assert "Not checked yet." in page
    Cluster.unscoped.update(missing_permissions=["get persistentvolumes", "get pods/log"])
    page = text(client, "/ops/clusters/bare")
    assert "Missing: get persistentvolumes, get pods/log. Apply deploy/kubernetes/access.yaml again." in page
    Cluster.unscoped.update(missing_permissions=[])
    assert "No permission is missing." in text(client, "/ops/clusters/bare")
    Cluster.unscoped.update(health="unreachable", health_message="no route to host")
    page = text(client, "/ops/clusters/bare")
    assert "no route to host" in page and "Unreachable" in page
    assert steps_of(client)[0] == 0


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"name": "Not Good"}, "name", "Invalid"),
        ({"name": "taken"}, "name", "already exists"),
        ({"kind": "kubeconfig"}, "file", "Select a file."),
        ({"kind": "kubeconfig", "file": "../../etc/passwd"}, "file", "valid choice"),
        ({"kind": "kubeconfig", "file": "broken"}, "", "be opened"),
    ],
)
def test_a_cluster_that_cannot_be_added_is_explained_and_leaves_nothing(
    boss: User, settings: Any, tmp_path: Path, changes: dict[str, str], field: str, message: str
) -> None:
    settings.ALLOTMENT_KUBECONFIG_DIR = str(tmp_path)
    (tmp_path / "broken").write_text("{}")
    (tmp_path / ".hidden").write_text("{}")
    simulated_cluster_add(
        acting_user=SYSTEM, cell=Cell.unscoped.get(), name="taken", size=SimulatedSize.SMALL
    )
    answer = signed_in(boss).post("/ops/clusters/new", new_cluster(**changes))
    page = answer.content.decode()
    assert answer.status_code == 400 and message in page and ".hidden" not in page
    assert not field or f'id="id_{field}_error"' in page
    assert Cluster.unscoped.count() == 1


def test_the_list_of_clusters_takes_the_same_number_of_queries_for_any_number_of_them(boss: User) -> None:
    cell, client = Cell.unscoped.get(), signed_in(boss)

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            text(client, "/ops/clusters")
        return len(queries)

    def add_complete_cluster(name: str) -> None:
        cluster = simulated_cluster_add(acting_user=SYSTEM, cell=cell, name=name, size=SimulatedSize.SMALL)
        pools_create(acting_user=boss, cluster=cluster)

    add_complete_cluster("a")
    text(client, "/ops/clusters")  # what is cached per process is there from now on
    before = count_queries()
    for name in "bcd":
        add_complete_cluster(name)
    assert count_queries() == before


def test_only_files_of_the_folder_give_a_connection(settings: Any, tmp_path: Path) -> None:
    settings.ALLOTMENT_KUBECONFIG_DIR = str(tmp_path)
    (tmp_path / "east").write_text("{}")
    path = str(tmp_path / "east")
    assert kubeconfig_connection("east") == {"kind": "kubeconfig", "path": path}
    assert kubeconfig_connection("east", "admin")["context"] == "admin"
    for name in ("", "west", "../passwd", "/etc/passwd", ".hidden"):
        with pytest.raises(Invalid) as refused:
            kubeconfig_connection(name)
        assert refused.value.errors[0].field == "file"


def test_the_speed_of_a_simulated_cluster_is_changed_and_recorded(boss: User) -> None:
    client = signed_in(boss)
    client.post("/ops/clusters/new", new_cluster())
    cluster = Cluster.unscoped.get()
    assert '<option value="60" selected>' in client.get("/ops/overview").content.decode()
    answer = client.post("/ops/clusters/demo", {"do": "speed", "speed": "600", "back": "overview"})
    assert answer.headers["Location"] == "/ops/overview"
    assert '<option value="600" selected>' in client.get("/ops/overview").content.decode()
    assert simulated_speed(cluster) == 600
    for wrong in ("fast", "0", "-1", "nan", "1e9"):
        client.post("/ops/clusters/demo", {"do": "speed", "speed": wrong})
        assert simulated_speed(cluster) == 600
    record = AuditRecord.unscoped.get(action="cluster.speed")
    assert (record.before, record.after) == ({"speed": 60.0}, {"speed": 600.0})


def test_pools_that_labels_propose_tolerate_the_taint_of_their_nodes(boss: User) -> None:
    """The large simulated cluster has the usual taint; a pool without its toleration could start no job."""
    cell = Cell.unscoped.get()
    cluster = simulated_cluster_add(acting_user=boss, cell=cell, name="sim", size=SimulatedSize.LARGE)
    made = {flavor.name: flavor for flavor in pools_create(acting_user=boss, cluster=cluster)}
    assert {name: flavor.gpu_mode for name, flavor in made.items()} == {
        "a100-40g": GpuMode.WHOLE,
        "l40s": GpuMode.SLICE,
    }
    assert all(
        flavor.tolerations == [{"key": "nvidia.com/gpu", "operator": "Exists"}] for flavor in made.values()
    )
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    assert not Node.unscoped.filter(flavor=None).exists()


@pytest.mark.parametrize("size", list(SimulatedSize))
@pytest.mark.parametrize(("cpu", "memory"), [(None, None), (1500, 3000), (1, 1)])
def test_the_sample_job_of_every_team_is_one_that_starts(
    boss: User, size: SimulatedSize, cpu: int | None, memory: int | None
) -> None:
    jobs.priority_class()
    cell = Cell.unscoped.get()
    cluster = simulated_cluster_add(acting_user=boss, cell=cell, name="sim", size=size)
    for flavor in pools_create(acting_user=boss, cluster=cluster):
        Quota.unscoped.filter(resource="cpu").update(own_nominal=cpu)
        Quota.unscoped.filter(resource="memory").update(own_nominal=memory)
        pool = TeamPool(flavor, 1, **({} if cpu is None else {"cpu": cpu, "memory": memory}))  # type: ignore[arg-type]
        team = team_create(acting_user=boss, plan=TeamPlan(tenancy.root(), flavor.name, pools=[pool]))
        slug = team.workspace.slug
        client = signed_in(tenancy.user(f"of-{slug}", team.workspace, Role.EDITOR))
        assert f"/w/{slug}/jobs/new?sample=1" in client.get("/", follow=True).content.decode()
        page = text(client, f"/w/{slug}/jobs/new?sample=1")
        fields = fields_of(page, "job-form")
        assert "Starts immediately" in client.post(f"/w/{slug}/jobs/new/check", fields).content.decode()
        sent = client.post(f"/w/{slug}/jobs/new", {**fields, "do": "submit"})
        assert sent.status_code == 302 and Job.unscoped.get(workspace=team.workspace).name == "first-job"
        assert "Open sample job" not in text(client, f"/w/{slug}/overview")


def test_an_admin_of_a_folder_without_workspaces_is_led_to_a_team(boss: User) -> None:
    lea = signed_in(tenancy.user("lea", tenancy.folder("labs"), Role.ADMIN))
    assert "/ops/teams/new" in text(lea, "/")
    nobody = signed_in(tenancy.user("nora"))
    page = text(nobody, "/")
    assert "/ops/teams/new" not in page and "nora" in page
