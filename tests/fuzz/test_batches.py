"""Record batches, nearly right: as a client's at a leader, as a leader's at a follower, and at a consumer."""

import asyncio
import struct
import zlib
from contextlib import suppress
from typing import Final

import cramjam
from hypothesis import given
from hypothesis import strategies as st

from admin.consuming.record_batches import BadBatchError, decode_records
from broker_agent.log.config import LogConfig
from broker_agent.log.record_batch import FROM_CHECKSUM, HEADER_SIZE, UP_TO_CHECKSUM, BatchHeader, crc32c, parse_header
from broker_agent.requests.client_batches import check_client_batch
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import LogAppendError
from simulator.record_batches import encode_batch, encode_records
from tests.contract.log_worlds import InMemoryWorld, Node, check_invariants
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.damage import damaged
from tests.fuzz.messages import Draw

NOW_MS: Final = 1_700_000_000_000
_LIMIT: Final = 1 << 20
_CONFIG: Final = LogConfig(segment_bytes=4000, index_interval_bytes=100)
_ENCODERS: Final = (
    bytes,
    lambda data: zlib.compress(data, wbits=31),
    lambda data: bytes(cramjam.snappy.compress_raw(data)),
    lambda data: bytes(cramjam.lz4.compress(data)),
    lambda data: bytes(cramjam.zstd.compress(data)),
)
_NUMBERS: Final = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
    "I": (0, 2**32 - 1),
}
_FORMATS: Final = dict(zip(BatchHeader._fields, "qiibIhiqqqhii", strict=True))


@st.composite
def client_batches(draw: Draw) -> bytes:
    """A batch whose records, compression or header are wrong, mostly with the right length and checksum."""
    count = draw(st.integers(1, 5))
    codec = draw(st.integers(0, 4))
    records = encode_records(draw(st.binary(max_size=30)), count)
    if draw(st.booleans()):
        records = draw(damaged(records))
    section = _ENCODERS[codec](records)
    if draw(st.integers(0, 4)) == 0:
        section = draw(damaged(section))
    return draw(with_header_changed(encode_batch(section, count, attributes=codec, base_timestamp=NOW_MS)))


@st.composite
def with_header_changed(draw: Draw, batch: bytes) -> bytes:
    """The batch with up to three fields of its header changed, sealed again unless the seal itself was chosen."""
    header = parse_header(batch)._asdict()
    header["max_timestamp"] = NOW_MS
    chosen = draw(st.lists(st.sampled_from(BatchHeader._fields), max_size=3))
    for name in chosen:
        minimum, maximum = _NUMBERS[_FORMATS[name]]
        edges = [minimum, minimum + 1, -1, 0, 1, 2, maximum - 1, maximum, header[name] - 1, header[name] + 1]
        header[name] = draw(
            st.sampled_from([e for e in edges if minimum <= e <= maximum]) | st.integers(minimum, maximum)
        )
    fields = list(header.values())
    covered = FROM_CHECKSUM.pack(*fields[5:]) + batch[HEADER_SIZE:]
    if "crc" not in chosen:
        fields[4] = crc32c(covered)
    return UP_TO_CHECKSUM.pack(*fields[:5]) + covered


@fuzz(examples=400)
@given(client_batches())
def test_batches_of_clients(batch: bytes) -> None:
    """What a leader accepts, it can append, its follower can append, and a consumer can read."""
    count_case("batches of clients")
    try:
        accepted = check_client_batch(batch, _CONFIG, NOW_MS, _LIMIT)
    except LogAppendError:
        return
    header = parse_header(accepted)

    async def append() -> None:
        leader, follower = Node(InMemoryWorld(), "/a", config=_CONFIG), Node(InMemoryWorld(), "/a", config=_CONFIG)
        await leader.start()
        await follower.start()
        log, copy = await leader.log(), await follower.log()
        with suppress(LogAppendError):
            for _ in range(2):
                log.append_as_leader(accepted, LeaderEpoch(1), NOW_MS)
        if log.log_end_offset == 0:
            return
        count = 0
        while copy.log_end_offset < log.log_end_offset:
            stored = log.read(copy.log_end_offset, 1 << 20, log.log_end_offset, at_least_one=True)
            read = decode_records(stored, copy.log_end_offset)
            copy.append_as_follower(stored, LeaderEpoch(1))
            assert read.next_offset == copy.log_end_offset
            count += len(read.records)
        check_invariants(copy)
        assert count in (header.record_count, 2 * header.record_count)
        await leader.stop()
        await leader.start()
        check_invariants(await leader.log())

    asyncio.run(append())


_SOUND: Final = b"".join(
    encode_batch(encode_records(b"v", 3), 3, base_offset=3 * at, leader_epoch=1 + at // 2, base_timestamp=at)
    for at in range(4)
)


@st.composite
def fetched_sets(draw: Draw) -> bytes:
    """Batches of a leader's log, one of them with another header, or damaged."""
    size = len(_SOUND) // 4
    batches = [_SOUND[at : at + size] for at in range(0, len(_SOUND), size)]
    at = draw(st.integers(0, 3))
    batches[at] = draw(with_header_changed(batches[at]))
    whole = b"".join(draw(st.permutations(batches)) if draw(st.integers(0, 9)) == 0 else batches)
    return draw(damaged(whole)) if draw(st.booleans()) else whole


@fuzz(examples=400)
@given(fetched_sets(), st.integers(-1, 3))
def test_record_sets_of_leaders(records: bytes, max_epoch: int) -> None:
    """A follower appends what continues its log and refuses the rest; its log stays sound over a restart."""
    count_case("record sets of leaders")

    async def append() -> None:
        node = Node(InMemoryWorld(), "/a", config=_CONFIG)
        await node.start()
        log = await node.log()
        for _ in range(2):
            try:
                log.append_as_follower(records, LeaderEpoch(max_epoch))
            except LogAppendError:
                continue
        check_invariants(log)
        end = log.log_end_offset
        log.truncate_to(Offset(max(0, end - 2)))
        check_invariants(log)
        await node.crash_and_restart()
        check_invariants(await node.log())
        await node.stop()

    asyncio.run(append())


@fuzz(examples=400)
@given(fetched_sets() | st.binary(max_size=200), st.sampled_from([0, 1, 3, 11, 12, 2**63 - 1]))
def test_answers_of_leaders(data: bytes, wanted: int) -> None:
    """A consumer gets on, whatever a leader answers."""
    count_case("answers of leaders")
    for _ in range(10):
        try:
            decoded = decode_records(data, Offset(wanted))
        except BadBatchError as error:
            behind = error.next_offset
        else:
            behind = decoded.next_offset
            assert all(record.offset >= wanted for record in decoded.records)
        if not data:
            return
        assert behind > wanted
        wanted = behind


def test_the_header_has_these_fields() -> None:
    assert struct.calcsize(">" + "".join(_FORMATS.values())) == HEADER_SIZE
