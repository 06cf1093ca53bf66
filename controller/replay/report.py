"""What `klamm audit replay` reports."""

from collections import Counter
from typing import Any, Final

from controller.replay.replay import Replayed

CLEAN, FINDINGS, INCOMPLETE = "clean", "findings", "incomplete"
_NOTHING_READ: Final = "no controller's log was read: is this the folder of the state-change logs?"


def verdict_of(replayed: Replayed) -> str:
    """Say `findings` if the code would have decided otherwise anywhere, but for known deviations; else `incomplete` if
    something could not be replayed; else `clean`.
    """
    if any(not found.deviation for found in replayed.others):
        return FINDINGS
    return INCOMPLETE if gaps_of(replayed) else CLEAN


def gaps_of(replayed: Replayed) -> list[dict[str, Any]]:
    """The inputs that were missing: how often, and the first record that needed each."""
    found = [
        {"missing": missing, "decisions": count, "first": first}
        for missing, (count, first) in sorted(replayed.undecided.items())
    ]
    found += [{"missing": assumed, "decisions": None, "first": ""} for assumed in sorted(replayed.assumed)]
    if not found and not replayed.decisions and not replayed.logs:
        found.append({"missing": _NOTHING_READ, "decisions": None, "first": ""})
    return found


def document_of(replayed: Replayed, limit: int) -> dict[str, Any]:
    """The result as one JSON object, with the first `limit` decisions that differ."""
    findings = Counter(what.value for each in replayed.others if not each.deviation for what in each.differs)
    return {
        "verdict": verdict_of(replayed),
        "logs": replayed.logs,
        "decisions": replayed.decisions.total(),
        "replayed": dict(sorted(replayed.decisions.items())),
        "findings": dict(sorted(findings.items())),
        "deviations": dict(sorted(Counter(each.deviation for each in replayed.others if each.deviation).items())),
        "first_findings": [
            {
                "record": each.record,
                "at_ms": each.at_ms,
                "controller_epoch": each.controller_epoch,
                "topic": each.topic,
                "partition": each.partition,
                "decision": each.decision,
                "differs": [what.value for what in each.differs],
                "decided": each.decided,
                "instead": each.instead,
                "deviation": each.deviation or None,
            }
            for each in replayed.others[:limit]
        ],
        "incomplete": gaps_of(replayed),
    }
