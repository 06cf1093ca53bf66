"""Whatever is asked of whatever cluster: the plan is what then happens, and making it changed nothing."""

import copy
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from hypothesis import example, given, note
from hypothesis import strategies as st
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.model.protocol_version import ProtocolVersion
from cluster.process.diagnostics import configure_diagnostics
from cluster.requests.agents import (
    AlterPartitionItem,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from cluster.requests.cluster import WatchRequest
from cluster.requests.configs import (
    BROKER_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    FeatureUpdate,
    PlanFeatureUpdatesRequest,
    UpdateFeaturesRequest,
)
from cluster.requests.elections import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersTopic,
    PlanControlledShutdownRequest,
)
from cluster.requests.plans import DescribedPartition, Plan, PlannedSetting
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from cluster.znodes.admin_requests import encode_log_dir_event
from cluster.znodes.cluster_wide import decode_features
from cluster.znodes.configs import decode_config
from cluster.znodes.paths import FEATURE, LOG_DIR_EVENT_NOTIFICATION, topic_path
from cluster.zookeeper.port import Create, SetData
from controller.decisions.partition_descriptions import described_partition
from tests.controllers.contexts import facts, ids
from tests.controllers.dry_runs import planned, received
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until
from tests.examples import examples

BROKERS = (1, 2, 3, 4)
TOPICS = {"a": 3, "b": 2, "c": 1}
RequestEvent = Any


class Case(Struct, frozen=True):
    """A cluster, what went before, and what is asked of it."""

    protocol: str
    replicas: dict[str, list[list[int]]]
    before: list[tuple[Any, ...]]
    asked: RequestEvent


# What may be asked

brokers = st.sampled_from(BROKERS)
lists = st.lists(st.sampled_from((*BROKERS, 9)), unique=True, min_size=1, max_size=3)
names = st.sampled_from([*TOPICS, "new", "n.w", "bad name"])
known = st.sampled_from([*TOPICS])
partitions = st.sampled_from([(t, p) for t, count in TOPICS.items() for p in range(count)])
flags = st.sampled_from(["true", "false", None])


def _resource(kind: int, name: str, key: str, value: str | None) -> AlterConfigsResource:
    operation = DELETE_CONFIG if value is None else SET_CONFIG
    return AlterConfigsResource(kind, name, (AlterableConfig(key, operation, value),))


def _by_topic(chosen: list[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in chosen:
        found.setdefault(topic, []).append(partition)
    return found


def _elections(kind: int, chosen: list[tuple[str, int]] | None) -> ElectLeadersRequest:
    topics = None if chosen is None else tuple(ElectLeadersTopic(t, tuple(p)) for t, p in _by_topic(chosen).items())
    return ElectLeadersRequest(kind, topics, 5000)


def _moves(targets: dict[tuple[str, int], list[int] | None]) -> AlterPartitionReassignmentsRequest:
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), target in targets.items():
        chosen = None if target is None else ids(*target)
        by_topic.setdefault(topic, []).append(ReassignablePartition(partition, chosen))
    return AlterPartitionReassignmentsRequest(tuple(ReassignableTopic(t, tuple(m)) for t, m in by_topic.items()))


same_length = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(brokers, unique=True, min_size=n, max_size=n), min_size=1, max_size=3)
)
new_topics = st.one_of(
    st.builds(
        NewTopic,
        names,
        st.integers(0, 3),
        st.sampled_from([-1, 1, 2, 3, 5]),
    ),
    st.builds(
        lambda name, replicas, value: NewTopic(
            name,
            assignments={p: ids(*r) for p, r in enumerate(replicas)},
            configs={} if value is None else {"unclean.leader.election.enable": value},
        ),
        names,
        same_length,
        flags,
    ),
)
resources = st.one_of(
    st.builds(lambda t, v: _resource(TOPIC_RESOURCE, t, "unclean.leader.election.enable", v), names, flags),
    st.builds(lambda t: _resource(TOPIC_RESOURCE, t, "retention.ms", "5"), names),
    st.builds(
        lambda b, v: _resource(BROKER_RESOURCE, b, "unclean.leader.election.enable", v),
        st.sampled_from(["", "1001", "1"]),
        flags,
    ),
)
elections = st.builds(
    _elections, st.sampled_from([PREFERRED, UNCLEAN, 7]), st.none() | st.lists(partitions, unique=True, min_size=1)
)
moves = st.builds(_moves, st.dictionaries(partitions, st.none() | lists, min_size=1, max_size=4))
features = st.builds(
    lambda *updates: UpdateFeaturesRequest(tuple(updates)),
    st.builds(FeatureUpdate, st.sampled_from(["f", "g"]), st.integers(0, 3), st.sampled_from([1, 2, 3])),
)
requests: st.SearchStrategy[RequestEvent] = st.one_of(
    st.lists(new_topics, min_size=1, max_size=3).map(lambda new: CreateTopicsRequest(tuple(new), 5000)),
    st.lists(st.builds(NewPartitions, names, st.integers(1, 5)), min_size=1, max_size=3).map(
        lambda grown: CreatePartitionsRequest(tuple(grown), 5000)
    ),
    st.lists(names, min_size=1, max_size=3).map(
        lambda gone: DeleteTopicsRequest(tuple(TopicToDelete(name) for name in gone), 5000)
    ),
    st.lists(resources, min_size=1, max_size=3).map(lambda altered: AlterConfigsRequest(tuple(altered))),
    elections,
    moves,
    moves,
    brokers.map(lambda b: ControlledShutdownRequest(BrokerId(b))),
    features,
)

