"""The demo is made once, and its users submit jobs at a pace that a person can follow."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.db.models import Q, Sum

from alerts.evaluation.evaluate import evaluate_rules
from alerts.models import Alert
from allotment.demo import faults as demo_faults
from allotment.demo.faults import faults_tick
from allotment.demo.history.jobs import draw_week
from allotment.demo.setup import IDLE_TEAM, demo_setup
from allotment.demo.start import prepare_installation
from allotment.demo.workload import workload_tick
from allotment.setup import checks
from allotment.setup.accounts import SIGN_IN_FILE
from allotment.setup.first_use import FirstUse, installation_init
from clusters.backends.base import DeviceGrant, TaskRef, TaskSpec
from clusters.backends.registry import backend_for
from clusters.backends.simulated import faults
from clusters.models import Cluster, ClusterHealth, Device, Flavor, Node, SimulatedDevice, SimulatedNode
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from frontend.pages.jobs.job_facts import rights_of
from frontend.pages.jobs.resources.job_idle import describe_idle_job
from quotas.models import Queue, Quota
from quotas.services.team import TeamPlan, TeamPool, team_create
from scheduling.models import Allocation, DeviceSlice, GpuRequestMode, IdleStretch, Job, JobState
from scheduling.services.idle import enforce_idle_rules
from telemetry.models import GpuProcess
from telemetry.series import measures_now, node_series, utilisation_now
from telemetry.series.readings.over_use import OverUse, slice_lines
from telemetry.services.collect import samples_collect
from telemetry.services.idle import idle_report
from tenants.models import Member, Role, Tenant, TenantKind, User
from tests.builders import jobs

pytestmark = pytest.mark.django_db


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    demo_setup(home=tmp_path)
    counted = (Tenant, Queue, Quota, Node, Device)
    before = [model._base_manager.count() for model in counted]
    file = tmp_path / SIGN_IN_FILE
    account = json.loads(file.read_text())
    file.unlink()

    demo_setup(home=tmp_path)

    assert [model._base_manager.count() for model in counted] == before
    assert not file.exists()
    operator = User.objects.get(username=account["user"])
    assert operator.check_password(account["password"])
    assert operator.must_change_password


def test_every_team_of_the_demo_has_an_admin_who_submits_no_jobs(tmp_path: Path) -> None:
    demo_setup(home=tmp_path)
    owners = {job.user for job in draw_week()}
    for workspace in Tenant.unscoped.filter(kind=TenantKind.WORKSPACE):
        roles = dict(Member.unscoped.filter(tenant=workspace).values_list("user__username", "role"))
        admins = {name for name, role in roles.items() if role == Role.ADMIN}
        assert len(admins) == 1 and not admins & owners, workspace
        assert {role for name, role in roles.items() if name in owners} == {Role.EDITOR}


def test_the_first_team_of_the_demo_gets_gpus_of_the_unassigned_quota(tmp_path: Path) -> None:
    admin = demo_setup(home=tmp_path)
    root, pool = Tenant.unscoped.get(parent=None), Flavor.unscoped.get(name="a100-40g")

    team = team_create(acting_user=admin, plan=TeamPlan(root, "First", pools=[TeamPool(pool, 8)]))

    (given,) = team.pools
    assert given.amounts[Resource.GPU_CARDS] == 8 and not given.missing
    cards = Quota.unscoped.filter(flavor=pool, resource=Resource.GPU_CARDS)
    given_away = cards.aggregate(total=Sum("own_nominal"))["total"]
    assert given_away == Device.unscoped.filter(node__flavor=pool).count() == 96


def test_the_one_time_password_is_for_its_owner_only(tmp_path: Path) -> None:
    demo_setup(home=tmp_path)

    assert stat.S_IMODE((tmp_path / SIGN_IN_FILE).stat().st_mode) == 0o600


def test_jobs_arrive_at_the_pace_of_the_clock_and_not_of_the_calls(tmp_path: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        demo_setup(home=tmp_path)
        assert workload_tick() == 0
        start, arrived = clock.now(), 0
        while clock.now() - start < timedelta(minutes=10):
            traveller.shift(3)
            arrived += workload_tick()
            Job.unscoped.filter(state="queued").update(state="succeeded")
        assert 2 <= arrived <= 6  # a person can follow them
        assert workload_tick() == 0  # nothing new in no time
        traveller.shift(3600)  # the laptop was asleep: no flood when it wakes up
        assert workload_tick() <= 8


def test_the_faults_of_the_demo_are_seen_measured_and_alerted(tmp_path: Path) -> None:
    """From the fault to the page, the alert and the gap, through the collection that the platform runs."""
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        demo_setup(home=tmp_path)
        Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
        start = clock.now()

        def pass_time(seconds: int) -> None:
            for _ in range(seconds // 30):
                traveller.shift(30)
                faults_tick()
                samples_collect()

        pass_time(120)
        cards = {(d.node.name, d.index): d for d in Device.unscoped.select_related("node")}
        latest = measures_now(SYSTEM, [cards[demo_faults.THROTTLED].pk])
        assert latest[cards[demo_faults.THROTTLED].pk].values["throttle_reasons"] == 0x40
        strays = GpuProcess.unscoped.filter(allocation_id=None)
        assert {row.device_id for row in strays} == {cards[demo_faults.STRAY].pk}
        evaluate_rules(clock.now())
        firing = set(Alert.unscoped.filter(state="firing").values_list("rule__metric", "subject"))
        assert firing == {("gpu.xid_errors", cards[demo_faults.XID].uuid)}  # the others have to hold longer
        pass_time(360)
        evaluate_rules(clock.now())
        pass_time(60)
        evaluate_rules(clock.now())
        assert {("gpu.unknown_processes", cards[demo_faults.STRAY].uuid),
                ("gpu.temperature_c", cards[demo_faults.THROTTLED].uuid)} <= set(
            Alert.unscoped.values_list("rule__metric", "subject")
        )  # fmt: skip
        silent = Node.unscoped.get(name=demo_faults.SILENT)
        assert not utilisation_now(SYSTEM, node_ids=[silent.pk])
        assert silent.ready
        series = node_series(SYSTEM, silent, start, clock.now())
        points = next(one.points for one in series.series if one.measure == "utilisation")
        assert {value is None for _at, value in points} == {False, True}
        traveller.shift(3600)
        pass_time(30)
        assert utilisation_now(SYSTEM, node_ids=[silent.pk])


def test_what_an_operator_recovers_in_the_demo_stays_well(tmp_path: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        demo_setup(home=tmp_path)
        traveller.shift(1)
        faults_tick()
        traveller.shift(400)
        faults_tick()
        cluster = Cluster.unscoped.get(name="demo")
        faulty = Q(throttled=True) | Q(stray_mib__gt=0) | Q(unlimited=True)
        assert SimulatedDevice.unscoped.filter(faulty).count() == 3
        for device in SimulatedDevice.unscoped.filter(faulty):
            faults.device_recover(cluster.pk, device.uuid)
        faults.node_recover(cluster.pk, demo_faults.SILENT)
        traveller.shift(60)
        faults_tick()
        assert not SimulatedDevice.unscoped.filter(faulty).exists()
        assert not SimulatedNode.unscoped.filter(silent_until__gt=clock.now()).exists()


def start_pod(job: Job, node: Node, **simulate: float) -> None:
    """Give a job its GPUs, and start its pod in the simulated cluster."""
    jobs.allocate(job, node, flavor=node.flavor)
    held = Allocation.unscoped.get(task__job=job)
    grants = DeviceSlice.unscoped.filter(allocation=held).values_list("device__uuid", "cores", "memory_mib")
    spec = TaskSpec(
        ref=TaskRef(held.namespace, held.pod_name), node=node.name, cpu_millicores=1000, memory_mib=1024,
        devices=tuple(DeviceGrant(*grant) for grant in grants), image="", command=(), environment={},
        labels={}, workspace=str(job.workspace_id), simulate={"start_s": 1, "run_s": 9_000_000, **simulate},
    )  # fmt: skip
    assert backend_for(node.cluster).ensure_pod(spec).kind == "done"


def test_the_demo_has_a_slice_above_its_allocation_and_an_idle_job_with_a_countdown(tmp_path: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        demo_setup(home=tmp_path)
        Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
        team = Tenant.unscoped.get(slug=IDLE_TEAM)
        queue, owner = Queue.unscoped.get(workspace=team), User.objects.get(username="kenji")
        nodes = {node.name: node for node in Node.unscoped.select_related("cluster", "flavor")}
        part = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=25, gpu_memory=11_500, models=("L40S",))
        sliced, idle = jobs.job(queue, owner, "sliced", roles=(part,)), jobs.job(queue, owner, "idle")
        start_pod(sliced, nodes[demo_faults.UNLIMITED[0]], gpu_utilisation=0.3)
        start_pod(idle, nodes["gpu-a01"], gpu_utilisation=0.01)
        seen: list[tuple[int, str]] = []
        for second in range(0, 1500, 30):
            traveller.shift(30)
            faults_tick()
            samples_collect()
            idle_report()
            enforce_idle_rules(clock.now())
            if second % 240 == 0:
                evaluate_rules(clock.now())
            notice = describe_idle_job(idle, rights_of(owner, team), clock.now())
            seen.append((second + 30, notice.extend_by if notice else "none"))
        (line,) = slice_lines(SYSTEM)
        assert set(line.over) == {OverUse.MEMORY, OverUse.COMPUTE, OverUse.LIMIT}
        assert Alert.unscoped.filter(rule__metric="job.slices_over_allocation", state="firing").exists()
        offered = [second for second, extend_by in seen if extend_by not in ("none", "")]
        assert 600 <= min(offered) <= 720, "warned after ten minutes"
        assert 1200 <= max(offered) <= 1290, "until the rule acts after twenty"
        assert IdleStretch.unscoped.get(job=idle).acted_at is not None
        idle.refresh_from_db()
        assert idle.state == JobState.RUNNING, "others may preempt it, and nobody does"


def test_one_team_of_the_demo_holds_gpus_that_it_does_not_use() -> None:
    training = [job for job in draw_week() if job.body["kind"] == "pytorch" and job.run_s > 40 * 60]
    mean = {slug: [job.use for job in training if job.workspace == slug] for slug in (IDLE_TEAM, "vision")}
    assert max(mean[IDLE_TEAM]) * 1.1 < 0.03  # idle is below 3 %
    assert sum(mean["vision"]) / len(mean["vision"]) > 0.4


def test_without_the_demo_there_is_what_init_creates_and_nothing_else(tmp_path: Path) -> None:
    prepare_installation(home=tmp_path, demo=False)
    prepare_installation(home=tmp_path, demo=False)

    account = json.loads((tmp_path / SIGN_IN_FILE).read_text())
    assert User.objects.get(username=account["user"]).check_password(account["password"])
    assert [model._base_manager.count() for model in (User, Cluster, Tenant, Job, Queue)] == [1, 0, 1, 0, 0]
    assert checks.check_installation().ok, "the readiness that `allotment up` waits for"


def test_without_the_demo_an_admin_that_exists_gets_no_second_one(tmp_path: Path) -> None:
    installation_init(wanted=FirstUse(user="boss", tenant="acme"))

    prepare_installation(home=tmp_path, demo=False)

    assert [user.username for user in User.objects.all()] == ["boss"]
    assert not (tmp_path / SIGN_IN_FILE).exists()
    assert [tenant.slug for tenant in Tenant.unscoped.all()] == ["acme"]
