"""The plug-ins that come with the engine."""

from __future__ import annotations

from scheduling.engine.actions.allocate import Allocate
from scheduling.engine.order.orders import ORDERS
from scheduling.engine.placement.devices import DEVICE_PICKERS
from scheduling.engine.placement.scores import SCORES
from scheduling.engine.placement.vetoes import VETOES
from scheduling.engine.plugins.protocols import DevicePicker, Order, Score, Veto
from scheduling.engine.plugins.registry import Registry
from scheduling.engine.plugins.sets import Action, PluginSet

BUILTIN = PluginSet(
    vetoes=Registry[Veto]("veto", VETOES),
    scores=Registry[Score]("score", SCORES),
    orders=Registry[Order]("order", ORDERS),
    device_pickers=Registry[DevicePicker]("device picker", DEVICE_PICKERS),
    actions=Registry[Action]("action", (Allocate(),)),
)
