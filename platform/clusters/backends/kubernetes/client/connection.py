"""The client of a cluster's API, made from its `connection` column.

Three kinds: a kubeconfig file, the account of the pod that the platform itself runs in, or an address
with files for token and certificate. Secrets stay in files: the column holds their paths only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from clusters.backends.base import BackendUnavailable, ConnectionInvalid

KUBECONFIG: Final = "kubeconfig"
IN_CLUSTER: Final = "in-cluster"
TOKEN: Final = "token"  # noqa: S105 (a kind of connection)
_FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {  # kind: needed, allowed besides
    KUBECONFIG: (frozenset({"path"}), frozenset({"context"})),
    IN_CLUSTER: (frozenset(), frozenset()),
    TOKEN: (frozenset({"server", "token_file"}), frozenset({"certificate_file"})),
}
POOL_SIZE: Final = 32
# What the API server calls us in its audit and in the managed fields of objects.
_USER_AGENT: Final = "allotment"


def check_connection(connection: Mapping[str, str]) -> None:
    """Refuse what `open_client` could never use. Files are not looked at. Raises: ConnectionInvalid."""
    kind = connection.get("kind", "")
    if kind not in _FIELDS:
        raise ConnectionInvalid(f"kind is {kind!r}; choose one of {', '.join(sorted(_FIELDS))}")
    needed, besides = _FIELDS[kind]
    given = {name for name, value in connection.items() if value} - {"kind"}
    if missing := sorted(needed - given):
        raise ConnectionInvalid(f"a connection of kind {kind} needs {', '.join(missing)}")
    if unknown := sorted(given - needed - besides):
        raise ConnectionInvalid(f"a connection of kind {kind} has no {', '.join(unknown)}")


def open_client(connection: Mapping[str, str]) -> ApiClient:
    """A client that asks once and waits only as long as it is told: retries are decided above it.

    Raises: ConnectionInvalid; BackendUnavailable when a file that is named cannot be read.
    """
    check_connection(connection)
    configuration = Configuration()
    try:
        if connection["kind"] == KUBECONFIG:
            load_kube_config(
                config_file=connection["path"],
                context=connection.get("context") or None,
                client_configuration=configuration,
            )
        elif connection["kind"] == IN_CLUSTER:
            load_incluster_config(client_configuration=configuration)
        else:
            _token(configuration, connection)
    except (ConfigException, OSError) as error:
        raise BackendUnavailable(f"the connection can't be opened: {error}") from error
    configuration.retries = urllib3.Retry(total=False)
    configuration.connection_pool_maxsize = POOL_SIZE
    client = ApiClient(configuration)
    client.user_agent = _USER_AGENT
    return client


def _token(configuration: Configuration, connection: Mapping[str, str]) -> None:
    file = Path(connection["token_file"])

    def read_token(target: Configuration) -> None:
        # Read for every call: whoever renews the token renews the file, and nobody restarts us.
        target.api_key["BearerToken"] = f"Bearer {file.read_text(encoding='utf-8').strip()}"

    read_token(configuration)
    configuration.refresh_api_key_hook = read_token  # type: ignore[assignment]  # typed as always None
    configuration.host = connection["server"]
    configuration.ssl_ca_cert = connection.get("certificate_file") or None
