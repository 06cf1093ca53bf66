"""Admission of calls, on virtual time and without a network."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.aio.parking import CURRENT, parked
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.admission import Admission, AdmittedCall
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.budgets import Bound, Peer
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.memory_pool import LATE_AFTER_S, SLOW_AFTER_S
from tests.brokers.agents import virtually

HERE = Peer.parse("ipv4:10.0.0.1:4711")
REQUEST_BYTES_MAX = 100


def admission(metrics: Metrics | None = None, **settings: int) -> Admission:
    of_test = {"socket_request_max_bytes": REQUEST_BYTES_MAX, "queued_max_request_bytes": 16 * REQUEST_BYTES_MAX}
    limits = AdmissionLimits.from_settings(Settings(**{**of_test, **settings}))
    return Admission(limits, Metrics() if metrics is None else metrics)


def peer(number: int) -> Peer:
    """Each from an address of its own."""
    return Peer.parse(f"ipv4:10.1.{number // 250}.{number % 250}:4711")


def handle(target: Admission, kind: CallKind, caller: Peer) -> AdmittedCall:
    """A call whose request was read."""
    call = target.admit(kind, caller)
    call.handle_as(kind)
    return call


def handle_all(target: Admission, kind: CallKind) -> list[AdmittedCall]:
    """As many calls as may be, each from an address of its own."""
    calls = list[AdmittedCall]()
    while True:
        try:
            calls.append(handle(target, kind, peer(len(calls))))
        except ApiError:
            return calls


def used(target: Admission) -> tuple[int, int, int]:
    return target.open.used, target.handled.used, target.memory.budget.used


def arriving(data: bytes, after_s: float) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        await asyncio.sleep(after_s)
        return data

    return read


async def whole_call(target: Admission, kind: CallKind, caller: Peer, read: Callable[[], Awaitable[bytes]]) -> bytes:
    """A call that ends when its request was received, or was not."""
    call = target.admit(kind, caller)
    try:
        received: bytes = await call.receive(read)
        return received
    finally:
        call.end()


async def refusal(receiving: Coroutine[Any, Any, object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await receiving
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return caught.value


@pytest.mark.rule("AD-4")
@virtually
async def test_a_parked_call_is_open_but_not_handled() -> None:
    target = admission(queued_max_requests=8)
    received = target.admit(CallKind.FETCH, peer(9))
    calls = [handle(target, CallKind.FETCH, peer(number)) for number in range(3)]
    with pytest.raises(ApiError, match="being handled"):
        received.handle_as(CallKind.FETCH)
    received.end()
    with pytest.raises(ApiError, match="3 fetch requests and less urgent ones are being handled"):
        target.admit(CallKind.FETCH, peer(3))
    calls[0].park()
    calls[0].park()
    fourth = handle(target, CallKind.FETCH, peer(3))
    await calls[0].resume()
    assert used(target) == (4, 3, 0)
    for call in (*calls, fourth):
        call.end()
    assert used(target) == (0, 0, 0)


@pytest.mark.rule("AD-4")
@virtually
async def test_open_calls_have_a_bound_of_their_own() -> None:
    target = admission(klamm_max_open_requests=80)
    for call in handle_all(target, CallKind.WATCH):
        call.park()
    assert target.open.used == 10
    with pytest.raises(ApiError) as caught:
        target.admit(CallKind.WATCH, HERE)
    assert caught.value.field == "klamm.max.open.requests"
    assert caught.value.message == (
        "10 watch requests and less urgent ones are open, as many as may be; retry later, or raise "
        "klamm.max.open.requests (80)"
    )
    target.admit(CallKind.CONTROL, HERE).end()


Act = tuple[str, CallKind, int, int]


@pytest.mark.rule("AD-4")
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["admit", "handle", "park", "receive", "answer", "end"]),
            st.sampled_from(CallKind),
            st.integers(0, 5),
            st.integers(0, REQUEST_BYTES_MAX),
        ),
        max_size=30,
    )
)
def test_gauges_equal_a_recount_of_the_calls_at_hand(acts: list[Act]) -> None:
    metrics = Metrics()
    target = admission(metrics)

    async def act(calls: list[AdmittedCall], what: str, kind: CallKind, number: int, size: int) -> None:
        if what == "admit":
            calls.append(target.admit(kind, peer(number)))
            return
        if not calls:
            return
        call = calls[number % len(calls)]
        match what:
            case "handle" if not call._is_handled:
                call.handle_as(kind)
            case "park":
                call.park()
            case "receive" if not call._is_handled:
                await call.receive(arriving(bytes(size), 0))
            case "answer":
                call.answered(size)
            case "end":
                calls.remove(call)
                call.end()

    @virtually
    async def run() -> None:
        calls = list[AdmittedCall]()
        for what, kind, number, size in acts:
            with contextlib.suppress(ApiError):
                await act(calls, what, kind, number, size)
            assert shown(metrics) == recounted(calls)
        for call in calls:
            call.end()
        assert shown(metrics) == recounted([])

    run()


def recounted(calls: list[AdmittedCall]) -> dict[str, float]:
    """The gauges, by the calls that have not ended."""
    of_kinds = {
        f"{name} {kind.label}": sum(call.kind is kind and counts(call) for call in calls)
        for name, counts in (("openrequests", lambda _: True), ("handledrequests", lambda call: call._is_handled))
        for kind in CallKind
    }
    used = sum(call._bytes for call in calls)
    return {
        **of_kinds,
        "requestqueuesize": 0,
        "memorypoolused": used,
        "memorypoolavailable": 16 * REQUEST_BYTES_MAX - used,
        "count": len({(call.peer.address, call.peer.connection) for call in calls}),
    }


def shown(metrics: Metrics) -> dict[str, float]:
    """As a scraper sees them, by the end of their name and their kind of call."""
    return {
        " ".join([sample.name.rpartition("_")[2], *sample.labels.values()]): sample.value
        for family in metrics.collect()
        if family.type == "gauge"
        for sample in family.samples
    }


@pytest.mark.rule("AD-1")
@virtually
async def test_control_is_let_in_whatever_clients_do() -> None:
    target = admission(queued_max_requests=80, klamm_max_open_requests=800, max_connections_per_ip=1)
    for kind in reversed(CallKind):
        if kind is not CallKind.CONTROL:
            handle_all(target, kind)
    assert len(handle_all(target, CallKind.CONTROL)) == 10


@pytest.mark.rule("AD-5")
@virtually
async def test_an_address_may_have_calls_on_so_many_connections() -> None:
    target = admission(max_connections_per_ip=2)
    first, _ = (target.admit(CallKind.FETCH, Peer.parse(f"ipv4:10.0.0.1:{port}")) for port in (1, 2))
    with pytest.raises(ApiError) as caught:
        target.admit(CallKind.FETCH, Peer.parse("ipv4:10.0.0.1:3"))
    assert caught.value.field == "max.connections.per.ip"
    target.admit(CallKind.FETCH, Peer.parse("ipv4:10.0.0.1:2"))
    target.admit(CallKind.FETCH, Peer.parse("ipv4:10.0.0.2:3"))
    first.end()
    target.admit(CallKind.FETCH, Peer.parse("ipv4:10.0.0.1:3"))


@pytest.mark.rule("AD-2")
@virtually
async def test_a_call_may_turn_out_to_be_of_another_kind() -> None:
    target = admission(queued_max_requests=8)
    claimed = target.admit(CallKind.REPLICATION, HERE)
    await claimed.receive(arriving(bytes(30), 0))
    claimed.handle_as(CallKind.FETCH)
    assert (target.handled.used_by(CallKind.REPLICATION), target.handled.used_by(CallKind.FETCH)) == (0, 1)
    assert (target.memory.budget.used_by(CallKind.REPLICATION), target.memory.budget.used_by(CallKind.FETCH)) == (0, 30)
    for number in range(1, 3):
        handle(target, CallKind.FETCH, peer(number))
    another = target.admit(CallKind.REPLICATION, HERE)
    with pytest.raises(ApiError, match="fetch requests"):
        another.handle_as(CallKind.FETCH)
    another.end()
    claimed.end()
    assert used(target) == (2, 2, 0)


@pytest.mark.rule("AD-7")
@virtually
async def test_a_large_kind_of_request_has_room_before_it_is_read() -> None:
    target = admission()
    begun = list[int]()

    async def read() -> bytes:
        begun.append(target.memory.budget.used)
        return bytes(40)

    call = target.admit(CallKind.PRODUCE, HERE)
    await call.receive(read)
    assert begun == [REQUEST_BYTES_MAX]
    assert target.memory.budget.used == 40
    call.answered(10)
    assert used(target) == (1, 0, 10)
    call.end()
    assert used(target) == (0, 0, 0)


@pytest.mark.rule("AD-7")
@virtually
async def test_requests_wait_for_room_and_are_read_in_order() -> None:
    target, order = admission(), list[int]()
    share = target.memory.budget.limit(CallKind.PRODUCE)
    holders = list[AdmittedCall]()
    for number in range(share // REQUEST_BYTES_MAX):
        holders.append(target.admit(CallKind.PRODUCE, peer(number)))
        await holders[-1].receive(arriving(bytes(REQUEST_BYTES_MAX), 0))

    async def receive(number: int) -> None:
        call = target.admit(CallKind.PRODUCE, peer(100 + number))
        await call.receive(arriving(bytes(REQUEST_BYTES_MAX), 0))
        order.append(number)

    waiting = [asyncio.ensure_future(receive(number)) for number in range(3)]
    await asyncio.sleep(1)
    assert (order, target.memory.waiting) == ([], 3)
    for holder in holders[:3]:
        holder.end()
        await asyncio.sleep(0.001)
    assert order == [0, 1, 2]
    await asyncio.gather(*waiting)


@pytest.mark.rule("AD-7")
@virtually
async def test_a_request_that_finds_no_room_in_time_is_refused_by_name() -> None:
    metrics = Metrics()
    target = admission(metrics, klamm_request_transfer_timeout_ms=700)
    for number in range(target.memory.budget.limit(CallKind.PRODUCE) // REQUEST_BYTES_MAX):
        await target.admit(CallKind.PRODUCE, peer(number)).receive(arriving(bytes(REQUEST_BYTES_MAX), 0))
    late = target.admit(CallKind.PRODUCE, peer(200))
    error = await refusal(late.receive(arriving(b"", 0)))
    assert error.field == "queued.max.request.bytes"
    late.end()
    assert target.memory.waiting == 0
    tags = {"kind": "produce"}
    assert metrics.meter("klamm.network", "Admission", "RefusedRequestsPerSec", **tags).count == 1


@pytest.mark.rule("AD-8")
@pytest.mark.parametrize("kind", [CallKind.PRODUCE, CallKind.FETCH, CallKind.CONTROL])
@virtually
async def test_a_request_that_does_not_arrive_is_dropped_after_the_timeout(kind: CallKind) -> None:
    target = admission(klamm_request_transfer_timeout_ms=700)
    call, began = target.admit(kind, HERE), asyncio.get_running_loop().time()
    error = await refusal(call.receive(arriving(b"", 5)))
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.7)
    assert error.field == "klamm.request.transfer.timeout.ms"
    call.end()
    assert used(target) == (0, 0, 0)


@pytest.mark.rule("AD-7", "AD-8")
@virtually
async def test_slow_requests_make_way_for_those_that_wait() -> None:
    target = admission()
    slow = [
        asyncio.ensure_future(refusal(whole_call(target, CallKind.PRODUCE, peer(number), arriving(b"", 20))))
        for number in range(30)
    ]
    await asyncio.sleep(SLOW_AFTER_S + 1)
    began = asyncio.get_running_loop().time()
    for number in range(50):
        await whole_call(target, CallKind.PRODUCE, peer(100 + number), arriving(bytes(1), 0.001))
    assert asyncio.get_running_loop().time() - began < 2 * SLOW_AFTER_S
    for task in slow:
        task.cancel()


@pytest.mark.rule("AD-7", "AD-8")
@virtually
async def test_small_requests_are_read_however_many_do_not_arrive() -> None:
    target = admission()
    slow = [
        asyncio.ensure_future(whole_call(target, CallKind.FETCH, peer(number), arriving(b"", 20)))
        for number in range(30)
    ]
    await asyncio.sleep(2 * LATE_AFTER_S)
    # Nothing has arrived after them: that may be the event loop's own delay.
    assert target.open.used_by(CallKind.FETCH) == 30
    await whole_call(target, CallKind.ADMIN, HERE, arriving(b"xy", 0))
    await asyncio.sleep(2 * LATE_AFTER_S)
    assert target.memory.budget.used <= target.memory.budget.limit(CallKind.FETCH)
    error = await refusal(asyncio.wait_for(slow[-1], 0.001))
    assert error.field == "queued.max.request.bytes"
    assert await whole_call(target, CallKind.FETCH, HERE, arriving(b"xy", LATE_AFTER_S / 2)) == b"xy"
    # One that takes longer takes the place of the slowest.
    await asyncio.sleep(SLOW_AFTER_S)
    assert await whole_call(target, CallKind.FETCH, HERE, arriving(b"xy", LATE_AFTER_S * 2)) == b"xy"
    assert target.memory.budget.used <= target.memory.budget.limit(CallKind.FETCH)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


@pytest.mark.rule("AD-7")
@virtually
async def test_a_response_waits_until_those_before_it_were_taken() -> None:
    target, order = admission(), list[int]()
    calls = [target.admit(CallKind.FETCH, peer(number)) for number in range(20)]

    async def answer(number: int) -> None:
        await calls[number].receive(arriving(bytes(1), 0))
        await calls[number].expect_response(10_000)
        calls[number].park()
        await asyncio.sleep(0.01)
        await calls[number].resume()
        calls[number].answered(REQUEST_BYTES_MAX)
        order.append(number)

    answering = [asyncio.ensure_future(answer(number)) for number in range(20)]
    await asyncio.sleep(1)
    fit = target.memory.budget.limit(CallKind.FETCH) // REQUEST_BYTES_MAX - 1
    assert order == list(range(fit))
    for number in range(20):
        await asyncio.sleep(0.01)
        calls[number].end()
    await asyncio.gather(*answering)
    assert order == list(range(20))
    assert used(target) == (0, 0, 0)


@pytest.mark.rule("AD-3", "AD-7")
@virtually
async def test_a_connection_that_takes_no_responses_holds_up_itself_only() -> None:
    target = admission()
    hoarding = [target.admit(CallKind.FETCH, HERE) for _ in range(10)]

    async def answer(call: AdmittedCall) -> None:
        await call.expect_response(REQUEST_BYTES_MAX)
        call.answered(REQUEST_BYTES_MAX)

    tasks = [asyncio.ensure_future(answer(call)) for call in hoarding]
    await asyncio.sleep(1)
    share = target.memory.budget.limit(CallKind.FETCH, Bound.CONNECTION)
    assert target.memory.budget.used == share // REQUEST_BYTES_MAX * REQUEST_BYTES_MAX
    other = target.admit(CallKind.FETCH, peer(9))
    await asyncio.wait_for(answer(other), 0.1)
    for call in hoarding:
        call.end()
        await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    other.end()
    assert used(target) == (0, 0, 0)


@pytest.mark.rule("AD-4")
@virtually
async def test_waiting_inside_a_call_parks_it_and_elsewhere_does_nothing() -> None:
    target = admission()
    async with parked():
        pass
    call = handle(target, CallKind.FETCH, HERE)
    CURRENT.set(call)
    assert target.handled.used == 1
    async with parked():
        assert target.handled.used == 0
    with pytest.raises(TimeoutError):
        async with parked():
            raise TimeoutError
    call.end()


@pytest.mark.rule("AD-1", "AD-4", "AD-7")
# Each of two fetches of a connection has a request that leaves too little room for the other's response.
@example(
    [(CallKind.CONTROL, 0, 0, 0)] * 2
    + [(CallKind.FETCH, 0, 1, 48), (CallKind.CONTROL, 0, 0, 0), (CallKind.FETCH, 0, 0, 57)]
)
@given(
    plans=st.lists(
        st.tuples(st.sampled_from(CallKind), st.integers(0, 3), st.integers(0, 6), st.integers(0, 100)), max_size=40
    )
)
def test_whatever_becomes_of_calls_all_is_given_back(plans: list[tuple[CallKind, int, int, int]]) -> None:
    @virtually
    async def run() -> None:
        target = admission(queued_max_requests=16, klamm_request_transfer_timeout_ms=3000)

        async def call(kind: CallKind, address: int, fate: int, size: int) -> None:
            admitted = target.admit(kind, peer(address))
            try:
                await admitted.receive(arriving(bytes(size), (0, 0, 0.01, 0.2, 2.5, 5, 0)[fate]))
                admitted.handle_as(CallKind.FETCH if kind is CallKind.REPLICATION and size % 2 else kind)
                if kind is CallKind.FETCH:
                    await admitted.expect_response(size * 2)
                if fate % 2:
                    admitted.park()
                    await asyncio.sleep(1)
                    await admitted.resume()
                admitted.answered(size)
                await asyncio.sleep(0.1 * size)
            finally:
                admitted.end()

        calls = [asyncio.ensure_future(call(*plan)) for plan in plans]
        for number, task in enumerate(calls):
            await asyncio.sleep(0.05)
            assert target.handled.used <= target.handled.total
            if number % 3 == 0:
                task.cancel()
        for finished in await asyncio.gather(*calls, return_exceptions=True):
            assert finished is None or isinstance(finished, ApiError | asyncio.CancelledError)
        assert used(target) == (0, 0, 0)
        assert target.memory.waiting == 0
        assert target._connections == {}

    run()


def test_the_connections_of_all_listeners_stay_below_the_descriptors_for_them() -> None:
    few = AdmissionLimits.from_settings(Settings(), descriptors=100)
    assert (few.max_connections, few.max_other_connections) == (75, 25)
    three = AdmissionLimits.from_settings(Settings(), descriptors=100, has_external=True)
    assert (three.max_connections, three.max_other_connections) == (50, 25)
    kafka = AdmissionLimits.from_settings(Settings(), descriptors=100, has_kafka=True)
    assert (kafka.max_connections, kafka.max_other_connections, kafka.max_kafka_connections) == (25, 25, 25)
    # Each connection of a Kafka client may need another one, to a broker.
    assert kafka.max_connections + kafka.max_other_connections + 2 * kafka.max_kafka_connections == 100
    configured = AdmissionLimits.from_settings(Settings(max_connections=10), descriptors=100)
    assert (configured.max_connections, configured.max_other_connections) == (10, 10)
