"""Parts of the admission for packages that bring an action of their own, such as another scheduler's cycle.

An action is registered in a `PluginSet` and named in `EngineConfig.actions`. It may order and judge jobs by
other rules with the same quota, placement and victim search: `AdmissionRound` gives the round of queues,
`Nominator` what one job would get, `Docket` what is done about it. The methods that their docstrings call
hooks are there to be replaced.
"""

from scheduling.engine.actions.admission.action import AdmissionRound
from scheduling.engine.actions.admission.claims import Claims
from scheduling.engine.actions.admission.docket import Docket
from scheduling.engine.actions.admission.entry import Entry, waits
from scheduling.engine.actions.admission.nominate import Ask, Kept, Nominator, Victims
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.actions.admission.tournament import Tournament
from scheduling.engine.actions.head_estimate import HeadEstimate
from scheduling.engine.actions.lasting_refusals import find_lasting_refusal
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.model.labels import satisfies as labels_satisfy
from scheduling.engine.model.registry import Registry
from scheduling.engine.order.orders import Preempting
from scheduling.engine.quota.flavors import wishes_topology
from scheduling.engine.session.session import Session

__all__ = [
    "AdmissionRound",
    "Ask",
    "Claims",
    "Docket",
    "Entry",
    "HeadEstimate",
    "Kept",
    "Nominator",
    "Outlook",
    "Preempting",
    "QueueCursor",
    "RefusalCache",
    "Registry",
    "Session",
    "Tournament",
    "Victims",
    "find_lasting_refusal",
    "labels_satisfy",
    "waits",
    "wishes_topology",
]
