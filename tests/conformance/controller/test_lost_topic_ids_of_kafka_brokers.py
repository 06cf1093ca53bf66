"""Lost topic ids where the brokers are of Apache Kafka: what they are asked, and which answers count."""

import pytest

from cluster.model.broker import TopicId
from tests.controllers.topics_without_ids import (
    KNOWN,
    OTHER,
    KafkasBrokers,
    findings,
    id_in_znode,
    led_topic,
    metadata_ids,
)
from tests.controllers.worlds import quiesce, run_virtually, until
from tests.kafka.old_tools import rewrite_as_old_tool


@pytest.mark.rule("D-102")
def test_brokers_of_kafka_are_asked_before_metadata_make_them_forget() -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        c = world.start_controller(1002)
        KafkasBrokers.of(c, {1: {"t": KNOWN}, 2: {}})
        await until(lambda: c.is_active)
        await until(lambda: c.context.topics.ids.get("t") == KNOWN)
        await quiesce()
        assert set(metadata_ids(c, 1)) == set(metadata_ids(c, 2)) == {KNOWN}
        assert await id_in_znode(world) == KNOWN
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
@pytest.mark.parametrize(
    ("cached", "logged", "why"),
    [
        ({1: {}, 2: {}}, {1: {"t": KNOWN}, 2: {"t": KNOWN}}, "broker 1, 2 has it under an id that only its log dir"),
        ({1: {"t": OTHER}, 2: {"t": OTHER}}, {1: {"t": KNOWN}, 2: {"t": KNOWN}}, "broker 1, 2 has it under an id that"),
        ({1: {"t": OTHER}, 2: {"t": KNOWN}}, {}, "broker 1 knows it as"),
        ({1: {"t": OTHER}, 2: {"t": KNOWN}}, {1: {"t": KNOWN}}, ""),
        ({1: {}, 2: {"t": KNOWN}}, {1: {"t": KNOWN}}, ""),
        ({1: {}, 2: {}}, {}, "invented"),
    ],
    ids=["restarted", "damaged before", "they disagree", "one damaged", "one restarted", "never had one"],
)
def test_what_brokers_of_kafka_name_counts_only_where_their_logs_take_it(
    cached: dict[int, dict[str, TopicId]], logged: dict[int, dict[str, TopicId | None]], why: str
) -> None:
    async def main() -> None:
        world, c = await led_topic(1, 2)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        c = world.start_controller(1002)
        KafkasBrokers.of(c, cached).logged = logged
        await until(lambda: c.is_active)
        await quiesce(300)
        given = await id_in_znode(world)
        assert given == c.context.topics.ids.get("t")
        if why and why != "invented":
            (finding,) = await findings(c)
            assert why in finding.detail
            assert given is None
            assert set(metadata_ids(c, 1)) == {None}
        else:
            assert await findings(c) == []
            assert (given not in (None, KNOWN, OTHER)) if why else (given == KNOWN)
            assert set(metadata_ids(c, 1)) == {given}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-102")
def test_metadata_wait_for_a_silent_broker_of_kafka_only_for_seconds() -> None:
    """Others need them, for instance to find a new leader."""

    async def main() -> None:
        world, c = await led_topic(1, 2)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        c = world.start_controller(1002)
        brokers = KafkasBrokers.of(c, {1: {}, 2: {"t": KNOWN}})
        brokers.logged = {2: {"t": KNOWN}}
        brokers.unreachable.add(2)
        await until(lambda: c.is_active)
        await until(lambda: metadata_ids(c, 1), deadline_s=12)
        assert set(metadata_ids(c, 1)) == {None}
        brokers.unreachable.clear()
        await quiesce(300)
        # It has forgotten it, but not its logs.
        assert c.context.topics.ids.get("t") is None
        assert await findings(c)
        await c.stop()

    run_virtually(main)