# What may have gone before

disturbances = st.one_of(
    st.tuples(st.just("kill"), brokers),
    st.tuples(st.just("kill"), brokers),
    st.tuples(st.just("start"), brokers),
    st.tuples(st.just("shut down"), brokers),
    st.tuples(st.just("orphan"), brokers, brokers),
    st.tuples(st.just("break disk"), brokers, partitions),
    st.tuples(st.just("catch up"), partitions, st.lists(brokers, unique=True, min_size=1)),
    st.tuples(st.just("catch up"), partitions, st.just(list(BROKERS))),
    st.tuples(st.just("ask"), moves),
    st.tuples(st.just("ask"), moves),
    st.tuples(st.just("ask"), known.map(lambda t: DeleteTopicsRequest((TopicToDelete(t),), 0))),
    st.tuples(st.just("ask"), resources.map(lambda r: AlterConfigsRequest((r,)))),
    st.tuples(st.just("malformed"), st.sampled_from(["/config/topics/a", "/config/brokers/1001", topic_path("b")])),
)
clusters = st.fixed_dictionaries(
    {
        topic: st.lists(st.lists(brokers, unique=True, min_size=1, max_size=3), min_size=count, max_size=count)
        for topic, count in TOPICS.items()
    }
)
cases = st.builds(Case, st.sampled_from(["3.4", "3.4", "2.6"]), clusters, st.lists(disturbances, max_size=6), requests)


async def _set_up(case: Case) -> tuple[World, RunningController]:
    world = await World().start()
    c = world.start_controller(
        protocol_version=ProtocolVersion.parse(case.protocol),
        # Leaders must not be balanced between a plan and what it is held against.
        auto_leader_rebalance_enable=False,
    )
    await until(lambda: c.is_active, "active")
    await world.start_broker(*BROKERS)
    await until(lambda: c.gauge("ActiveBrokerCount") == len(BROKERS), "brokers known")
    for topic, replicas in case.replicas.items():
        await world.create_topic(topic, *replicas)
    await quiesce()
    for kind, *arguments in case.before:
        await _disturb(world, c, kind, *arguments)
        await quiesce(0.2)
    await quiesce(2)
    # A live agent takes a new replica to a healthy disk.
    c.brokers.results = {
        broker: dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR)
        for broker, failed in c.context.brokers.offline_directories.items()
    }
    return world, c


async def _disturb(world: World, c: RunningController, kind: str, *arguments: Any) -> None:
    running = world._broker_sessions
    match kind, *arguments:
        case "kill", broker:
            if broker in running:
                await world.stop_broker(broker)
        case "start", broker:
            if broker not in running:
                await world.start_broker(broker)
        case "shut down", broker:
            await c.ask(ControlledShutdownRequest(BrokerId(broker)))
        case "orphan", leader, follower:
            # Who is alive in the end is in no ISR that the other was in too.
            for step in (("kill", follower), ("kill", leader), ("start", follower)):
                await _disturb(world, c, *step)
                await quiesce(0.2)
        case "break disk", broker, (topic, partition):
            broken = c.brokers.results.setdefault(BrokerId(broker), {})
            broken[TopicPartition(topic, partition)] = ErrorCode.KAFKA_STORAGE_ERROR
            path = f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
            await world.write(Create(path, encode_log_dir_event(BrokerId(broker)), sequential=True))
        case "catch up", (topic, partition), isr:
            await _catch_up(world, c, topic, partition, isr)
        case "malformed", path:
            if await world.tool.get(path) is None:
                await world.create(path, b"malformed")
            else:
                await world.write(SetData(path, b"malformed"))
        case "ask", request:
            try:
                await c.ask(request)
            except ApiError as error:
                note(f"{request}: {error}")


