"""`/controller` and `/controller_epoch` in anybody's hands: whatever is written there, in whoever's place, one
controller is active again soon, by itself, and does what it is asked; and no controller epoch is used twice.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerId
from cluster.model.errors import ErrorCode
from cluster.model.takeover import Takeover
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import LeaderAndIsrRequest, UpdateMetadataRequest
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.controller import decode_controller, encode_controller
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.port import Create, Delete, SetData
from controller.decisions.controller_epochs import DOUBTED_ABOVE, LAST, MARGINS
from controller.decisions.recovery.limits import EPOCH_MAX
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.record import Kind
from tests.controllers.controller_elections import active_controller, epoch
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until
from tests.kafka.competitors import RunningCompetitor

ACTIVE, STANDBY = 901, 902
SOON_S = 3
MODES: tuple[Takeover, ...] = ("never", "atomic", "persistent")


async def candidates(world: World, mode: Takeover, count: int) -> list[RunningController]:
    """The first is active; there are brokers, a topic, and a few epochs were used."""
    started = [world.start_controller(ACTIVE, takeover=mode)]
    first = await active_controller(*started)
    await world.start_broker(1, 2)
    await until(lambda: first.gauge("ActiveBrokerCount") == 2, "brokers")
    await world.create_topic("before", [1, 2])
    await world.leads("before", leader=1)
    for _ in range(3):
        await world.delete(CONTROLLER)
        await quiesce(0.2)
        await active_controller(first)
    started += [world.start_controller(ACTIVE + n, takeover=mode) for n in range(1, count)]
    await quiesce()
    return started


async def one_is_active_and_acts(world: World, running: list[RunningController], topic: str = "after") -> None:
    def active() -> list[RunningController]:
        return [c for c in running if c.is_active]

    await until(lambda: len(active()) == 1, "one is active", deadline_s=SOON_S)
    await quiesce(0.3)
    (only,) = active()
    znode = await world.tool.get(CONTROLLER)
    assert znode is not None
    assert decode_controller(znode.data) == only.controller.config.id
    answer = await only.ask(CreateTopicsRequest((NewTopic(topic, assignments={0: (BrokerId(1), BrokerId(2))}),)))
    assert [result.error_code for result in answer.topics] == [ErrorCode.NONE]
    await world.leads(topic, leader=1)


def check_that_no_epoch_was_used_twice(running: list[RunningController]) -> None:
    """By what brokers were sent: each epoch by one controller, and by each controller in rising order."""
    sender: dict[int, int] = {}
    for c in running:
        for _, request in c.brokers.received:
            assert sender.setdefault(request.controller_epoch, request.controller_id) == request.controller_id
    began = [r for c in running for r in c.sink.of(Kind.CONTROLLER) if r.to_state == "active"]
    epochs = [record.controller_epoch for record in began]
    assert len(set(epochs)) == len(epochs), epochs


def body(id_: int, session: int | None = None) -> bytes:
    return encode_controller(ControllerId(id_), 1, session)


CONTENTS: dict[str, Callable[[list[RunningController]], bytes]] = {
    "the active one's": lambda _: body(ACTIVE),
    "the active one's with its session": lambda running: body(ACTIVE, running[0].zookeeper.session_id),
    "another candidate's": lambda _: body(STANDBY),
    "another candidate's with its session": lambda running: body(STANDBY, running[-1].zookeeper.session_id),
    "another candidate's with the active one's session": lambda running: body(STANDBY, running[0].zookeeper.session_id),
    "the active one's with another candidate's session": lambda running: body(ACTIVE, running[-1].zookeeper.session_id),
    "a dead session's": lambda _: body(ACTIVE, 7),
    "nobody's with no session": lambda _: body(555, 0),
    "a broker's with no session": lambda _: body(1, 0),
    "a broker's": lambda _: body(1),
    "nobody's": lambda _: body(555),
    "no JSON": lambda _: b"\xff{garbage",
    "empty": lambda _: b"",
    "a list": lambda _: b"[]",
    "a text for an id": lambda _: b'{"version":2,"brokerid":"901","timestamp":"1"}',
    "a negative id": lambda _: b'{"version":2,"brokerid":-1,"timestamp":"1"}',
    "a huge id": lambda _: b'{"version":2,"brokerid":99999999999999999999,"timestamp":"1"}',
}


async def overwrite(world: World, data: bytes) -> None:
    await world.write(SetData(CONTROLLER, data))


async def make_persistent(world: World, data: bytes) -> None:
    await world.write(Delete(CONTROLLER), Create(CONTROLLER, data))


async def make_ephemeral(world: World, data: bytes) -> None:
    """In the session of a tool, which lives on."""
    await world.write(Delete(CONTROLLER), Create(CONTROLLER, data, ephemeral=True))


@pytest.mark.rule("D-92", "EL-10", "INV-5")
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("writes", [overwrite, make_persistent, make_ephemeral])
@pytest.mark.parametrize("content", CONTENTS)
def test_whatever_is_written_to_controller_somebody_is_active_soon(
    content: str, writes: Callable[[World, bytes], Awaitable[None]], mode: Takeover, count: int
) -> None:
    async def main() -> None:
        world = await World().start()
        running = await candidates(world, mode, count)
        data = CONTENTS[content](running)
        await writes(world, data)
        is_respected = writes is make_ephemeral and mode == "never"
        if is_respected and decode_controller(data) in {1, 555, *range(ACTIVE + count, ACTIVE + 3)}:
            # An ephemeral znode of a live session, which names no candidate, is a broker's, and respected.
            await quiesce(SOON_S)
            assert not any(c.is_active for c in running)
            await world.delete(CONTROLLER)
        await one_is_active_and_acts(world, running)
        check_that_no_epoch_was_used_twice(running)
        for c in running:
            await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-92", "TO-4")
@pytest.mark.parametrize("data", [body(STANDBY), body(ACTIVE), b"", body(555)])
@pytest.mark.parametrize("mode", ["atomic", "persistent"])
def test_no_broker_of_kafka_is_elected_while_the_candidates_mend_it(mode: Takeover, data: bytes) -> None:
    async def main() -> None:
        world = await World().start()
        running = await candidates(world, mode, 2)
        broker = RunningCompetitor(world, 1)
        await quiesce()
        await world.write(SetData(CONTROLLER, data))
        await one_is_active_and_acts(world, running)
        assert broker.competitor.epoch_won is None
        await broker.stop()
        for c in running:
            await c.stop()

    run_virtually(main)


EPOCHS = {
    "deleted": None,
    "empty": b"",
    "no number": b"\xffx",
    "negative": b"-1",
    "with a blank": b"5 ",
    "back by one": b"3",
    "0": b"0",
    "1": b"1",
    "the same": b"4",
    "forward by one": b"5",
    "forward by 100": b"104",
    "at what brokers are believed": str(EPOCH_MAX).encode(),
    "at what elections lead to": str(DOUBTED_ABOVE).encode(),
    "beyond it": str(DOUBTED_ABOVE + 1).encode(),
    "2^31-3": str(LAST - 1).encode(),
    "2^31-2": str(LAST).encode(),
    "2^31-1": str(LAST + 1).encode(),
    "2^31": str(LAST + 2).encode(),
    "huge": b"9" * 30,
}


@pytest.mark.rule("D-93", "EL-2", "FN-2")
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("content", EPOCHS)
def test_whatever_is_written_to_controller_epoch_somebody_is_active_soon(
    content: str, mode: Takeover, count: int
) -> None:
    async def main() -> None:
        world = await World().start()
        running = await candidates(world, mode, count)
        data = EPOCHS[content]
        await world.write(Delete(CONTROLLER_EPOCH) if data is None else SetData(CONTROLLER_EPOCH, data))
        await quiesce(0.2)
        await one_is_active_and_acts(world, running)
        check_that_no_epoch_was_used_twice(running)
        assert int((await epoch(world))[0]) <= DOUBTED_ABOVE + 1
        for c in running:
            await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-93", "FN-5")
@pytest.mark.parametrize("content", EPOCHS)
def test_a_process_that_knows_nothing_is_elected_above_the_epochs_in_the_partition_states(content: str) -> None:
    async def main() -> None:
        world = await World().start()
        (old,) = await candidates(world, "never", 1)
        await old.stop()
        data = EPOCHS[content]
        await world.write(Delete(CONTROLLER_EPOCH) if data is None else SetData(CONTROLLER_EPOCH, data))
        new = world.start_controller(STANDBY)
        await one_is_active_and_acts(world, [new])
        before = [request for _, request in old.brokers.received]
        used = max(request.controller_epoch for request in before)
        first = next(request.controller_epoch for _, request in new.brokers.received)
        # Only those count that were written; the last ones of the old controller wrote nothing.
        states = await world.state("before")
        assert states is not None
        assert first > min(used, states.controller_epoch)
        await new.stop()

    run_virtually(main)


async def set_back(*brokers: int) -> World:
    """Brokers without a topic, and an epoch of 0."""
    world = await World().start()
    c = await active_controller(world.start_controller(903))
    await c.stop()
    await world.start_broker(*brokers)
    await world.write(SetData(CONTROLLER_EPOCH, b"0"))
    return world


class Obeying:
    """Brokers that remember the highest epoch they obeyed, as Kafka's: they do not name it when they refuse."""

    def __init__(self, known: dict[int, int], *, names: bool = False) -> None:
        self.known = known
        self.names = names

    def attach(self, c: RunningController) -> None:
        original = c.brokers._answer

        async def answer(broker: Any, request: Any) -> Any:
            response = await original(broker, request)
            known = self.known.get(broker.id, 0)
            if request.controller_epoch >= known:
                self.known[broker.id] = request.controller_epoch
                return response
            named = known if self.names else -1
            return replace(response, error_code=ErrorCode.STALE_CONTROLLER_EPOCH, controller_epoch=named)

        c.brokers._answer = answer  # type: ignore[method-assign]


