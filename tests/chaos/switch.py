"""The network of the suite: one namespace per process, and a switch between them that can be told to fail.

Each host is a network namespace with a TUN device; the switch holds the other ends and forwards IP packets from one to
another. What it does to them depends on the pair (source, destination), so that a cut can be one-way: drop all or some,
delay, limit the rate, or answer TCP with a reset. It needs neither iptables nor netem.

As a program: `python -m tests.chaos.switch HOST…` prints the process ids that hold the namespaces as one line of JSON,
then takes one line of JSON with all rules at a time and answers `ok` once they are in force. Ends with its input.
"""

import ctypes
import fcntl
import heapq
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

SUBNET: Final = "10.99.0"
CLIENTS: Final = "clients"
"""The host that the suite itself is; the others have a namespace of their own."""

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_MTU = 9000
_TCP = 6
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_PR_SET_PDEATHSIG = 1


class Link(NamedTuple):
    """What happens to packets of one direction. `drop`, `reset`: probabilities; `rate`: bytes per second, 0: any.

    `jitter_ms`: up to so much more delay, each packet for itself, so that they overtake one another.
    """

    drop: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    rate: float = 0.0
    reset: float = 0.0


def address(hosts: list[str], host: str) -> str:
    """The IPv4 address of a host; `hosts` in the order in which the switch got them."""
    return f"{SUBNET}.{hosts.index(host) + 1}"


class Switch:
    """Forwards packets between the devices; `rules`: by (source, destination), each a host's number."""

    def __init__(self, devices: list[int]) -> None:
        self._devices = devices
        self._addresses = {socket.inet_aton(f"{SUBNET}.{n + 1}"): n for n in range(len(devices))}
        self.rules: dict[tuple[int, int], Link] = {}
        self._random = Random()
        self._delayed: list[tuple[float, int, int, bytes]] = []
        self._free_at: dict[tuple[int, int], float] = defaultdict(float)
        self._count = 0

    def take(self, source: int) -> None:
        """Forward what waits at one device, up to a bound, so that no host keeps the others waiting."""
        for _ in range(64):
            try:
                packet = os.read(self._devices[source], 65536)
            except BlockingIOError:
                return
            if packet[0] >> 4 == 4:
                self._forward(source, packet)

    def _forward(self, source: int, packet: bytes) -> None:
        destination = self._addresses.get(packet[16:20])
        if destination is None:
            return
        link = self.rules.get((source, destination))
        if link is None:
            self._write(destination, packet)
            return
        if link.drop and self._random.random() < link.drop:
            return
        if link.reset and self._random.random() < link.reset and (resets := _resets(packet)):
            self._write(source, resets[0])
            self._write(destination, resets[1])
            return
        now = time.monotonic()
        due = now + (link.delay_ms + self._random.uniform(0, link.jitter_ms)) / 1000
        if link.rate:
            begin = max(now, self._free_at[source, destination])
            if begin - now > 5:
                return  # A full queue, as a router's.
            self._free_at[source, destination] = begin + len(packet) / link.rate
            due += self._free_at[source, destination] - now
        self._count += 1
        heapq.heappush(self._delayed, (due, self._count, destination, packet))

    def _write(self, destination: int, packet: bytes) -> None:
        try:
            os.write(self._devices[destination], packet)
        except OSError:
            return  # A full queue, or a host that is gone.

    def deliver_due(self) -> float | None:
        """Deliver the delayed packets that are due; returns the seconds until the next one, None without any."""
        while self._delayed:
            due = self._delayed[0][0] - time.monotonic()
            if due > 0:
                return due
            _, _, destination, packet = heapq.heappop(self._delayed)
            self._write(destination, packet)
        return None


def _resets(packet: bytes) -> tuple[bytes, bytes] | None:
    """Resets of a packet's connection, for its sender and for its receiver; None unless it is TCP without RST."""
    start = (packet[0] & 0x0F) * 4
    if packet[9] != _TCP or len(packet) < start + 20:
        return None
    source_port, destination_port, sequence, acknowledged, offset, flags = struct.unpack_from(">HHIIBB", packet, start)
    if flags & _RST or not flags & _ACK:
        return None
    length = len(packet) - start - (offset >> 4) * 4 + bool(flags & (_SYN | _FIN))
    source, destination = packet[12:16], packet[16:20]
    back, on = (destination_port, source_port), (source_port, destination_port)
    to_sender = _reset(destination, source, back, (acknowledged, sequence + length))
    to_receiver = _reset(source, destination, on, (sequence, acknowledged))
    return to_sender, to_receiver


def _reset(source: bytes, destination: bytes, ports: tuple[int, int], numbers: tuple[int, int]) -> bytes:
    """`numbers`: of the sequence and of the acknowledgement."""
    wrapped = [number & 0xFFFFFFFF for number in numbers]
    tcp = struct.pack(">HHIIBBHHH", *ports, *wrapped, 5 << 4, _RST | _ACK, 0, 0, 0)
    pseudo = source + destination + struct.pack(">BBH", 0, _TCP, len(tcp))
    tcp = tcp[:16] + struct.pack(">H", _checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, _TCP, 0, source, destination)
    return ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:] + tcp


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _open_device(number: int) -> int:
    """A TUN device of the current namespace, configured and up."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"chaos", _IFF_TUN | _IFF_NO_PI))
    # Nothing here speaks IPv6, whose router solicitations would only cost time.
    for file in Path("/proc/sys/net/ipv6/conf/chaos").glob("disable_ipv6"):
        file.write_text("1")
    for command in (
        "ip link set lo up",
        f"ip address add {SUBNET}.{number + 1}/24 dev chaos",
        f"ip link set chaos mtu {_MTU} up",
    ):
        subprocess.run(command.split(), check=True)
    return device


def _hold_namespace(number: int) -> tuple[int, int]:
    """A process that holds a new network namespace, and the device in it: (process id, descriptor)."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if libc.unshare(_CLONE_NEWNET) != 0:
            os._exit(1)
        socket.send_fds(its, [b"."], [_open_device(number)])
        ours.close()
        while True:
            signal.pause()
    its.close()
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    os.set_blocking(descriptors[0], False)
    return pid, descriptors[0]


def _release(holders: list[int]) -> None:
    """End the holders. They have copies of our descriptors, and a device is gone when nobody has it open any more."""
    for pid in holders:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def parse_rules(hosts: list[str], line: str) -> dict[tuple[int, int], Link]:
    """All rules of one line: `[[source, destination, {"drop": 1.0}], …]`."""
    rules: list[tuple[str, str, dict[str, Any]]] = json.loads(line)
    return {(hosts.index(source), hosts.index(to)): Link(**fields) for source, to, fields in rules}


def main(hosts: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    devices, holders = [_open_device(0)], {CLIENTS: os.getpid()}
    for number, host in enumerate(hosts[1:], start=1):
        holders[host], device = _hold_namespace(number)
        devices.append(device)
    switch = Switch(devices)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    for number, device in enumerate(devices):
        selector.register(device, selectors.EVENT_READ, number)
    print(json.dumps(holders), flush=True)
    while True:
        for key, _ in selector.select(switch.deliver_due()):
            if key.data is not None:
                switch.take(key.data)
                continue
            line = sys.stdin.readline()
            if not line:
                _release([pid for host, pid in holders.items() if host != CLIENTS])
                return
            switch.rules = parse_rules(hosts, line)
            print("ok", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
