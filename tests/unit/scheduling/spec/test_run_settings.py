"""The run settings of a job file: accepted, refused and stored values."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from foundation.core import clock
from foundation.core.errors import Invalid
from scheduling.job_file import load_text, parse_job, to_mapping
from scheduling.models import Job
from scheduling.services.jobs.job_rows import create_rows, rows_of
from tests.builders import jobs
from tests.builders.world import world

FULL = """
name: served
kind: service
environment:
  LEVEL: info
  TOKEN: {secret: hub, key: token, optional: true}
  MODE: {config: settings, key: mode}
environment_from: [{secret: hub, prefix: HUB_}, {config: settings, prefix: APP_, optional: true}]
volumes:
  - {claim: datasets, mount: /data, read_only: true, sub_path: imagenet/v1}
  - {empty: 10Gi, mount: /scratch}
  - {empty: 8Gi, in_memory: true, mount: /dev/shm}
  - {config: settings, mount: /etc/app}
  - {secret: keys, mount: /keys, optional: true}
image_pull_secrets: [registry]
security: {run_as_user: 1000, run_as_group: 1000, fs_group: 2000}
termination_grace_s: 120
roles:
  - name: server
    image: example/server:1
    command: [serve]
    args: [--port, 8080]
    working_directory: /srv
    image_pull_policy: IfNotPresent
    probes:
      startup: {command: [test, -e, /ready], failures: 30}
      readiness: {http: {path: /ready, port: 8080}, period_s: 5, successes: 2}
      liveness: {tcp: 8080, delay_s: 10, timeout_s: 2}
    pre_stop: {sleep_s: 5}
    resources: {cpu: 2, memory: 4Gi, limits: {cpu: 4, memory: 8Gi}}