@pytest.mark.rule("D-94", "AG-10")
@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("known", [2, 19, 1000, 10**6, EPOCH_MAX - 1])
def test_brokers_that_obeyed_a_later_epoch_obey_again_after_a_few_elections(known: int, names: bool) -> None:
    """Nothing else knows of it: the znode was set back, the process is new, and there are no states."""

    async def main() -> None:
        world = await set_back(1, 2)
        obeying = Obeying({1: known, 2: known // 2}, names=names)
        c = world.start_controller(ACTIVE)
        obeying.attach(c)
        await until(lambda: c.is_active and obeying.known[1] > known, "obeyed", deadline_s=60 if known > 10**5 else 10)
        await one_is_active_and_acts(world, [c])
        elections = [r for r in c.sink.of(Kind.CONTROLLER) if r.to_state == "active"]
        assert len(elections) <= (3 if names else 9)
        assert not [f for f in (await c.ask(DescribeFindingsRequest())).findings if f.kind == "refuses_controller"]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-94", "AG-10")
@pytest.mark.parametrize("names", [False, True])
def test_a_broker_that_refuses_whatever_the_epoch_stops_nobody_and_is_a_finding(names: bool) -> None:
    async def main() -> None:
        world = await set_back(1, 2, 9)
        obeying = Obeying({9: 2**31 - 1}, names=names)
        c = world.start_controller(ACTIVE)
        obeying.attach(c)
        await quiesce(120)
        await one_is_active_and_acts(world, [c])
        before = (await epoch(world))[0]
        assert int(before) <= EPOCH_MAX + MARGINS.stop
        (found,) = [f for f in (await c.ask(DescribeFindingsRequest())).findings if f.kind == "refuses_controller"]
        assert found.broker == 9
        assert "restart the broker" in found.detail
        await quiesce(300)
        assert (await epoch(world))[0] == before
        assert c.brokers.of(1, UpdateMetadataRequest)
        assert c.brokers.of(1, LeaderAndIsrRequest)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-93", "FN-2")
def test_a_controller_that_has_not_noticed_writes_nothing_after_the_epoch_was_deleted() -> None:
    """Versions of a znode that was deleted begin anew: none comes again that a controller won with."""

    async def main() -> None:
        world = await World().start()
        running = await candidates(world, "never", 2)
        first, second = running
        fence = first.controller._active
        assert fence is not None
        before = await world.state("before")
        assert before is not None
        # The first hears nothing of it.
        first.zookeeper.listen(lambda _: None)
        await world.write(Delete(CONTROLLER_EPOCH), Delete(CONTROLLER))
        await until(lambda: second.is_active, "the other one")
        for _ in range(40):
            await world.delete(CONTROLLER)
            await quiesce(0.2)
            await active_controller(second)
            with pytest.raises(Exception, match="another controller was elected"):
                await fence.store.delete_markers(["nothing"])
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("D-93")
def test_a_tools_session_may_write_both_again_and_again() -> None:
    async def main() -> None:
        world = await World().start()
        running = await candidates(world, "persistent", 3)
        tool = SimulatedZooKeeperClient(world.server, session_timeout_ms=60_000)
        tool.listen(lambda _: None)
        await tool.start_session()
        for number in range(30):
            await tool.multi([SetData(CONTROLLER, body((ACTIVE, STANDBY, 903, 1, 555)[number % 5]))])
            await tool.multi([SetData(CONTROLLER_EPOCH, (b"0", b"", b"77", b"x")[number % 4])])
            await quiesce((0.001, 0.01, 0.3)[number % 3])
        await one_is_active_and_acts(world, running)
        check_that_no_epoch_was_used_twice(running)
        for c in running:
            await c.stop()

    run_virtually(main)
