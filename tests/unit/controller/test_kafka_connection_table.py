"""Which connection is closed for which: reserve of brokers' hosts, shares of addresses, order of use."""

from time import perf_counter

import pytest

from controller.adapters.kafka.connection_table import (
    ConnectionBounds,
    ConnectionPlace,
    ConnectionTable,
    Use,
    address_of,
)

pytestmark = pytest.mark.rule("D-106")
UNBOUNDED = 2**31 - 1


class Connections:
    """Connections at a table with 16 places, four of them for brokers; each is opened an hour after the one before."""

    def __init__(self, of_address: int = UNBOUNDED, **named: int) -> None:
        bounds = ConnectionBounds(16, of_address, {host.replace("_", "."): limit for host, limit in named.items()})
        self.table = ConnectionTable(bounds)
        self.now_s = 0.0

    def open(
        self, host: str, use: Use = Use.FRESH, after_s: float = 3600
    ) -> tuple[ConnectionPlace, ConnectionPlace | None]:
        """The new place, and the one that was closed for it."""
        self.now_s += after_s
        place = ConnectionPlace(host, self.now_s, lambda: None)
        closed = self.table.enter(place)
        for step in (Use.WORKING, Use.IDLE)[: 2 if use is Use.IDLE else 1] if use else ():
            self.table.use(place, step)
        return place, closed

    def fill(self, host: str, count: int, use: Use = Use.FRESH) -> list[ConnectionPlace]:
        return [self.open(host, use)[0] for _ in range(count)]


def test_who_has_sent_nothing_goes_first_and_who_waits_for_an_answer_last() -> None:
    connections = Connections()
    connections.table.expect_brokers_at({"b"})
    working = connections.fill("b", 2, Use.WORKING)
    idle = connections.fill("b", 2, Use.IDLE)
    fresh = connections.fill("b", 12)
    order = [connections.open("b", Use.WORKING)[1] for _ in range(16)]
    assert order == [*fresh, *idle, *working]


def test_a_request_makes_a_connection_the_last_of_the_idle_ones() -> None:
    connections = Connections()
    connections.table.expect_brokers_at({"b"})
    first, second, *_ = connections.fill("b", 16, Use.IDLE)
    connections.table.use(first, Use.IDLE)
    assert connections.open("b")[1] is second


def test_a_new_connection_has_time_for_its_first_request() -> None:
    """Unless half of the connections have sent none."""
    connections = Connections()
    connections.table.expect_brokers_at({"b"})
    idle = connections.fill("b", 16, Use.IDLE)
    assert [connections.open("b", after_s=0.01)[1] for _ in range(8)] == idle[:8]
    ninth, closed = connections.open("b", after_s=0.01)
    assert closed is not None
    assert closed.use is Use.FRESH
    assert connections.table.count == 16
    assert connections.open("b", after_s=3)[1] is not ninth


def test_strangers_leave_the_reserve_of_brokers_free() -> None:
    connections = Connections()
    connections.table.expect_brokers_at({"10.0.0.1"})
    strangers = [connections.open(f"stranger-{n}", Use.WORKING)[0] for n in range(12)]
    assert connections.open("another", Use.WORKING)[1] is strangers[0]
    assert [connections.open("10.0.0.1")[1] for _ in range(4)] == [None] * 4


def test_brokers_use_what_others_leave_and_give_it_back() -> None:
    connections = Connections()
    connections.table.expect_brokers_at({"b"})
    of_broker = connections.fill("b", 16, Use.WORKING)
    closed = [connections.open(f"client-{n}", Use.IDLE)[1] for n in range(12)]
    assert closed == of_broker[:12]
    assert connections.open("b")[1] is of_broker[12]


def test_an_address_has_half_of_what_is_not_reserved_and_closes_only_its_own() -> None:
    connections = Connections()
    client, _ = connections.open("client", Use.IDLE)
    own = connections.fill("stranger", 6)
    assert [connections.open("stranger", Use.WORKING)[1] for _ in range(6)] == own
    assert client.is_open
    assert connections.table.count == 7


def test_the_limits_of_addresses() -> None:
    connections = Connections(of_address=1, named=8, b=1)
    connections.table.expect_brokers_at({"a", "b"})
    connections.fill("client", 2)
    assert connections.table.count == 1
    connections.fill("named", 9)
    assert connections.table.count == 1 + 8
    # Brokers may all be on one host: only what names it limits it.
    connections.fill("b", 2)
    assert connections.table.count == 1 + 8 + 1
    connections.fill("a", 3)
    assert connections.table.count == 1 + 8 + 1 + 3


def test_hosts_that_become_known_as_those_of_brokers_count_as_such() -> None:
    connections = Connections()
    for number in range(4):
        connections.fill(f"10.0.0.{number}", 3, Use.IDLE)
    assert connections.table.is_filling
    connections.table.expect_brokers_at({"10.0.0.1"})
    assert connections.open("client")[1] is None
    connections.table.expect_brokers_at(set())
    assert connections.open("client", after_s=0.1)[1] is not None


def test_a_place_is_left_once() -> None:
    connections = Connections()
    place, _ = connections.open("client")
    connections.table.leave(place)
    connections.table.leave(place)
    connections.table.use(place, Use.IDLE)
    assert connections.table.count == 0
    assert connections.table.give_up(0) is None
    place, _ = connections.open("client")
    assert connections.table.give_up(0) is place
    assert connections.table.count == 0


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("FE80:0::1", "fe80::1"),
        ("broker-1", "broker-1"),
    ],
)
def test_one_text_for_each_address(host: str, address: str) -> None:
    assert address_of(host) == address


def test_a_place_costs_the_same_however_many_there_are() -> None:
    def seconds(places: int) -> float:
        table = ConnectionTable(ConnectionBounds(places, UNBOUNDED))
        table.expect_brokers_at({"b"})
        for number in range(places):
            table.enter(ConnectionPlace("b", number, lambda: None))
        began = perf_counter()
        for number in range(5000):
            assert table.enter(ConnectionPlace("b", places + number, lambda: None)) is not None
        return perf_counter() - began

    assert min(seconds(50_000) for _ in range(3)) < 10 * min(seconds(100) for _ in range(3))
