"""Labels for the actions of the audit log, which are written as `<entity>.<verb>`."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.quantities import Resource
from quotas.texts.amounts import resource_label

ENTITIES: Final[dict[str, str | Promise]] = {
    "access": gettext_lazy("access"),
    "access-key": gettext_lazy("access key"),
    "agent-key": gettext_lazy("agent key"),
    "alert-rule": gettext_lazy("alert rule"),
    "audit": gettext_lazy("audit chain"),
    "branding": gettext_lazy("name and logo"),
    "budget": gettext_lazy("budget"),
    "cell": gettext_lazy("scheduling domain"),
    "cluster": gettext_lazy("cluster"),
    "flavor": gettext_lazy("pool"),
    "group": gettext_lazy("group"),
    "job": gettext_lazy("job"),
    "job-template": gettext_lazy("job template"),
    "loan": gettext_lazy("temporary quota"),
    "member": gettext_lazy("member"),
    "node": gettext_lazy("node"),
    "notification-channel": gettext_lazy("notification channel"),
    "policy": gettext_lazy("policy"),
    "policy-replay": gettext_lazy("policy replay"),
    "price": gettext_lazy("price"),
    "priority-class": gettext_lazy("priority class"),
    "priority-grant": gettext_lazy("priority grant"),
    "queue": gettext_lazy("queue"),
    "quota": gettext_lazy("quota"),
    "quota-node": gettext_lazy("quota node"),
    "quota-request": gettext_lazy("quota request"),
    "role": gettext_lazy("role"),
    "route": gettext_lazy("request"),
    "service-account": gettext_lazy("service account"),
    "setup": gettext_lazy("setup checklist"),
    "silence": gettext_lazy("silence"),
    "telemetry-source": gettext_lazy("data source"),
    "tenant": gettext_lazy("tenant"),
    "user": gettext_lazy("user"),
    "user-limit": gettext_lazy("user limit"),
}
"""The labels of the part before the dot."""

VERBS: Final[dict[str, str | Promise]] = {
    "accept": gettext_lazy("Accept"),
    "add": gettext_lazy("Add"),
    "approve": gettext_lazy("Approve"),
    "archive": gettext_lazy("Archive"),
    "cancel": gettext_lazy("Cancel"),
    "change": gettext_lazy("Change"),
    "close": gettext_lazy("Disable"),
    "cordon": gettext_lazy("Cordon"),
    "create": gettext_lazy("Create"),
    "decline": gettext_lazy("Decline"),
    "delay": gettext_lazy("Delay"),
    "delete": gettext_lazy("Delete"),
    "dismiss": gettext_lazy("Dismiss"),
    "drain": gettext_lazy("Drain"),
    "end": gettext_lazy("End"),
    "evict": gettext_lazy("Evict"),
    "expire": gettext_lazy("Expire"),
    "extend": gettext_lazy("Extend"),
    "issue": gettext_lazy("Issue"),
    "move": gettext_lazy("Move"),
    "open": gettext_lazy("Enable"),
    "reject": gettext_lazy("Reject"),
    "remove": gettext_lazy("Remove"),
    "rename": gettext_lazy("Rename"),
    "repair": gettext_lazy("Repair"),
    "resize": gettext_lazy("Resize"),
    "restart": gettext_lazy("Restart"),
    "restore": gettext_lazy("Restore"),
    "resume": gettext_lazy("Resume"),
    "revoke": gettext_lazy("Revoke"),
    "rotate": gettext_lazy("Rotate"),
    "set": gettext_lazy("Set"),
    "shrink": gettext_lazy("Shrink"),
    "start": gettext_lazy("Start"),
    "submit": gettext_lazy("Submit"),
    "suspend": gettext_lazy("Suspend"),
    "uncordon": gettext_lazy("Uncordon"),
    "unlock": gettext_lazy("Unlock"),
    "update": gettext_lazy("Update"),
    "withdraw": gettext_lazy("Withdraw"),
}
"""The labels of the part after the dot, as a command."""

ACTIONS: Final[dict[str, str | Promise]] = {
    "access.denied": gettext_lazy("Access denied"),
    "budget.exhausted": gettext_lazy("Budget exhausted"),
    "budget.threshold": gettext_lazy("Budget threshold reached"),
    "cluster.namespace_adopt": gettext_lazy("Adopt a namespace of a cluster"),
    "cluster.project": gettext_lazy("Apply quota to Kueue"),
    "cluster.speed": gettext_lazy("Set the speed of a simulated cluster"),
    "cluster.take_over": gettext_lazy("Take over cluster"),
    "flavor.set": gettext_lazy("Change the settings of a pool"),
    "job.idle-preemptible": gettext_lazy("Make an idle job preemptible"),
    "job.priority": gettext_lazy("Change the priority of a job"),
    "job.exchange": gettext_lazy("Exchange the places of two jobs"),
    "job.tags": gettext_lazy("Change the tags of a job"),
    "loan.miss": gettext_lazy("Temporary quota not started"),
    "loan.move-end": gettext_lazy("Change the end of temporary quota"),
    "notification-channel.test": gettext_lazy("Test notification channel"),
    "queue.preset": gettext_lazy("Apply a preset to a queue"),
    "quota-request.counter": gettext_lazy("Propose a different amount of quota"),
    "quota-request.offer-gone": gettext_lazy("Proposal of quota can't be applied"),
    "user.end-access": gettext_lazy("End sessions and keys of a user"),
    "user.groups": gettext_lazy("Set groups from single sign-on"),
    "user.password": gettext_lazy("Change own password"),
    "user.password-set": gettext_lazy("Reset the password of a user"),
    "user.sign-in": gettext_lazy("Sign in"),
}
"""The labels of actions for which verb and entity together would be wrong."""

FIELDS: Final[dict[str, str | Promise]] = {
    "beneficiary": gettext_lazy("Preempted for"),
    "by": gettext_lazy("Method"),
    "cards": gettext_lazy("GPUs"),
    "channels": gettext_lazy("Channels"),
    "cluster": gettext_lazy("Cluster"),
    "code": gettext_lazy("Error code"),
    "comparison": gettext_lazy("Comparison"),
    "effective_at": gettext_lazy("Effective from"),
    "enabled": gettext_lazy("Enabled"),
    "expires_at": gettext_lazy("Expires"),
    "flavor": gettext_lazy("Pool"),
    "flavors": gettext_lazy("Pools"),
    "gpu_hour": gettext_lazy("Price per GPU-hour"),
    "hold_s": gettext_lazy("Duration (s)"),
    "idle_action": gettext_lazy("Action on idle jobs"),
    "idle_s": gettext_lazy("Idle for (s)"),
    "idle_timeout_s": gettext_lazy("Idle timeout (s)"),
    "idle_warn_s": gettext_lazy("Warning before the idle timeout (s)"),
    "jobs": gettext_lazy("Jobs"),
    "kind": gettext_lazy("Kind"),
    "limit_s": gettext_lazy("Limit (s)"),
    "lost_gpu_hours": gettext_lazy("GPU-hours lost"),
    "memory_mib": gettext_lazy("GPU memory (MiB)"),
    "metric": gettext_lazy("Metric"),
    "minute": gettext_lazy("Minute"),
    "name": gettext_lazy("Name"),
    "namespace": gettext_lazy("Namespace"),
    "parent": gettext_lazy("Parent"),
    "preset": gettext_lazy("Preset"),
    "priority_class": gettext_lazy("Priority"),
    "queue": gettext_lazy("Queue"),
    "reason": gettext_lazy("Reason"),
    "repeated": gettext_lazy("Further denied requests"),
    "repeat_s": gettext_lazy("Repeat interval (s)"),
    "resolve_s": gettext_lazy("Resolved after (s)"),
    "role": gettext_lazy("Role"),
    "rule": gettext_lazy("Rule"),
    "severity": gettext_lazy("Severity"),
    "sharing": gettext_lazy("Sharing"),
    "simulated": gettext_lazy("Simulated"),
    "slice_hour": gettext_lazy("Price per hour of a sliced GPU"),
    "slug": gettext_lazy("Identifier"),
    "speed": gettext_lazy("Speed"),
    "start_limit_s": gettext_lazy("Start timeout (s)"),
    "state": gettext_lazy("State"),
    "status": gettext_lazy("HTTP status"),
    "tasks": gettext_lazy("Tasks"),
    "tenant": gettext_lazy("Tenant"),
    "threshold": gettext_lazy("Threshold"),
    "user": gettext_lazy("User"),
    "username": gettext_lazy("User"),
    "workspace": gettext_lazy("Workspace"),
}
"""The labels of fields of records. A field of a quota is a pool and a resource, as `a100-40g gpu.cards`."""


def describe_field(field: str) -> str:
    """Return the label of a field; the field itself if it is not known."""
    if words := FIELDS.get(field):
        return str(words)
    pool, _space, resource = field.rpartition(" ")
    if pool and resource in set(Resource):
        return f"{pool} • {resource_label(Resource(resource))}"
    return field


def describe_entity(entity: str) -> str:
    """Return the label of a type of resource; the type itself if it is not known."""
    return str(ENTITIES.get(entity, entity))


def describe_action(action: str) -> str:
    """Return the label of an action; the action itself if it is not known."""
    if whole := ACTIONS.get(action):
        return str(whole)
    entity, _dot, verb = action.partition(".")
    if entity not in ENTITIES or verb not in VERBS:
        return action
    return _("%(verb)s %(entity)s") % {"verb": VERBS[verb], "entity": ENTITIES[entity]}
