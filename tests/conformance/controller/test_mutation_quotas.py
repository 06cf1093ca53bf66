"""Clients may create and delete so many partitions a second; strictly where they know the error."""

import asyncio
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.requests.context import RequestContext
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ListTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from cluster.security.identities import Identity
from cluster.security.principals import USER, Principal
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.zookeeper.port import Create, SetData
from tests.conformance.agent.test_metrics import scrape
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

RATE = "controller_mutation_rate"
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def set_quota(world: World, name: str, type_: str = "clients", **configs: str) -> None:
    entity = ConfigEntity(type_, name)
    parts = entity.path.split("/")
    for path in ("/".join(parts[:length]) for length in range(4, len(parts) + 1)):
        if world.server.tree.get(path) is None:
            await world.create(path)
    await world.write(
        SetData(entity.path, encode_config(configs)),
        Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True),
    )
    await quiesce()


async def limited(rate: str, **settings: Any) -> tuple[World, RunningController]:
    world, c = await running_cluster(1, controller_quota_window_num=10, **settings)
    await set_quota(world, "app", **{RATE: rate})
    return world, c


class Client:
    """One connection of a client; `knows`: whether it knows the error."""

    def __init__(
        self, c: RunningController, client_id: str = "app", port: int = 5, *, knows: bool = True, user: str = ""
    ) -> None:
        self.c = c
        identity = Identity(Principal(USER, user)) if user else Identity()
        peer = f"ipv4:1.2.3.4:{port}"
        self.context = RequestContext(peer=peer, client_id=client_id, knows_quota_error=knows, identity=identity)

    async def ask(self, request: Any) -> Any:
        return await self.c.node.handle(self.context, request)

    async def create(self, *topics: tuple[str, int], **options: Any) -> tuple[list[ErrorCode], int]:
        """The codes, and the time for which it is throttled."""
        new = tuple(NewTopic(name, count, 1) for name, count in topics)
        response = await self.ask(CreateTopicsRequest(new, **options))
        return [topic.error_code for topic in response.topics], response.throttle_time_ms


@pytest.mark.rule("MQ-1", "MQ-2")
def test_topics_beyond_the_quota_are_refused_one_by_one_with_the_time_to_wait() -> None:
    async def main() -> None:
        # Two a second, and twenty at once.
        _, c = await limited("2")
        client = Client(c)
        codes, throttled_ms = await client.create(("a", 15), ("bad name", 1), ("b", 15), ("c", 1), ("d", 1))
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE, THROTTLED, THROTTLED]
        # Ten too many at two a second.
        assert throttled_ms == pytest.approx(5000, abs=50)
        # Nothing that it sends on this connection is heard, and on another one it is refused at once.
        other = Client(c, port=6)
        (result,) = (await other.ask(CreateTopicsRequest((NewTopic("c", 1, 1),)))).topics
        assert result.error_code is THROTTLED
        assert result.error_message == (
            "client 'app' may create and delete 2 partitions per second (controller_mutation_rate), and these are used "
            "up; try again in 5.0 s"
        )
        began = asyncio.get_running_loop().time()
        assert {topic.name for topic in (await client.ask(ListTopicsRequest())).topics} == {"a", "b"}
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)
        # Now there are tokens again.
        assert await client.create(("c", 1)) == ([ErrorCode.NONE], 0)
        samples = scrape(c.metrics)
        of_client = '{client_id="app",user=""}'
        assert samples["kafka_server_controllermutation_tokens" + of_client] == pytest.approx(-1, abs=0.2)
        assert samples["kafka_server_controllermutation_mutation_rate" + of_client] == pytest.approx(31 / 5, abs=0.3)
        assert samples["kafka_server_controllermutation_throttle_time" + of_client] == pytest.approx(500, abs=100)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("MQ-1")
