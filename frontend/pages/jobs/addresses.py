"""Addresses that several pages link to."""

from __future__ import annotations

from urllib.parse import urlencode

from frontend.shell import navigation


def node_address(name: str, cluster: str) -> str:
    """The operators' page of a node; another cluster may have one of that name."""
    path = navigation.find_address("frontend:ops-node", name=name)
    return f"{path}?{urlencode({'cluster': cluster})}" if path else ""


def gpu_address(uuid: str) -> str:
    """The operators' page of a GPU."""
    return navigation.find_address("frontend:ops-gpu", uuid=uuid)


def job_address(workspace: str, job: object) -> str:
    """The page of a job."""
    return navigation.find_address("frontend:job-detail", workspace=workspace, job=str(job))


def jobs_address(workspace: str) -> str:
    """The list of a workspace's jobs."""
    return navigation.find_address("frontend:job-list", workspace=workspace)
