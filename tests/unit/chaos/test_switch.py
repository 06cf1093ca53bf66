"""The switch of the chaos suite forwards packets by address, and does to each direction of a link what it is told."""

import os
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.chaos.switch import SUBNET, Link, Switch, parse_rules

SYN, ACK = 0x02, 0x10


class Hosts:
    """Three hosts at a switch; their devices are sockets that keep packets apart."""

    def __init__(self) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
        self.ends = [end for end, _ in pairs]
        self._devices = [device for _, device in pairs]
        for one in (*self.ends, *self._devices):
            one.setblocking(False)
        self.switch = Switch([device.fileno() for device in self._devices])

    def send(self, source: int, destination: int, packet: bytes | None = None) -> bytes:
        sent = segment(source, destination) if packet is None else packet
        os.write(self.ends[source].fileno(), sent)
        self.switch.take(source)
        return sent

    def received(self, host: int) -> list[bytes]:
        packets = []
        while True:
            try:
                packets.append(os.read(self.ends[host].fileno(), 65536))
            except BlockingIOError:
                return packets

    def close(self) -> None:
        for one in (*self.ends, *self._devices):
            one.close()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    made.close()


def address(host: int) -> bytes:
    return socket.inet_aton(f"{SUBNET}.{host + 1}")


def segment(source: int, destination: int, flags: int = ACK, data: bytes = b"data") -> bytes:
    """A TCP packet, without checksums."""
    tcp = struct.pack(">HHIIBBHHH", 1000, 2000, 70, 900, 5 << 4, flags, 100, 0, 0) + data
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0)
    return header + address(source) + address(destination) + tcp


def checksum_is_right(data: bytes) -> bool:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def test_a_packet_goes_to_its_destination_only(hosts: Hosts) -> None:
    packet = hosts.send(0, 2)
    assert [hosts.received(n) for n in range(3)] == [[], [], [packet]]


def test_a_cut_is_one_way(hosts: Hosts) -> None:
    hosts.switch.rules = {(0, 1): Link(drop=1.0)}
    hosts.send(0, 1)
    back = hosts.send(1, 0)
    beside = hosts.send(0, 2)
    assert [hosts.received(n) for n in range(3)] == [[back], [], [beside]]


def test_some_packets_are_lost(hosts: Hosts) -> None:
    hosts.switch.rules = {(0, 1): Link(drop=0.5)}
    arrived = 0
    for _ in range(200):
        hosts.send(0, 1)
        hosts.switch.deliver_due()
        arrived += len(hosts.received(1))
    assert 20 < arrived < 180


def test_a_delayed_packet_arrives_when_it_is_due(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    hosts.switch.rules = {(0, 1): Link(delay_ms=500)}
    packet = hosts.send(0, 1)
    assert hosts.switch.deliver_due() == pytest.approx(0.5)
    assert hosts.received(1) == []
    now += 0.6
    assert hosts.switch.deliver_due() is None
    assert hosts.received(1) == [packet]


def test_a_narrow_link_delays_packets_by_their_sizes_and_drops_what_its_queue_cannot_hold(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    size = len(segment(0, 1))
    hosts.switch.rules = {(0, 1): Link(rate=size)}
    for _ in range(20):
        hosts.send(0, 1)
    assert hosts.switch.deliver_due() == pytest.approx(1.0)
    now += 3.5
    hosts.switch.deliver_due()
    assert len(hosts.received(1)) == 3
    now += 100
    hosts.switch.deliver_due()
    assert 0 < len(hosts.received(1)) < 17


def test_a_reset_ends_a_connection_on_both_sides(hosts: Hosts) -> None:
    hosts.switch.rules = {(0, 1): Link(reset=1.0)}
    hosts.send(0, 1)
    for receiver, sender, ports, sequence in ((0, 1, (2000, 1000), 900), (1, 0, (1000, 2000), 70)):
        [packet] = hosts.received(receiver)
        assert packet[12:20] == address(sender) + address(receiver)
        source_port, destination_port, number, _, _, flags = struct.unpack_from(">HHIIBB", packet, 20)
        assert (source_port, destination_port) == ports
        assert number == sequence
        assert flags == 0x14
        assert checksum_is_right(packet[:20])
        assert checksum_is_right(packet[12:20] + struct.pack(">BBH", 0, 6, len(packet) - 20) + packet[20:])


def test_what_is_no_connection_yet_is_not_reset(hosts: Hosts) -> None:
    hosts.switch.rules = {(0, 1): Link(reset=1.0)}
    packet = hosts.send(0, 1, segment(0, 1, flags=SYN, data=b""))
    hosts.switch.deliver_due()
    assert [hosts.received(0), hosts.received(1)] == [[], [packet]]


def test_rules_name_hosts() -> None:
    line = '[["a", "b", {"drop": 1.0}], ["b", "c", {"delay_ms": 5}]]'
    assert parse_rules(["a", "b", "c"], line) == {(0, 1): Link(drop=1.0), (1, 2): Link(delay_ms=5)}
