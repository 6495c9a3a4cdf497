"""Gangs: which tasks of a job must start together, where they stand, and what they can do without."""

from scheduling.engine.gang.alike import alike
from scheduling.engine.gang.counted import Counting, Stand, Stands
from scheduling.engine.gang.parts import Counts, Gang, Part, PartsError
from scheduling.engine.gang.placer import Extent, GangPlacer
from scheduling.engine.gang.rooms import FullRooms
from scheduling.engine.gang.standing import expendable, smallest, standing

__all__ = [
    "Counting",
    "Counts",
    "Extent",
    "FullRooms",
    "Gang",
    "GangPlacer",
    "Part",
    "PartsError",
    "Stand",
    "Stands",
    "alike",
    "expendable",
    "smallest",
    "standing",
]
