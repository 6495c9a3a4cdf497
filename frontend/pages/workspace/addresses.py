"""Addresses that several pages link to."""

from __future__ import annotations

from frontend import navigation


def node_address(name: str) -> str:
    """The operators' page of a node."""
    return navigation.address("frontend:ops-node", name=name)


def job_address(workspace: str, job: object) -> str:
    """The page of a job."""
    return navigation.address("frontend:job-detail", workspace=workspace, job=str(job))


def jobs_address(workspace: str) -> str:
    """The list of a workspace's jobs."""
    return navigation.address("frontend:job-list", workspace=workspace)
