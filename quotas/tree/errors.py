"""Errors of a quota tree; each names the node."""

from __future__ import annotations


class TreeError(ValueError):
    """A quota tree that cannot be, or a change that it cannot take. `node_id` is the node at fault."""

    def __init__(self, node_id: str, message: str) -> None:
        super().__init__(message)
        self.node_id = node_id


class CycleError(TreeError):
    """Following the parents leads back to the start."""


class UnknownNodeError(TreeError):
    """A node is named that the tree does not have."""


class NotALeafError(TreeError):
    """Usage was to be kept at a node with children."""


class OverdrawnError(TreeError):
    """More was to be given back than is used."""
