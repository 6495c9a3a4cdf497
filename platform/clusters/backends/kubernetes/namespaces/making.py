"""Making an object under a name of its own, so that it is made once whatever becomes of the answer."""

from __future__ import annotations

from clusters.backends.kubernetes.client.api import Json, KubernetesApi, OutcomeUnknown, RequestRefused
from clusters.backends.kubernetes.namespaces.namespaces import namespace_ensure
from clusters.backends.kubernetes.pods import pods

_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409


def ensure_object(api: KubernetesApi, collection: str, body: Json, workspace: str) -> Json:
    """The object of the body's name, made now or before; the namespace of the workspace is made when it is
    missing.

    Whether a found one is the one that was meant, the caller sees.
    Raises: Elsewhere for a namespace that is not the workspace's; Refused; OutcomeUnknown.
    """
    metadata = body["metadata"]
    try:
        try:
            return api.create_object(collection, body)
        except RequestRefused as error:
            if not _lacks_namespace(error):
                raise
            namespace_ensure(api, metadata["namespace"], workspace)
            return api.create_object(collection, body)
    except OutcomeUnknown:
        return get_object(api, collection, metadata["name"])
    except RequestRefused as error:
        # A quota that is used up refuses a name before it is seen that the name exists.
        if error.status not in (_CONFLICT, _FORBIDDEN):
            raise
        try:
            return get_object(api, collection, metadata["name"])
        except OutcomeUnknown:
            raise error from None


def get_object(api: KubernetesApi, collection: str, name: str) -> Json:
    """The object of that name. Raises: OutcomeUnknown if there is none yet."""
    try:
        return api.get(f"{collection}/{name}")
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        # A lost call may still be carried out: the next try finds the object, or makes it.
        raise OutcomeUnknown(f"{collection}/{name} is not there yet") from error


def _lacks_namespace(error: RequestRefused) -> bool:
    """Return whether the namespace or its account is missing: one may have been made without the other."""
    return error.status == _NOT_FOUND or (
        error.status == _FORBIDDEN and pods.SERVICE_ACCOUNT in error.message
    )
