"""The stream of cluster events: which events, for which clients, and how a client learns that it missed some."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.cluster import WatchRequest, WatchResponse
from cluster.requests.elections import PREFERRED
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import delete_topic_path, topic_config_path
from cluster.zookeeper.port import Create
from controller.event_feed import REMEMBERED_MAX, RESPONSE_EVENTS_MAX, EventFeed
from simulator.cluster import VirtualClock
from state_log.record import Kind, StateChange
from tests.controllers.contexts import context
from tests.controllers.elections import cluster, elect, restart_broker, stop_broker
from tests.controllers.worlds import RunningController, quiesce, run_virtually, until

Stream = AsyncIterator[WatchResponse]


async def watch(c: RunningController, cursor: str = "", topics: tuple[str, ...] | None = None) -> Any:
    return await c.ask(WatchRequest(cursor, topics))


async def events_until(stream: Stream, *kinds: str) -> list[Any]:
    """Read until an event of each of these kinds has come, in this order; all events read."""
    events: list[Any] = []
    wanted = list(kinds)
    async for response in stream:
        for event in response.events:
            events.append(event)
            if wanted and event.kind == wanted[0]:
                wanted.pop(0)
        if not wanted:
            break
    return events


def test_a_follower_is_informed_of_what_happens_to_brokers_topics_and_partitions() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        async with aclosing(await watch(c)) as stream:
            greeting = await anext(stream)
            assert (greeting.cursor, greeting.events, greeting.missed) == ("1-0", (), False)
            await world.create_topic("t", [1, 2])
            created, led = await events_until(stream, "topic_created", "leader_changed")
            assert (created.topic, created.controller, created.controller_epoch) == ("t", 1001, 1)
            assert (led.topic, led.partition, led.leader, led.leader_epoch, led.isr) == ("t", 0, 1, 0, (1, 2))
            await stop_broker(world, c, 1)
            left = await events_until(stream, "broker_left", "leader_changed")
            assert [(e.kind, e.broker, e.leader, e.isr) for e in left[:2]] == [
                ("broker_left", 1, -1, ()),
                ("leader_changed", -1, 2, (2,)),
            ]
            await world.start_broker(1)
            assert (await events_until(stream, "broker_joined"))[-1].broker == 1
            await world.tool.multi([Create(topic_config_path("t"), encode_config({"retention.ms": "1"}))])
            change = b'{"version":2,"entity_path":"topics/t"}'
            await world.write(Create("/config/changes/config_change_", change, sequential=True))
            assert (await events_until(stream, "configs_changed"))[-1].topic == "t"
            await world.create(delete_topic_path("t"))
            await events_until(stream, "topic_deletion_started", "topic_deleted")
        await c.stop()

    run_virtually(main)


def test_moves_and_isr_changes_are_reported_with_the_lists_of_replicas() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        async with aclosing(await watch(c)) as stream:
            await restart_broker(world, c, 1)
            (joined,) = [e for e in await events_until(stream, "isr_changed") if e.kind == "isr_changed"]
            assert (joined.leader, joined.isr, joined.replicas) == (2, (2, 1), (1, 2))
            await elect(c, PREFERRED, "t-0")
            assert (await events_until(stream, "leader_changed"))[-1].leader == 1
        await c.stop()

    run_virtually(main)


def test_a_cursor_continues_behind_what_was_read_and_a_foreign_one_says_that_something_is_missing() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        async with aclosing(await watch(c)) as stream:
            await anext(stream)
            await world.create_topic("a", [1])
            await world.create_topic("b", [1])
            first = await anext(stream)
        await until(lambda: "b" in c.context.topics.names)
        await quiesce()
        async with aclosing(await watch(c, first.cursor)) as stream:
            again = await anext(stream)
            assert (again.cursor, again.events, again.missed) == (first.cursor, (), False)
            assert [e.topic for e in (await anext(stream)).events if e.kind == "topic_created"] == ["b"]
        for foreign in ("99-3", "1-999"):
            async with aclosing(await watch(c, foreign)) as stream:
                greeting = await anext(stream)
                assert greeting.missed
                assert [(e.kind, e.controller) for e in greeting.events] == [("controller_changed", 1001)]
                await world.create_topic(f"c{foreign}", [1])
                assert (await events_until(stream, "topic_created"))[-1].kind
        with pytest.raises(ApiError, match="INVALID_REQUEST"):
            await watch(c, "yesterday")
        await c.stop()

    run_virtually(main)


def test_events_of_other_topics_are_left_out_and_those_of_no_topic_come() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        async with aclosing(await watch(c, topics=("b",))) as stream:
            await anext(stream)
            await world.create_topic("a", [1])
            await world.leads("a", leader=1)
            await world.create_topic("b", [1])
            await world.leads("b", leader=1)
            await world.start_broker(2)
            seen = await events_until(stream, "broker_joined")
            assert {e.topic for e in seen} == {"b", ""}
        await c.stop()

    run_virtually(main)


def test_streams_end_with_the_controller_epoch_and_a_standby_has_none() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        standby = world.start_controller(1002)
        await quiesce()
        with pytest.raises(ApiError) as refused:
            await watch(standby)
        assert (refused.value.code, refused.value.leader_address) == (ErrorCode.NOT_CONTROLLER, "controller:10001")
        stream = await watch(c)
        cursor = (await anext(stream)).cursor
        await world.delete("/controller")
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await events_until(stream, "never")
        await until(lambda: c.controller.feed is not None or standby.controller.feed is not None)
        successor = c if standby.controller.feed is None else standby
        async with aclosing(await watch(successor, cursor)) as stream:
            greeting = await anext(stream)
            assert greeting.missed
            assert greeting.events[0].kind == "controller_changed"
        await standby.stop()
        await c.stop()

    run_virtually(main)


def changes(count: int, first: int = 0) -> list[StateChange]:
    return [StateChange(kind=Kind.BROKER, to_state="live", broker=first + n) for n in range(count)]


def test_what_nobody_follows_is_not_remembered() -> None:
    async def main() -> None:
        feed = EventFeed(ControllerEpoch(7), ControllerId(1), VirtualClock())
        feed.record(changes(3))
        feed.publish(context())
        feed.publish_settings_of("t")
        stream = feed.follow(WatchRequest())
        assert (await anext(stream)).cursor == "7-0"

    run_virtually(main)


def test_a_large_event_comes_in_several_responses() -> None:
    async def main() -> None:
        feed = EventFeed(ControllerEpoch(7), ControllerId(1), VirtualClock())
        stream = feed.follow(WatchRequest())
        await anext(stream)
        feed.record(changes(RESPONSE_EVENTS_MAX))
        feed.record(changes(2, first=RESPONSE_EVENTS_MAX))
        feed.publish(context())
        responses = [await anext(stream), await anext(stream)]
        assert [len(r.events) for r in responses] == [RESPONSE_EVENTS_MAX, 2]
        assert [r.cursor for r in responses] == ["7-1", "7-2"]

    run_virtually(main)


@pytest.mark.parametrize("topics", [None, ("t",)])
def test_a_slow_follower_costs_no_memory_and_learns_that_it_fell_behind(topics: tuple[str, ...] | None) -> None:
    async def main() -> None:
        feed = EventFeed(ControllerEpoch(7), ControllerId(1), VirtualClock())
        slow = feed.follow(WatchRequest(topics=topics))
        await anext(slow)
        for round_ in range(3):
            feed.record(changes(REMEMBERED_MAX // 2, first=round_ * REMEMBERED_MAX))
            feed.publish(context())
        assert sum(len(events) for events in feed._history.values()) <= REMEMBERED_MAX
        behind = await anext(slow)
        assert behind.missed
        assert behind.events[0].broker == REMEMBERED_MAX
        count = len(behind.events)
        while count < REMEMBERED_MAX:
            response = await anext(slow)
            assert not response.missed
            count += len(response.events)
        late = feed.follow(WatchRequest(cursor="7-0", topics=topics))
        assert not (await anext(late)).missed
        assert (await anext(late)).missed

    run_virtually(main)
