"""The streaming job: tail the logs, check every record, write findings; start, resume, stop.

Everything of one audit is under its output folder: see `audit.storage.output_folder`, and Spark's checkpoint. A batch
that is repeated after a crash replaces what it wrote before, so nothing is counted twice.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from threading import Event
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from audit.batches.batch import BatchSettings, check_batch, replay_earlier
from audit.batches.cluster_state import ends_read
from audit.batches.decisions import ReplayStage
from audit.chains.witnesses import LAG_MS, LOG_CUT, SEALED_LAG_MS
from audit.options import AuditOptions
from audit.reading.hadoop_files import stream_files
from audit.reading.source import FORMAT, ReadPlan, StateChangeSource
from audit.report.report import AuditResult, read_result
from audit.spark.errors import LOG, AuditFailedError, explained
from audit.spark.interrupts import deferred_interrupts
from audit.spark.session import as_submitted, folder_of_spark, start_session
from audit.spark.settings import SparkSettings
from audit.storage.committed_state import OutputError
from audit.storage.file_store import Location
from audit.storage.given_heads import add_given
from audit.storage.output_folder import OutputFolder
from audit.tables.compaction import delete_strays, publish_last
from audit.topic.brokers import topic_ends
from audit.topic.connector import with_connector
from audit.topic.reading import stream_topic
from audit.topic.topics import Topic
from state_log.writer import parse_segment_name, write_audited

Inputs = Sequence[Path | str] | Topic
_TOO_SLOW: Final = re.compile(r"Python worker (failed )?to connect back")
_CRASHED: Final = re.compile(
    r"Python worker exited unexpectedly|java\.io\.EOFException|Connection reset|Broken pipe"
    # The process that plans batches has closed its socket: an error without a text.
    r"|terminated with exception: +SQLSTATE"
)
_CRASHES_MAX: Final = 3
"""Attempts of a batch whose Python processes end: what kills them again and again is not chance."""
_STARTS_MAX: Final = 20
"""Starts of a query without a batch in between; each takes Spark's ten seconds at least."""
_POLL_SECONDS: Final = 1
"""Seconds between looks at an interrupt."""


