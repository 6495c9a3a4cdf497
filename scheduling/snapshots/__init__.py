"""Builds engine snapshots of a cell from its rows."""

from scheduling.snapshots.cell_reading import cell_snapshot, empty_snapshot, read_cell
from scheduling.snapshots.cell_snapshot import CellSnapshot, names_in, with_names

__all__ = ["CellSnapshot", "cell_snapshot", "empty_snapshot", "names_in", "read_cell", "with_names"]
