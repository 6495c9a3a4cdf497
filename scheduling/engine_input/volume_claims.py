"""The volume claims that jobs mount, which the engine gets with the placement rules of each job."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from clusters.models import BackendKind, Cluster
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from scheduling.engine import model as em
from scheduling.models import ClaimPhase, Job, MountedClaim

WITH_CLAIMS: Final = (BackendKind.KUBERNETES, BackendKind.KUEUE)
"""Backends of clusters whose pods mount claims; a simulated cluster has no volumes."""
_CLUSTERS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: (
        Cluster.unscoped.filter(cell_id=cell, backend__in=WITH_CLAIMS).order_by("pk").values_list("pk")
    )
)
_FACTS: Final = PreparedQuery(lambda cell: MountedClaim.unscoped.filter(cluster__cell_id=cell))
READ_BEFORE: Final = timedelta(minutes=1)
"""The age from which the last reading of a claim, at the submission of a job that mounts it, is too old."""
_STATES: Final = {
    ClaimPhase.BOUND: em.ClaimState.BOUND,
    # Its volume is created for the node on which a pod is placed.
    ClaimPhase.UNPROVISIONED: em.ClaimState.BOUND,
    ClaimPhase.PENDING: em.ClaimState.PENDING,
    ClaimPhase.STATIC: em.ClaimState.STATIC,
    ClaimPhase.CLASS_UNREAD: em.ClaimState.CLASS_UNREAD,
    ClaimPhase.NOT_PERMITTED: em.ClaimState.NOT_PERMITTED,
    ClaimPhase.LOST: em.ClaimState.LOST,
    ClaimPhase.MISSING: em.ClaimState.MISSING,
    ClaimPhase.DELETING: em.ClaimState.DELETING,
    # No problem of it is known; if there is one, the kubelet reports it.
    ClaimPhase.UNKNOWN: em.ClaimState.BOUND,
}


ClaimKey = tuple[uuid.UUID, str]
"""The workspace and the name of a claim, in any cluster."""


def claim_names(volumes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the claims among the volumes of a job file, sorted."""
    return tuple(sorted({volume["claim"] for volume in volumes if volume.get("claim")}))


class ClaimReader:
    """The volume claims in the clusters of a cell at one moment; no query if none of the jobs mounts any.

    A claim is `unread`, and no task of the job is placed in that cluster, until it was read after the job's
    submission or shortly before. `assume_bound`: such a claim counts as bound, with a volume that every node
    can mount.
    """

    @row_scope.whole()
    def __init__(self, cell_id: uuid.UUID, jobs: Iterable[Job], *, assume_bound: bool = False) -> None:
        self._assume_bound = assume_bound
        self._clusters: Sequence[uuid.UUID] = ()
        self._facts: Mapping[tuple[uuid.UUID, uuid.UUID, str], MountedClaim] = {}
        self._engine_claims: dict[uuid.UUID, em.MountedVolume] = {}
        if any(claim_names(job.volumes) for job in jobs):
            self._clusters = [pk for (pk,) in _CLUSTERS(cell_id)]
            self._facts = {(fact.cluster_id, fact.workspace_id, fact.name): fact for fact in _FACTS(cell_id)}

    @property
    def any(self) -> bool:
        """Return whether any claim may exclude nodes."""
        return bool(self._clusters)

    def find_changed(self, before: ClaimReader) -> set[ClaimKey] | None:
        """Return the claims that differ from the reading `before`; None if that covered other clusters, so
        that any claim may differ.

        Times of reading are not compared: jobs with an unread claim are evaluated again in any case.
        """
        if self._clusters != before._clusters:
            return None
        old, new = before._facts, self._facts
        return {
            key[1:]
            for key in old.keys() | new.keys()
            if key not in old or key not in new or _content(old[key]) != _content(new[key])
        }

    def apply_claims(self, job: em.Job, row: Job) -> em.Job:
        """Return the job with the claims that its row names."""
        if not self._clusters:
            return job
        claims = tuple(self._list_restrictive(row))
        return replace(job, rules=replace(job.rules, volume_claims=claims)) if claims else job

    def _list_restrictive(self, row: Job) -> Iterable[em.MountedVolume]:
        """Yield the claims that exclude nodes, by name and cluster."""
        for name in claim_names(row.volumes):
            for cluster in self._clusters:
                fact = self._facts.get((cluster, row.workspace_id, name))
                if fact is None or row.submitted_at - fact.read_at > READ_BEFORE:
                    if not self._assume_bound:
                        yield em.MountedVolume(name, str(cluster), em.ClaimState.UNREAD)
                    continue
                claim = self._engine_claims.get(fact.pk) or self._engine_claims.setdefault(
                    fact.pk, _claim(fact)
                )
                if claim.terms or claim.state is not em.ClaimState.BOUND:
                    yield claim


def _content(fact: MountedClaim) -> tuple[object, ...]:
    return (fact.phase, fact.terms)


def _claim(fact: MountedClaim) -> em.MountedVolume:
    state, terms = _STATES[ClaimPhase(fact.phase)], read_terms(fact.terms)
    # A selected node counts until the volume exists; the topologies of the storage class hold for the volume.
    is_selected = any(item.key == em.NODE_NAME_FIELD for term in terms for item in term)
    temporary = fact.phase == ClaimPhase.UNPROVISIONED and is_selected
    return em.MountedVolume(fact.name, str(fact.cluster_id), state, terms, temporary)


def read_terms(terms: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[tuple[em.Expression, ...], ...]:
    """Return the terms of a volume's node affinity; an unknown operator makes its term match no node."""
    return tuple(_read_term(term) for term in terms)


def _read_term(term: Sequence[Mapping[str, Any]]) -> tuple[em.Expression, ...]:
    known = frozenset(em.AffinityOperator)
    if any(item.get("operator") not in known for item in term):
        return ()
    return tuple(
        em.Expression(item["key"], em.AffinityOperator(item["operator"]), tuple(item.get("values") or ()))
        for item in term
    )
