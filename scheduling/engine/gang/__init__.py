"""This package places gangs: the tasks of a job that must start together, their minimum and their surplus."""

from scheduling.engine.gang.parts import GangPart, GangRules, PartsError, TaskCounts
from scheduling.engine.gang.placer import GangPlacer, PlacementExtent, prefer_own_queue
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.gang.task_counts import count_placed_tasks, find_surplus_tasks, smallest_gang
from scheduling.engine.gang.tasks import RoleTasks, role_tasks
from scheduling.engine.gang.uniform import find_uniform_minimum
