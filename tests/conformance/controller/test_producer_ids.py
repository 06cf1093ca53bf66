"""Allocation of producer id blocks, each once."""

import asyncio

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ApiError, ErrorCode, MalformedZnodeError, OutcomeUnknownError
from cluster.requests.agents import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from cluster.znodes.cluster_wide import ProducerIdBlock, decode_producer_id_block, encode_producer_id_block
from cluster.znodes.paths import PRODUCER_ID_BLOCK
from cluster.zookeeper.port import SetData, ZkError
from controller.apis import APIS
from controller.decisions.brokers.producer_ids import next_block
from controller.event_loop import preempt
from controller.request_events import RequestEvent
from tests.controllers.elections import cluster
from tests.controllers.fault_injection import FaultInjector
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

E = ErrorCode
FIRST = AllocateProducerIdsResponse(E.NONE, 0, 1000)


async def allocate(world: World, c: RunningController, broker: int) -> AllocateProducerIdsResponse:
    answer = await c.ask(AllocateProducerIdsRequest(BrokerId(broker), await world.broker_epoch(broker)))
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer


@pytest.mark.rule("AX-2", "AX-3")
def test_brokers_get_blocks_one_after_the_other_through_failovers_too() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        assert await allocate(world, c, 1) == FIRST
        assert await allocate(world, c, 2) == AllocateProducerIdsResponse(E.NONE, 1000, 1000)
        znode = await world.tool.get(PRODUCER_ID_BLOCK)
        assert znode is not None
        assert znode.data == b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}'
        await c.stop()
        successor = world.start_controller(1002)
        await until(lambda: successor.gauge("ActiveBrokerCount") == 2)
        assert (await allocate(world, successor, 1)).producer_id_start == 2000
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("AX-1", "FN-10")
@pytest.mark.parametrize(
    ("broker", "ahead", "expected"),
    [(1, 0, E.NONE), (1, -1, E.STALE_BROKER_EPOCH), (1, 1, E.STALE_BROKER_EPOCH), (9, 0, E.BROKER_ID_NOT_REGISTERED)],
)
def test_only_the_present_incarnation_of_a_registered_broker_gets_ids(
    broker: int, ahead: int, expected: ErrorCode
) -> None:
    async def main() -> None:
        world, c = await cluster(1)
        epoch = BrokerEpoch(await world.broker_epoch(1) + ahead)
        answer = await c.ask(AllocateProducerIdsRequest(BrokerId(broker), epoch))
        assert answer.error_code is expected
        assert (answer.producer_id_len == 0) is (expected is not E.NONE)
        unknown = await c.ask(AllocateProducerIdsRequest(BrokerId(1)))
        assert unknown.error_code is E.STALE_BROKER_EPOCH
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("AX-1", "D-7")
def test_while_not_active_no_ids_are_given_and_a_preempted_request_is_answered() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        standby = world.start_controller(1002)
        await quiesce()
        assert (await allocate(world, standby, 1)).error_code is E.NOT_CONTROLLER
        ids: asyncio.Future[AllocateProducerIdsResponse] = asyncio.get_running_loop().create_future()
        preempt(RequestEvent(APIS[AllocateProducerIdsRequest], AllocateProducerIdsRequest(BrokerId(1)), ids))
        assert (await ids).error_code is E.NOT_CONTROLLER
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("AX-2")
def test_a_block_that_somebody_else_took_meanwhile_is_not_given_again() -> None:
    async def main() -> None:
        world, c = await cluster(1)

        async def another_controller() -> None:
            await world.write(
                SetData(PRODUCER_ID_BLOCK, encode_producer_id_block(ProducerIdBlock(BrokerId(2), 0, 999)))
            )

        interfering = FaultInjector(c, PRODUCER_ID_BLOCK, another_controller)
        assert (await allocate(world, c, 1)).producer_id_start == 1000
        assert interfering.attempts == 2
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("AX-2", "ZC-2")
def test_after_a_lost_answer_the_node_is_read_again() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        FaultInjector(c, PRODUCER_ID_BLOCK, OutcomeUnknownError("connection lost"))
        assert (await allocate(world, c, 1)) == FIRST
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("AX-4", "D-14")
def test_without_its_node_there_are_no_ids_and_it_is_not_made() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        await world.delete(PRODUCER_ID_BLOCK)
        assert (await allocate(world, c, 1)).error_code is E.UNKNOWN_SERVER_ERROR
        assert await world.tool.get(PRODUCER_ID_BLOCK) is None
        await world.create(PRODUCER_ID_BLOCK)
        assert await allocate(world, c, 1) == FIRST
        FaultInjector(c, PRODUCER_ID_BLOCK, ZkError.NO_AUTH)
        assert (await allocate(world, c, 1)).error_code is E.UNKNOWN_SERVER_ERROR
        await world.write(SetData(PRODUCER_ID_BLOCK, b"no json"))
        assert (await allocate(world, c, 1)).error_code is E.UNKNOWN_SERVER_ERROR
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("AX-2")
def test_the_last_block_of_64_bits_is_given_and_none_after_it() -> None:
    top = 2**63 - 1
    block = next_block(ProducerIdBlock(BrokerId(1), 0, top - 1000), BrokerId(2))
    assert block == ProducerIdBlock(BrokerId(2), top - 999, top)
    with pytest.raises(ApiError, match="exhausted"):
        next_block(block._replace(end=top - 999), BrokerId(2))


def test_a_producer_id_node_that_makes_no_sense_is_malformed() -> None:
    assert decode_producer_id_block(b"") is None
    for body in (b"{}", b'{"version":1,"broker":2,"block_start":"a","block_end":"1999"}'):
        with pytest.raises(MalformedZnodeError):
            decode_producer_id_block(body)
