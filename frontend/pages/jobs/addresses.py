"""Addresses to which several pages link."""

from __future__ import annotations

from urllib.parse import urlencode

from foundation.core.actor import Actor
from frontend.shell import navigation
from tenants.access import permissions
from tenants.access.permissions import Permission


def node_address(name: str, cluster: str) -> str:
    """Return the operators' page of a node; the cluster distinguishes nodes of the same name."""
    path = navigation.find_address("frontend:ops-node", name=name)
    return f"{path}?{urlencode({'cluster': cluster})}" if path else ""


def gpu_address(uuid: str) -> str:
    """Return the operators' page of a GPU."""
    return navigation.find_address("frontend:ops-gpu", uuid=uuid)


def job_address(workspace: str, job: object) -> str:
    """Return the page of a job."""
    return navigation.find_address("frontend:job-detail", workspace=workspace, job=str(job))


def jobs_address(workspace: str) -> str:
    """Return the list of a workspace's jobs."""
    return navigation.find_address("frontend:job-list", workspace=workspace)


def queue_address(workspace: str, queue: str) -> str:
    """Return the page of a queue within its workspace."""
    return navigation.find_address("frontend:workspace-queue", workspace=workspace, queue=queue)


def new_job_address(workspace: str) -> str:
    """Return the form of a new job."""
    return navigation.find_address("frontend:job-new", workspace=workspace)


def all_jobs_address(viewer: Actor, **query: str) -> str:
    """Return the list of the jobs of all workspaces, with its filters; empty for a viewer who may not open
    it.
    """
    if not permissions.has_above_workspaces(viewer, Permission.JOB_VIEW):
        return ""
    wanted = urlencode({name: value for name, value in query.items() if value})
    path = navigation.find_address("frontend:ops-jobs")
    return f"{path}?{wanted}" if wanted else path
