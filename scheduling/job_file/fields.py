"""Every field of a job file, declared once, in the order of the file.

The parser, the schema of the REST API, the console's form, the limits and choices of policies, the table in
`docs/job-file.md`, the rows of a job and the engine's job all follow from this list.

A path names a field as policies do: of a list of mappings, such as `roles`, it names no place. Texts are in
English here and are translated where they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from django.utils.translation import gettext_noop as _

from clusters.backends.base import GRACE_S
from scheduling.engine.model import TaintEffect, TolerationOperator, TopologyMode
from scheduling.job_file.environment import Variables
from scheduling.job_file.field import Field, Limited, Shown
from scheduling.job_file.kinds import (
    CardMemory,
    Choice,
    Cpu,
    Flag,
    Labels,
    Memory,
    NodeTerms,
    Number,
    Part,
    Parts,
    Percent,
    PodTerms,
    Text,
    Texts,
    Whole,
    Wholes,
)
from scheduling.job_file.levels import LEVELS
from scheduling.job_file.probe_fields import action_fields, probe_fields
from scheduling.job_file.text_forms import (
    ABSOLUTE,
    BELOW,
    DNS_LABEL,
    MOUNTABLE,
    NAME,
    OWN_MOUNT,
    OWN_PREFIX,
    PREFIX,
)
from scheduling.models import JobKind

LONGEST_S: Final = 10 * 365 * 86_400
GRACE_MAX_S: Final = 300
"""As long as a preemptor's claim lives: what is released later would be released for no job."""
_ID_MAX: Final = 2**31 - 1


_NAME: Final = Text(253, (NAME,))


