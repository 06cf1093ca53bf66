"""Runs and shows `klamm audit replay`: the controller's decisions are not the audit's to know."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cluster.cli.documents import Format, write_document, write_line
from cluster.model.exit_codes import ExitCode
from controller.replay.logs import replay_folders
from controller.replay.report import CLEAN, FINDINGS, document_of

_CODES: Final = {CLEAN: ExitCode.OK, FINDINGS: ExitCode.FINDINGS}


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
