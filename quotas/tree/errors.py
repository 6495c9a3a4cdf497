"""Errors of a quota tree; each names the node."""

from __future__ import annotations


class TreeError(ValueError):
    """An invalid quota tree, or an invalid change of it. `node_id` is the node at fault."""

    def __init__(self, node_id: str, message: str) -> None:
        super().__init__(message)
        self.node_id = node_id


class CycleError(TreeError):
    """The parents of nodes form a cycle."""


class UnknownNodeError(TreeError):
    """A named node does not exist in the tree."""


class NotALeafError(TreeError):
    """Usage would be added to a node with children."""


class OverdrawnError(TreeError):
    """More would be removed than is used."""