ALL: Final = (
    Field(
        "kind",
        Choice(tuple(JobKind.values), tuple(JobKind.labels)),
        label=_("Kind"),
        help=_("Which launcher's variables its tasks find."),
        default=JobKind.BATCH.value,
        policy=Limited.VALUES,
        form=Shown.BASICS,
    ),
    Field(
        "name",
        Text(63, (DNS_LABEL,)),
        label=_("Name"),
        help=_("Lower-case letters, digits, hyphens."),
        otherwise=_("made up"),
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
        "preemptible",
        Flag(),
        label=_("May give way to others: only such jobs may borrow"),
        default=True,
        engine=True,
        form=Shown.ADVANCED,
    ),
    Field(
        "min_run_s",
        Whole(0, LONGEST_S),
        label=_("Protected from preemption for"),
        help=_("More than 3600 is cut to 3600."),
        unit="s",
        default=0,
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field(
        "max_run_s",
        Whole(1, LONGEST_S),
        label=_("Longest run time"),
        help=_("86400 is a day."),
        unit="s",
        otherwise=_("no limit"),
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field(
        "checkpoint_interval_s",
        Whole(1, LONGEST_S),
        label=_("Saves a checkpoint every"),
        help=_("As far as the program does."),
        unit="s",
        otherwise=_("never"),
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field("gang", Part("Gang"), help="How many tasks have to start together."),
    Field(
        "gang.min_available",
        Whole(1),
        label=_("Starts with at least"),
        help=_("How many tasks start together."),
        unit=_("tasks"),
        otherwise=_("the least tasks of all roles together"),
        engine=True,
        policy=Limited.AMOUNT,
        form=Shown.ADVANCED,
    ),
    Field(
        "roles",
        Parts("Role", most=16),
        help="Groups of like tasks.",
        required=_("a job needs at least one role"),
    ),
    Field(
        "roles.name",
        Text(40, (DNS_LABEL,)),
        label=_("Role"),
        otherwise=_("main, then role-1 and so on"),
        form=Shown.ROLE,
    ),
    Field(
        "roles.replicas",
        Whole(1, 4096),
        label=_("Tasks of the role"),
        default=1,
        policy=Limited.AMOUNT,
        form=Shown.ROLE,
    ),
    Field(
        "roles.min_replicas",
        Whole(1, 4096),
        label=_("Least tasks of the role"),
        help=_("With fewer than its tasks the role is elastic."),
        otherwise=_("all of them"),
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
        otherwise=_("what the image starts"),
        form=Shown.PROGRAM,
        example="python train.py",
    ),
    Field("roles.args", Texts(256), help="Arguments of the command.", for_pods=True),
    Field(
        "roles.working_directory",
        Text(1024, (ABSOLUTE,)),
        help="The folder where the command starts; that of the image where it is left open.",
        for_pods=True,
    ),
    Field(
        "roles.image_pull_policy",
        Choice(("Always", "IfNotPresent", "Never")),
        help="When the image is fetched anew.",
        for_pods=True,
        policy=Limited.VALUES,
    ),
    Field("roles.probes", Part("Probes"), help="How a container is asked whether it is well.", for_pods=True),
    *probe_fields("startup", "Whether the program has started; the others wait for it."),
    *probe_fields("readiness", "Whether it can be reached by its address."),
    *probe_fields("liveness", "Whether it still works; a container that fails it is ended."),
    Field(
        "roles.pre_stop",
        Part("PreStop", one_of=("command", "http", "sleep_s")),
        help="What a container does when it is told to end, within its time for that.",
        for_pods=True,
    ),
    *action_fields("roles.pre_stop"),
    Field("roles.pre_stop.sleep_s", Whole(1, 300), help="Waits so many seconds."),
    Field("roles.resources", Part("Resources"), help="What each task is given, and charged with."),
    Field(
        "roles.resources.cpu",
        Cpu(),
        label=_("CPU per task"),
        default=0,
        column="cpu_millicores",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
    ),
    Field(
        "roles.resources.memory",
        Memory(),
        label=_("Memory per task"),
        help=_("As in 64Gi or 512Mi."),
        default=0,
        column="memory_mib",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
        input="role_memory",
    ),
    Field("roles.resources.gpu", Part("Gpu"), help="GPUs of each task.", otherwise="no GPU"),
    Field(
        "roles.resources.gpu.cards",
        Whole(0, 64),
        label=_("GPUs per task"),
        help=_("Of a MIG profile, its instances."),
        default=1,
        column="gpu_cards",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
    ),
    Field(
        "roles.resources.gpu.mode",
        Choice(("whole", "slice", "mig")),
        help="How cards are given: whole, in slices, or as MIG instances.",
        default="whole",
        column="gpu_mode",
        policy=Limited.VALUES,
    ),
    Field(
        "roles.resources.gpu.cores",
        Percent(),
        label=_("Compute of each GPU"),
        help=_("The share of a card's compute."),
        unit="%",
        column="gpu_cores",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
        only=("slice",),
    ),
    Field(
        "roles.resources.gpu.memory",
        CardMemory(low=1),
        label=_("Memory of each GPU"),
        help=_("As in 20Gi, 20480Mi or 50%."),
        column="gpu_memory_mib",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
        only=("slice",),
    ),
    Field(
        "roles.resources.gpu.model",
        Texts(32, length=80, one=True),
        help="Any of these.",
        otherwise="any",
        column="gpu_models",
        policy=Limited.VALUES,
    ),
    Field(
        "roles.resources.gpu.profile",
        Text(40),
        label=_("Profile"),
        help=_("As in 1g.10gb."),
        column="gpu_profile",
        form=Shown.REQUEST,
        only=("mig",),
    ),
    Field(
        "roles.resources.limits",
        Part("Limits"),
        help="How far a task may go beyond what it asks for.",
        otherwise="what it asks for",
        for_pods=True,
    ),
    Field(
        "roles.resources.limits.cpu",
        Cpu(written=True),
        label=_("CPU that a task may go up to"),
        policy=Limited.AMOUNT,
    ),
    Field(
        "roles.resources.limits.memory",
        Memory(written=True),
        label=_("Memory that a task may go up to"),
        policy=Limited.AMOUNT,
    ),
    Field(
        "roles.resources.exclusive_cpus",
        Flag(),
        help="Whole CPUs for each task alone.",
        otherwise="false",
        for_pods=True,
    ),
    Field(
        "placement",
        Part("Placement"),
        help="Where its tasks may run, and where they had better.",
        policy=Limited.VALUES,
    ),
    Field(
        "placement.node_name", Text(253), help="The only node where its tasks may run.", policy=Limited.VALUES
    ),
    Field(
        "placement.node_selector",
        Labels(),
        label=_("Only on nodes with these labels"),
        policy=Limited.VALUES,
        form=Shown.TEXTS,
    ),
    Field("placement.node_affinity", NodeTerms(), help="Conditions on the labels of nodes."),
    Field(
        "placement.pod_affinity", PodTerms(), help="Near which other tasks of the workspace its tasks run."
    ),
    Field(
        "placement.pod_anti_affinity",
        PodTerms(),
        help="Apart from which other tasks of the workspace its tasks run.",
    ),
    Field(
        "placement.tolerations",
        Parts("Toleration", most=64),
        help="Taints of nodes that its tasks take.",
        policy=Limited.VALUES,
    ),
    Field(
        "placement.tolerations.key", Text(317), help="The key of the taint; every one where it is left open."
    ),
    Field(
        "placement.tolerations.operator",
        Choice(tuple(TolerationOperator)),
        help="Whether the value counts.",
        default=TolerationOperator.EQUAL.value,
    ),
    Field("placement.tolerations.value", Text(63), help="The value of the taint."),
    Field(
        "placement.tolerations.effect",
        Choice(tuple(TaintEffect)),
        help="The effect of the taint.",
        otherwise="every effect",
    ),
    Field(
        "placement.topology",
        Part("Topology"),
        help="How near to each other its tasks run.",
        otherwise="anywhere",
    ),
    Field(
        "placement.topology.level",
        Text(317),
        help="A level, or the label of nodes that stands for one.",
        policy=Limited.VALUES,
        example=", ".join(LEVELS),
    ),
    Field(
        "placement.topology.mode",
        Choice((TopologyMode.REQUIRED.value, TopologyMode.PREFERRED.value)),
        help="Whether it has to be so, or had better.",
        default=TopologyMode.PREFERRED.value,
    ),
    Field("placement.labels", Labels(own=True), help="Labels of its own pods."),
    Field(
        "lifecycle",
        Parts("Lifecycle", most=32),
        help="What happens when tasks end; the first rule counts that is about the event.",
    ),
    Field(
        "lifecycle.on",
        Choice(("task_failed", "task_evicted", "task_completed", "role_completed")),
        help="The event.",
        required=_("name the event, as in task_failed"),
    ),
    Field(
        "lifecycle.do",
        Choice(("restart_task", "restart_role", "restart_job", "complete_job", "fail_job", "abort_job")),
        help="The action.",
        required=_("name the action, as in restart_job"),
    ),
    Field(
        "lifecycle.exit_codes",
        Wholes(0, 255, most=256),
        help="Only failures with one of these.",
        otherwise="every failure",
    ),
    Field("lifecycle.role", Text(40), help="Only tasks of this role.", otherwise="every role"),
    Field(
        "lifecycle.max",
        Whole(1, 100),
        label=_("Restarts by a lifecycle rule"),
        help="How often the rule counts.",
        otherwise="1",
        policy=Limited.AMOUNT,
    ),
    Field(
        "environment",
        Variables(),
        label=_("Environment"),
        help=_("Variables that programs find."),
        form=Shown.TEXTS,
    ),
    Field(
        "environment_from",
        Parts("Source", most=16, one_of=("secret", "config")),
        help="Secrets and config maps of the workspace, all of whose entries become variables.",
        for_pods=True,
    ),
    Field("environment_from.secret", _NAME, help="A secret."),
    Field("environment_from.config", _NAME, help="A config map."),
    Field(
        "environment_from.prefix",
        Text(63, (PREFIX, OWN_PREFIX)),
        help="What the variables begin with, as in HUB_.",
        required=_("say what the variables begin with, as in HUB_"),
    ),
    Field("environment_from.optional", Flag(), help="Whether tasks start without it.", otherwise="false"),
    Field(
        "volumes",
        Parts("Volume", most=32, one_of=("claim", "empty", "config", "secret")),
        help="What is mounted into its containers.",
    ),
    Field(
        "volumes.claim",
        _NAME,
        help="A persistent volume claim of the workspace's namespace.",
        policy=Limited.VALUES,
    ),
    Field(
        "volumes.empty",
        Memory(written=True, low=1),
        label=_("Size of an empty volume"),
        help="Empty at first, and gone with the task: its largest size.",
        policy=Limited.AMOUNT,
    ),
    Field("volumes.config", _NAME, help="A config map, read-only.", policy=Limited.VALUES),
    Field("volumes.secret", _NAME, help="A secret, read-only.", policy=Limited.VALUES),
    Field(
        "volumes.mount",
        Text(1024, (ABSOLUTE, MOUNTABLE, OWN_MOUNT)),
        help="The folder in the container.",
        required=_("must be an absolute path, as in /data"),
    ),
    Field(
        "volumes.read_only",
        Flag(),
        help="Whether the claim is mounted read-only.",
        only=("claim",),
        otherwise="false",
    ),
    Field(
        "volumes.sub_path",
        Text(1024, (BELOW,)),
        help="The part of the volume that is mounted.",
        only=("claim", "config", "secret"),
    ),
    Field(
        "volumes.in_memory",
        Flag(),
        help="Counts against the memory of the task.",
        only=("empty",),
        otherwise="false",
    ),
    Field(
        "volumes.optional",
        Flag(),
        help="Whether tasks start without it.",
        only=("config", "secret"),
        otherwise="false",
    ),
    Field(
        "image_pull_secrets",
        Texts(8, length=253, forms=(NAME,)),
        help="Secrets for images that need a password.",
        for_pods=True,
        policy=Limited.VALUES,
    ),
    Field(
        "security",
        Part("Security"),
        help="Ids of the user and the groups that the programs run as; never root.",
        for_pods=True,
    ),
    Field("security.run_as_user", Whole(1, _ID_MAX), help="The id of the user.", policy=Limited.VALUES),
    Field("security.run_as_group", Whole(1, _ID_MAX), help="The id of the group."),
    Field("security.fs_group", Whole(1, _ID_MAX), help="The id of the group that volumes are given to."),
    Field(
        "termination_grace_s",
        Whole(0, GRACE_MAX_S),
        label=_("Time to end when told to"),
        unit="s",
        otherwise=str(GRACE_S),
        for_pods=True,
        policy=Limited.AMOUNT,
    ),
    Field("simulate", Part("Simulate"), help="What the program does on a simulated cluster."),
    Field(
        "simulate.start_s",
        Number(0, LONGEST_S),
        help="From creation to running.",
        otherwise="one to seven seconds",
    ),
    Field(
        "simulate.run_s",
        Number(0, LONGEST_S),
        label=_("Runs for"),
        unit="s",
        otherwise=_("until it is removed"),
        form=Shown.SIMULATION,
    ),
    Field(
        "simulate.exit_code",
        Whole(0, 255),
        label=_("Ends with exit code"),
        help=_("0 is success."),
        otherwise="0",
        form=Shown.SIMULATION,
    ),
    Field(
        "simulate.gpu_utilisation",
        Number(0, 1),
        label=_("Uses of its GPUs"),
        help=_("From 0 to 1, as in 0.7."),
        form=Shown.SIMULATION,
    ),
)
FIELDS: Final[Mapping[str, Field]] = {field.path: field for field in ALL}


@cache
def fields_below(path: str) -> tuple[Field, ...]:
    """The fields of the mapping at a path, in their order; the file itself is at the empty one."""
    return tuple(field for field in ALL if field.parent == path)


@cache
def keys_below(path: str) -> tuple[str, ...]:
    """The names of these fields."""
    return tuple(field.key for field in fields_below(path))


@cache
def pod_fields(path: str) -> tuple[Field, ...]:
    """Those of them that are kept in JSON for the makers of pods."""
    return tuple(field for field in fields_below(path) if field.for_pods)
