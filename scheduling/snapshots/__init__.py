"""Rows and inventory in, engine snapshot out."""

from scheduling.snapshots.cold import cell_snapshot, empty_snapshot, read_cell
from scheduling.snapshots.taken import CellSnapshot, names_in, with_names

__all__ = ["CellSnapshot", "cell_snapshot", "empty_snapshot", "names_in", "read_cell", "with_names"]