def run_audit(
    inputs: Inputs,
    output: Location,
    options: AuditOptions,
    *,
    on_progress: Callable[[AuditResult], bool | None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    listener: StreamingQueryListener | None = None,
    settings: SparkSettings | None = None,
    session: SparkSession | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> AuditResult:
    """Check the records in these folders that earlier runs with the same `output` have not checked.

    `inputs`: folders, or all of them URLs of folders with sealed segments in a file system that Spark reads; or a
    topic. With `once` an interrupt leaves it without a result; else the job follows the logs until it is interrupted,
    its time is over, `stop`, asked every second, says so, or `on_progress`, called with the result so far after a batch
    or two, returns True. The result covers all runs on this output. `listener`: of Spark's, for the progress of the
    query. A session of the caller's is used as it is and left open. `say` is told what was mended. Runs in the main
    thread. Raises AuditFailedError, TopicError, and OutputError if the output is not as an audit left it, or has other
    limits.
    """
    settings = as_submitted(settings)
    if isinstance(inputs, Topic):
        topic_ends(inputs)
        settings = with_connector(settings, inputs.connector)
    folder, once = OutputFolder(output), options.once
    checkpoint = folder.checkpoint(options.checkpoint)
    local = folder_of_spark(folder.location, checkpoint)
    with _in_use(folder, local, say, publish=options.delta), deferred_interrupts() as interrupted:
        chosen = _prepare_batches(folder, options, settings, checkpoint, say)
        result = partial(
            read_result,
            output,
            options.expected_nodes,
            require_trace=options.require_trace,
            require_heads=options.require_heads,
        )
        add_given(folder, options.heads, lag_ms=_lag_ms(inputs, once=once))
        spark = start_session(local, settings) if session is None else session
        try:
            _register(spark, listener)
            batches = _Batches(folder, chosen)
            plan = ReadPlan(options.batch_bytes, chosen.tasks, chosen.buckets, options.timezone)
            rows = partial(_rows, spark, inputs, plan, folder)
            report = None if on_progress is None else lambda: on_progress(result()) is True
            watch = _Watch(output, interrupted, report, stop, options.timeout_seconds, say=say)
            start = partial(_start, rows, batches, None if once else options.trigger_seconds)
            _run_batches(start, watch, batches, lambda: once and LOG_CUT in result().findings)
            if not once:
                interrupted.clear()
            _tell_writers(output)
        except (PySparkException, Py4JError, ConnectionError) as error:
            why = explained(error, local / LOG, settings.master_url)
            why = inputs.explain(why) if isinstance(inputs, Topic) else why
            raise AuditFailedError(why, None if session else local) from error
        finally:
            if session is None:
                _stop(spark)
    return result()


def _prepare_batches(
    folder: OutputFolder,
    options: AuditOptions,
    settings: SparkSettings,
    checkpoint: str,
    say: Callable[[str], None],
) -> BatchSettings:
    """Replay what earlier batches have not replayed, and return the settings of further ones: those of earlier ones,
    where these stay. Raises OutputError.
    """
    chosen = BatchSettings(
        settings.tasks,
        folder.bucket_count(settings.buckets),
        checkpoint,
        folder.limits(options.limits),
        options.keep_days,
        options.delta,
        options.open_rows,
        None if options.replayer is None else ReplayStage(options.replayer),
    )
    if replay_earlier(folder, chosen):
        say("the decisions in records of earlier runs were not replayed before, and are now")
    return chosen


def _stop(spark: SparkSession) -> None:
    # A JVM that was killed cannot be asked to end.
    with suppress(Py4JError, OSError):
        spark.stop()


def _lag_ms(inputs: Inputs, *, once: bool) -> int:
    """The time by which the audit may be behind the logs, in ms."""
    if isinstance(inputs, Topic):
        return LAG_MS
    if any(isinstance(folder, str) for folder in inputs):
        return SEALED_LAG_MS
    return 0 if once else LAG_MS


def _register(spark: SparkSession, listener: StreamingQueryListener | None) -> None:
    spark.dataSource.register(StateChangeSource)
    if listener is not None:
        spark.streams.addListener(listener)


@contextmanager
def _in_use(folder: OutputFolder, local: Path, say: Callable[[str], None], *, publish: bool) -> Iterator[None]:
    """An output that is as the last audit left it, for this one alone, with Spark's own folder; and with Delta tables
    if `publish` asks for them. Raises OutputError.
    """
    local.mkdir(parents=True, exist_ok=True)
    with folder.locked():
        folder.check()
        if names := folder.repair_checkpoint():
            say(f"Spark's checkpoint was not whole; rebuilt from the last commit: {', '.join(names)}")
        delete_strays(folder)
        if publish:
            publish_last(folder)
        yield


def _run_batches(
    start: Callable[[], StreamingQuery], watch: "_Watch", batches: "_Batches", seems_cut: Callable[[], bool]
) -> None:
    """Run the query, and once more where a log seems to be cut: it may have grown while others, which have seen more of
    it, were read. Raises the error of a batch.
    """
    try:
        _run_query(start, watch)
        if seems_cut() and not watch.interrupted.is_set():
            _run_query(start, watch)
    except PySparkException as error:
        raise batches.error or error from error


def _run_query(start: Callable[[], StreamingQuery], watch: "_Watch") -> None:
    """Run the query until it ends or is to end.

    It is started again, from its checkpoint, where the machine was too busy for Spark's time limit on the start of a
    Python process, which cannot be configured, and where a Python process was killed. Gives up after _STARTS_MAX of
    them, _CRASHES_MAX of processes that were killed, without a batch in between.
    """
    retries = _Retries(watch)
    while True:
        try:
            query = start()
            if watch.wait(query):
                query.stop()
        except PySparkException as error:
            if watch.interrupted.is_set() or not retries.may_start_again(str(error)):
                raise
            continue
        return


class _Retries:
    """Counts the failures of a query since its last batch."""

    def __init__(self, watch: "_Watch") -> None:
        self._watch, self._committed = watch, watch.last_committed()
        self._starts = self._crashes = 0

    def may_start_again(self, error: str) -> bool:
        """Whether the query is to be started again after this error; says so where a process was lost."""
        committed, is_crash = self._watch.last_committed(), bool(_CRASHED.search(error))
        if committed != self._committed:
            self._committed, self._starts, self._crashes = committed, 0, 0
        self._starts, self._crashes = self._starts + 1, self._crashes + is_crash
        if self._starts >= _STARTS_MAX or self._crashes >= _CRASHES_MAX:
            return False
        if is_crash:
            self._watch.say(
                f"a Python process of Spark ended unexpectedly in batch {committed + 1}: it is read again, attempt "
                f"{self._crashes + 1} of {_CRASHES_MAX}"
            )
        return is_crash or bool(_TOO_SLOW.search(error))


class _Watch:
    """Waits for a query, reports its progress, and knows when to end it."""

    def __init__(
        self,
        output: Location,
        interrupted: Event,
        report: Callable[[], bool] | None,
        stop: Callable[[], bool],
        timeout_seconds: float | None,
        *,
        say: Callable[[str], None],
    ) -> None:
        """Run on an output. `report` reports the news, and says whether that is enough."""
        self.interrupted, self.say = interrupted, say
        self._output, self._report, self._stop = output, report, stop
        self._deadline = inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._reported = -1

    def wait(self, query: StreamingQuery) -> bool:
        """True if the query is to be ended, False if it has ended by itself. Raises the query's error."""
        while not query.awaitTermination(_POLL_SECONDS):
            if self.interrupted.is_set() or self._stop() or time.monotonic() > self._deadline or self._has_enough():
                return True
        return False

    def last_committed(self) -> int:
        commit = OutputFolder(self._output).last_commit()
        return -1 if commit is None else commit.batch

    def _has_enough(self) -> bool:
        """Report the news, if there is any; whether that is enough."""
        number = self.last_committed()
        if number == self._reported:
            return False
        self._reported = number
        _tell_writers(self._output)
        return self._report is not None and self._report()


class _Batches:
    """Checks the batches of a query. `error`: what ended it; Spark has only a traceback of that."""

    def __init__(self, folder: OutputFolder, settings: BatchSettings) -> None:
        self._folder, self.settings = folder, settings
        self.error: OutputError | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        try:
            check_batch(frame, number, self._folder, self.settings)
        except OutputError as error:
            self.error = error
            raise


def _rows(spark: SparkSession, inputs: Inputs, plan: ReadPlan, output: OutputFolder) -> DataFrame:
    """The rows that are read of the logs, as a stream. Local folders and topics are read as they grow, others by whole
    files.
    """
    if isinstance(inputs, Topic):
        return stream_topic(spark, inputs, plan, output.location)
    urls = [folder for folder in inputs if isinstance(folder, str)]
    if urls:
        assert len(urls) == len(inputs), "local folders and others are not audited together"
        return stream_files(spark, urls, plan)
    options = {
        "directories": json.dumps([str(Path(folder).resolve()) for folder in inputs]),
        "max_bytes": str(plan.max_bytes),
        "tasks": str(plan.tasks),
        "buckets": str(plan.buckets),
        "zone": plan.zone,
        "since_ns": str(output.modified_ns()),
        "ends": json.dumps(ends_read(output)),
    }
    return spark.readStream.format(FORMAT).options(**options).load()


def _start(read: Callable[[], DataFrame], batches: _Batches, trigger_seconds: float | None) -> StreamingQuery:
    """Start the query. `trigger_seconds` None: it ends once the present logs are read."""
    writer = read().writeStream.outputMode("append").option("checkpointLocation", batches.settings.checkpoint)
    writer = writer.foreachBatch(batches)
    if trigger_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger_seconds} seconds").start()


def _tell_writers(output: Location) -> None:
    """Write beside the logs how much of them is checked, so that their retention may delete it."""
    commit = OutputFolder(output).last_commit()
    if commit is None:
        return
    by_directory: dict[Path, dict[str, int]] = {}
    for name, end in commit.taken.values():
        path = Path(name)
        if parse_segment_name(path.name) is None:
            # Nobody waits for it: a Kafka log, in a folder that is not klamm's to write to.
            continue
        by_directory.setdefault(path.parent, {})[path.name] = end
    for directory, ends in sorted(by_directory.items()):
        if directory.is_dir() and os.access(directory, os.W_OK):
            # A full disk there keeps segments longer; it is no reason to stop.
            with suppress(OSError):
                write_audited(directory, ends)
