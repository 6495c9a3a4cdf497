"""This module lists the plug-ins that come with the engine, and resolves configurations with them."""

from __future__ import annotations

from scheduling.engine.actions.admission.action import Admission
from scheduling.engine.actions.consolidation.action import Consolidation
from scheduling.engine.actions.elastic.action import ElasticResize
from scheduling.engine.actions.housekeeping.idle import IdleEviction
from scheduling.engine.actions.housekeeping.node_pressure import NodePressureEviction
from scheduling.engine.actions.slice_resize import SliceResize
from scheduling.engine.model.registry import Registry
from scheduling.engine.order.orders import ORDERS
from scheduling.engine.order.protocols import Order
from scheduling.engine.placement.filters.vetoes import VETOES
from scheduling.engine.placement.fragmentation.look_ahead import LookAheadPolicy
from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
from scheduling.engine.placement.scores.devices import DEVICE_PICKERS
from scheduling.engine.placement.scores.packing_scores import SCORES
from scheduling.engine.placement.scores.preferences import PREFERENCES
from scheduling.engine.session.config import EngineConfig, resolve_cycle_order, resolve_plugins
from scheduling.engine.session.plugin_sets import Action, PluginSet, ResolvedPlugins
from scheduling.engine.session.session import Session

ADMISSIONS: tuple[Action[Session], ...] = (
    Admission("admit", may_preempt=True),
    Admission("allocate", may_preempt=False),
)

HOUSEKEEPING: tuple[Action[Session], ...] = (
    NodePressureEviction(),
    IdleEviction(),
    ElasticResize(),
    SliceResize(),
    Consolidation(),
)

BUILTIN = PluginSet(
    vetoes=Registry[Veto]("veto", VETOES),
    scores=Registry[Score]("score", (*SCORES, LookAheadPolicy(), *PREFERENCES)),
    orders=Registry[Order]("order", ORDERS),
    device_pickers=Registry[DevicePicker]("device picker", DEVICE_PICKERS),
    actions=Registry[Action[Session]]("action", (*ADMISSIONS, *HOUSEKEEPING)),
)


def resolve_config(config: EngineConfig) -> ResolvedPlugins:
    """Return everything that the configuration names, from its plug-ins or the built-in ones.

    Raises:
        ConfigError: naming what is missing, doubled or out of range.
    """
    return resolve_plugins(config, config.plugins or BUILTIN)


def cycle_order(config: EngineConfig) -> tuple[Order, ...]:
    """Return the criteria by which heads of different queues are ordered.

    Raises:
        ConfigError: when the configuration names an order that does not exist.
    """
    return resolve_cycle_order(config, config.plugins or BUILTIN)
