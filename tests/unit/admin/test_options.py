"""How commands run: options, the connection, and interrupts."""

import subprocess
import sys

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
