"""Reads what ZooKeeper knows of a cluster; writes nothing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress

import msgspec
from msgspec import Struct

from adoption.survey import Survey, SurveyedBroker, SurveyedCandidate
from cluster.model.broker import NO_CONTROLLER, Broker, BrokerId, ControllerEpoch, ControllerId
from cluster.model.errors import DECODE_ERRORS, MalformedZnodeError, OutcomeUnknownError, ZooKeeperAccessError
from cluster.model.partition import TopicAssignment
from cluster.znodes.admin_requests import decode_reassignments
from cluster.znodes.adoption import Adoption, decode_adoption
from cluster.znodes.candidates import decode_profile
from cluster.znodes.checks import why_malformed
from cluster.znodes.cluster_wide import decode_cluster_id
from cluster.znodes.controller import decode_controller, decode_controller_epoch
from cluster.znodes.paths import (
    ADOPTION,
    BROKERS_IDS,
    BROKERS_TOPICS,
    CLUSTER_ID,
    CONFIG_BROKERS,
    CONFIG_CHANGES,
    CONFIG_TOPICS,
    CONFIG_USERS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    CONTROLLERS_IDS,
    DELETE_TOPICS,
    FEATURE,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    REASSIGN_PARTITIONS,
    controller_registration_path,
)
from cluster.znodes.topics import decode_topic
from cluster.zookeeper.access_rules import access_list_paths
from cluster.zookeeper.port import Check, Create, Op, SetData, ZkError, Znode, ZooKeeper
from cluster.zookeeper.registrations import registered_brokers, registered_controllers

_ROOT = "/"
_PARENTS = (
    _ROOT,
    BROKERS_TOPICS,
    CONFIG_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    *access_list_paths(),
)
"""Under each of them a controller creates znodes."""
_MIGRATION = "/migration"
_NOWHERE = "/klamm-adopt-rehearsal"
"""There is no such znode, so that no transaction which checks it succeeds."""
_SINGLE = (CONTROLLER, CONTROLLER_EPOCH, CLUSTER_ID, FEATURE, PRODUCER_ID_BLOCK, REASSIGN_PARTITIONS, ADOPTION)
_LISTS = (BROKERS_IDS, BROKERS_TOPICS, CONFIG_TOPICS, DELETE_TOPICS, CONTROLLERS_IDS)


class _KRaft(Struct):
    epoch: int = msgspec.field(default=-1, name="kraftControllerEpoch")


async def survey_zookeeper(zookeeper: ZooKeeper) -> Survey:
    """Everything but the brokers' answers. Raises ZooKeeperError."""
    found = await _read(zookeeper)
    topics = {path.rpartition("/")[2]: znode for path, znode in found.items() if _parent(path) == BROKERS_TOPICS}
    assignments = {t: a for t, znode in topics.items() if (a := _topic(t, znode)) is not None}
    candidates = await registered_candidates(zookeeper)
    controller = decode_controller(found[CONTROLLER].data) if CONTROLLER in found else None
    brokers = await brokers_of_kafka(zookeeper)
    return Survey(
        cluster_id=decode_cluster_id(found[CLUSTER_ID].data) if CLUSTER_ID in found else "",
        controller=NO_CONTROLLER if controller is None else controller,
        controller_epoch=_epoch(found.get(CONTROLLER_EPOCH)),
        brokers=tuple(map(SurveyedBroker, brokers)),
        candidates=candidates,
        adoption=_adoption(found.get(ADOPTION)),
        topics=len(topics),
        partitions=sum(len(assignment.partitions) for assignment in assignments.values()),
        absent=_absent(assignments.values(), {broker.id for broker in brokers}),
        deleting=tuple(sorted(path.rpartition("/")[2] for path in found if _parent(path) == DELETE_TOPICS)),
        reassigning=_reassigning(assignments, found.get(REASSIGN_PARTITIONS)),
        malformed={path: why for path, znode in found.items() if (why := why_malformed(path, znode.data)) is not None},
        not_writable=await _not_writable(zookeeper, found),
        not_readable=await _not_readable(zookeeper),
        is_migrating=await zookeeper.exists(_MIGRATION) is not None or _is_of_kraft(found.get(CONTROLLER)),
    )


async def registered_candidates(zookeeper: ZooKeeper) -> dict[ControllerId, SurveyedCandidate]:
    """Read klamm's candidates and what each says of itself. Raises ZooKeeperError."""
    found: dict[ControllerId, SurveyedCandidate] = {}
    for registered in await registered_controllers(zookeeper):
        path = controller_registration_path(registered.id)
        znode = await zookeeper.get(path)
        if znode is None:
            continue
        try:
            profile, why = decode_profile(registered.id, znode.data), ""
        except MalformedZnodeError as error:
            profile, why = None, f"has a malformed registration ({path}): {error.why}"
        found[registered.id] = SurveyedCandidate(registered.id, registered.address, profile, why)
    return found


