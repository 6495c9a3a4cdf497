"""This module offers parts of admission to packages with an action of their own, such as another scheduler's
cycle.

An action is registered in a `PluginSet` and named in `EngineConfig.actions`. It may order and evaluate jobs
by other rules with the same quota, placement and victim search: `AdmissionRound` runs the round of queues,
`Nominator` evaluates one job, and `JobProcessor` acts on the result. The methods that their docstrings call
hooks may be overridden.
"""

from scheduling.engine.actions.admission.action import AdmissionRound
from scheduling.engine.actions.admission.claims import ActiveClaims
from scheduling.engine.actions.admission.decision_recorder import DecisionRecorder
from scheduling.engine.actions.admission.fair_sharing_iterator import FairSharingIterator
from scheduling.engine.actions.admission.future_view import FutureView
from scheduling.engine.actions.admission.job_processor import JobProcessor
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.admission.nominator import EvaluationRequest, Nominator, RequiredFlavors
from scheduling.engine.actions.eviction import evict_job, find_running_among
from scheduling.engine.actions.head_estimate import HeadEstimate
from scheduling.engine.actions.lasting_refusals import find_lasting_refusal
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.gang.task_counts import is_gang_complete
from scheduling.engine.model.labels import matches_any_term
from scheduling.engine.model.registry import Registry
from scheduling.engine.order.orders import Preempting
from scheduling.engine.quota.flavors import requests_topology
from scheduling.engine.session.session import Session
