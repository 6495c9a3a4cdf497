"""Names, labels and paths of our objects in Kueue.

An object is named after the id of its row: the name survives every renaming, is valid for every kind, and
differs between two installations that share a cluster. The name for users is an annotation.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from clusters.backends.kubernetes.client.api import Json
from clusters.backends.kubernetes.pods.pods import MANAGED, own_labels

VERSION: Final = "kueue.x-k8s.io/v1beta2"
"""The version of the API; tested with Kueue 0.15."""
GROUP: Final = f"/apis/{VERSION}"
OWNER: Final = "allotment.io/cluster"
"""The label with the cluster's row, so that each of two registrations changes only its own objects."""
JOB: Final = "allotment.io/job"
SHAPE: Final = "allotment.io/shape"
ATTEMPT: Final = "allotment.io/attempt"
TITLE: Final = "allotment.io/name"
POOL: Final = "allotment.io/flavor"
"""The label of each flavor, in addition to those of its nodes, by which a workload names its flavors."""

_PREFIX: Final = "allotment-"
_NAME: Final = re.compile(rf"{_PREFIX}([0-9a-f]{{32}})")


def name_of(key: str) -> str:
    """Return the name of the object for a row; `key` is the row's id."""
    return f"{_PREFIX}{uuid.UUID(key).hex}"


def key_of(name: str) -> str:
    """Return the id of the row to which an object belongs, or "" if it is none of ours."""
    found = _NAME.fullmatch(name)
    return str(uuid.UUID(found[1])) if found else ""


def owner_labels(owner: str, installation: str) -> dict[str, str]:
    """Return the labels of our objects."""
    return {**own_labels(installation), OWNER: owner}


def _mark(owner: str) -> dict[str, str]:
    """Return the mark that distinguishes an object of one cluster's row from all others."""
    return {**MANAGED, OWNER: owner}


def owner_selector(owner: str) -> str:
    """Return the selector of our objects of one cluster."""
    return ",".join(f"{key}={value}" for key, value in _mark(owner).items())


def is_ours(found: Mapping[str, Any], owner: str) -> bool:
    """Return whether an object carries the labels of `_mark`."""
    return _mark(owner).items() <= (found["metadata"].get("labels") or {}).items()


def marked_again(found: Json, owner: str, installation: str, job: str = "") -> Json | None:
    """Return an object of this cluster's row with all its labels, also those that were removed; None for any
    other object. `job` is the last known job of the object, if its annotations do not name one.
    """
    metadata = found["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if annotations.get(OWNER) == owner:
        job = annotations.get(JOB, job)
    elif not job:
        return None
    own = {**(metadata.get("labels") or {}), **owner_labels(owner, installation), JOB: job}
    return {**found, "metadata": {**metadata, "labels": own}}


def object_path(plural: str, name: str = "", namespace: str = "") -> str:
    """Return the path of an object, or of all objects of its kind."""
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{GROUP}{place}/{plural}" + (f"/{name}" if name else "")
