"""Kills or stops the cluster's own servers while a worker is between its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from benchmarks.support.control_plane import ControlPlane, ServerProcess, wait_ready


class ServerFault(StrEnum):
    """A fault of one of the servers."""

    API_SERVER_DIES = "api-server-dies"
    ETCD_DIES = "etcd-dies"
    API_SERVER_FREEZES = "api-server-freezes"  # and later carries out what it was asked meanwhile
    ETCD_FREEZES = "etcd-freezes"


_SERVER: Final[dict[ServerFault, Callable[[ControlPlane], ServerProcess]]] = {
    ServerFault.API_SERVER_DIES: lambda plane: plane.api_server,
    ServerFault.ETCD_DIES: lambda plane: plane.etcd,
    ServerFault.API_SERVER_FREEZES: lambda plane: plane.api_server,
    ServerFault.ETCD_FREEZES: lambda plane: plane.etcd,
}


@contextmanager
def hit(plane: ControlPlane, fault: ServerFault) -> Iterator[None]:
    """Take a server down for the block, and restore it with all its data afterwards."""
    server = _SERVER[fault](plane)
    dies = fault in (ServerFault.API_SERVER_DIES, ServerFault.ETCD_DIES)
    (server.kill_server if dies else server.freeze_server)()
    try:
        yield
    finally:
        (server.start_server if dies else server.thaw_server)()
        wait_ready(plane)
