"""The /proc of a node, written into a folder: processes with their names and cgroups."""

from __future__ import annotations

from pathlib import Path

CONTAINER = "c0ffee" + "0" * 58


def cgroup_path(pod_uid: str, container_id: str = CONTAINER) -> str:
    """The path that systemd and containerd give a container of a burstable pod."""
    pod = f"kubepods-burstable-pod{pod_uid.replace('-', '_')}.slice"
    return f"/kubepods.slice/kubepods-burstable.slice/{pod}/cri-containerd-{container_id}.scope"


def put_process(proc: Path, pid: int, path: str, name: str = "python3") -> None:
    """Write one process."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup").write_text(f"0::{path}\n")
    (folder / "comm").write_text(f"{name}\n")
