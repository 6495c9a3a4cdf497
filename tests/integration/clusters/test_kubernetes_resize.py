"""A request to change memory on a real API server: HAMi's annotations, the agent's answers and rights."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import DeviceGrant, OutcomeKind, PodOutcome, PodPhase, TaskSpec
from clusters.gpu import hami
from clusters.gpu.live_memory import ANSWER, WANTED, AnswerState, MemoryAnswer, parse_answer
from telemetry.agent.api import Changed
from tests.builders.regions import put_region, region
from tests.fixtures.agents import token
from tests.fixtures.kubelet import Cluster
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server
NODE = "slice-01"


@pytest.fixture
def running(kept: Any) -> TaskSpec:
    spec: TaskSpec = kept.sliced("a", cores=30, memory_mib=8192, simulate={})
    kept.place(spec)
    kept.until("a", PodPhase.RUNNING)
    kept.backend.resizes = True
    kept.pass_time(1)  # its container has used the card by now
    return spec


@pytest.fixture
def admin(kube: ControlPlane) -> Cluster:
    return Cluster(kube)


def ask(harness: Any, spec: TaskSpec, mib: int) -> PodOutcome:
    wanted = [replace(grant, memory_mib=mib) for grant in spec.devices]
    outcome: PodOutcome = harness.backend.resize_devices(spec.ref, wanted)
    return outcome


def pod(admin: Cluster) -> Any:
    return admin.call("GET", "/api/v1/namespaces/team/pods/a")


def books(admin: Cluster) -> int:
    """The MiB that HAMi counts for the pod."""
    ((share,),) = hami.decode_shares(pod(admin)["metadata"]["annotations"][hami.ALLOCATED])
    assert share.cores == 30
    return share.memory_mib


def answer(admin: Cluster) -> MemoryAnswer:
    return parse_answer(pod(admin)["metadata"]["annotations"][ANSWER])


def granted_mib(kept: Any) -> list[int]:
    """Return the grants that the agent's telemetry reads, by card."""
    views = [view for table in kept.agents.tables.values() for view in table.pods.values()]
    (view,) = (view for view in views if view.name == "a")
    return [share.memory_mib for shares in view.shares.values() for share in shares.values()]


def test_growing_is_booked_before_and_shrinking_after(kept: Any, running: TaskSpec, admin: Cluster) -> None:
    assert kept.agents.limits("a") == [8192]
    assert ask(kept, running, 10_000).kind is OutcomeKind.UNKNOWN
    assert (books(admin), kept.agents.limits("a")) == (10_000, [8192])
    kept.agents.step()
    assert kept.agents.limits("a") == [10_000]
    assert granted_mib(kept) == [10_000], "what telemetry compares the use with"
    assert ask(kept, running, 10_000).kind is OutcomeKind.DONE
    assert ask(kept, running, 5000).kind is OutcomeKind.UNKNOWN
    assert (books(admin), kept.agents.limits("a")) == (10_000, [10_000])
    kept.agents.step()
    assert (books(admin), kept.agents.limits("a")) == (10_000, [5000])
    assert ask(kept, running, 5000).kind is OutcomeKind.DONE
    assert books(admin) == 5000


def test_below_what_is_used_is_refused_by_the_node(kept: Any, running: TaskSpec, admin: Cluster) -> None:
    uuid = running.devices[0].uuid
    put_region(kept.agents.root, pod(admin)["metadata"]["uid"], region({uuid: 8192}, used_mib=[{uuid: 6000}]))
    outcome = kept.resize(running, 4096)
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "BELOW_USE")
    assert "6000 MiB" in outcome.message
    assert (books(admin), kept.agents.limits("a")) == (8192, [8192])
    # It is not tried again behind the platform's back, and can be asked anew.
    kept.agents.step()
    assert kept.agents.limits("a") == [8192]
    assert kept.resize(running, 6000).kind is OutcomeKind.DONE


