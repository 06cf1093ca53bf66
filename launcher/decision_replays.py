"""Runs and shows `klamm audit replay`: the controller's decisions are not the audit's to know."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from audit.batches.decisions import OtherwiseDecided, ReplayNews
from cluster.cli.documents import Format, write_document, write_line
from cluster.model.exit_codes import ExitCode
from controller.replay.logs import CONTROLLER, WrittenStates, replay_folders
from controller.replay.replay import LogReplay, Replayed
from controller.replay.report import CLEAN, FINDINGS, document_of
from controller.replay.verdicts import OtherDecision
from state_log.record import LoggedStateChange

_CODES: Final = {CLEAN: ExitCode.OK, FINDINGS: ExitCode.FINDINGS}


class StreamedReplay:
    """Replays what controllers decided while the audit reads their logs."""

    def __init__(self) -> None:
        self._logs: dict[str, LogReplay] = {}
        self._written = WrittenStates()
        self._ahead: dict[str, Replayed] = {}
        """What the last event of each log brings, if it has no more records."""

    def take(self, records: Iterable[LoggedStateChange]) -> ReplayNews:
        """Take further records. The last event of a log counts as over, until more of it follows."""
        replayed, touched = Replayed(), set[str]()
        for record in records:
            self._written.add(record)
            name = f"{record.node}/{record.incarnation}"
            if name.startswith(CONTROLLER):
                log = self._logs.setdefault(name, LogReplay(replayed, self._written.before))
                log.replayed = replayed
                log.take(record)
                touched.add(name)
        before = [each for name in sorted(touched & self._ahead.keys()) for each in self._ahead[name].others]
        self._ahead |= {name: self._logs[name].replay_unfinished() for name in sorted(touched)}
        found = replayed.others + [each for name in sorted(touched) for each in self._ahead[name].others]
        names = {_name(each) for each in found}
        return ReplayNews(
            tuple(map(_otherwise, found)),
            tuple(_otherwise(each) for each in before if _name(each) not in names),
            replayed.decisions.total(),
            _missing([replayed]),
            _missing(self._ahead.values()),
            sum(each.decisions.total() for each in self._ahead.values()),
        )


def _name(found: OtherDecision) -> tuple[str, str]:
    return found.record, found.decision


def _missing(replays: Iterable[Replayed]) -> dict[str, tuple[int, str]]:
    summed = Replayed()
    for each in replays:
        for missing, (count, first) in each.undecided.items():
            summed.add_undecided(missing, first, count)
        for assumed in each.assumed:
            summed.add_undecided(assumed, "")
    return summed.undecided


def _otherwise(found: OtherDecision) -> OtherwiseDecided:
    message = f"{found.decision}: decided {found.decided}; the code decides {found.instead}"
    return OtherwiseDecided(found.record, found.at_ms, found.topic, found.partition, found.decision, message)


def show_replay(folders: Sequence[Path], zone: str, form: Format, limit: int) -> ExitCode:
    """Replay the logs in these folders, write the result to stdout, and return the exit code that says it."""
    found = document_of(replay_folders(folders, zone), limit)
    with suppress(BrokenPipeError):
        if form is Format.TABLE:
            _show(found)
        else:
            write_document(found, form)
    return _CODES.get(found["verdict"], ExitCode.INCOMPLETE)


def _show(found: dict[str, Any]) -> None:
    write_line(f"verdict      {found['verdict']}")
    write_line(f"decisions    {found['decisions']} of {found['logs']} logs of controllers")
    for gap in found["incomplete"]:
        needed = "" if gap["decisions"] is None else f" for {gap['decisions']} decisions, first {gap['first']}"
        write_line(f"incomplete   {gap['missing']}{needed}")
    for name, count in found["replayed"].items():
        write_line(f"  {count:>8}  {name}")
    for rule, count in found["deviations"].items():
        write_line(f"deviation    {rule}: {count} decisions of Kafka")
    for each in found["first_findings"]:
        kind = f"deviation {each['deviation']}" if each["deviation"] else f"differs {','.join(each['differs'])}"
        write_line(f"{kind}  {each['topic']}-{each['partition']} {each['decision']} [{each['record']}]")
        write_line(f"    decided  {each['decided']}")
        write_line(f"    instead  {each['instead']}")
