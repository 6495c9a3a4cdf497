"""Creates an object under a fixed name, so that it is created once even if an answer is lost."""

from __future__ import annotations

from clusters.backends.kubernetes.client.api import Json, KubernetesApi, OutcomeUnknown, RequestRefused
from clusters.backends.kubernetes.namespaces.namespaces import namespace_ensure
from clusters.backends.kubernetes.pods import pods

_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409


def ensure_object(api: KubernetesApi, collection: str, body: Json, workspace: str) -> Json:
    """Return the object of the body's name, created now or before; the namespace of the workspace is created
    if it is missing.

    The caller checks whether an existing object is the intended one. Raises: ObjectNameTaken for a namespace
    that is not the workspace's; RequestRefused; OutcomeUnknown.
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
        # An exhausted quota refuses a creation before the API checks whether the name exists.
        if error.status not in (_CONFLICT, _FORBIDDEN):
            raise
        try:
            return get_object(api, collection, metadata["name"])
        except OutcomeUnknown:
            raise error from None


def get_object(api: KubernetesApi, collection: str, name: str) -> Json:
    """Return the object of that name. Raises: OutcomeUnknown if there is none yet."""
    try:
        return api.get(f"{collection}/{name}")
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        # A lost call may still be carried out: the next try finds the object, or creates it.
        raise OutcomeUnknown(f"{collection}/{name} is not there yet") from error


def _lacks_namespace(error: RequestRefused) -> bool:
    """Return whether the namespace or its account is missing: one may have been made without the other."""
    return error.status == _NOT_FOUND or (
        error.status == _FORBIDDEN and pods.SERVICE_ACCOUNT in error.message
    )
