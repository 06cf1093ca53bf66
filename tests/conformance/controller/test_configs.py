"""Configs that change while the controller runs, written by tools or through the API."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from cluster.model.errors import ErrorCode
from cluster.requests.configs import (
    BROKER_RESOURCE,
    CLIENT_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigResource,
    DescribeConfigsRequest,
    DescribedConfig,
)
from cluster.requests.plans import PlannedSetting
from cluster.requests.topics import CreatePartitionsRequest, NewPartitions
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.znodes.paths import CONFIG_CHANGES, topic_config_path, topic_path
from cluster.zookeeper.port import Check, Create, Op, SetData
from state_log.record import Kind
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster

E = ErrorCode
UNCLEAN = "unclean.leader.election.enable"
FETCHERS = "num.replica.fetchers"
DEFAULT = ConfigEntity("brokers", "<default>")
OWN = ConfigEntity("brokers", "1001")
TOPIC = ConfigEntity("topics", "t")


async def without_a_clean_leader(**settings: Any) -> tuple[World, RunningController]:
    """Broker 1, the last in sync, is dead; broker 2 lives and could lead, with losses."""
    world, c = await running_cluster(1, 2, **settings)
    await world.create_topic("t", [1, 2])
    await world.create_topic("u", [1, 2])
    await world.leads("t", leader=1)
    await world.leads("u", leader=1)
    for broker in (2, 1):
        await world.stop_broker(broker)
        await quiesce()
    await world.start_broker(2)
    await quiesce()
    assert [(await world.leads(topic, leader=-1)).isr for topic in "tu"] == [(1,), (1,)]
    return world, c


async def put(world: World, entity: ConfigEntity, *, announced: bool = True, **config: str) -> None:
    """As Kafka's tools do it."""
    body = encode_config({key.replace("_", "."): value for key, value in config.items()})
    if world.server.tree.get(entity.path) is None:
        await world.create(entity.path, body)
    else:
        await world.write(SetData(entity.path, body))
    if announced:
        await announce(world, entity)


async def announce(world: World, entity: ConfigEntity) -> None:
    await world.write(Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True))


