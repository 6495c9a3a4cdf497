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
_FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {  # kind: required, also allowed
    KUBECONFIG: (frozenset({"path"}), frozenset({"context"})),
    IN_CLUSTER: (frozenset(), frozenset()),
    TOKEN: (frozenset({"server", "token_file"}), frozenset({"certificate_file"})),
}
POOL_SIZE: Final = 32
# The name of this client in the API server's audit log and in the managed fields of objects.
_USER_AGENT: Final = "allotment"


def check_connection(connection: Mapping[str, str]) -> None:
    """Refuse a `connection` that `open_client` can never use; reads no file. Raises: ConnectionInvalid."""
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
    """Return a client that sends each request once, with the caller's time limit; callers decide on retries.

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
        # Read for every call: a renewed token is written to the file, and the process is not restarted.
        target.api_key["BearerToken"] = f"Bearer {file.read_text(encoding='utf-8').strip()}"

    read_token(configuration)
    configuration.refresh_api_key_hook = read_token  # type: ignore[assignment]  # typed as always None
    configuration.host = connection["server"]
    configuration.ssl_ca_cert = connection.get("certificate_file") or None
