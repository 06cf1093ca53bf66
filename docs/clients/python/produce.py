"""Send each line of stdin once, in order: python produce.py HOST:PORT TOPIC PARTITION. The address is any broker's."""

import struct
import sys
import time

import grpc
from crc32c import crc32c

from klamm.v1 import broker_agent_pb2 as messages
from klamm.v1 import broker_agent_pb2_grpc

SEND_AGAIN = {
    3,
    5,
    6,
    7,
    13,
    19,
    20,
    56,
}  # The leader moves, or lacks replicas or an answer; sent again is stored once.
LINES = 100


def varint(number: int) -> bytes:
    """Encode a signed number as in records: zigzag, seven bits a byte."""
    left, encoded = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def batch(values: list[bytes], producer_id: int, epoch: int, first_sequence: int) -> bytes:
    """Encode one record batch, version 2, of values without keys."""
    now, records = time.time_ns() // 1_000_000, b""
    for delta, value in enumerate(values):
        # Attributes, timestamp and offset delta, no key, the value, no headers.
        record = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
    count = len(values)
    covered = struct.pack(">hiqqqhii", 0, count - 1, now, now, producer_id, epoch, first_sequence, count) + records
    # Base offset 0, the length of what follows it, no leader epoch, magic 2, and the checksum of the rest.
    return struct.pack(">qiibI", 0, 4 + 1 + 4 + len(covered), -1, 2, crc32c(covered)) + covered


class Sender:
    """One producer of one partition, with one batch in flight."""

    def __init__(self, address: str, topic: str, partition: int) -> None:
        self.any_broker, self.topic, self.partition = self.broker(address), topic, partition
        while (given := self.any_broker.InitProducerId(messages.InitProducerIdRequest(), timeout=60)).error_code:
            time.sleep(0.1)
        self.id, self.epoch, self.sequence = given.producer_id, given.producer_epoch, 0

    @staticmethod
    def broker(address: str) -> broker_agent_pb2_grpc.BrokerAgentServiceStub:
        return broker_agent_pb2_grpc.BrokerAgentServiceStub(grpc.insecure_channel(address))

    def leader(self) -> broker_agent_pb2_grpc.BrokerAgentServiceStub | None:
        """The leader's stub, by the metadata of the broker at the address; None while there is none."""
        asked = messages.MetadataRequest(topics={"names": [self.topic]})
        known = self.any_broker.Metadata(asked, timeout=10)
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in known.brokers}
        leaders = {p.partition_index: p.leader_id for topic in known.topics for p in topic.partitions}
        address = addresses.get(leaders.get(self.partition, -1))
        return None if address is None else self.broker(address)

    def send(self, values: list[bytes]) -> int:
        """Send until it is stored. Returns the offset of the first value."""
        part = messages.ProducePartition(topic=self.topic, partition=self.partition)
        part.records = batch(values, self.id, self.epoch, self.sequence)
        request = messages.ProduceRequest(acks=-1, timeout_ms=10_000, partitions=[part])
        while True:
            try:
                leader = self.leader()
                result = leader.Produce(request, timeout=15).partitions[0] if leader is not None else None
            except grpc.RpcError:
                result = None
            if result is not None and result.error_code == 0:
                self.sequence = (self.sequence + len(values)) % 2**31
                return result.base_offset
            if result is not None and result.error_code not in SEND_AGAIN:
                raise SystemExit(f"error {result.error_code}: {result.error_message}")
            time.sleep(0.1)


def main(address: str, topic: str, partition: str) -> None:
    sender = Sender(address, topic, int(partition))
    lines = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    for start in range(0, len(lines), LINES):
        values = lines[start : start + LINES]
        print(f"{len(values)} records from offset {sender.send(values)} on")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
