"""Valid and invalid values of a cluster's `connection`."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.backends.base import BackendUnavailable, ConnectionInvalid
from clusters.backends.kubernetes.client.connection import check_connection, open_client

GOOD = [
    {"kind": "kubeconfig", "path": "/etc/c.conf"},
    {"kind": "kubeconfig", "path": "/etc/c.conf", "context": "prod"},
    {"kind": "kubeconfig", "path": "/etc/c.conf", "context": ""},
    {"kind": "in-cluster"},
    {"kind": "token", "server": "https://c:6443", "token_file": "/t", "certificate_file": "/ca"},
]
BAD = [
    ({}, "kind is ''; choose one of in-cluster, kubeconfig, token"),
    ({"kind": "ssh"}, "kind is 'ssh'"),
    ({"kind": "kubeconfig"}, "needs path"),
    ({"kind": "token", "server": "https://c"}, "needs token_file"),
    ({"kind": "in-cluster", "path": "/x"}, "has no path"),
    ({"kind": "token", "server": "https://c", "token_file": "/t", "token": "secret"}, "has no token$"),
]


@pytest.mark.parametrize("connection", GOOD)
def test_what_can_be_opened(connection: dict[str, str]) -> None:
    check_connection(connection)


@pytest.mark.parametrize(("connection", "message"), BAD)
def test_what_cannot(connection: dict[str, str], message: str) -> None:
    with pytest.raises(ConnectionInvalid, match=message) as caught:
        check_connection(connection)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "connection",
    [
        {"kind": "kubeconfig", "path": "/does/not/exist"},
        {"kind": "in-cluster"},
        {"kind": "token", "server": "https://c", "token_file": "/does/not/exist"},
    ],
)
def test_a_file_that_is_missing_makes_the_cluster_unavailable(connection: dict[str, str]) -> None:
    with pytest.raises(BackendUnavailable, match="can't be opened"):
        open_client(connection)


def test_a_renewed_token_is_used_without_a_restart(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    client = open_client({"kind": "token", "server": "https://c", "token_file": str(token)})
    token.write_text("second\n")
    headers: dict[str, str] = {}
    client.update_params_for_auth(headers, [], ["BearerToken"], "/", "GET", None)
    assert headers == {"authorization": "Bearer second"}