def test_new_partitions_and_deleted_ones_count_and_dry_runs_and_refused_topics_do_not() -> None:
    async def main() -> None:
        _, c = await limited("1")
        client = Client(c)
        codes, _ = await client.create(("a", 2), validate_only=True)
        assert codes == [ErrorCode.NONE]
        for _ in range(20):
            assert (await client.create(("not valid", 5)))[0] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert (await client.create(("a", 4), ("b", 2)))[0] == [ErrorCode.NONE] * 2
        grown = await client.ask(CreatePartitionsRequest((NewPartitions("b", 3), NewPartitions("a", 9))))
        assert [result.error_code for result in grown.results] == [ErrorCode.NONE] * 2
        grown = await client.ask(CreatePartitionsRequest((NewPartitions("a", 10),)))
        assert [result.error_code for result in grown.results] == [THROTTLED]
        assert grown.throttle_time_ms == pytest.approx(2000, abs=100)
        deleted = await client.ask(DeleteTopicsRequest((TopicToDelete("a"), TopicToDelete("b"))))
        assert [result.error_code for result in deleted.responses] == [ErrorCode.NONE, THROTTLED]
        assert deleted.throttle_time_ms == pytest.approx(9000, abs=100)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("MQ-3")
def test_for_a_client_that_does_not_know_the_error_it_is_done_and_its_connection_waits() -> None:
    async def main() -> None:
        _, c = await limited("2")
        client, loop = Client(c, knows=False), asyncio.get_running_loop()
        codes, throttled_ms = await client.create(("a", 15), ("b", 15), ("c", 2))
        assert (codes, throttled_ms) == ([ErrorCode.NONE] * 3, pytest.approx(6000, abs=50))
        began = loop.time()
        assert (await client.create(("d", 1)))[0] == [ErrorCode.NONE]
        assert loop.time() - began == pytest.approx(6, abs=0.1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("MQ-4")
def test_others_are_not_limited_and_the_default_is_for_those_without_a_quota_of_their_own() -> None:
    async def main() -> None:
        world, c = await limited("1000")
        await set_quota(world, "<default>", **{RATE: "1"})
        assert await Client(c).create(("a", 100), ("b", 100)) == ([ErrorCode.NONE] * 2, 0)
        for client in (Client(c, "other"), Client(c, "", port=7)):
            name = client.context.client_id or "nobody"
            codes, _ = await client.create((f"{name}-1", 11), (f"{name}-2", 1))
            assert codes == [ErrorCode.NONE, THROTTLED]
        await set_quota(world, "<default>")
        assert await Client(c, "other", port=8).create(("e", 100)) == ([ErrorCode.NONE], 0)
        # What is no number is as if there were none.
        await set_quota(world, "app", **{RATE: "many"})
        assert await Client(c, port=9).create(("f", 1000), ("g", 1000)) == ([ErrorCode.NONE] * 2, 0)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("MQ-4")
def test_a_controller_that_is_elected_later_has_the_quotas() -> None:
    async def main() -> None:
        world, c = await limited("2")
        later = world.start_controller(1002, controller_quota_window_num=10)
        await quiesce()
        await c.stop()
        await until(lambda: later.is_active, "active")
        codes, _ = await Client(later).create(("a", 30), ("b", 1))
        assert codes == [ErrorCode.NONE, THROTTLED]
        await later.stop()

    run_virtually(main)


@pytest.mark.rule("MQ-2", "MQ-3")
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("rate", ["1e-9", "1e-320"])
def test_a_wait_of_years_is_said_as_far_as_it_can_be(rate: str, knows: bool) -> None:
    async def main() -> None:
        _, c = await limited(rate)
        client = Client(c, knows=knows)
        codes, throttled_ms = await client.create(("a", 1), ("b", 1))
        assert codes == [ErrorCode.NONE, THROTTLED if knows else ErrorCode.NONE]
        assert throttled_ms == 2**31 - 1
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("MQ-4")
def test_a_user_has_one_quota_whatever_its_clients_call_themselves() -> None:
    async def main() -> None:
        world, c = await limited("1000")
        await set_quota(world, "ann", "users", **{RATE: "1"})
        await set_quota(world, "ann/clients/free", "users", **{RATE: "1000"})
        assert (await Client(c, "app", user="ann").create(("a", 11)))[0] == [ErrorCode.NONE]
        (result,) = (
            await Client(c, "other", port=6, user="ann").ask(CreateTopicsRequest((NewTopic("b", 1, 1),)))
        ).topics
        assert (result.error_code, str(result.error_message)[:40]) == (
            THROTTLED,
            "user 'ann' may create and delete 1 parti",
        )
        assert (await Client(c, "free", port=7, user="ann").create(("c", 11), ("d", 1)))[0] == [ErrorCode.NONE] * 2
        assert (await Client(c, "app", port=8, user="bob").create(("e", 11), ("f", 1)))[0] == [ErrorCode.NONE] * 2
        await c.stop()

    run_virtually(main)
