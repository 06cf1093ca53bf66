"""The event loop: order, preemption, errors, and metrics."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import (
    ApiError,
    ControllerMovedError,
    ErrorCode,
    MalformedZnodeError,
    SessionExpiredError,
    ZooKeeperError,
)
from cluster.requests.agents import AlterPartitionRequest, AlterPartitionResponse
from cluster.requests.topics import CreateTopicsRequest, ListTopicsRequest
from cluster.zookeeper.port import WatchEvent, WatchKind
from controller.active_controller import UnsentDecisionsError
from controller.apis import APIS
from controller.controller_state import TIMER_OF_STATE, ControllerState
from controller.dispatch import REACTIONS
from controller.event_loop import QUEUE_TIME_RESET_S, Disposition, EventLoop, error_disposition
from controller.events import (
    STATES,
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    ControllerEpochChange,
    ControllerEpochRefused,
    Event,
    Expire,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    ProcedureResumption,
    Reelect,
    RegisterAndReelect,
    ReplicaLeaderElection,
    ShutdownEventLoop,
    StandbyDiffered,
    Startup,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from controller.metrics import ControllerMetrics
from controller.request_events import RequestEvent
from controller.watched_znodes import event_of_watch
from state_log.record import Cause
from tests.controllers.worlds import run_virtually


class Scripted:
    """A processor of events that records what it is given and raises the errors configured in `fails`."""

    def __init__(self) -> None:
        self.processed: list[tuple[str, int]] = []
        self.asked: list[str] = []
        self.events_ended = 0
        self.fails: dict[str, Exception] = {}
        self.takes_s = 0.0
        self.state: Callable[[], float] = lambda: -1
        self.seen_states: list[float] = []

    async def process(self, event: Event, cause: Cause) -> None:
        self.processed.append((cause.event, cause.id))
        self.seen_states.append(self.state())
        await asyncio.sleep(self.takes_s)
        if event.name in self.fails:
            raise self.fails[event.name]

    async def resign_if_moved(self) -> None:
        self.asked.append("resign if moved")

    async def step_down(self) -> None:
        self.asked.append("step down")

    def after_event(self) -> None:
        self.events_ended += 1


def a_loop() -> tuple[Scripted, EventLoop, Metrics]:
    processor, registry = Scripted(), Metrics()
    processor.state = lambda: registry.gauge("kafka.controller", "KafkaController", "ControllerState").value
    return processor, EventLoop(processor, ControllerMetrics(registry)), registry


async def shut(loop: EventLoop) -> None:
    loop.put(ShutdownEventLoop())
    await loop.run()


def asking(request: object, reply: "asyncio.Future[Any]") -> RequestEvent:
    return RequestEvent(APIS[type(request)], request, reply)


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


@pytest.mark.rule("EV-1", "EV-2", "EV-3", "EV-4")
def test_events_are_processed_in_order_one_at_a_time_and_never_merged() -> None:
    async def main() -> None:
        processor, loop, registry = a_loop()
        processor.takes_s = 2
        for event in (TopicChange(), TopicChange(), BrokerChange()):
            loop.put(event)
        assert registry.gauge("kafka.controller", "ControllerEventManager", "EventQueueSize").value == 3
        await shut(loop)
        names = ["TopicChange", "TopicChange", "BrokerChange", "ShutdownEventLoop"]
        assert processor.processed == [(name, number) for number, name in enumerate(names)]
        assert processor.events_ended == 4
        assert processor.seen_states == [3, 3, 2, 12]
        assert processor.state() == 0
        timer = registry.timer("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs")
        assert (timer.count, timer.sum) == (1, 2000)
        waited = registry.histogram("kafka.controller", "ControllerEventManager", "EventQueueTimeMs")
        assert waited.sum == 2000 + 4000 + 6000

    run_virtually(main)


@pytest.mark.rule("EV-5", "EV-6", "EV-7", "INV-12")
def test_a_queue_jumper_preempts_and_answers_what_waits_but_not_what_runs() -> None:
    async def main() -> None:
        processor, loop, _ = a_loop()
        processor.takes_s = 1
        replies = [future() for _ in range(3)]
        loop.put(BrokerChange())
        running = asyncio.ensure_future(loop.run())
        await asyncio.sleep(0.5)
        loop.put(asking(AlterPartitionRequest(BrokerId(1), BrokerEpoch(1), ()), replies[0]))
        loop.put(asking(CreateTopicsRequest(()), replies[1]))
        loop.put(TopicChange())
        loop.clear_and_put(Expire())
        assert replies[0].result() == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
        refused = replies[1].exception()
        assert isinstance(refused, ApiError)
        assert refused.code is ErrorCode.NOT_CONTROLLER
        loop.put(ShutdownEventLoop())
        await running
        assert [name for name, _ in processor.processed] == ["BrokerChange", "Expire", "ShutdownEventLoop"]
        loop.put(asking(ListTopicsRequest(), replies[2]))
        assert replies[2].done()
        assert isinstance(replies[2].exception(), ApiError)

    run_virtually(main)


@pytest.mark.rule("EV-9", "EL-7", "IL-1", "FN-4")
@pytest.mark.parametrize(
    ("event", "error", "expected"),
    [
        (BrokerChange(), ControllerMovedError("x"), Disposition.RESIGN_IF_MOVED),
        (Reelect(), ControllerMovedError("x"), Disposition.RESIGN_IF_MOVED),
        (BrokerChange(), SessionExpiredError("x"), Disposition.AWAIT_EXPIRY),
        (Startup(), SessionExpiredError("x"), Disposition.AWAIT_EXPIRY),
        (BrokerChange(), UnsentDecisionsError("x"), Disposition.STEP_DOWN),
        (BrokerChange(), AssertionError("x"), Disposition.STEP_DOWN),
        (BrokerChange(), ZooKeeperError("x"), Disposition.CARRY_ON),
        (TopicChange(), MalformedZnodeError("/x", b"", "y"), Disposition.CARRY_ON),
        (TopicChange(), ValueError("x"), Disposition.CARRY_ON),
        (Startup(), ZooKeeperError("x"), Disposition.STEP_DOWN),
        (Reelect(), ValueError("x"), Disposition.STEP_DOWN),
        (RegisterAndReelect(), MalformedZnodeError("/x", b"", "y"), Disposition.STEP_DOWN),
    ],
)
def test_every_error_has_one_consequence(event: Event, error: Exception, expected: Disposition) -> None:
    assert error_disposition(event, error) is expected


@pytest.mark.rule("EV-3", "EV-9", "INV-12")
def test_the_loop_goes_on_after_an_error_and_its_caller_is_answered_once() -> None:
    async def main() -> None:
        processor, loop, registry = a_loop()
        request = AlterPartitionRequest(BrokerId(1), BrokerEpoch(1), ())
        replies = [future() for _ in range(3)]
        processor.fails = {
            "AlterPartitionReceived": ZooKeeperError("no"),
            "CreateTopicsReceived": ApiError(ErrorCode.INVALID_CONFIG, "no"),
            "BrokerChange": ControllerMovedError("moved"),
            "TopicChange": AssertionError("a bug"),
            "QueryReceived": ControllerMovedError("moved"),
            "Startup": SessionExpiredError("gone"),
        }
        loop.put(asking(request, replies[0]))
        loop.put(asking(CreateTopicsRequest(()), replies[1]))
        loop.put(asking(ListTopicsRequest(), replies[2]))
        for event in (BrokerChange(), TopicChange(), Startup()):
            loop.put(event)
        await shut(loop)
        assert replies[0].result() == AlterPartitionResponse(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert [reply.exception().code for reply in replies[1:]] == [
            ErrorCode.INVALID_CONFIG,
            ErrorCode.NOT_CONTROLLER,
        ]
        assert processor.asked == ["resign if moved", "resign if moved", "step down"]
        assert processor.events_ended == 7
        assert registry.timer("kafka.controller", "ControllerStats", "IsrChangeRateAndTimeMs").count == 1

    run_virtually(main)


@pytest.mark.rule("EV-9")
def test_a_request_that_is_refused_is_no_error_of_the_controller() -> None:
    async def main() -> None:
        processor, loop, _ = a_loop()
        processor.fails = {
            "CreateTopicsReceived": ApiError(ErrorCode.INVALID_CONFIG, "no"),
            "TopicChange": ZooKeeperError("no"),
        }
        loop.put(asking(CreateTopicsRequest(()), future()))
        loop.put(TopicChange())
        with structlog.testing.capture_logs() as lines:
            await shut(loop)
        sent = [
            (line["log_level"], line["event"], "exc_info" in line) for line in lines if line["log_level"] != "debug"
        ]
        assert sent == [("info", "Request refused", False), ("error", "Event processing failed", True)]

    run_virtually(main)


@pytest.mark.parametrize(
    ("error", "is_bug"),
    [
        (MalformedZnodeError("/controller_epoch", b"x", "not a decimal number"), False),
        (ZooKeeperError("refused"), False),
        (UnsentDecisionsError("not sent"), True),
        (AssertionError("a bug"), True),
    ],
)
def test_only_errors_of_the_controller_itself_are_logged_with_a_traceback(error: Exception, is_bug: bool) -> None:
    """Anybody may write a malformed znode; the line names it."""

    async def main() -> None:
        processor, loop, _ = a_loop()
        processor.fails = {"Reelect": error}

        async def refuse() -> None:
            raise error

        processor.step_down = refuse  # type: ignore[method-assign]
        loop.put(Reelect())
        with structlog.testing.capture_logs() as lines:
            await shut(loop)
        logged = [line for line in lines if line["log_level"] == "error"]
        assert [str(error) in line["error"] for line in logged] == [True, True]
        assert [line["exc_info"] is not None for line in logged] == [is_bug, is_bug]

    run_virtually(main)


def test_resigning_may_fail_without_ending_the_loop() -> None:
    async def main() -> None:
        for error in (ZooKeeperError("unreachable"), SessionExpiredError("gone")):
            processor, loop, _ = a_loop()
            processor.fails = {"TopicChange": AssertionError("a bug")}

            async def refuse(error: Exception = error) -> None:
                raise error

            processor.step_down = refuse  # type: ignore[method-assign]
            loop.put(TopicChange())
            await shut(loop)
            assert [name for name, _ in processor.processed] == ["TopicChange", "ShutdownEventLoop"]

    run_virtually(main)


@pytest.mark.rule("EV-10")
def test_queue_times_are_forgotten_when_nothing_happens_for_long() -> None:
    async def main() -> None:
        _, loop, registry = a_loop()
        running = asyncio.ensure_future(loop.run())
        loop.put(TopicChange())
        await asyncio.sleep(QUEUE_TIME_RESET_S - 1)
        waited = registry.histogram("kafka.controller", "ControllerEventManager", "EventQueueTimeMs")
        assert waited.count == 1
        await asyncio.sleep(2)
        assert waited.count == 0
        loop.put(ShutdownEventLoop())
        await running

    run_virtually(main)


def test_every_state_but_two_is_timed() -> None:
    untimed = set(ControllerState) - TIMER_OF_STATE.keys()
    assert untimed == {ControllerState.IDLE, ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED}


OWN_AFFAIRS = {
    Startup,
    ControllerChange,
    ControllerEpochChange,
    ControllerEpochRefused,
    StandbyDiffered,
    Reelect,
    RegisterAndReelect,
    Expire,
    ShutdownEventLoop,
}
"""Events that the candidate handles itself, active or not."""


def kinds_of(base: type[Event]) -> set[type[Event]]:
    return {kind for child in base.__subclasses__() for kind in {child, *kinds_of(child)}}


def test_every_kind_of_event_has_a_state_and_a_reaction() -> None:
    kinds = kinds_of(Event)
    assert len(kinds) == 33
    assert set(STATES) == kinds - {RequestEvent, ProcedureResumption}
    assert kinds == OWN_AFFAIRS | REACTIONS.keys()


@pytest.mark.rule("EL-9", "ZC-4", "ZC-7", "D-95")
@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("/controller", WatchKind.CREATED, ControllerChange()),
        ("/controller", WatchKind.CHANGED, ControllerChange()),
        ("/controller", WatchKind.DELETED, Reelect()),
        ("/controllers/ids/1001", WatchKind.DELETED, RegisterAndReelect()),
        ("/controllers/ids/1001", WatchKind.CHANGED, RegisterAndReelect()),
        ("/controllers/ids/1001", WatchKind.CREATED, None),
        ("/brokers/ids", WatchKind.CHILDREN, BrokerChange()),
        ("/brokers/topics", WatchKind.CHILDREN, TopicChange()),
        ("/brokers/ids/7", WatchKind.CHANGED, BrokerModifications(BrokerId(7))),
        ("/brokers/ids/7", WatchKind.DELETED, None),
        ("/brokers/ids/x", WatchKind.CHANGED, None),
        ("/brokers/topics/t", WatchKind.CHANGED, PartitionModifications("t")),
        ("/brokers/topics/t", WatchKind.DELETED, None),
        ("/isr_change_notification", WatchKind.CHILDREN, IsrChangeNotification()),
        ("/log_dir_event_notification", WatchKind.CHILDREN, LogDirEventNotification()),
        ("/admin/preferred_replica_election", WatchKind.CREATED, ReplicaLeaderElection()),
        ("/admin/preferred_replica_election", WatchKind.DELETED, None),
        ("/admin/reassign_partitions", WatchKind.CREATED, ZkPartitionReassignment()),
        ("/admin/reassign_partitions", WatchKind.CHANGED, ZkPartitionReassignment()),
        ("/admin/reassign_partitions", WatchKind.DELETED, ZkPartitionReassignment()),
        ("/admin/delete_topics", WatchKind.CHILDREN, TopicDeletion()),
        ("/admin/delete_topics", WatchKind.DELETED, TopicDeletion()),
        ("/admin/delete_topics", WatchKind.CREATED, TopicDeletion()),
        ("/elsewhere", WatchKind.CHILDREN, None),
        ("/elsewhere/t", WatchKind.CHANGED, None),
    ],
)
def test_each_notification_means_one_event_or_none(path: str, kind: WatchKind, expected: Event | None) -> None:
    assert event_of_watch(WatchEvent(path, kind), "/controllers/ids/1001") == expected


@pytest.mark.rule("ZK-34", "EP-11")
@pytest.mark.parametrize("kind", [WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admin/reassign_partitions", ZkPartitionReassignment()),
        ("/admin/preferred_replica_election", ReplicaLeaderElection()),
    ],
)
def test_every_notification_of_an_unresolved_request_means_its_event(
    path: str, kind: WatchKind, expected: Event
) -> None:
    assert event_of_watch(WatchEvent(path, kind), "/controllers/ids/1001", {path}) == expected


@pytest.mark.rule("D-71")
def test_the_age_of_the_oldest_event_is_shown_while_it_waits_and_while_it_is_processed() -> None:
    async def main() -> None:
        processor, loop, registry = a_loop()
        processor.takes_s = 2

        def age() -> float:
            family = "klamm_controller_controllereventmanager_oldesteventagems"
            return next(f.samples[0].value for f in registry.collect() if f.name == family)

        assert age() == 0
        loop.put(BrokerChange())
        await asyncio.sleep(1)
        assert age() == 1000
        running = asyncio.ensure_future(loop.run())
        await asyncio.sleep(1)
        loop.put(TopicChange())
        assert age() == 2000
        await asyncio.sleep(1.5)
        assert age() == 1500
        await asyncio.sleep(2)
        assert age() == 0
        loop.put(ShutdownEventLoop())
        await running

    run_virtually(main)
