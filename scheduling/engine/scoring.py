"""This module offers parts of the packing scores to packages with a score of their own over the grid of
shapes and nodes, such as the policies that are published with the packing traces.

A score is registered in a `PluginSet` and named in a policy of `EngineConfig.policies`.
"""

from scheduling.engine.model import TaskWorkload
from scheduling.engine.placement.index.grid import (
    BY_PICKER,
    CardTable,
    GridScore,
    LearningScore,
    NodeCards,
    NodeColumns,
    NodeTable,
    Numbers,
    ScoreGrid,
    ShapeTable,
    by_grid,
)
from scheduling.engine.placement.scores.packing_scores import FULL, Floats, largest_node
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows
