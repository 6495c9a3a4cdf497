"""The pod of a process, from every layout of cgroups that a node may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.agent.cgroups import ProcessOwner, ProcessTable, parse_owner
from tests.builders.node_files import put_process

UID = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55"
OTHER = "11111111-2222-3333-4444-555555555555"
DASHED = UID.replace("-", "_")
CID, INNER = "ab" * 32, "cd" * 32
SLICE = "/kubepods.slice/kubepods-besteffort.slice"
KIND = f"/docker/{INNER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"

LAYOUTS = {
    "v1, kubelet": f"11:memory:/kubepods/burstable/pod{UID}/{CID}\n1:name=systemd:/x",
    "v1, guaranteed": f"4:cpu,cpuacct:/kubepods/pod{UID}/{CID}",
    "v2, kubelet": f"0::/kubepods/besteffort/pod{UID}/{CID}",
    "v2, systemd, containerd": f"0::{SLICE}/kubepods-besteffort-pod{DASHED}.slice/cri-containerd-{CID}.scope",
    "v2, systemd, guaranteed": f"0::/kubepods.slice/kubepods-pod{DASHED}.slice/cri-containerd-{CID}.scope",
    "v2, systemd, CRI-O": f"0::{SLICE}/kubepods-besteffort-pod{DASHED}.slice/crio-{CID}.scope",
    "v2, CRI-O, below": f"0::{SLICE}/kubepods-besteffort-pod{DASHED}.slice/crio-{CID}.scope/container",
    "v1, systemd, docker": f"3:devices:{SLICE}/kubepods-besteffort-pod{DASHED}.slice/docker-{CID}.scope",
    "kind, systemd": f"0::{KIND}/kubelet-kubepods-burstable-pod{DASHED}.slice/cri-containerd-{CID}.scope",
    "kind, kubelet": f"0::/docker/{INNER}/kubelet/kubepods/besteffort/pod{UID}/{CID}",
    "seen from another pod": f"0::/../../kubepods-besteffort-pod{DASHED}.slice/cri-containerd-{CID}.scope",
    "seen from another pod, kubelet": f"0::/../../pod{UID}/{CID}",
    "a container in the container": f"0::/kubepods/burstable/pod{UID}/{CID}/docker/{INNER}",
    "systemd in the container": (
        f"0::{SLICE}/kubepods-besteffort-pod{DASHED}.slice/cri-containerd-{CID}.scope/system.slice/x.service"
    ),
    "no controller first": f"2:cpu:/user.slice\n1:name=systemd:/kubepods/burstable/pod{UID}/{CID}",
}  # fmt: skip


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_the_pod_and_the_container_are_found(layout: str) -> None:
    assert parse_owner(LAYOUTS[layout] + "\n") == ProcessOwner(UID, CID)


def test_a_static_pod_has_a_hash_for_its_uid() -> None:
    uid = "0123456789abcdef" * 2
    assert parse_owner(f"0::/kubepods/burstable/pod{uid}/{CID}") == ProcessOwner(uid, CID)


def test_a_cgroup_that_a_container_makes_names_no_other_pod() -> None:
    text = f"0::/kubepods/burstable/pod{UID}/{CID}/kubepods/burstable/pod{OTHER}/{INNER}"
    assert parse_owner(text) == ProcessOwner(UID, CID)


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "0::/", "0::/init.scope", "0::/user.slice/user-0.slice/session-1.scope", "nonsense",
        f"0::/system.slice/pod{UID}/{CID}", f"0::/docker/{CID}", "0::/kubepods/besteffort",
        "0::/kubepods/podx/y", f"0::/kubepods/besteffort/pod{UID[:20]}/{CID}",
    ],
)  # fmt: skip
def test_what_is_no_pod_has_none(text: str) -> None:
    assert parse_owner(text) is None


def test_a_process_of_the_pod_itself_has_no_container() -> None:
    assert parse_owner(f"0::/kubepods/burstable/pod{UID}") == ProcessOwner(UID, "")
    assert parse_owner(f"0::/kubepods/burstable/pod{UID}/not-an-id") == ProcessOwner(UID, "")


def test_processes_are_read_below_the_given_root(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    put_process(tmp_path, 4711, f"/kubepods/burstable/pod{UID}/{CID}", "a\x1b[2Jb" + "x" * 90)
    assert table.find_owner(4711) == ProcessOwner(UID, CID)
    assert table.read_name(4711).startswith("a?[2Jbxx")
    assert len(table.read_name(4711)) == 64
    assert (table.find_owner(4712), table.read_name(4712)) == (None, "")