"""
ROLE: dict[str, Any] = {"resources": {"cpu": 1, "memory": "1Gi"}}


def mistakes(**changes: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse_job({"name": "one", "roles": [deepcopy(ROLE)]} | changes)
    return {error.field: error.code for error in caught.value.errors}


def volume(**values: Any) -> dict[str, Any]:
    return {"volumes": [{"mount": "/data", **values}]}


def role(**values: Any) -> dict[str, Any]:
    return {"roles": [ROLE | values]}


def probe(**values: Any) -> dict[str, Any]:
    return role(probes={"liveness": values})


def test_all_of_it_is_read() -> None:
    spec = parse_job(load_text(FULL))
    assert spec.environment["TOKEN"] == {"secret": "hub", "key": "token", "optional": True}
    assert spec.runtime == {
        "environment_from": [
            {"secret": "hub", "prefix": "HUB_"},
            {"config": "settings", "prefix": "APP_", "optional": True},
        ],
        "image_pull_secrets": ["registry"],
        "security": {"run_as_user": 1000, "run_as_group": 1000, "fs_group": 2000},
        "termination_grace_s": 120,
    }
    assert spec.volumes[1:3] == (
        {"empty": "10240Mi", "mount": "/scratch"},
        {"empty": "8192Mi", "mount": "/dev/shm", "in_memory": True},
    )
    (server,) = spec.roles
    assert server.container["args"] == ["--port", "8080"]
    assert server.container["limits"] == {"cpu": "4000m", "memory": "8192Mi"}
    assert server.container["probes"]["readiness"] == {
        "http": {"path": "/ready", "port": 8080}, "period_s": 5, "successes": 2,
    }  # fmt: skip


@pytest.mark.django_db
def test_what_is_stored_is_written_out_and_reads_back_the_same() -> None:
    w = world()
    spec = parse_job(load_text(FULL))
    normal = jobs.priority_class()
    rows = rows_of(spec, queue=w.queue, priority=normal, submitted_by=w.editor, min_run_s=0, now=clock.now())
    made = create_rows(rows)
    stored = to_mapping(Job.unscoped.get(pk=made.pk))
    assert parse_job(stored) == parse_job(to_mapping(made))
    again = parse_job(stored)
    assert (again.runtime, again.volumes, again.environment) == (spec.runtime, spec.volumes, spec.environment)
    assert [role.container for role in again.roles] == [role.container for role in spec.roles]


def test_cpus_of_ones_own_are_looked_for_where_they_are() -> None:
    own = {"resources": {"cpu": 4, "memory": "1Gi", "exclusive_cpus": True}}
    body = {"name": "one", "roles": [own], "placement": {"node_selector": {"disk": "ssd"}}}
    spec = parse_job(body)
    assert spec.roles[0].container == {"exclusive_cpus": True}
    assert spec.placement["node_selector"] == {"disk": "ssd", "allotment.io/cpu-manager": "static"}


def test_what_is_not_said_is_not_kept() -> None:
    spec = parse_job({"name": "one", "roles": [ROLE]})
    assert (dict(spec.runtime), dict(spec.roles[0].container), spec.volumes) == ({}, {}, ())


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        (volume(), "volumes.0", "REQUIRED"),
        (volume(claim="a", empty="1Gi"), "volumes.0", "REQUIRED"),
        (volume(claim="Not A Name"), "volumes.0.claim", "FORMAT"),
        (volume(host_path="/"), "volumes.0.host_path", "UNKNOWN"),
        (volume(hostPath="/"), "volumes.0.hostPath", "UNKNOWN"),
        (volume(empty=10), "volumes.0.empty", "QUANTITY"),
        (volume(empty="0Mi"), "volumes.0.empty", "RANGE"),
        (volume(empty="1Gi", read_only=True), "volumes.0.read_only", "CONTRADICTION"),
        (volume(claim="c", in_memory=True), "volumes.0.in_memory", "CONTRADICTION"),
        (volume(claim="c", sub_path="../other"), "volumes.0.sub_path", "FORMAT"),
        (volume(claim="c", sub_path="/etc"), "volumes.0.sub_path", "FORMAT"),
        (volume(claim="c", mount="data"), "volumes.0.mount", "FORMAT"),
        (volume(secret="s", mount="/var/run/nvidia-container-devices/0"), "volumes.0.mount", "RESERVED"),
        (volume(empty="1Gi", mount="/usr/local/vgpu/x"), "volumes.0.mount", "RESERVED"),
        (volume(config="c", mount="/etc/../etc/ld.so.preload"), "volumes.0.mount", "RESERVED"),
        (volume(config="c", mount="//etc/allotment"), "volumes.0.mount", "RESERVED"),
        ({"volumes": [{"empty": "1Gi", "mount": "/a"}, {"empty": "1Gi", "mount": "/a/"}]}, "volumes",
         "DUPLICATE"),
        ({"environment": {"NVIDIA_VISIBLE_DEVICES": {"secret": "s", "key": "all"}}},
         "environment.NVIDIA_VISIBLE_DEVICES", "RESERVED"),
        ({"environment": {"A": {"secret": "s"}}}, "environment.A.key", "FORMAT"),
        ({"environment": {"A": {"field": "x"}}}, "environment.A", "REQUIRED"),
        ({"environment_from": [{"secret": "s"}]}, "environment_from.0.prefix", "REQUIRED"),
        ({"environment_from": [{"secret": "s", "prefix": "NVIDIA_"}]}, "environment_from.0.prefix",
         "RESERVED"),
        ({"environment_from": [{"config": "s", "prefix": "LD_"}]}, "environment_from.0.prefix", "RESERVED"),
        ({"security": {"run_as_user": 0}}, "security.run_as_user", "RANGE"),
        ({"security": {"privileged": True}}, "security.privileged", "UNKNOWN"),
        ({"termination_grace_s": 301}, "termination_grace_s", "RANGE"),
        ({"image_pull_secrets": ["_"]}, "image_pull_secrets.0", "FORMAT"),
        (role(image_pull_policy="always"), "roles.0.image_pull_policy", "CHOICE"),
        (role(working_directory="srv"), "roles.0.working_directory", "FORMAT"),
        (role(pre_stop={}), "roles.0.pre_stop", "REQUIRED"),
        (role(pre_stop={"command": ["a"], "sleep_s": 1}), "roles.0.pre_stop", "REQUIRED"),
        (probe(), "roles.0.probes.liveness", "REQUIRED"),
        (probe(command=[]), "roles.0.probes.liveness.command", "REQUIRED"),
        (probe(http={"path": "/x"}), "roles.0.probes.liveness.http.port", "REQUIRED"),
        (probe(http={"path": "x", "port": 1}), "roles.0.probes.liveness.http.path", "FORMAT"),
        (probe(tcp=70_000), "roles.0.probes.liveness.tcp", "RANGE"),
        (probe(tcp=1, successes=2), "roles.0.probes.liveness.successes", "CONTRADICTION"),
        (probe(tcp=1, period_s=0), "roles.0.probes.liveness.period_s", "RANGE"),
        (role(resources={"cpu": 2, "limits": {"cpu": 1}}), "roles.0.resources.limits.cpu", "RANGE"),
        (role(resources={"memory": "2Gi", "limits": {"memory": "1Gi"}}), "roles.0.resources.limits.memory",
         "RANGE"),
        (role(resources={"cpu": "1500m", "memory": "1Gi", "exclusive_cpus": True}),
         "roles.0.resources.exclusive_cpus", "CONTRADICTION"),
        (role(resources={"cpu": 1, "memory": "1Gi", "limits": {"cpu": 2}, "exclusive_cpus": True}),
         "roles.0.resources.exclusive_cpus", "CONTRADICTION"),
        (role(resources={"memory": "2Gi", "shared_memory": "3Gi"}), "roles.0.resources.shared_memory",
         "RANGE"),
        (role(resources={"memory": "2Gi", "limits": {"memory": "4Gi"}, "shared_memory": "5Gi"}),
         "roles.0.resources.shared_memory", "RANGE"),
        (role(resources={"shared_memory": "1Gi"})
         | {"volumes": [{"empty": "1Gi", "mount": "/dev/shm/"}]}, "volumes", "CONTRADICTION"),
        (role(resources={"limits": {"gpu": 1}}), "roles.0.resources.limits.gpu", "UNKNOWN"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_by_field(changes: dict[str, Any], field: str, code: str) -> None:
    assert mistakes(**changes).get(field) == code
