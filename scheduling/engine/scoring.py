"""Parts of the packing scores for packages that bring a score of their own which rests on the grid of shapes
and nodes, such as the policies that are published with the packing traces.

A score is registered in a `PluginSet` and named in a policy of `EngineConfig.policies`.
"""

from scheduling.engine.placement.fragmentation.afters import Afters, Demands
from scheduling.engine.placement.fragmentation.waste import Cards, Floats, Sorts, Waste
from scheduling.engine.placement.index.grid import (
    BY_PICKER,
    CardTable,
    Columns,
    Grid,
    GridScore,
    LearningScore,
    NodeCards,
    NodeTable,
    Numbers,
    ShapeTable,
    by_grid,
)
from scheduling.engine.placement.index.workload import Workload
from scheduling.engine.placement.scores.packing_scores import FULL, largest
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows

__all__ = [
    "ALL_ROWS",
    "BY_PICKER",
    "FULL",
    "Afters",
    "Bools",
    "CardTable",
    "Cards",
    "Columns",
    "Demands",
    "Fleet",
    "Floats",
    "Grid",
    "GridScore",
    "Ints",
    "LearningScore",
    "NodeCards",
    "NodeTable",
    "Numbers",
    "Rows",
    "ShapeTable",
    "Sorts",
    "Waste",
    "Workload",
    "by_grid",
    "largest",
]
