"""The plug-ins that come with the engine."""

from __future__ import annotations

from scheduling.engine.actions.admission.action import Admission
from scheduling.engine.actions.admission.nominate import Victims
from scheduling.engine.actions.consolidate import Consolidate
from scheduling.engine.actions.elastic import Elastic
from scheduling.engine.actions.idle import Idle
from scheduling.engine.actions.pressure import Pressure
from scheduling.engine.actions.stale_gang import StaleGang
from scheduling.engine.actions.time_limit import TimeLimit
from scheduling.engine.order.orders import ORDERS
from scheduling.engine.placement.devices import DEVICE_PICKERS
from scheduling.engine.placement.foresight import LookAheadPolicy
from scheduling.engine.placement.preferences import PREFERENCES
from scheduling.engine.placement.scores import SCORES
from scheduling.engine.placement.vetoes import VETOES
from scheduling.engine.plugins.protocols import DevicePicker, Order, Score, Veto
from scheduling.engine.plugins.registry import Registry
from scheduling.engine.plugins.sets import Action, PluginSet

ADMISSIONS: tuple[Action, ...] = (
    Admission("admit", Victims.ALL),
    Admission("preempt", Victims.OWN_QUEUE),
    Admission("allocate", Victims.NONE),
)

HOUSEKEEPING: tuple[Action, ...] = (
    Pressure(),
    StaleGang(),
    TimeLimit(),
    Idle(),
    Elastic(),
    Consolidate(),
)

BUILTIN = PluginSet(
    vetoes=Registry[Veto]("veto", VETOES),
    scores=Registry[Score]("score", (*SCORES, LookAheadPolicy(), *PREFERENCES)),
    orders=Registry[Order]("order", ORDERS),
    device_pickers=Registry[DevicePicker]("device picker", DEVICE_PICKERS),
    actions=Registry[Action]("action", (*ADMISSIONS, *HOUSEKEEPING)),
)
