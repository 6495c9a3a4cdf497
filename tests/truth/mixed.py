"""Random cells like real clusters: foreign pods on cards, cordoned and broken nodes, MIG instances, several
clusters in one cell, nodes with few pods, and gangs that require one zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from scheduling.engine.model import (
    AffinityOperator,
    ClaimState,
    Device,
    Expression,
    Flavor,
    GpuMode,
    GpuRequest,
    Job,
    MountedVolume,
    Node,
    Queue,
    Request,
    Role,
    TopologyMode,
    TopologyRule,
)
from tests.truth.draw import Draw, World

# The instances of one card, and a profile that no node has.
CUTS = (("3g.40gb", "3g.40gb"), ("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"), ("1g.10gb",) * 7)
NOWHERE = "7g.80gb"
ZONE = TopologyRule(level="zone", mode=TopologyMode.REQUIRED)


# The fraction of the jobs that mount volumes.
_MOUNTING = 0.15


def _in_zones(names: Sequence[str]) -> tuple[tuple[Expression, ...], ...]:
    return tuple((Expression("zone", AffinityOperator.IN, (name,)),) for name in names)


class Mixed(Draw):
    """Draws one mixed world."""

    def world(self) -> World:
        self.clusters = ("", "east") if self.chance(0.4) else ("",)
        world = super().world()
        cordoned = tuple(node.id for node in world.nodes if self.chance(0.15))
        return replace(world, cordoned=cordoned)

    def _flavor(self, number: int) -> Flavor:
        found = replace(super()._flavor(number), cluster=self.random.choice(self.clusters))
        if self.chance(0.3):
            return replace(found, mode=GpuMode.MIG, card_model="Xb", card_memory=80_000, policy="compact")
        return found

    def _node(self, number: int, flavors: tuple[Flavor, ...]) -> Node:
        node = super()._node(number, flavors)
        flavor = next(each for each in flavors if each.id == node.labels["pool"])
        if flavor.mode is GpuMode.MIG:
            node = replace(node, devices=self._instances(node.id))
        if self.chance(0.4):
            node = self._with_foreign_pods(node)
        pods = self.random.randint(2, 6) + node.used_pods if self.chance(0.15) else None
        ready, schedulable = not self.chance(0.05), node.schedulable and not self.chance(0.08)
        return replace(node, cluster=flavor.cluster, ready=ready, schedulable=schedulable, pods=pods)

    def _instances(self, node: str) -> tuple[Device, ...]:
        """Return the MIG instances of one or two cards, which are split differently."""
        profiles = [name for _ in range(self.random.randint(1, 2)) for name in self.random.choice(CUTS)]
        return tuple(
            Device(
                uuid=f"{node}-{index}",
                index=index,
                model="Xb",
                mode=GpuMode.MIG,
                cores=-(-100 * int(profile[0]) // 7),
                memory=int(profile[3:5]) * 1_024,
                profile=profile,
            )
            for index, profile in enumerate(profiles)
        )

    def _with_foreign_pods(self, node: Node) -> Node:
        """Return the node with pods of other owners: some have whole cards, one may have a slice."""
        taken = self.random.randint(0, len(node.devices))
        cards = [
            replace(card, used_cores=card.cores, used_memory=card.memory, holders=1, exclusive=True)
            if index < taken
            else card
            for index, card in enumerate(node.devices)
        ]
        if taken < len(cards) and cards[taken].mode is GpuMode.SLICE:
            cards[taken] = replace(cards[taken], used_cores=30, used_memory=8_000, holders=1)
        return replace(
            node,
            devices=tuple(cards),
            used_cpu=self.random.choice((0, node.cpu // 2)),
            used_memory=self.random.choice((0, node.memory // 2)),
            used_pods=taken + 1,
        )

    def _job(self, name: str, wave: int, queues: tuple[Queue, ...], flavors: tuple[Flavor, ...]) -> Job:
        job = super()._job(name, wave, queues, flavors)
        queue = next(each for each in queues if each.id == job.queue)
        cut = any(each.mode is GpuMode.MIG and each.id in queue.flavors for each in flavors)
        if self.chance(0.6 if cut else 0.03):
            job = replace(job, roles=tuple(map(self._on_instances, job.roles)))
        if sum(role.replicas for role in job.roles) > 1 and self.chance(0.3):
            job = replace(job, topology=ZONE)
        # From a random sequence of its own, so that the worlds are otherwise those of earlier versions.
        apart = Random(f"{name} {job.submitted_at} {job.roles}")
        return self._with_claims(job, apart) if apart.random() < _MOUNTING else job

    def _with_claims(self, job: Job, random: Random) -> Job:
        """Return the job with one or two volume claims in each cluster: most bound, mostly in one zone."""
        claims = tuple(
            MountedVolume(
                name=name,
                cluster=cluster,
                state=random.choice(tuple(ClaimState)) if random.random() < 0.2 else ClaimState.BOUND,
                terms=_in_zones(random.sample("abc", random.choice((0, 1, 1, 1, 2)))),
            )
            for name in ("data", "home")[: random.choice((1, 1, 2))]
            for cluster in self.clusters
        )
        # Some volumes don't exist yet, and are created for a node or, here, for nodes of these zones.
        claims = tuple(
            replace(claim, temporary=random.random() < 0.3)
            if claim.terms and claim.state is ClaimState.BOUND
            else claim
            for claim in claims
        )
        return replace(job, rules=replace(job.rules, volume_claims=claims))

    def _on_instances(self, role: Role) -> Role:
        if role.request.gpu is None:
            return role
        profile = self.random.choice((*CUTS[1], NOWHERE))
        gpu = GpuRequest(
            cards=self.random.choice((1, 1, 2)),
            mode=GpuMode.MIG,
            profile=profile,
            models=role.request.gpu.models,
        )
        return replace(role, request=Request(cpu=role.request.cpu, memory=role.request.memory, gpu=gpu))
