"""Quotas of clients on a real agent: who is over one is throttled, with the time in the answer."""

import asyncio
from typing import Any

import pytest

from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.context import RequestContext
from cluster.requests.data import (
    LATEST_TIMESTAMP,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.security.identities import Identity
from cluster.security.principals import USER, Principal
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TOPIC_ID, AgentProcess, AgentWorld, virtually
from tests.conformance.agent.test_data_requests import lead_alone
from tests.conformance.agent.test_metrics import scrape
from tests.conformance.agent.test_replication_throttles import Operator

PRODUCER, CONSUMER, PERCENTAGE = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
SIZE = 1000
REQUEST_TIME = 'kafka_server_request_request_time{client_id="%s",user=""}'
QUESTION = ListOffsetsRequest(BrokerId(-1), (ListOffsetsPartition(TOPIC, 0, LATEST_TIMESTAMP),))


class Client:
    """One connection of a client."""

    def __init__(
        self, process: AgentProcess, client_id: str, connection: str = "ipv4:1.2.3.4:5", user: str = ""
    ) -> None:
        identity = Identity(Principal(USER, user)) if user else Identity()
        self.process = process
        self.context = RequestContext(peer=connection, client_id=client_id, identity=identity)

    async def ask(self, request: Any) -> tuple[Any, float]:
        """The response, and the seconds it took."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        return await self.process.node.handle(self.context, request), loop.time() - start

    async def produce(self) -> tuple[int, float]:
        """Produce SIZE bytes; the throttle time in ms, and the seconds it took."""
        batch = encode_client_batch(b"x" * (SIZE - 100), timestamp=self.process.world.clock.now_ms())
        batch = encode_client_batch(b"x" * (2 * SIZE - 100 - len(batch)), timestamp=self.process.world.clock.now_ms())
        assert abs(len(batch) - SIZE) < 5
        response, took_s = await self.ask(ProduceRequest(1, 1000, (ProducePartition(TOPIC, 0, batch),)))
        assert response.partitions[0].error_code is ErrorCode.NONE
        return response.throttle_time_ms, took_s

    async def fetch(
        self, offset: int = 0, *, replica: int = -1, max_bytes: int = SIZE + 50
    ) -> tuple[FetchResponse, float]:
        item = FetchPartition(TOPIC, TOPIC_ID, 0, Offset(offset), 1 << 20)
        response, took_s = await self.ask(FetchRequest(BrokerId(replica), (item,), 0, 1, max_bytes))
        return response, took_s


def size_of(response: FetchResponse) -> int:
    return sum(len(item.records) for item in response.partitions)


async def world_with_quota(**configs: str) -> tuple[AgentWorld, AgentProcess, Operator]:
    world = AgentWorld()
    process = await lead_alone(world)
    operator = Operator(world)
    await operator.set("clients/app", **configs)
    return world, process, operator


@pytest.mark.rule("R18.6")
@virtually
async def test_a_producer_over_its_quota_is_throttled_before_its_next_request() -> None:
    world, process, _ = await world_with_quota(**{PRODUCER: "200"})
    client = Client(process, "app")
    # 2,000 bytes fit into the window of ten seconds.
    assert await client.produce() == (0, 0)
    assert await client.produce() == (pytest.approx(0, abs=50), 0)
    throttled_ms, took_s = await client.produce()
    assert throttled_ms == pytest.approx(5000, rel=0.02)
    assert took_s == 0
    # Everything that it sends meanwhile waits, and other connections and clients do not.
    assert await Client(process, "other").produce() == (0, 0)
    assert await Client(process, "").produce() == (0, 0)
    _, waited_s = await client.produce()
    assert waited_s == pytest.approx(throttled_ms / 1000)
    await world.stop()


@pytest.mark.rule("R18.7")
@virtually
async def test_a_consumer_over_its_quota_gets_its_records_later() -> None:
    world, process, _ = await world_with_quota(**{CONSUMER: "200"})
    for _ in range(4):
        await Client(process, "").produce()
    client = Client(process, "app")
    for offset in (0, 1):
        response, _ = await client.fetch(offset)
        assert (size_of(response) > 0, response.throttle_time_ms) == (True, pytest.approx(0, abs=50))
    response, _ = await client.fetch(2)
    assert (response.partitions, response.throttle_time_ms) == ((), pytest.approx(5000, rel=0.02))
    waited_s = 0.0
    while not size_of(response):
        response, took_s = await client.fetch(2)
        waited_s += took_s
    assert 4.8 < waited_s < 16
    # Followers have quotas of their own.
    assert (await Client(process, "app", "ipv4:9.9.9.9:9").fetch(0, replica=2))[0].throttle_time_ms == 0
    await world.stop()


@pytest.mark.rule("R18.7", "R5.12")
@virtually
async def test_a_consumer_over_its_quota_stays_in_its_session_and_gets_its_records_later() -> None:
    world, process, _ = await world_with_quota(**{CONSUMER: "200"})
    for _ in range(3):
        await Client(process, "").produce()
    client, numbers = Client(process, "app"), iter(range(1000))

    async def fetch(session_id: int, *offset: int) -> FetchResponse:
        items = tuple(FetchPartition(TOPIC, TOPIC_ID, 0, Offset(value), 1 << 20) for value in offset)
        in_session = {"session_id": session_id, "session_epoch": next(numbers)}
        response, _ = await client.ask(FetchRequest(BrokerId(-1), items, 0, 1, SIZE + 50, **in_session))
        assert (response.error_code, response.session_id > 0) == (ErrorCode.NONE, True)
        found: FetchResponse = response
        return found

    session_id = (await fetch(0, 0)).session_id
    assert size_of(await fetch(session_id, 1)) > 0
    throttled = await fetch(session_id, 2)
    assert (throttled.partitions, throttled.throttle_time_ms) == ((), pytest.approx(5000, rel=0.02))
    # Nothing is named again.
    while not size_of(response := await fetch(session_id)):
        assert response.session_id == session_id
    await world.stop()


@pytest.mark.rule("R18.7")
@virtually
async def test_a_batch_larger_than_the_window_is_sent_after_a_window_without_any() -> None:
    world, process, _ = await world_with_quota(**{CONSUMER: "10"})
    for _ in range(2):
        await Client(process, "").produce()
    client = Client(process, "app")
    first, _ = await client.fetch(0)
    assert size_of(first) > 0
    assert first.throttle_time_ms > 0
    second, waited_s = await client.fetch(1)
    assert waited_s == pytest.approx(first.throttle_time_ms / 1000)
    assert size_of(second) > 0
    await world.stop()


@pytest.mark.rule("R18.8")
@virtually
async def test_the_quota_of_a_client_is_before_the_default_and_both_change_while_it_runs() -> None:
    world, process, operator = await world_with_quota(**{PRODUCER: "1000000"})
    await operator.set("clients/<default>", **{PRODUCER: "1", CONSUMER: "not a number"})
    assert await Client(process, "app").produce() == (0, 0)
    assert (await Client(process, "other", "ipv4:2:2").produce())[0] > 0
    assert (await Client(process, "", "ipv4:3:3").produce())[0] > 0
    await operator.set("clients/app")
    assert (await Client(process, "app", "ipv4:4:4").produce())[0] > 0
    await operator.set("clients/<default>")
    assert await Client(process, "other", "ipv4:5:5").produce() == (0, 0)
    # Names are in paths as Kafka has them there.
    await operator.set("clients/my%20app%2F1", **{PRODUCER: "1"})
    assert (await Client(process, "my app/1", "ipv4:6:6").produce())[0] > 0
    # A new session reads them all.
    process.agent._setting_changes.start_session()
    await asyncio.sleep(1)
    assert (await Client(process, "my app/1", "ipv4:7:7").produce())[0] > 0
    await world.stop()


@pytest.mark.rule("R18.6", "R7.21")
@virtually
async def test_what_a_throttled_producer_has_in_flight_is_appended_in_the_order_of_its_arrival() -> None:
    world, process, _ = await world_with_quota(**{PRODUCER: "200"})
    client = Client(process, "app")
    loop, answers = asyncio.get_running_loop(), list[asyncio.Future[tuple[ProduceResponse, float]]]()
    for number in range(40):
        # Some are validated off the event loop, and take longer there than others.
        batch = encode_client_batch(
            bytes([number]) * 90,
            timestamp=world.clock.now_ms(),
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
            gzip=number % 3 == 0,
        )
        answers.append(asyncio.ensure_future(client.ask(ProduceRequest(1, 1000, (ProducePartition(TOPIC, 0, batch),)))))
        # They arrive before and while the client is muted, and at the moment in which it is heard again.
        await asyncio.sleep(0 if number % 4 else 0.7)
    responses = [response for response, _ in await asyncio.gather(*answers)]
    assert {r.partitions[0].error_code for r in responses} == {ErrorCode.NONE}
    assert [r.partitions[0].base_offset for r in responses] == list(range(40))
    # Counted as each is let in: together they take what their bytes take at the quota, less what the window allows.
    assert loop.time() > 10
    await world.stop()


@pytest.mark.rule("R18.6")
@virtually
async def test_nothing_that_a_throttled_client_sends_is_handled_before_whatever_it_asks() -> None:
    world, process, _ = await world_with_quota(**{PRODUCER: "200"})
    client = Client(process, "app")
    for _ in range(3):
        throttled_ms, _ = await client.produce()
    assert throttled_ms > 0
    for request in (MetadataRequest(None), QUESTION, QUESTION):
        _, waited_s = await client.ask(request)
        assert waited_s == pytest.approx(throttled_ms / 1000)
        throttled_ms = 0
    # Its other connection is heard.
    assert (await Client(process, "app", "ipv4:1.2.3.4:6").ask(MetadataRequest(None)))[1] == 0
    await world.stop()


@pytest.mark.rule("R18.9")
@virtually
async def test_a_client_whose_requests_take_more_of_a_thread_than_it_may_is_throttled() -> None:
    # Half a thread in ten seconds are five seconds.
    world, process, _ = await world_with_quota(**{PERCENTAGE: "50"})
    client = Client(process, "app")
    process.stopwatch.step_s = 2.5
    for _ in range(2):
        assert (await client.ask(QUESTION))[1] == 0
    process.stopwatch.step_s = 0.05
    response, took_s = await client.produce()
    # The time in which it waited for nothing but the loop is counted; 5.05 s are 0.1 s too many.
    assert (response, took_s) == (pytest.approx(100, abs=10), 0)
    process.stopwatch.step_s = 30
    assert (await client.ask(QUESTION))[1] == pytest.approx(0.1, abs=0.01)
    # However long the request took, the client is heard again after one sample of the window.
    assert scrape(process.metrics)['kafka_server_request_throttle_time{client_id="app",user=""}'] == 1000
    process.stopwatch.step_s = 0.0
    assert (await client.ask(QUESTION))[1] == pytest.approx(1)
    assert (await Client(process, "other").ask(QUESTION))[1] == 0
    await world.stop()


@pytest.mark.rule("R18.9")
@virtually
async def test_time_that_a_request_waits_is_not_counted_and_time_of_a_worker_is() -> None:
    world, process, _ = await world_with_quota(**{PERCENTAGE: "10"})
    client = Client(process, "app")
    process.stopwatch.step_s = 0.01
    fetched = FetchRequest(BrokerId(-1), (FetchPartition(TOPIC, TOPIC_ID, 0, Offset(0), 1 << 20),), 30_000, 1, 1 << 20)
    response, waited_s = await client.ask(fetched)
    assert (response.throttle_time_ms, waited_s) == (0, 30)
    batch = encode_client_batch(b"x" * 100, timestamp=world.clock.now_ms(), gzip=True)
    process.stopwatch.step_s = 0.5
    response, _ = await client.ask(ProduceRequest(1, 1000, (ProducePartition(TOPIC, 0, batch),)))
    # Two steps on the loop around one in a worker are 1.5 s, of which the simulated worker counts as a step, too.
    assert response.throttle_time_ms == 1000
    assert 15 <= scrape(process.metrics)[REQUEST_TIME % "app"] < 30
    # Followers are exempt, whatever they take and whatever they call themselves.
    await Client(process, "", "ipv4:9.9.9.9:9").fetch(0, replica=2)
    assert REQUEST_TIME % "" not in scrape(process.metrics)
    await world.stop()


@pytest.mark.rule("R18.6")
@virtually
async def test_metrics_show_the_clients_that_asked_last_and_no_more() -> None:
    world, process, operator = await world_with_quota(**{PRODUCER: "1000000"})
    await operator.set("clients/<default>", **{PERCENTAGE: "50", PRODUCER: "1000000"})
    for number in range(300):
        await Client(process, f"client-{number}", f"ipv4:1:{number}").ask(QUESTION)
    shown = [name for name in scrape(process.metrics) if name.startswith("kafka_server_request_request_time{")]
    assert len(shown) == 200
    assert {REQUEST_TIME % f"client-{number}" for number in range(100, 300)} == {*shown}
    await world.stop()


@pytest.mark.rule("R18.8")
@virtually
async def test_the_quota_of_a_user_is_before_that_of_the_client_id_and_is_shared_by_all_of_them() -> None:
    world, process, operator = await world_with_quota(**{PRODUCER: "1000000"})
    await operator.set("users/CN%3Dann", **{PRODUCER: "200", "SCRAM-SHA-256": "salt="})
    first = Client(process, "app", "ipv4:1:1", "CN=ann")
    assert await first.produce() == (0, 0)
    # What is used by another client id of the same user counts together, and others are not concerned.
    second = Client(process, "other", "ipv4:1:2", "CN=ann")
    assert (await second.produce())[0] == pytest.approx(0, abs=50)
    assert (await second.produce())[0] == pytest.approx(5000, rel=0.02)
    assert await Client(process, "app", "ipv4:1:3", "CN=bob").produce() == (0, 0)
    assert await Client(process, "app", "ipv4:1:4").produce() == (0, 0)
    owner = '{client_id="",user="CN=ann"}'
    assert scrape(process.metrics)["kafka_server_produce_throttle_time" + owner] == pytest.approx(5000, rel=0.02)
    # A user with a client id of its own has its own.
    await operator.set("users/CN%3Dann/clients/app", **{PRODUCER: "1000000"})
    assert await Client(process, "app", "ipv4:1:5", "CN=ann").produce() == (0, 0)
    await world.stop()


@pytest.mark.rule("R18.8")
@virtually
async def test_a_new_session_reads_the_quotas_of_users_and_forgets_those_that_are_gone() -> None:
    world, process, operator = await world_with_quota(**{PRODUCER: "1000000"})
    await operator.set("users/<default>", **{PRODUCER: "1"})
    await operator.set("users/ann/clients/app", **{PRODUCER: "1"})
    await operator.set("users/bob", **{PRODUCER: "1000000"})
    process.agent._setting_changes.start_session()
    await asyncio.sleep(1)
    assert (await Client(process, "app", "ipv4:1:1", "ann").produce())[0] > 0
    assert (await Client(process, "x", "ipv4:1:2", "ann").produce())[0] > 0
    # Who has not authenticated is a user, too. Source: Kafka KafkaPrincipal.ANONYMOUS.
    assert (await Client(process, "x", "ipv4:1:3").produce())[0] > 0
    assert await Client(process, "x", "ipv4:1:4", "bob").produce() == (0, 0)
    for name in ("users/<default>", "users/ann/clients/app"):
        await operator.set(name)
    process.agent._setting_changes.start_session()
    await asyncio.sleep(1)
    assert await Client(process, "x", "ipv4:1:5", "ann").produce() == (0, 0)
    await world.stop()
