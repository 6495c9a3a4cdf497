"""Declares every field of a job file once, in the order of the file.

The parser, the schema of the REST API, the console's form, the limits and choices of policies, the table in
`docs/job-file.md`, the rows of a job and the engine's job all follow from this list.

Paths have the form that policies use, without indexes of lists such as `roles`. Texts are in English here and
are translated where they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from django.utils.translation import gettext_noop as _

from clusters.backends.base import GRACE_S
from scheduling.engine.model import TaintEffect, TolerationOperator, TopologyMode
from scheduling.job_file.declaration.environment import Variables
from scheduling.job_file.declaration.field import Field, Limited, Shown
from scheduling.job_file.declaration.probe_fields import action_fields, probe_fields
from scheduling.job_file.declaration.resource_fields import RESOURCE_FIELDS
from scheduling.job_file.values.kinds import (
    ChoiceKind,
    Flag,
    LabelsKind,
    Memory,
    NodeTerms,
    Number,
    PartKind,
    Parts,
    PodTerms,
    Tags,
    Text,
    Texts,
    Whole,
    Wholes,
)
from scheduling.job_file.values.levels import LEVELS
from scheduling.job_file.values.text_forms import (
    ABSOLUTE,
    BELOW,
    DNS_LABEL,
    MOUNTABLE,
    NAME,
    OWN_MOUNT,
    OWN_PREFIX,
    PREFIX,
    TAG,
)
from scheduling.models import JobKind

LONGEST_S: Final = 10 * 365 * 86_400
GRACE_MAX_S: Final = 300
"""The longest grace period in seconds, which is the lifetime of a claim: a later release would help no
preemptor."""
_ID_MAX: Final = 2**31 - 1


_NAME: Final = Text(253, (NAME,))


ALL: Final = (
    Field(
        "kind",
        ChoiceKind(tuple(JobKind.values), tuple(JobKind.labels)),
        label=_("Type"),
        help=_("Sets the launcher variables of the tasks."),
        default=JobKind.BATCH.value,
        policy=Limited.VALUES,
        form=Shown.BASICS,
    ),
    Field(
        "name",
        Text(63, (DNS_LABEL,)),
        label=_("Name"),
        help=_("Lowercase letters, digits and hyphens."),
        otherwise=_("generated"),
        form=Shown.BASICS,
    ),
    Field("queue", Text(63), label=_("Queue"), default="default", policy=Limited.VALUES, form=Shown.BASICS),
    Field(
        "priority_class",
        Text(63),
        label=_("Priority"),
        default="normal",
        policy=Limited.VALUES,
        form=Shown.BASICS,
    ),
    Field(
        "tags",
        Tags(20, length=63, forms=(TAG,)),
        label=_("Tags"),
        help=_("Short texts that group jobs, without effect on scheduling."),
        default=(),
        policy=Limited.VALUES,
        form=Shown.BASICS,
        example="baseline, team:nlp",
    ),
    Field(
        "preemptible",
        Flag(),
        label=_("Preemptible (required to borrow quota)"),
        default=True,
        engine=True,
        form=Shown.ADVANCED,
    ),
    Field(
        "min_run_s",
        Whole(0, LONGEST_S),
        label=_("Guaranteed run time"),
        help=_("Maximum: 3600"),
        unit="s",
        default=0,
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field(
        "max_run_s",
        Whole(1, LONGEST_S),
        label=_("Maximum run time"),
        help=_("86400 = 1 day"),
        unit="s",
        otherwise=_("no limit"),
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field(
        "checkpoint_interval_s",
        Whole(1, LONGEST_S),
        label=_("Checkpoint interval"),
        help=_("Informational; your program must write checkpoints."),
        unit="s",
        otherwise=_("never"),
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field("gang", PartKind("Gang"), help="Minimum number of tasks that start together."),
    Field(
        "gang.min_available",
        Whole(1),
        label=_("Gang minimum"),
        help=_("Tasks that must start together."),
        unit=_("tasks"),
        otherwise=_("sum of the minimum replicas of all roles"),
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field(
        "roles",
        Parts("Role", most=16),
        help="Groups of equal tasks.",
        required=_("A job requires at least one role."),
    ),
    Field(
        "roles.name",
        Text(40, (DNS_LABEL,)),
        label=_("Role"),
        otherwise=_("main, role-1, and so on"),
        form=Shown.ROLE,
    ),
    Field(
        "roles.replicas",
        Whole(1, 4096),
        label=_("Replicas"),
        default=1,
        policy=Limited.AMOUNT,
        form=Shown.ROLE,
    ),
    Field(
        "roles.min_replicas",
        Whole(1, 4096),
        label=_("Minimum replicas"),
        help=_("Below the number of replicas, the role is elastic."),
        otherwise=_("all replicas"),
        policy=Limited.AMOUNT,
        form=Shown.ROLE,
    ),
    Field(
        "roles.image",
        Text(300),
        label=_("Image"),
        default="",
        form=Shown.PROGRAM,
        example="pytorch/pytorch:2.8",
    ),
    Field(
        "roles.command",
        Texts(256),
        label=_("Command"),
        default=(),
        otherwise=_("command of the image"),
        form=Shown.PROGRAM,
        example="python train.py",
    ),
    Field(
        "roles.args",
        Texts(256),
        label=_("Arguments"),
        otherwise=_("arguments of the image"),
        for_pods=True,
        form=Shown.PROGRAM,
        example="--epochs 10",
    ),
    Field(
        "roles.working_directory",
        Text(1024, (ABSOLUTE,)),
        label=_("Working directory"),
        otherwise=_("working directory of the image"),
        for_pods=True,
        form=Shown.PROGRAM,
        example="/workspace",
    ),
    Field(
        "roles.image_pull_policy",
        ChoiceKind(("Always", "IfNotPresent", "Never")),
        help="Image pull policy.",
        for_pods=True,
        policy=Limited.VALUES,
    ),
    Field("roles.probes", PartKind("Probes"), help="Probes of the container.", for_pods=True),
    *probe_fields("startup", "Whether the program has started; the others wait for it."),
    *probe_fields("readiness", "Whether it can be reached by its address."),
    *probe_fields("liveness", "Whether it still works; a container that fails it is ended."),
    Field(
        "roles.pre_stop",
        PartKind("PreStop", one_of=("command", "http", "sleep_s")),
        help="Hook before termination, within the grace period.",
        for_pods=True,
    ),
    *action_fields("roles.pre_stop"),
    Field("roles.pre_stop.sleep_s", Whole(1, 300), help="Seconds to wait."),
    *RESOURCE_FIELDS,
    Field(
        "placement",
        PartKind("Placement"),
        help="Placement constraints and preferences.",
        policy=Limited.VALUES,
    ),
    Field("placement.node_name", Text(253), help="Name of the only permitted node.", policy=Limited.VALUES),
    Field(
        "placement.node_selector",
        LabelsKind(),
        label=_("Node selector"),
        policy=Limited.VALUES,
        form=Shown.TEXTS,
    ),
    Field("placement.node_affinity", NodeTerms(), help="Node affinity."),
    Field("placement.pod_affinity", PodTerms(), help="Pod affinity to tasks of the workspace."),
    Field(
        "placement.pod_anti_affinity",
        PodTerms(),
        help="Pod anti-affinity to tasks of the workspace.",
    ),
    Field(
        "placement.tolerations",
        Parts("Toleration", most=64),
        help="Tolerated taints.",
        policy=Limited.VALUES,
    ),
    Field("placement.tolerations.key", Text(317), help="Key of the taint; all taints if omitted."),
    Field(
        "placement.tolerations.operator",
        ChoiceKind(tuple(TolerationOperator)),
        help="Operator: Equal or Exists.",
        default=TolerationOperator.EQUAL.value,
    ),
    Field("placement.tolerations.value", Text(63), help="Value of the taint."),
    Field(
        "placement.tolerations.effect",
        ChoiceKind(tuple(TaintEffect)),
        help="Effect of the taint.",
        otherwise="every effect",
    ),
    Field(
        "placement.topology",
        PartKind("Topology"),
        help="Topology constraint of the tasks.",
        otherwise="anywhere",
    ),
    Field(
        "placement.topology.level",
        Text(317),
        help="Topology level, or a node label.",
        policy=Limited.VALUES,
        example=", ".join(LEVELS),
    ),
    Field(
        "placement.topology.mode",
        ChoiceKind((TopologyMode.REQUIRED.value, TopologyMode.PREFERRED.value)),
        help="Required or preferred.",
        default=TopologyMode.PREFERRED.value,
    ),
    Field("placement.labels", LabelsKind(own=True), help="Labels of the pods."),
    Field(
        "lifecycle",
        Parts("Lifecycle", most=32),
        label=_("Lifecycle rules"),
        help="Actions when tasks end; the first matching rule applies.",
        form=Shown.ADVANCED,
        input="retries",
    ),
    Field(
        "lifecycle.on",
        ChoiceKind(("task_failed", "task_evicted", "task_completed", "role_completed")),
        help="Event.",
        required=_("Specify the event, for example task_failed."),
    ),
    Field(
        "lifecycle.do",
        ChoiceKind(("restart_task", "restart_role", "restart_job", "complete_job", "fail_job", "abort_job")),
        help="Action.",
        required=_("Specify the action, for example restart_job."),
    ),
    Field(
        "lifecycle.exit_codes",
        Wholes(0, 255, most=256),
        help="Exit codes that match.",
        otherwise="every failure",
    ),
    Field("lifecycle.role", Text(40), help="Role that matches.", otherwise="every role"),
    Field(
        "lifecycle.max",
        Whole(1, 100),
        label=_("Restarts by lifecycle rules"),
        help="Maximum number of times that the rule applies.",
        otherwise="1",
        policy=Limited.AMOUNT,
    ),
    Field(
        "environment",
        Variables(),
        label=_("Environment variables"),
        help=_("Variables of the containers."),
        form=Shown.TEXTS,
    ),
    Field(
        "environment_from",
        Parts("Source", most=16, one_of=("secret", "config")),
        help="Secrets and config maps whose entries become environment variables.",
        for_pods=True,
    ),
    Field("environment_from.secret", _NAME, help="Name of a secret."),
    Field("environment_from.config", _NAME, help="Name of a config map."),
    Field(
        "environment_from.prefix",
        Text(63, (PREFIX, OWN_PREFIX)),
        help="Prefix of the variables, for example HUB_.",
        required=_("Specify the prefix of the variables, for example HUB_."),
    ),
    Field("environment_from.optional", Flag(), help="true: start without it if missing.", otherwise="false"),
    Field(
        "volumes",
        Parts("Volume", most=32, one_of=("claim", "empty", "config", "secret")),
        label=_("Volumes"),
        help="Mounted into the containers.",
        form=Shown.TEXTS,
    ),
    Field(
        "volumes.claim",
        _NAME,
        help="Persistent volume claim in the workspace's namespace.",
        policy=Limited.VALUES,
    ),
    Field(
        "volumes.empty",
        Memory(written=True, low=1),
        label=_("Size of an empty volume"),
        help="Maximum size of an empty volume, deleted with the task.",
        policy=Limited.AMOUNT,
    ),
    Field("volumes.config", _NAME, help="A config map, read-only.", policy=Limited.VALUES),
    Field("volumes.secret", _NAME, help="A secret, read-only.", policy=Limited.VALUES),
    Field(
        "volumes.mount",
        Text(1024, (ABSOLUTE, MOUNTABLE, OWN_MOUNT)),
        help="Mount path in the container.",
        required=_("Must be an absolute path, for example /data."),
    ),
    Field(
        "volumes.read_only",
        Flag(),
        help="true: mount the claim read-only.",
        only=("claim",),
        otherwise="false",
    ),
    Field(
        "volumes.sub_path",
        Text(1024, (BELOW,)),
        help="Path in the volume to mount.",
        only=("claim", "config", "secret"),
    ),
    Field(
        "volumes.in_memory",
        Flag(),
        help="In memory; counts against the memory of the task.",
        only=("empty",),
        otherwise="false",
    ),
    Field(
        "volumes.optional",
        Flag(),
        help="true: start without it if missing.",
        only=("config", "secret"),
        otherwise="false",
    ),
    Field(
        "image_pull_secrets",
        Texts(8, length=253, forms=(NAME,)),
        help="Image pull secrets.",
        for_pods=True,
        policy=Limited.VALUES,
    ),
    Field(
        "security",
        PartKind("Security"),
        help="Ids of the user and the groups that the programs run as; never root.",
        for_pods=True,
    ),
    Field("security.run_as_user", Whole(1, _ID_MAX), help="User ID.", policy=Limited.VALUES),
    Field("security.run_as_group", Whole(1, _ID_MAX), help="Group ID."),
    Field("security.fs_group", Whole(1, _ID_MAX), help="Group ID of the volumes."),
    Field(
        "termination_grace_s",
        Whole(0, GRACE_MAX_S),
        label=_("Termination grace period"),
        unit="s",
        otherwise=str(GRACE_S),
        for_pods=True,
        policy=Limited.AMOUNT,
    ),
    Field("simulate", PartKind("Simulate"), help="Behavior on a simulated cluster."),
    Field(
        "simulate.start_s",
        Number(0, LONGEST_S),
        help="Seconds from creation to running.",
        otherwise="one to seven seconds",
    ),
    Field(
        "simulate.run_s",
        Number(0, LONGEST_S),
        label=_("Run time"),
        unit="s",
        otherwise=_("until deleted"),
        form=Shown.SIMULATION,
    ),
    Field(
        "simulate.exit_code",
        Whole(0, 255),
        label=_("Exit code"),
        help=_("0 = success."),
        otherwise="0",
        form=Shown.SIMULATION,
    ),
    Field(
        "simulate.gpu_utilisation",
        Number(0, 1),
        label=_("GPU utilization"),
        help=_("0 to 1, for example 0.7"),
        form=Shown.SIMULATION,
    ),
)
FIELDS: Final[Mapping[str, Field]] = {field.path: field for field in ALL}


@cache
def fields_below(path: str) -> tuple[Field, ...]:
    """Return the fields of the mapping at a path, in their order; the file itself has the empty path."""
    return tuple(field for field in ALL if field.parent == path)


@cache
def keys_below(path: str) -> tuple[str, ...]:
    """Return the keys of the fields of the mapping at a path."""
    return tuple(field.key for field in fields_below(path))


@cache
def pod_fields(path: str) -> tuple[Field, ...]:
    """Return the fields that are stored as JSON and only used to build pods."""
    return tuple(field for field in fields_below(path) if field.for_pods)
