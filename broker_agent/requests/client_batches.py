"""Validation of a client's batch by the leader: header, compression, and every record. Pure.

Source: Kafka LogValidator.validateMessagesAndAssignOffsets. Followers and the disk do not look into batches.
"""

from collections.abc import Iterator
from typing import Final

from broker_agent.log.config import UNLIMITED, LogConfig
from broker_agent.log.record_batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, stamp_max_timestamp
from broker_agent.log.record_sets import check_batch_of_client
from broker_agent.requests.record_walk import MalformedRecordsError, Walked, walk_records
from cluster.model.compression import CompressionCodec, CompressionError, TooLargeError, decompress, find_codec
from cluster.model.errors import ErrorCode, LogAppendError, RecordError

NO_KEY_METER: Final = "NoKeyCompactedTopicRecordsPerSec"
_INT64_MAX: Final = 2**63 - 1
_ERRORS_MAX: Final = 100
"""Records that are named in one refusal."""


def check_client_batch(records: bytes, config: LogConfig, now_ms: int, decompressed_max: int) -> bytes:
    """Validate one batch of a client whole; returns it with the max timestamp that its records have.

    `decompressed_max`: the most bytes to which the records may decompress. Raises LogAppendError.
    """
    header = check_batch_of_client(records, config)
    if header.has_append_time:
        raise LogAppendError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime")
    codec = find_codec(header.attributes)
    if codec is None:
        why = f"the attributes {header.attributes:#06x} name no known compression: none, gzip, snappy, lz4, zstd"
        raise LogAppendError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, why)
    newest = _check_records(_section(records, codec, decompressed_max), header, config, now_ms)
    if config.message_timestamp_type == "CreateTime" and newest != header.max_timestamp:
        # As Kafka does: the index by time, and retention, trust this field.
        return stamp_max_timestamp(records, newest)
    return records


def _section(records: bytes, codec: CompressionCodec, decompressed_max: int) -> memoryview:
    try:
        return decompress(codec, memoryview(records)[HEADER_SIZE:], decompressed_max)
    except TooLargeError as error:
        raise LogAppendError(ErrorCode.MESSAGE_TOO_LARGE, f"{error}; klamm.max.decompressed.batch.bytes") from None
    except CompressionError as error:
        raise LogAppendError(ErrorCode.INVALID_RECORD, f"the records cannot be decompressed: {error}") from None


def _check_records(section: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> int:
    """Check every record; returns the newest timestamp."""
    newest, faults = NO_TIMESTAMP, _Faults(header, config, now_ms)
    try:
        for walked in walk_records(section, header.record_count):
            newest = max(newest, header.base_timestamp + max(walked.timestamps))
            faults.collect(walked)
    except MalformedRecordsError as error:
        why = f"record {error.index} of {header.record_count}: {error.why}"
        found = (RecordError(error.index, error.why),)
        raise LogAppendError(ErrorCode.INVALID_RECORD, why, record_errors=found) from None
    faults.refuse()
    return newest


class _Faults:
    """Collects records whose key or timestamp the topic does not accept."""

    def __init__(self, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
        self._base, self._count = header.base_timestamp, header.record_count
        self._needs_keys = "compact" in config.cleanup_policy
        self._oldest, self._newest = _window(config, now_ms)
        self._errors: list[RecordError] = []
        self._code, self._meter = ErrorCode.INVALID_RECORD, ""

    def collect(self, walked: Walked) -> None:
        """Note what is wrong; raises LogAppendError when that is more than anybody would read."""
        first = walked.first_index
        if self._needs_keys and None in walked.keys:
            self._meter = NO_KEY_METER
            why = "it has no key, which the topic needs: its cleanup.policy includes compact"
            self._add(RecordError(first + i, why) for i, key in enumerate(walked.keys) if key is None)
        if self._base + min(walked.timestamps) < self._oldest or self._base + max(walked.timestamps) > self._newest:
            self._add(self._outside(walked))
        if len(self._errors) >= _ERRORS_MAX:
            self.refuse()

    def _outside(self, walked: Walked) -> Iterator[RecordError]:
        for index, delta in enumerate(walked.timestamps, walked.first_index):
            timestamp = self._base + delta
            if timestamp != NO_TIMESTAMP and not self._oldest <= timestamp <= self._newest:
                self._code = ErrorCode.INVALID_TIMESTAMP
                yield RecordError(index, f"its timestamp {timestamp} is outside [{self._oldest}, {self._newest}]")

    def _add(self, errors: Iterator[RecordError]) -> None:
        for error in errors:
            if len(self._errors) == _ERRORS_MAX:
                return
            self._errors.append(error)

    def refuse(self) -> None:
        """Raise LogAppendError if anything was found."""
        if not self._errors:
            return
        first = self._errors[0]
        more = f" (and {len(self._errors) - 1} more)" if len(self._errors) > 1 else ""
        why = f"record {first.batch_index} of {self._count}: {first.batch_index_error_message}{more}"
        raise LogAppendError(self._code, why, record_errors=tuple(self._errors), meter=self._meter)


def _window(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The oldest and the newest timestamp that a record may have, in ms; -1, unknown, is always accepted."""
    if config.message_timestamp_type != "CreateTime":
        return -_INT64_MAX - 1, _INT64_MAX
    whatever = config.message_timestamp_difference_max_ms
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    oldest = now_ms - (whatever if before == UNLIMITED else before)
    newest = now_ms + (whatever if after == UNLIMITED else after)
    return max(oldest, -_INT64_MAX - 1), min(newest, _INT64_MAX)
