"""How commands run: options, the connection, and interrupts."""

import subprocess
import sys

import pytest

from admin.cli.parsing import parse_since
from tests.timeouts import TIMEOUT_S

INTERRUPTED = """
import asyncio, signal, threading, time
from admin.cli.options import run

async def main():
    def interrupt():
        # As if the system had delivered Ctrl-C to a thread that is not the main one, which sleeps in its event loop.
        asleep.wait()
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    asleep = threading.Event()
    threading.Thread(target=interrupt).start()
    asleep.set()
    await asyncio.Event().wait()

try:
    run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_command_notices_sigint_on_any_thread() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    assert ended.stdout == "interrupted\n"


NOW_MS = 1_000_000_000_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("30s", NOW_MS - 30_000),
        ("10m", NOW_MS - 600_000),
        ("2h", NOW_MS - 7_200_000),
        ("1d", NOW_MS - 86_400_000),
        ("999999999d", 0),
        ("1970-01-01", 0),
        ("1969-12-31 23:59:59.999", 0),
        ("1970-01-01 00:01", 60_000),
        ("1970-01-01T02:01+02:00", 60_000),
    ],
)
def test_a_time_is_one_before_now_or_in_utc(text: str, at_ms: int) -> None:
    # Never negative: -1 and -2 are the end and the beginning of a log.
    assert parse_since(text, NOW_MS) == at_ms