@pytest.mark.rule("EP-30", "EP-32", "PS-20")
def test_a_topic_that_allows_unclean_leaders_gets_one_once_that_is_announced() -> None:
    async def main() -> None:
        world, c = await without_a_clean_leader()
        await put(world, TOPIC, announced=False, unclean_leader_election_enable="true")
        await quiesce(5)
        await world.leads("t", leader=-1)
        await announce(world, TOPIC)
        assert (await world.leads("t", leader=2)).isr == (2,)
        await quiesce()
        assert c.metrics.meter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec").count == 1
        await world.leads("u", leader=-1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-31", "EP-32")
@pytest.mark.parametrize("entity", [DEFAULT, OWN])
def test_the_brokers_setting_counts_for_every_topic_that_does_not_say_otherwise(entity: ConfigEntity) -> None:
    async def main() -> None:
        world, c = await without_a_clean_leader()
        await put(world, ConfigEntity("topics", "u"), unclean_leader_election_enable="false")
        await put(world, entity, unclean_leader_election_enable="true")
        await world.leads("t", leader=2)
        await quiesce()
        await world.leads("u", leader=-1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-31")
def test_a_controllers_own_setting_is_above_that_of_all_and_both_above_its_file() -> None:
    async def main() -> None:
        world, c = await without_a_clean_leader()
        await put(world, OWN, unclean_leader_election_enable="false")
        await put(world, DEFAULT, unclean_leader_election_enable="true")
        await quiesce()
        await world.leads("t", leader=-1)
        await put(world, OWN, unclean_leader_election_enable="perhaps")
        await world.leads("t", leader=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-31", "EP-34")
def test_a_candidate_that_comes_later_decides_by_the_settings_it_finds() -> None:
    async def main() -> None:
        world, first = await without_a_clean_leader()
        await first.stop()
        # Announced or not: whoever starts reads it.
        await put(world, DEFAULT, announced=False, unclean_leader_election_enable="true")
        second = world.start_controller(1002)
        await world.leads("t", leader=2)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("EP-33")
def test_turning_it_on_under_a_live_leader_or_off_again_changes_nothing() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        before = await world.leads("t", leader=1)
        for value in ("true", "false"):
            await put(world, TOPIC, unclean_leader_election_enable=value)
            await put(world, DEFAULT, unclean_leader_election_enable=value)
            await quiesce()
        assert await world.state("t") == before
        await world.stop_broker(2)
        await quiesce()
        await world.stop_broker(1)
        await quiesce()
        await world.start_broker(2)
        await quiesce()
        await world.leads("t", leader=-1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-34", "ZK-3", "ZK-5")
def test_old_announcements_go_and_those_that_name_nobody_stop_nothing() -> None:
    async def main() -> None:
        world, c = await without_a_clean_leader()
        await world.write(Create(CONFIG_CHANGE_PREFIX, b"not JSON", sequential=True))
        await world.write(Create(CONFIG_CHANGE_PREFIX, b'{"version":3,"entity_path":"topics/t"}', sequential=True))
        old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
        await put(world, TOPIC, announced=False, unclean_leader_election_enable="true")
        await world.write(Create(CONFIG_CHANGE_PREFIX, old, sequential=True))
        await world.leads("t", leader=2)
        await quiesce(14 * 60)
        await announce(world, ConfigEntity("topics", "u"))
        await quiesce()
        assert len(world.server.tree.children(CONFIG_CHANGES) or ()) == 4
        await quiesce(2 * 60)
        await announce(world, ConfigEntity("topics", "u"))
        await quiesce()
        assert len(world.server.tree.children(CONFIG_CHANGES) or ()) == 2
        name = "TopicUncleanLeaderElectionEnableRateAndTimeMs"
        assert c.metrics.timer("kafka.controller", "ControllerStats", name).count == 1, "each change is heard once"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-34", "ZC-6")
def test_changes_made_while_a_session_was_lost_are_handled_in_the_next_one() -> None:
    async def main() -> None:
        world, c = await without_a_clean_leader()
        c.zookeeper.pause()
        await quiesce(10)
        await put(world, TOPIC, unclean_leader_election_enable="true")
        await put(world, DEFAULT, unclean_leader_election_enable="true")
        c.zookeeper.resume()
        await world.leads("t", leader=2)
        await put(world, DEFAULT, unclean_leader_election_enable="false")
        await quiesce()
        await put(world, DEFAULT, unclean_leader_election_enable="true")
        await world.leads("u", leader=2)
        await c.stop()

    run_virtually(main)


def change(name: str, value: str | None, operation: int | None = None) -> AlterableConfig:
    return AlterableConfig(
        name, (DELETE_CONFIG if value is None else SET_CONFIG) if operation is None else operation, value
    )


def of_topic(*configs: AlterableConfig, name: str = "t") -> AlterConfigsResource:
    return AlterConfigsResource(TOPIC_RESOURCE, name, configs)


def of_brokers(*configs: AlterableConfig, name: str = "") -> AlterConfigsResource:
    return AlterConfigsResource(BROKER_RESOURCE, name, configs)


async def alter(c: RunningController, *resources: AlterConfigsResource, **options: Any) -> list[ErrorCode]:
    answer = await c.ask(AlterConfigsRequest(resources, **options))
    return [response.error_code for response in answer.responses]


def stored(world: World, entity: ConfigEntity) -> Any:
    znode = world.server.tree.get(entity.path)
    return None if znode is None else msgspec.json.decode(znode.data)


def announcements(world: World) -> list[Any]:
    names = world.server.tree.children(CONFIG_CHANGES) or ()
    znodes = [world.server.tree.get(f"{CONFIG_CHANGES}/{name}") for name in names]
    return [msgspec.json.decode(znode.data) for znode in znodes if znode is not None]


@pytest.mark.rule("TP-1", "EP-30", "EP-31")
def test_altered_settings_stand_where_kafkas_tools_read_and_are_announced_to_all() -> None:
    async def main() -> None:
        world, c = await without_a_clean_leader()
        await put(world, TOPIC, announced=False, retention_ms="5", an_old_key="kept")
        codes = await alter(
            c,
            of_topic(change(UNCLEAN, "true"), change("retention.ms", None)),
            of_brokers(change(UNCLEAN, "false")),
            of_brokers(change(UNCLEAN, "false"), name="07"),
        )
        assert codes == [E.NONE] * 3
        assert stored(world, TOPIC) == {"version": 1, "config": {UNCLEAN: "true", "an.old.key": "kept"}}
        assert stored(world, DEFAULT) == {"version": 1, "config": {UNCLEAN: "false"}}
        assert stored(world, ConfigEntity("brokers", "7")) == {"version": 1, "config": {UNCLEAN: "false"}}
        paths = ["topics/t", "brokers/<default>", "brokers/7"]
        assert announcements(world) == [{"version": 2, "entity_path": path} for path in paths]
        await world.leads("t", leader=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-53")
def test_a_request_that_changes_min_insync_replicas_is_recorded_with_its_call() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, min_insync_replicas=1)
        for topic in "tu":
            await world.create_topic(topic, [1, 2])
            await world.leads(topic, leader=1)
        await quiesce()

        def of(value: str | None, name: str) -> AlterConfigsResource:
            return of_topic(change("min.insync.replicas", value), change("retention.ms", "5"), name=name)

        for values in (("2", "1"), ("2", "2"), (None, "2")):
            assert await alter(c, *map(of, values, "tu"), of_brokers(change(UNCLEAN, "false"))) == [E.NONE] * 3
        assert await alter(c, of("2", "t"), validate_only=True) == [E.NONE]
        found = [record for record in c.sink.changes if record.kind is Kind.CONFIG]
        assert [(r.topic, r.min_insync_replicas) for r in found] == [("t", 2), ("u", 2), ("t", 1)]
        assert {(r.cause and r.cause.event, r.partition, r.to_state) for r in found} == {
            ("AlterConfigsReceived", None, None)
        }
        assert all(r.topic_id and r.controller_epoch == 1 and r.principal for r in found)
        await c.stop()

    run_virtually(main)


REFUSED: list[tuple[AlterConfigsResource, ErrorCode, str]] = [
    (of_topic(change("retention.ms", "1"), name="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic unknown"),
    (of_topic(change("no.such.key", "1")), E.INVALID_CONFIG, "unknown topic config no.such.key"),
    (of_topic(change("retention.ms", "soon")), E.INVALID_CONFIG, "retention.ms='soon': must be a whole number"),
    (of_topic(change("retention.ms", None, SET_CONFIG)), E.INVALID_REQUEST, "retention.ms needs a value"),
    (of_topic(change("retention.ms", "1", 2)), E.INVALID_REQUEST, "operation 2 is neither"),
    (
        of_topic(change("retention.ms", "1"), change("retention.ms", None)),
        E.INVALID_REQUEST,
        "retention.ms is altered twice",
    ),
    (of_brokers(change("num.io.threads", "9")), E.INVALID_CONFIG, "num.io.threads of a broker cannot be changed"),
    (of_brokers(change("no.such.key", "9")), E.INVALID_CONFIG, "unknown config 'no.such.key'"),
    (of_brokers(change(UNCLEAN, "1")), E.INVALID_CONFIG, "must be true or false"),
    (
        of_brokers(change("log.level", "loud")),
        E.INVALID_CONFIG,
        "log.level='loud': must be one of debug, info, warning, error",
    ),
    (of_brokers(change(UNCLEAN, "true"), name="one"), E.INVALID_REQUEST, "named by its number"),
    (AlterConfigsResource(8, "x", ()), E.INVALID_REQUEST, "resource type 8"),
]


@pytest.mark.parametrize(("resource", "code", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_makes_no_sense_is_refused_by_name_and_the_rest_is_done(
    resource: AlterConfigsResource, code: ErrorCode, message: str
) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        for topic in ("t", "u"):
            await world.create_topic(topic, [1])
            await world.leads(topic, leader=1)
        answer = await c.ask(AlterConfigsRequest((resource, of_topic(change("retention.ms", "7"), name="u"))))
        refused, done = answer.responses
        assert refused.error_code is code
        assert message in refused.error_message
        assert done.error_code is E.NONE
        assert announcements(world) == [{"version": 2, "entity_path": "topics/u"}]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-33")
def test_the_log_level_of_a_controller_follows_its_own_override_then_that_of_all_then_its_file() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        applied: list[str] = []
        for resource, expected in [
            (of_brokers(change("log.level", "error")), "error"),
            (of_brokers(change("log.level", "DEBUG"), name="1001"), "debug"),
            (of_brokers(change("log.level", "error"), name="1002"), "debug"),
            (of_brokers(change("log.level", None), name="1001"), "error"),
            (of_brokers(change("log.level", None)), "info"),
        ]:
            assert await alter(c, resource) == [E.NONE]
            await quiesce()
            applied.append(c.log_level.value)
            assert applied[-1] == expected
        await put(world, DEFAULT, log_level="loud")
        await quiesce()
        assert c.log_level.value == "info"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-33")
def test_the_log_level_outlives_a_restart_and_a_dry_run_leaves_it() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        loud = of_brokers(change("log.level", "debug"), name="1001")
        assert await alter(c, loud, validate_only=True) == [E.NONE]
        await quiesce()
        assert c.log_level.value == "info"
        assert await alter(c, loud) == [E.NONE]
        await c.stop()
        again = world.start_controller()
        await quiesce()
        assert again.log_level.value == "debug"
        await again.stop()

    run_virtually(main)


def test_a_resource_named_twice_is_refused_twice_and_validation_writes_nothing() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        same = of_topic(change("retention.ms", "1"))
        assert await alter(c, same, same) == [E.INVALID_REQUEST] * 2
        assert await alter(c, same, validate_only=True) == [E.NONE]
        assert stored(world, TOPIC) is None
        assert announcements(world) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.parametrize("client", ["reports", "team a/b", ""])
def test_a_dry_run_shows_which_quotas_of_clients_would_change(client: str) -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        quota = AlterConfigsResource(CLIENT_RESOURCE, client, (change("producer_byte_rate", "9"),))
        planned = (await c.ask(AlterConfigsRequest((quota,), validate_only=True))).plan
        assert planned is not None
        assert planned.settings == (PlannedSetting(CLIENT_RESOURCE, client, "producer_byte_rate", None, "9"),)
        assert await alter(c, quota) == [ErrorCode.NONE]
        planned = (await c.ask(AlterConfigsRequest((quota,), validate_only=True))).plan
        assert planned is not None
        assert planned.settings == ()
        await c.stop()

    run_virtually(main)


def test_a_node_that_cannot_be_read_is_not_overwritten() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await world.create(topic_config_path("t"), b"not JSON")
        assert await alter(c, of_topic(change("retention.ms", "1"))) == [E.INVALID_CONFIG]
        znode = world.server.tree.get(topic_config_path("t"))
        assert znode is not None
        assert znode.data == b"not JSON"
        (described,) = (await c.ask(DescribeConfigsRequest((ConfigResource(TOPIC_RESOURCE, "t"),)))).results
        assert described.error_code is E.INVALID_CONFIG
        await c.stop()

    run_virtually(main)


async def describe(c: RunningController, *resources: ConfigResource) -> list[tuple[ErrorCode, list[DescribedConfig]]]:
    answer = await c.ask(DescribeConfigsRequest(resources))
    return [(result.error_code, list(result.configs)) for result in answer.results]


def test_described_settings_say_where_each_value_comes_from() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        of_all = of_brokers(change(UNCLEAN, "true"))
        of_one = of_brokers(change(FETCHERS, "4"), name="1")
        assert await alter(c, of_topic(change("retention.ms", "7")), of_all, of_one) == [E.NONE] * 3
        keys = ("retention.ms", "segment.bytes", UNCLEAN)
        topic, default, own, unknown = await describe(
            c,
            ConfigResource(TOPIC_RESOURCE, "t", keys),
            ConfigResource(BROKER_RESOURCE, ""),
            ConfigResource(BROKER_RESOURCE, "1"),
            ConfigResource(TOPIC_RESOURCE, "nothing"),
        )
        assert topic == (
            E.NONE,
            [
                DescribedConfig("retention.ms", "7", False, 1),
                DescribedConfig("segment.bytes", "1073741824", False, 5),
                DescribedConfig(UNCLEAN, "true", False, 3),
            ],
        )
        unclean = DescribedConfig(UNCLEAN, "true", False, 3)
        level = DescribedConfig("log.level", "info", False, 5)
        copies = DescribedConfig("replica.alter.log.dirs.io.max.bytes.per.second", str(2**63 - 1), False, 5)
        assert default == (E.NONE, [level, DescribedConfig(FETCHERS, "1", False, 5), copies, unclean])
        assert own == (E.NONE, [level, DescribedConfig(FETCHERS, "4", False, 2), copies, unclean])
        assert unknown == (E.UNKNOWN_TOPIC_OR_PARTITION, [])
        await c.stop()

    run_virtually(main)


def meddle(world: World, path: str, *, times: int) -> None:
    """Let somebody else write the node just before the next transactions that do."""
    carry_out = world.server.write
    left = times

    def write(session: Any, ops: Sequence[Op]) -> Any:
        nonlocal left
        if left > 0 and any(op.path == path and not isinstance(op, Check) for op in ops):
            left -= 1
            znode = world.server.tree.get(path)
            body = encode_config({"flush.ms": str(left)}) if znode is None or b"flush" in znode.data else znode.data
            carry_out(session, [Create(path, body) if znode is None else SetData(path, body)])
        return carry_out(session, ops)

    world.server.write = write  # type: ignore[method-assign]


def test_settings_that_somebody_else_changes_meanwhile_keep_both_changes() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        meddle(world, TOPIC.path, times=2)
        assert await alter(c, of_topic(change("retention.ms", "1"))) == [E.NONE]
        assert stored(world, TOPIC)["config"] == {"flush.ms": "0", "retention.ms": "1"}
        assert len(announcements(world)) == 1
        meddle(world, TOPIC.path, times=100)
        assert await alter(c, of_topic(change("retention.ms", "2"))) == [E.OPERATION_NOT_ATTEMPTED]
        await c.stop()

    run_virtually(main)


def test_an_expansion_that_races_with_a_tool_is_not_attempted() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        meddle(world, topic_path("t"), times=1)
        answer = await c.ask(CreatePartitionsRequest((NewPartitions("t", 2),)))
        assert [result.error_code for result in answer.results] == [E.OPERATION_NOT_ATTEMPTED]
        await c.stop()

    run_virtually(main)
