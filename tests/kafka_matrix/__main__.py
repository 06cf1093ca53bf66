"""Clusters of Apache Kafka as they are secured in practice, one after the other under klamm.

    python -m tests.kafka_matrix --list                    # the clusters, and what is excluded
    python -m tests.kafka_matrix [--only TEXT] [--again]   # run those that have no result of this commit
    python -m tests.kafka_matrix --write                   # the table in docs/kafka-brokers.md

Each has a real ZooKeeper and two real brokers, is adopted by the commands as printed while records are written, loses
the active controller and a broker, and is left. Results are in build/kafka-matrix/results.jsonl as they come, and the
folders of those that failed beside it.
"""

import argparse
import logging
import shutil
import subprocess
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.kafka_matrix.axes import FURTHER, Cluster, clusters, impossible_pairs
from tests.kafka_matrix.results import Row, latest, read, write_document
from tests.kafka_matrix.stand import stand
from tests.kafka_matrix.trial import Trial, one_line

_ROOT: Final = Path(__file__).parents[2]


def main() -> int:
    arguments = _arguments()
    # A producer beside brokers that are killed has much to say.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    chosen = [one for one in (*clusters(), *FURTHER) if arguments.only in one.name]
    if arguments.list:
        for number, one in enumerate(chosen, start=1):
            print(f"{number:3} {one.name}")
        for pair, why in impossible_pairs().items():
            print(f"no {pair[0][1]} with {pair[1][1]}: {why}")
        return 0
    file = arguments.output / "results.jsonl"
    if arguments.write:
        write_document((*clusters(), *FURTHER), read(file))
        return 0
    arguments.output.mkdir(parents=True, exist_ok=True)
    commit = _commit()
    found = latest(read(file))
    done = {row.cluster for row in found.values() if row.commit == commit or (row.passed and arguments.keep)}
    # First those that have failed on other code.
    left = [one for one in enumerate(chosen, start=1) if arguments.again or one[1].name not in done]
    left.sort(key=lambda one: one[1].name not in found)
    failed = 0
    for number, one in left[: arguments.limit]:
        row = run(one, arguments.output / f"{number:02}", commit)
        with file.open("a") as results:
            results.write(row.to_line())
        print(f"{row.seconds:5.0f} s  {one.name}: {row.result if row.passed else row.result[:600]}", flush=True)
        failed += not row.passed
    return 1 if failed else 0


def run(cluster: Cluster, folder: Path, commit: str) -> Row:
    """Keeps the folder if the cluster failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began, steps = time.monotonic(), {}
    try:
        with stand(cluster, folder) as made:
            trial = Trial(made)
            steps = trial.steps
            trial.run()
        passed, result = True, trial.said
        shutil.rmtree(folder, ignore_errors=True)
    except Exception as error:
        (folder / "failure.txt").write_text(traceback.format_exc())
        passed, result = False, one_line(" ".join([*getattr(error, "__notes__", ()), str(error) or repr(error)]))
    seconds = round(time.monotonic() - began, 1)
    return Row(cluster.name, passed, result, seconds, commit, datetime.now(UTC).date().isoformat(), steps)


def _commit() -> str:
    """Of the working tree; what is not committed shows as a +."""
    head = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    product = ("adoption", "cluster", "controller", "admin", "launcher", "state_log")
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *product], cwd=_ROOT, check=False)
    return head.stdout.strip() + ("+" if changed.returncode else "")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the clusters, and start nothing")
    parser.add_argument("--only", default="", help="those whose name has this text")
    parser.add_argument("--again", action="store_true", help="also those that have a result of this commit")
    parser.add_argument("--keep", action="store_true", help="count what passed on any commit as passed")
    parser.add_argument("--limit", type=int, help="run so many at most")
    parser.add_argument("--write", action="store_true", help="write the table of the last results, and start nothing")
    parser.add_argument("--output", type=Path, default=_ROOT / "build" / "kafka-matrix")
    found = parser.parse_args()
    # Brokers run in folders of their own, and URLs of files have whole paths.
    found.output = found.output.resolve()
    return found


if __name__ == "__main__":
    sys.exit(main())
