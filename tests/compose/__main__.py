"""`tests/compose/run`: the stack of compose.yaml on a Docker engine, with faults. Exit codes: 0 passed or skipped."""

import signal
import sys
import time
from collections.abc import Callable

from tests.compose.engine import NoEngineError, engine
from tests.compose.images import CORE_BYTES_MAX, copy_tree, make_images, size
from tests.compose.scenario import Scenario
from tests.compose.stack import Stack


def check(say: Callable[[str], None]) -> None:
    """Everything from the engine to the removal of what it wrote. Raises NoEngineError, AssertionError."""
    with engine() as running:
        version = running.docker("version", "--format={{.Server.Version}}")
        tree = copy_tree(running.folder)
        images = make_images(running, tree)
        above_base = size(running, "klamm") - size(running, images.base)
        assert above_base < CORE_BYTES_MAX, f"the core image has {above_base} bytes above its base"
        stack = Stack(running, tree, images)
        say(f"engine {version}, {stack.version}")
        stack.compose("config", "--quiet")
        try:
            Scenario(stack, say).check_all()
        finally:
            stack.down()


def main() -> int:
    started = time.monotonic()
    # Also when it is ended from outside, or runs in the background of a shell: the engine and its gigabytes go.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {line}", flush=True)

    try:
        check(say)
    except NoEngineError as reason:
        say(f"SKIPPED: {reason}")
    else:
        say("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
