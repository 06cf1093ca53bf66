"""Draw klamm's dashboards for docs/images: a healthy cluster under load, and one fault, a broker that was killed.

.venv/bin/python -m tests.observability.dashboard_images     # some minutes
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from deploy.grafana.description import DASHBOARDS
from state_log.writer import STATE_CHANGE_FOLDER
from tests.observability.rendering import SECONDS, drawing
from tests.observability.run import DOCS
from tests.observability.stage import Stage, end, stage, start_audit
from tests.processes.commands import LAUNCHER
from tests.processes.local_clusters import eventually

_KILLED: Final = "broker-2"
_TOPICS: Final = {"orders": 300, "payments": 120}
"""Records a second."""
_FAULT_S: Final = 80
"""How long the fault has lasted in the pictures: TargetDown fires after a minute."""


@contextmanager
def traffic(live: Stage, topic: str, per_second: int) -> Iterator[None]:
    """Produce and consume until the end of the block."""
    of_cluster = ("--data", str(live.cluster.folder))
    consumer = subprocess.Popen([*LAUNCHER, "consume", topic, *of_cluster], stdout=subprocess.DEVNULL)
    producer = subprocess.Popen([*LAUNCHER, "produce", topic, *of_cluster], stdin=subprocess.PIPE, text=True)
    ended = Event()

    def feed() -> None:
        assert producer.stdin is not None
        number = 0
        with producer.stdin:
            while not ended.wait(0.2):
                for _ in range(per_second // 5):
                    producer.stdin.write(f'customer-{number % 1000}\t{{"number": {number}}}\n')
                    number += 1
                producer.stdin.flush()

    feeder = Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join()
        producer.wait()
        end(consumer)


def draw_all(folder: Path) -> dict[str, str]:
    """The SVGs by the uid of their dashboard."""
    with stage(folder, as_shipped=True) as live, ExitStack() as stack:
        (folder / "audit").mkdir()
        start_audit(live, folder / "audit", "--log-dir", str(live.fourth.directories[0] / STATE_CHANGE_FOLDER))
        stack.callback(lambda: live.cluster.start(_KILLED))
        for topic, per_second in _TOPICS.items():
            live.klamm("topics", "create", topic, "--partitions", "12", "--replication-factor", "3")
            stack.enter_context(traffic(live, topic, per_second))
        eventually(lambda: live.server.query('klamm_audit_job_verdict{value="clean"} == 1'), "the audit is clean")
        live.klamm("elect", "preferred", "--all-topic-partitions")
        time.sleep(SECONDS - _FAULT_S)
        live.cluster.kill(_KILLED)
        eventually(lambda: live.server.firing() == {"TargetDown"}, "TargetDown fires, and nothing else")
        time.sleep(_FAULT_S - 60)
        return {dashboard.uid: drawing(dashboard, live.server) for dashboard in DASHBOARDS}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for uid, svg in draw_all(Path(name)).items():
            (DOCS / "images" / f"{uid}.svg").write_text(svg)
            sys.stdout.write(f"docs/images/{uid}.svg\n")