async def brokers_of_kafka(zookeeper: ZooKeeper) -> list[Broker]:
    """The registered brokers without candidates of klamm that registered as brokers, too. Raises ZooKeeperError."""
    candidates: set[int] = {candidate.id for candidate in await registered_controllers(zookeeper)}
    registered = [r.broker for r in await registered_brokers(zookeeper)]
    return [broker for broker in registered if not (broker.klamm_version and broker.id in candidates)]


async def _read(zookeeper: ZooKeeper) -> dict[str, Znode]:
    paths: list[str] = list(_SINGLE)
    for parent, names in zip(_LISTS, await zookeeper.children_many(_LISTS), strict=True):
        paths += [f"{parent}/{name}" for name in names or ()]
    # From others Kafka keeps these, which `_not_readable` tells.
    with suppress(ZooKeeperAccessError):
        paths += [f"{CONFIG_BROKERS}/{name}" for name in await zookeeper.children(CONFIG_BROKERS) or ()]
    return {p: znode for p, znode in zip(paths, await zookeeper.get_many(paths), strict=True) if znode is not None}


async def _not_writable(zookeeper: ZooKeeper, found: Mapping[str, Znode]) -> tuple[str, ...]:
    """Znodes that a controller writes, and that this identity may not.

    ZooKeeper judges the rights of each operation before it judges the whole: a transaction that cannot succeed tells
    them, and changes nothing.
    """
    ops: dict[str, Op] = {}
    for path in _PARENTS:
        if path == _ROOT or await zookeeper.exists(path) is not None:
            # Another name, as the transaction would succeed if it created what it checks.
            ops[path] = Create(f"{path.rstrip(_ROOT)}{_NOWHERE}-new")
    for path in await _written(zookeeper, found):
        znode = found.get(path) or await zookeeper.get(path)
        if znode is not None:
            ops[path] = SetData(path, znode.data, znode.stat.version)
    refused = []
    for path, op in ops.items():
        with suppress(OutcomeUnknownError):
            results = await zookeeper.multi([op, Check(_NOWHERE, 0)])
            if results[0].error is ZkError.NO_AUTH:
                refused.append(path)
    return tuple(sorted(refused))


async def _written(zookeeper: ZooKeeper, found: Mapping[str, Znode]) -> list[str]:
    """Choose one znode of each kind whose data a controller writes."""
    topic = next((path for path in found if _parent(path) == BROKERS_TOPICS), None)
    states = [] if topic is None else [topic, f"{topic}/partitions/0/state"]
    config = [path for path in found if _parent(path) == CONFIG_TOPICS][:1]
    return [CONTROLLER_EPOCH, PRODUCER_ID_BLOCK, FEATURE, *states, *config]


async def _not_readable(zookeeper: ZooKeeper) -> tuple[str, ...]:
    """Znodes that this identity may not read, one of each kind that Kafka keeps from others: users with their
    passwords, configs of brokers, and access control lists.
    """
    refused: list[str] = []
    for parent in (CONFIG_USERS, CONFIG_BROKERS, *(path for path in access_list_paths() if path.count("/") > 1)):
        path = parent
        try:
            for name in (await zookeeper.children(parent) or ())[:1]:
                path = f"{parent}/{name}"
                await zookeeper.get(path)
        except ZooKeeperAccessError:
            refused.append(path)
    return tuple(refused)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _topic(name: str, znode: Znode) -> TopicAssignment | None:
    try:
        return decode_topic(name, znode.data)
    except MalformedZnodeError:
        return None


def _absent(assignments: Iterable[TopicAssignment], present: Set[int]) -> dict[BrokerId, int]:
    replicas = Counter(r for assignment in assignments for p in assignment.partitions.values() for r in p.replicas)
    return {broker: replicas[broker] for broker in sorted(replicas.keys() - present)}


def _epoch(znode: Znode | None) -> ControllerEpoch:
    try:
        return ControllerEpoch(0) if znode is None else decode_controller_epoch(znode.data)
    except MalformedZnodeError:
        return ControllerEpoch(0)


def _adoption(znode: Znode | None) -> Adoption | None:
    try:
        return None if znode is None else decode_adoption(znode.data)
    except MalformedZnodeError:
        return None


def _reassigning(assignments: dict[str, TopicAssignment], requested: Znode | None) -> tuple[str, ...]:
    moving = {f"{t}-{p}" for t, a in assignments.items() for p, r in a.partitions.items() if r.is_being_reassigned}
    with suppress(MalformedZnodeError):
        moving |= {str(tp) for tp in ({} if requested is None else decode_reassignments(requested.data))}
    return tuple(sorted(moving))


def _is_of_kraft(znode: Znode | None) -> bool:
    try:
        return znode is not None and msgspec.json.decode(znode.data, type=_KRaft).epoch >= 0
    except DECODE_ERRORS:
        return False
