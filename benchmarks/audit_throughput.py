"""Benchmarks the audit: records a second, CPU time a record and memory of the JVM and of Python, on logs that it makes.

Run as `python -m benchmarks.audit_throughput [--case NAME…] [--records N] [--batch-mb N] [--data DIR] [-o json]`. The
first batch is counted apart: it has the start of Spark in it. Beside the audit stands what Spark itself takes for the
same lines: `readStream.json`, and a count of each field. By thirds of the records it says whether a batch costs as
much at the end as at the beginning, and how long the audit takes to start again. Nothing else should run on the
machine.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as spark_functions
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from audit.job import run_audit
from audit.options import BATCH_BYTES, AuditOptions
from audit.report.report import AuditResult
from audit.spark.session import start_session
from audit.storage.output_folder import OutputFolder
from benchmarks.audit_logs import INCIDENT, STEADY, write_logs
from deploy.local.java import find_java, spark_environment

CASES: Final = {
    "10k": (STEADY, 10_000, 2_000_000),
    "100k": (STEADY, 100_000, 2_000_000),
    "incident": (INCIDENT, 100_000, 2_000_000),
    "1m": (STEADY, 1_000_000, 4_000_000),
    "long": (STEADY, 10_000, 20_000_000),
}
"""By name: what happens, the partitions, and the records."""
_USUAL: Final = ("10k", "100k", "incident", "1m")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass
class Used:
    """Holds what the processes below this one have used, by the name of their program: CPU seconds, and MB in memory
    now.
    """

    cpu: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)


@dataclass
class Measured:
    """Holds what was used at each progress of an audit, and says so."""

    points: list[tuple[float, int, Used]] = field(default_factory=list)
    ended: dict[int, tuple[str, float]] = field(default_factory=dict)
    """By process: its program, and the CPU seconds that it had used when it was seen last. Spark ends idle workers."""
    began: float = field(default_factory=time.monotonic)

    def add(self, result: AuditResult) -> None:
        now, used = time.monotonic(), used_below(os.getpid(), self.ended)
        before, had, _ = self.points[-1] if self.points else (self.began, 0, used)
        self.points.append((now, result.records, used))
        rate, memory = (result.records - had) / max(1e-9, now - before), _parts(_rounded(used.memory_mb))
        _say(f"{now - self.began:,.0f} s: {result.records:,} records, {rate:,.0f}/s since the last line; MB: {memory}")
        _say(f"    CPU us/record so far: {_parts(_per_record(Used(), used, result.records))}")


def _say(line: str) -> None:
    """Tell whoever waits how far the benchmark is; results go to stdout."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def used_below(parent: int, ended: dict[int, tuple[str, float]] | None = None) -> Used:
    """Measure what the descendants of a process have used. `ended`: those that were seen before, which are added."""
    seen = {} if ended is None else ended
    children: dict[int, list[tuple[int, str, float, float]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        # Without that of its children, which some have counted when they end, and others have not.
        cpu = sum(map(int, fields[11:13])) / _TICKS
        resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        children.setdefault(int(fields[1]), []).append((int(folder.name), name, cpu, resident))
    found = Used()
    waiting = [parent]
    while waiting:
        for child, name, cpu, resident in children.get(waiting.pop(), ()):
            seen[child] = name, cpu
            found.memory_mb[name] = found.memory_mb.get(name, 0) + resident
            waiting.append(child)
    for name, cpu in seen.values():
        found.cpu[name] = found.cpu.get(name, 0) + cpu
    return found


def measure_audit(logs: Path, output: Path, batch_mb: int) -> dict[str, Any]:
    """Audit the logs. Memory is stated after a third of the records, and at the end."""
    measured = Measured()
    options = AuditOptions(once=True, batch_bytes=batch_mb << 20)
    began = time.monotonic()
    result = run_audit([logs], output, options, on_progress=measured.add)
    (first_s, first, before), (last_s, last, after) = measured.points[0], measured.points[-1]
    counted = last - first
    third = next(used for _, records, used in measured.points if records >= result.records // 3)
    state, sealed = (_bytes_of(output / "state", name) for name in ("*.arrow", "*-sealed.arrow"))
    _say(f"{result.verdict}: the audit starts again")
    began_again = time.monotonic()
    OutputFolder(output).check()
    checked = time.monotonic()
    run_audit([logs], output, options)
    return {
        "verdict": result.verdict,
        "records": result.records,
        "first_batch_s": round(first_s - began, 1),
        "records_per_s": round(counted / max(1e-9, last_s - first_s)),
        "cpu_us_per_record": _per_record(before, after, counted),
        "thirds": [_third(measured.points, number) for number in range(3)],
        "memory_mb_after_a_third": _rounded(third.memory_mb),
        "memory_mb": _rounded(after.memory_mb),
        "state_mb": round(state / 2**20),
        "sealed_mb": round(sealed / 2**20),
        "check_s": round(checked - began_again, 1),
        "restart_s": round(time.monotonic() - checked, 1),
    }


def _third(points: Sequence[tuple[float, int, Used]], number: int) -> dict[str, float]:
    """Measure what the batches of a third of the records took: records a second, and CPU time a record of all."""
    (_, first, _), (_, last, _) = points[0], points[-1]
    cuts = [first + (last - first) * part // 3 for part in (number, number + 1)]
    (from_s, begin, before), (to_s, end, after) = (next(p for p in points if p[1] >= cut) for cut in cuts)
    cpu = sum(after.cpu.values()) - sum(before.cpu.values())
    counted = max(1, end - begin)
    return {"records_per_s": round(counted / max(1e-9, to_s - from_s)), "cpu_us": round(cpu / counted * 1e6, 1)}


def _bytes_of(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def measure_floor(logs: Path, folder: Path, records: int) -> dict[str, Any]:
    """Measure what Spark takes to read the lines as JSON and to count each field."""
    spark = start_session(folder)
    try:
        lines = str(logs / "*.jsonl")
        schema = spark.read.json(lines).schema
        before, began = used_below(os.getpid()), time.monotonic()

        def counted(frame: DataFrame, _: int) -> None:
            frame.agg(*(spark_functions.count(name) for name in schema.names)).collect()

        stream = spark.readStream.schema(schema).json(lines).writeStream.foreachBatch(counted)
        stream.option("checkpointLocation", str(folder / "floor")).trigger(availableNow=True).start().awaitTermination()
        took = time.monotonic() - began
        return {
            "records_per_s": round(records / took),
            "cpu_us_per_record": _per_record(before, used_below(os.getpid()), records),
        }
    finally:
        spark.stop()


def _per_record(before: Used, after: Used, records: int) -> dict[str, float]:
    used = {name: (cpu - before.cpu.get(name, 0)) / max(1, records) * 1e6 for name, cpu in after.cpu.items()}
    return {name: round(cpu, 1) for name, cpu in sorted(used.items()) if cpu >= 0.05}


def _rounded(values: dict[str, float]) -> dict[str, int]:
    return {name: round(value) for name, value in sorted(values.items()) if value >= 1}


def measure(case: str, records: int | None, batch_mb: int, data: Path) -> dict[str, Any]:
    """Measure one case, on new logs."""
    kind, keys, usual = CASES[case]
    with tempfile.TemporaryDirectory(dir=data) as name:
        logs = Path(name, "logs")
        logs.mkdir()
        _say(f"{case}: {records or usual:,} records of {keys:,} partitions are written to {logs}")
        size = write_logs(logs, records or usual, keys, kind)
        os.environ.update(spark_environment(find_java(), Path(name)))
        audit = _in_child(lambda: measure_audit(logs, Path(name, "output"), batch_mb))
        _say("Spark reads the same lines as JSON")
        floor = _in_child(lambda: measure_floor(logs, Path(name, "floor"), audit["records"]))
        bytes_per_line = round(size / audit["records"])
        return {"case": case, "partitions": keys, "bytes_per_line": bytes_per_line, "audit": audit, "spark": floor}


def _in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of work in a process of its own, whose Spark nothing has warmed up."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with _exits(), os.fdopen(writing, "w") as pipe:
            json.dump(work(), pipe)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    if os.waitpid(child, 0)[1] or not found:
        raise SystemExit("a benchmark failed; its error is above")
    result: dict[str, Any] = json.loads(found)
    return result


@contextmanager
def _exits() -> Any:
    status = 1
    try:
        yield
        status = 0
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def show(results: list[dict[str, Any]]) -> None:
    table = Table(box=SIMPLE_HEAD)
    for name in ("case", "partitions", "records", "verdict", "records/s", "CPU us/record"):
        table.add_column(name, justify="left" if name in {"case", "verdict"} else "right")
    table.add_column("by thirds: records/s (CPU us)", justify="right")
    for name in ("MB after 1/3", "MB at the end", "MB of state (sealed)", "restart s (check)"):
        table.add_column(name, justify="right")
    table.add_column("Spark's json: records/s", justify="right")
    table.add_column("CPU us/record", justify="right")
    for result in results:
        audit, spark = result["audit"], result["spark"]
        table.add_row(
            result["case"],
            f"{result['partitions']:,}",
            f"{audit['records']:,}",
            audit["verdict"],
            f"{audit['records_per_s']:,}",
            _parts(audit["cpu_us_per_record"]),
            " ".join(f"{third['records_per_s']:,} ({third['cpu_us']})" for third in audit["thirds"]),
            _parts(audit["memory_mb_after_a_third"]),
            _parts(audit["memory_mb"]),
            f"{audit['state_mb']:,} ({audit['sealed_mb']:,})",
            f"{audit['restart_s']:,} ({audit['check_s']:,})",
            f"{spark['records_per_s']:,}",
            _parts(spark["cpu_us_per_record"]),
        )
    Console(width=200).print(table)


def _parts(values: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value:,}" for name, value in values.items())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_throughput", description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all but 'long'")
    parser.add_argument("--records", type=int, help="of each case; default: 2 to 20 million")
    parser.add_argument("--batch-mb", type=int, default=BATCH_BYTES >> 20)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = parser.parse_args()
    results = [measure(case, given.records, given.batch_mb, given.data) for case in given.case or _USUAL]
    if given.output == "json":
        print(json.dumps(results, indent=2))  # noqa: T201
    else:
        show(results)


if __name__ == "__main__":
    main()
