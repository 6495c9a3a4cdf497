"""The domains of a topology: which node stands in which rack, block or zone.

Domains of a level are numbered in the order of their paths, so the children of a domain, and the leaves
below it, are always a run of neighbouring numbers, and a lower number is the earlier path. Everything
that is counted per domain is an array over these numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Taint

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Path = tuple[str, ...]

NODE_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """A node that may take tasks: ready, not cordoned. `allocatable` is in whole units per resource."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TopologyTree:
    """Domains from the coarsest level (0) to the finest, whose domains are called leaves.

    `paths[level][i]` holds the label values that lead to domain i; `starts[level]` has one more entry
    than there are domains: the children of i are the domains `starts[level][i]` up to, not including,
    `starts[level][i + 1]` of the next level. `leaf_of` maps the name of each used node to its leaf.
    Where leaves are single nodes, `nodes` has the node of each leaf and a leaf's key is its last label
    value alone; otherwise `nodes` is empty and the key is the whole path.
    """

    levels: tuple[str, ...]
    paths: tuple[tuple[Path, ...], ...]
    starts: tuple[Ints, ...]
    leaf_of: Mapping[str, int]
    nodes: tuple[TopologyNode, ...]
    leaf_index: Mapping[Path, int] = field(repr=False)

    @property
    def lowest(self) -> int:
        """The number of the finest level."""
        return len(self.levels) - 1

    @property
    def leaves_are_nodes(self) -> bool:
        """True if a leaf is one node rather than a group of them."""
        return self.levels[-1] == NODE_LABEL

    @property
    def key_levels(self) -> tuple[str, ...]:
        """The levels whose values make up a leaf's key."""
        return self.levels[-1:] if self.leaves_are_nodes else self.levels

    def domain_count(self, level: int) -> int:
        """Return how many domains a level has."""
        return len(self.paths[level])

    def level_named(self, label: str) -> int | None:
        """The number of the level with this node label; None when the topology has no such level."""
        return self.levels.index(label) if label in self.levels else None

    def leaf_key(self, leaf: int) -> Path:
        """The shortest name of a leaf that no other leaf has."""
        path = self.paths[-1][leaf]
        return path[-1:] if self.leaves_are_nodes else path

    def child_domains(self, level: int, domain: int) -> range:
        """The domains of the next finer level inside a domain."""
        starts = self.starts[level]
        return range(int(starts[domain]), int(starts[domain + 1]))

    def domains_inside(self, level: int, domain: int, finer: int) -> range:
        """The domains of a finer (or the same) level inside a domain."""
        first, last = domain, domain + 1
        for step in range(level, finer):
            first, last = int(self.starts[step][first]), int(self.starts[step][last])
        return range(first, last)

    def domain_around(self, leaf: int, level: int) -> int:
        """The domain of a level that a leaf stands in."""
        return bisect_left(self.paths[level], self.paths[-1][leaf][: level + 1])


def build_tree(levels: Sequence[str], nodes: Iterable[TopologyNode]) -> TopologyTree:
    """Sort nodes into domains. A node without a label of every level belongs to none and is left out.

    Should two nodes claim the same host name, the first in the order of node names says where it stands.

    Raises:
        ValueError: when there is no level.
    """
    if not levels:
        raise ValueError("a topology needs at least one level")
    single = levels[-1] == NODE_LABEL
    used = sorted((node for node in nodes if all(level in node.labels for level in levels)), key=_by_name)
    node_of_path: dict[Path, TopologyNode] = {}
    path_of_key: dict[Path, Path] = {}
    for node in used:
        path = tuple(node.labels[level] for level in levels)
        first = path_of_key.setdefault(path[-1:] if single else path, path)
        node_of_path.setdefault(first, node)
    paths = _paths_by_level(len(levels), sorted(node_of_path))
    rank = {path: index for index, path in enumerate(paths[-1])}
    keys = {key: rank[path] for key, path in path_of_key.items()}
    return TopologyTree(
        levels=tuple(levels),
        paths=paths,
        starts=tuple(_starts(upper, lower) for upper, lower in pairwise(paths)),
        leaf_of={node.name: keys[_key(node, levels, single)] for node in used},
        nodes=tuple(node_of_path[path] for path in paths[-1]) if single else (),
        leaf_index=keys,
    )


def _by_name(node: TopologyNode) -> str:
    return node.name


def _key(node: TopologyNode, levels: Sequence[str], single: bool) -> Path:
    return tuple(node.labels[level] for level in (levels[-1:] if single else levels))


def _paths_by_level(depth: int, leaves: Sequence[Path]) -> tuple[tuple[Path, ...], ...]:
    return tuple(tuple(dict.fromkeys(path[: level + 1] for path in leaves)) for level in range(depth))


def _starts(upper: Sequence[Path], lower: Sequence[Path]) -> Ints:
    """Return where each domain's children begin; `lower` is sorted, so each domain's run ends at the next."""
    depth = len(upper[0]) if upper else 0
    parents = [path[:depth] for path in lower]
    return np.array([*(bisect_left(parents, path) for path in upper), len(lower)], dtype=np.int64)