async def _catch_up(world: World, c: RunningController, topic: str, partition: int, isr: list[int]) -> None:
    """The leader asks for an ISR of those of its followers; who asks for more is refused, which is all the same."""
    tp = TopicPartition(topic, partition)
    state = c.context.leaderships.known.get(tp)
    if state is None or state.leader not in c.context.brokers.epochs:
        return
    members = [b for b in c.context.topics.assignment(tp).replicas if b in isr or b == state.leader]
    item = AlterPartitionItem(
        topic, c.context.topics.ids.get(topic), partition, state.leader_epoch, ids(*members), state.partition_epoch
    )
    epoch = c.context.brokers.epochs[state.leader]
    await c.ask(AlterPartitionRequest(state.leader, epoch, (item,)))


def _dry(asked: RequestEvent) -> RequestEvent:
    match asked:
        case ControlledShutdownRequest():
            return PlanControlledShutdownRequest(asked.broker_id)
        case UpdateFeaturesRequest():
            return PlanFeatureUpdatesRequest(asked.feature_updates)
        case _:
            return replace(asked, validate_only=True)


async def _outcome(c: RunningController, asked: RequestEvent) -> Any:
    try:
        return await c.ask(asked)
    except ApiError as error:
        return (error.code, error.message)


def _partitions(c: RunningController) -> dict[TopicPartition, DescribedPartition]:
    context = c.context
    return {
        tp: described_partition(context, tp, undeleted=topic in context.deletions.queued)
        for topic in context.topics.assignments
        for tp in context.topics.partitions_of(topic)
    }


def _written(described: dict[TopicPartition, DescribedPartition], tp: TopicPartition) -> DescribedPartition | None:
    return replace(described[tp], offline_replicas=()) if tp in described else None


async def _settings_in_force(world: World) -> dict[tuple[int, str, str], str]:
    found: dict[tuple[int, str, str], str] = {}
    for kind, root in ((TOPIC_RESOURCE, "/config/topics"), (BROKER_RESOURCE, "/config/brokers")):
        for name in await world.tool.children(root) or ():
            znode = await world.tool.get(f"{root}/{name}")
            assert znode is not None
            if znode.data != b"malformed":
                shown = "" if name == "<default>" else name
                found |= {(kind, shown, k): v for k, v in decode_config("", znode.data).items()}
    return found


def _state(world: World, c: RunningController) -> dict[str, Any]:
    """All that a dry run must leave alone."""
    active = c.controller._active
    assert active is not None
    return copy.deepcopy(
        {
            "context": facts(active.context),
            "zookeeper": (world.server.tree.zxid, world.server.tree.znodes),
            "requests": len(c.brokers.received),
            "records": len(c.sink.changes),
            "feed": (active.feed._history, active.feed._recorded),
            "unclean elections": active.metrics.unclean_elections.count,
            "random": active.random.getstate(),
            "settings": vars(active.settings),
            "waiting": (list(active._awaiting_leaders), list(active._awaiting_deletion)),
            "to resume": (set(active.reassignments_to_resume), active._resumption is not None),
            "metrics": [
                (family.name, [sample.value for sample in family.samples])
                for family in c.metrics.collect()
                # Ages grow with the time that a rehearsal takes.
                if (family.type == "gauge" and not family.name.endswith("agems")) or "unclean" in family.name
            ],
        }
    )


@contextmanager
def _diagnostics() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_diagnostics("controller", stream=stream)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()


