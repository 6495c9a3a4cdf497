"""The domains of a topology: the rack, block or zone of each node.

Domains of a level are numbered in the order of their paths, so that the children of a domain, and the leaves
below it, are a contiguous range, and a lower number is an earlier path. Counts by domain are arrays over
these numbers.
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
    """A node that is ready and not cordoned. `allocatable` has integers by resource."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TopologyTree:
    """The domains from the coarsest level (0) to the finest, whose domains are called leaves.

    `paths[level][i]` has the label values of domain i; `starts[level]` has one more entry than there are
    domains: the children of i are the domains from `starts[level][i]` up to, not including, `starts[level][i
    + 1]` of the next level. `leaf_of` maps the name of each used node to its leaf. If leaves are single
    nodes, `nodes` has the node of each leaf and a leaf's key is only its last label value; otherwise `nodes`
    is empty and the key is the whole path.
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
        """True if a leaf is one node, not a group of nodes."""
        return self.levels[-1] == NODE_LABEL

    @property
    def key_levels(self) -> tuple[str, ...]:
        """The levels whose values are a leaf's key."""
        return self.levels[-1:] if self.leaves_are_nodes else self.levels

    def domain_count(self, level: int) -> int:
        """Return the number of domains of a level."""
        return len(self.paths[level])

    def level_named(self, label: str) -> int | None:
        """Return the number of the level with this node label; None if the topology has no such level."""
        return self.levels.index(label) if label in self.levels else None

    def leaf_key(self, leaf: int) -> Path:
        """Return the key of a leaf, which is unique."""
        path = self.paths[-1][leaf]
        return path[-1:] if self.leaves_are_nodes else path

    def child_domains(self, level: int, domain: int) -> range:
        """Return the domains of the next finer level inside a domain."""
        starts = self.starts[level]
        return range(int(starts[domain]), int(starts[domain + 1]))

    def domains_inside(self, level: int, domain: int, finer: int) -> range:
        """Return the domains of a finer (or the same) level inside a domain."""
        first, last = domain, domain + 1
        for step in range(level, finer):
            first, last = int(self.starts[step][first]), int(self.starts[step][last])
        return range(first, last)

    def domain_around(self, leaf: int, level: int) -> int:
        """Return the domain of a level that contains a leaf."""
        return bisect_left(self.paths[level], self.paths[-1][leaf][: level + 1])


def build_tree(levels: Sequence[str], nodes: Iterable[TopologyNode]) -> TopologyTree:
    """Return the tree of nodes. A node without a label of every level belongs to no domain and is left out.

    If two nodes have the same host name, the first one by node name decides its domains.

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
    """Return the index of each domain's first child; `lower` is sorted, so the children of a domain are a
    range."""
    depth = len(upper[0]) if upper else 0
    parents = [path[:depth] for path in lower]
    return np.array([*(bisect_left(parents, path) for path in upper), len(lower)], dtype=np.int64)
