"""What a refused batch was decompressed to is freed at once, not when Python's collector runs."""

import gc
import zlib
from pathlib import Path

import pytest

from broker_agent.adapters.thread_workers import ThreadWorkers
from broker_agent.log.config import LogConfig
from broker_agent.requests.batch_validation import BatchValidation
from cluster.aio.clock import SystemClock
from cluster.config.settings import Settings
from cluster.model.errors import ErrorCode, LogAppendError
from simulator.record_batches import encode_batch

LIMIT = 32 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.rule("R7.17")
async def test_refused_batches_leave_nothing_behind() -> None:
    zeros = zlib.compress(bytes(LIMIT - 1), wbits=31)
    bomb = zlib.compress(bytes(2 * LIMIT), wbits=31)
    workers = ThreadWorkers(2)
    settings = Settings(klamm_max_decompressed_batch_bytes=LIMIT, klamm_decompression_memory_bytes=2 * LIMIT)
    validation = BatchValidation(workers, SystemClock(), settings)
    gc.disable()
    try:
        before, codes = resident(), set()
        for section in (zeros, bomb) * 10:
            refused = await validation.validate_off_loop(encode_batch(section, 3, attributes=1), LogConfig())
            assert isinstance(refused, LogAppendError)
            codes.add(refused.code)
        assert codes == {ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE}
        assert resident() - before < 3 * LIMIT
    finally:
        gc.enable()
        workers.close()
