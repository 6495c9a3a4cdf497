"""This module finds the nodes that pod affinity and anti-affinity to other tasks allow.

The rules are those of Kubernetes
(https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity).
A domain is all nodes with the same value of a label; a node without the label is in none. For each term,
affinity requires a task in the domain that *all* terms match; if no such task exists anywhere, a task that
its own terms match may be the first. Anti-affinity holds both ways: the task avoids those that its terms
match, and those whose terms match it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.engine.placement.index.node_facts import number_facts
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools, Fleet, Ints
from scheduling.engine.state.pod_index import PodIdentity, ResolvedPodTerm
from scheduling.engine.state.task_shape import PodAffinities

HOSTNAME = "kubernetes.io/hostname"


def number_domains(fleet: Fleet, key: str) -> Ints:
    """Return the domain of each row by the label `key`, -1 for none; a node is always its own host."""
    fallback = key == HOSTNAME
    codes, _ = number_facts(
        fleet, ("domains", key), lambda node: node.labels.get(key, node.hostname if fallback else None)
    )
    return codes


def affinity_rows(question: Question) -> Bools:
    """Return the rows that the required affinity allows now."""
    relations, fleet = _relations(question), question.fleet
    keyed = np.ones(len(fleet), np.bool_)
    for term in relations.affinity:
        keyed &= number_domains(fleet, term.topology_key) >= 0
    if fleet.hypothetical:
        return keyed
    meant = [
        identity
        for identity in fleet.pod_index.identities
        if all(term.selects_pod(identity) for term in relations.affinity)
    ]
    if not meant:
        first = all(term.selects_pod(relations.identity) for term in relations.affinity)
        return keyed if first else np.zeros_like(keyed)
    rows = _rows_of_tasks(fleet, meant)
    for term in relations.affinity:
        keyed &= _same_domain(fleet, term.topology_key, rows)
    return keyed


def anti_affinity_rows(question: Question) -> Bools:
    """Return the rows that anti-affinity allows now: the task's own, and that of the running tasks."""
    relations, fleet = _relations(question), question.fleet
    allowed = np.ones(len(fleet), np.bool_)
    for term in relations.anti_affinity:
        allowed &= ~rows_with_match(fleet, term)
    for term, places in fleet.pod_index.anti_affinity.items():
        if term.selects_pod(relations.identity):
            allowed &= ~_same_domain(fleet, term.topology_key, sorted(places))
    return allowed


def rows_with_match(fleet: Fleet, term: ResolvedPodTerm) -> Bools:
    """Return the rows in whose domain a task runs that the term matches."""
    meant = [identity for identity in fleet.pod_index.identities if term.selects_pod(identity)]
    return _same_domain(fleet, term.topology_key, _rows_of_tasks(fleet, meant))


def exclusive_domains(question: Question) -> list[Ints]:
    """Return the domains of all rows for each anti-affinity term with which the task avoids its like."""
    relations = question.task.pod_affinities
    if relations is None:
        return []
    own = (term for term in relations.anti_affinity if term.selects_pod(relations.identity))
    return [number_domains(question.fleet, term.topology_key) for term in own]


def _relations(question: Question) -> PodAffinities:
    relations = question.task.pod_affinities
    if relations is None:
        raise LookupError("this task has no relations")
    return relations


def _rows_of_tasks(fleet: Fleet, meant: Iterable[PodIdentity]) -> list[int]:
    return sorted({row for identity in meant for row in fleet.pod_index.identities[identity]})


def _same_domain(fleet: Fleet, key: str, rows: list[int]) -> Bools:
    codes = number_domains(fleet, key)
    if not rows:
        return np.zeros(len(codes), np.bool_)
    taken = np.zeros(int(codes.max(initial=0)) + 2, np.bool_)
    taken[codes[rows]] = True
    taken[-1] = False  # the place of -1: no domain is shared by being in none
    shared: Bools = taken[codes]
    return shared
