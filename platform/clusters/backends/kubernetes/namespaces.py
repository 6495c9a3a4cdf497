"""The namespace of a workspace, made when its first pod needs it."""

from __future__ import annotations

from typing import Final

from clusters.backends.kubernetes.api import Api, Json, Refused
from clusters.backends.kubernetes.pods import MANAGED, SERVICE_ACCOUNT

# Pods of tenants may not leave their sandbox, whatever their images would like.
_POD_SECURITY: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
_EXISTS: Final = 409


def namespace_ensure(api: Api, name: str) -> None:
    """Make a namespace and the account its pods run under. Raises: Refused; BackendUnavailable."""
    metadata = {"name": name, "labels": {**MANAGED, **_POD_SECURITY}}
    _create(api, "/api/v1/namespaces", {"metadata": metadata})
    account: Json = {
        "metadata": {"name": SERVICE_ACCOUNT, "labels": dict(MANAGED)},
        "automountServiceAccountToken": False,
    }
    _create(api, f"/api/v1/namespaces/{name}/serviceaccounts", account)


def _create(api: Api, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except Refused as error:
        if error.status != _EXISTS:
            raise