async def _plan_and_real(case: Case, lines: io.StringIO) -> None:
    world, c = await _set_up(case)
    c.controller.feed.follow(WatchRequest())  # type: ignore[union-attr]
    c.brokers.received.clear()
    before, settings_before, state = _partitions(c), await _settings_in_force(world), _state(world, c)
    written = lines.tell()
    dry = await _outcome(c, _dry(case.asked))
    await quiesce()
    # Only the event loop says that it refused a request.
    assert lines.getvalue()[written:].count("\n") == isinstance(dry, tuple)
    assert _state(world, c) == state
    real = await _outcome(c, case.asked)
    await quiesce(2)
    if isinstance(dry, tuple):
        code = _REFUSED_OTHERWISE.get(dry[0], dry[0])
        assert code is getattr(real, "error_code", None) or dry == real
        return
    if isinstance(case.asked, UpdateFeaturesRequest):
        znode = await world.tool.get(FEATURE)
        assert dry.results == real.results
        assert dry.levels == ({} if znode is None else decode_features(znode.data).levels)
        return
    _assert_same_answer(c, dry, real)
    plan: Plan = dry.plan
    after, settings_after = _partitions(c), await _settings_in_force(world)
    assert received(c) == planned(plan)
    planned_for = [TopicPartition(change.topic, change.after.partition) for change in plan.changes]
    assert len(set(planned_for)) == len(planned_for)
    # That a broker leaves makes its replicas offline everywhere; a plan names the partitions that are written.
    assert {tp for tp in before.keys() | after.keys() if _written(before, tp) != _written(after, tp)} <= {*planned_for}
    for change in plan.changes:
        tp = TopicPartition(change.topic, change.after.partition)
        nothing = described_partition(c.context, TopicPartition("nowhere", tp.partition))
        assert (change.before, change.after) == (before.get(tp, nothing), after.get(tp, nothing))
        assert change.before != change.after
    altered = {
        PlannedSetting(*key, settings_before.get(key), settings_after.get(key))
        for key in settings_before.keys() | settings_after.keys()
        if settings_before.get(key) != settings_after.get(key)
    }
    assert set(plan.settings) == altered
    assert len(plan.settings) == len(altered)


_REFUSED_OTHERWISE = {ErrorCode.BROKER_ID_NOT_REGISTERED: ErrorCode.BROKER_NOT_AVAILABLE}
"""A broker asks again until it may shut down; a plan for one that is not there is not to be asked for again."""


def _assert_same_answer(c: RunningController, dry: Any, real: Any) -> None:
    """But for what was waited for in vain, and for ids, which are drawn."""
    if isinstance(real, ControlledShutdownResponse):
        remaining = {TopicPartition(left.topic_name, left.partition_index) for left in real.remaining_partitions}
        leaderless = {TopicPartition(left.topic, left.partition) for left in dry.leaderless}
        assert {tp for tp in leaderless if len(c.context.topics.assignment(tp).replicas) > 1} <= remaining
        return
    shown, happened = list(_results(to_builtins(dry))), list(_results(to_builtins(real)))
    assert len(shown) == len(happened)
    for expected, found in zip(shown, happened, strict=True):
        assert found == expected or found["error_code"] == ErrorCode.REQUEST_TIMED_OUT


def _results(answer: Any) -> Iterator[dict[str, Any]]:
    """Whatever carries a code of its own."""
    for value in answer.values() if isinstance(answer, dict) else answer:
        if isinstance(value, dict | list):
            yield from _results(value)
    if isinstance(answer, dict) and "error_code" in answer:
        yield {name: value for name, value in answer.items() if name != "topic_id"}


ALIKE = {"a": [[1, 2]] * 3, "b": [[1, 2], [2, 1]], "c": [[1]]}
UNCLEAN_TOPIC = _resource(TOPIC_RESOURCE, "a", "unclean.leader.election.enable", "true")
UNCLEAN_EVERYWHERE = _resource(BROKER_RESOURCE, "", "unclean.leader.election.enable", "true")
AWAY = _moves({("c", 0): [2]})


@examples(60, deep=150)
@given(cases)
@example(Case("3.4", ALIKE, [("shut down", 4)], CreateTopicsRequest((NewTopic("new", 4, 2),), 5000)))
@example(Case("3.4", ALIKE, [("orphan", 1, 2)], AlterConfigsRequest((UNCLEAN_TOPIC,))))
@example(Case("3.4", ALIKE, [("orphan", 1, 2)], AlterConfigsRequest((UNCLEAN_EVERYWHERE, UNCLEAN_TOPIC))))
@example(Case("2.6", ALIKE, [("ask", AWAY), ("kill", 1)], _elections(UNCLEAN, [("c", 0)])))
@example(Case("3.4", ALIKE, [("ask", AWAY), ("kill", 1)], _elections(UNCLEAN, [("c", 0)])))
@example(Case("3.4", ALIKE, [("kill", 2), ("break disk", 1, ("a", 0))], _moves({("a", 0): [3], ("b", 0): None})))
@example(Case("3.4", ALIKE, [("kill", 1)], ControlledShutdownRequest(BrokerId(1))))
@example(Case("3.4", ALIKE, [("malformed", "/config/topics/a")], DeleteTopicsRequest((TopicToDelete("a"),), 5000)))
def test_the_plan_is_what_happens_and_making_it_changes_nothing(case: Case) -> None:
    with _diagnostics() as lines:
        run_virtually(lambda: _plan_and_real(case, lines))