def test_what_an_agent_has_taken_cannot_be_taken_back_by_a_word(
    kept: Any, running: TaskSpec, admin: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "telemetry.agent.resizing.settle._apply", lambda *_: False
    )  # the agent dies after it accepted the request
    assert ask(kept, running, 10_000).kind is OutcomeKind.UNKNOWN
    kept.agents.step()
    assert answer(admin).state is AnswerState.TAKEN
    assert ask(kept, running, 8192).kind is OutcomeKind.UNKNOWN
    assert books(admin) == 10_000
    monkeypatch.undo()
    kept.agents.step()  # the next one
    assert kept.agents.limits("a") == [8192]
    assert ask(kept, running, 8192).kind is OutcomeKind.DONE
    assert books(admin) == 8192


def test_an_agent_that_read_a_wish_before_it_was_taken_back_changes_nothing(
    kept: Any, running: TaskSpec, admin: Cluster
) -> None:
    ask(kept, running, 10_000)
    stale = pod(admin)
    assert ask(kept, running, 8192).kind is OutcomeKind.DONE
    with pytest.raises(Changed):
        kept.agents.agent(NODE).api.annotate_pod(
            stale, {ANSWER: MemoryAnswer("x", AnswerState.TAKEN).to_annotation()}
        )
    kept.agents.step()
    assert kept.agents.limits("a") == [8192]


def test_a_watching_agent_answers_within_its_watch(kept: Any, running: TaskSpec, admin: Cluster) -> None:
    agent = kept.agents.agent(NODE)
    watching = threading.Thread(target=agent.watch_once, kwargs={"most_s": 3})
    watching.start()
    ask(kept, running, 10_000)
    wait_until(lambda: kept.agents.limits("a") == [10_000], "the agent has seen the wish", within_s=20)
    watching.join(20)
    assert not watching.is_alive()
    assert ask(kept, running, 10_000).kind is OutcomeKind.DONE


def test_a_wish_that_the_account_may_not_write_is_asked_for_again_and_was_not_made(
    kept: Any, running: TaskSpec, admin: Cluster
) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/allotment"
    rules = admin.call("GET", role)["rules"]
    without = [dict(rule) for rule in rules]
    (of_pods,) = (rule for rule in without if rule["resources"] == ["pods"])
    of_pods["verbs"] = [verb for verb in of_pods["verbs"] if verb != "patch"]
    admin.call("PATCH", role, {"rules": without})
    try:
        wait_until(lambda: "forbidden" in ask(kept, running, 10_000).message, "the right is gone")
        assert ask(kept, running, 10_000).kind is OutcomeKind.UNKNOWN
        assert WANTED not in pod(admin)["metadata"]["annotations"]
    finally:
        admin.call("PATCH", role, {"rules": rules})


def test_a_pod_that_was_not_given_parts_of_cards_has_nothing_to_change(kept: Any) -> None:
    spec = kept.spec("whole")
    kept.place(spec)
    outcome = kept.backend.resize_devices(spec.ref, [DeviceGrant(spec.devices[0].uuid, 100, 10)])
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "NOT_ITS_CARD")


def test_the_agent_alone_needs_no_more_than_its_own_rights(
    kept: Any, kube: ControlPlane, admin: Cluster
) -> None:
    """Its token names its node, which is what the policy of admission.yaml goes by."""
    bearer = token(kube, NODE)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": bearer}}
    user = admin.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]["user"]
    assert user["username"] == "system:serviceaccount:allotment:allotment-agent"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == [NODE]
    assert json.dumps(user["groups"])


def test_the_cluster_distinguishes_the_agents_token_from_all_others(kept: Any, kube: ControlPlane) -> None:
    bearer = token(kube, NODE, audience="allotment")
    verify = kept.backend.verify_agent
    assert verify(bearer, NODE)
    assert not verify(bearer, "slice-02")
    assert not verify(token(kube, NODE), NODE), "a token for the API server is not for the platform"
    assert not verify(bearer[:-3] + "abc", NODE)
    assert not verify("x", NODE)
    Cluster(kube).call("DELETE", f"/api/v1/namespaces/allotment/pods/agent-{NODE}?gracePeriodSeconds=0")
    assert not verify(bearer, NODE), "its pod is gone"
