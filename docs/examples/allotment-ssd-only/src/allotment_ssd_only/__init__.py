"""Plug-ins for Allotment: tasks go to nodes with SSDs only, and to those with larger disks first."""

from __future__ import annotations

import numpy as np

from scheduling.engine import Bools, Ints, Question, Rows


class SsdOnly:
    """Refuses nodes that are not labelled `disktype=ssd`."""

    name = "ssd-only"
    fixed = True  # labels do not change when a task is placed, so one answer per shape is enough

    def allows(self, question: Question, rows: Rows) -> Bools:
        """Return which of the rows carry the label."""
        nodes = question.nodes(rows)
        return np.fromiter((node.labels.get("disktype") == "ssd" for node in nodes), np.bool_, len(nodes))


class LargeDisk:
    """Prefers nodes by the number in their label `disk-gib`; without one they come last."""

    name = "large-disk"
    normalised = True  # the sizes are stretched over 0 to 100 before they are weighed

    def score(self, question: Question, rows: Rows) -> Ints:
        """GiB of the node's disk."""
        nodes = question.nodes(rows)
        return np.fromiter((_gib(node.labels.get("disk-gib", "")) for node in nodes), np.int64, len(nodes))


def _gib(label: str) -> int:
    return int(label) if label.isdecimal() else 0


SSD_ONLY = SsdOnly()
LARGE_DISK = LargeDisk()
