"""What `klamm doctor` concludes from what it has read of a machine: pure functions, each of one subject."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from admin.describing.health import HealthIssue, Severity
from cluster.model.printable import counted
from cluster.process.descriptors import UNLIMITED
from cluster.zookeeper.acl import CONSUMERS

OPEN_FILES_WANTED: Final = 16_384
"""From here on a process does not warn (`cluster.process.descriptors`)."""
OPEN_FILES_LEAST: Final = 256
_DISK_FULL_BYTES: Final = 1 << 30
_DISK_FULL_SHARE, _DISK_NEARLY_FULL_SHARE = 0.02, 0.10
CLOCK_SKEW_WANTED_S: Final = 2.0
"""Clocks that are asked over HTTP answer in whole seconds."""
CLOCK_SKEW_MOST_S: Final = 30.0
_OLDEST_PYTHON: Final = (3, 11)


class Level(StrEnum):
    """Says how much a result matters; only problems end the command with an exit code of their own."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


class Diagnosis(Struct, frozen=True):
    """The result of one check. `remedy`: what to do; empty if nothing is wrong."""

    check: str
    level: Level
    detail: str
    remedy: str = ""


def check_python(version: tuple[int, ...], executable: str) -> Diagnosis:
    text = f"Python {'.'.join(map(str, version))} at {executable}"
    if version[:2] < _OLDEST_PYTHON:
        return Diagnosis("python", Level.PROBLEM, text, "install Python 3.11 or newer, and klamm into it")
    return Diagnosis("python", Level.OK, text)


def check_open_files(soft: int, hard: int) -> Diagnosis:
    """Check the limits of open files. A process can raise its own up to `hard`; -1: no limit."""
    limit = UNLIMITED if hard < 0 else hard
    text = f"{'no limit' if hard < 0 else f'{limit:,}'} (soft {'no limit' if soft < 0 else f'{soft:,}'})"
    remedy = f"raise it to {OPEN_FILES_WANTED:,}: ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of docker"
    if limit < OPEN_FILES_LEAST:
        return Diagnosis("open files", Level.PROBLEM, text, remedy)
    if limit < OPEN_FILES_WANTED:
        return Diagnosis("open files", Level.WARNING, text, remedy)
    return Diagnosis("open files", Level.OK, text)


def check_disk(path: str, free: int, total: int) -> Diagnosis:
    """Bytes of the file system of a folder."""
    share = free / total if total else 0
    text = f"{path}: {free / 1e9:,.1f} GB free of {total / 1e9:,.1f} GB ({share:.0%})"
    remedy = "make room: a broker takes no records on a full disk"
    if free < _DISK_FULL_BYTES or share < _DISK_FULL_SHARE:
        return Diagnosis("disk", Level.PROBLEM, text, remedy)
    if share < _DISK_NEARLY_FULL_SHARE:
        return Diagnosis("disk", Level.WARNING, text, remedy)
    return Diagnosis("disk", Level.OK, text)


def check_synchronised(answer: str | None) -> Diagnosis:
    """Check the answer of `timedatectl show --property=NTPSynchronized --value`; None if there is no such command."""
    match answer:
        case "yes":
            return Diagnosis("clock", Level.OK, "synchronised by NTP")
        case "no":
            remedy = "start chrony or systemd-timesyncd: timestamps of records and logs are those of this clock"
            return Diagnosis("clock", Level.WARNING, "not synchronised by NTP", remedy)
        case _:
            return Diagnosis("clock", Level.UNKNOWN, "whether NTP synchronises it is not known here")


def check_skew(node: str, ahead_s: float) -> Diagnosis:
    """Check a node's clock, which is `ahead_s` ahead of ours."""
    text = f"{node}: {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine"
    remedy = "synchronise both clocks by NTP: records, retention and the order of logs go by them"
    if abs(ahead_s) > CLOCK_SKEW_MOST_S:
        return Diagnosis("clock", Level.PROBLEM, text, remedy)
    if abs(ahead_s) > CLOCK_SKEW_WANTED_S:
        return Diagnosis("clock", Level.WARNING, text, remedy)
    return Diagnosis("clock", Level.OK, f"{node}: agrees with this machine")


def check_zookeeper(address: str, is_serving: bool) -> Diagnosis:
    if is_serving:
        return Diagnosis("zookeeper", Level.OK, f"{address} serves")
    return Diagnosis(
        "zookeeper",
        Level.PROBLEM,
        f"{address} does not serve",
        "start it, or correct the address; a server must have srvr in 4lw.commands.whitelist to answer this check",
    )


def check_open_znodes(address: str, open_znodes: Sequence[str], *, governs_kafka: bool = False) -> Diagnosis:
    """Check znodes that everyone may change although `zookeeper.set.acl` is on. `governs_kafka`: the brokers are of
    Apache Kafka, which create `/consumers` open in any case (ZkData.defaultAcls).
    """
    has_open_consumers = governs_kafka and CONSUMERS in open_znodes
    open_znodes = [path for path in open_znodes if not governs_kafka or path != CONSUMERS]
    if not open_znodes:
        besides = f", apart from {CONSUMERS}, which brokers of Apache Kafka leave open" if has_open_consumers else ""
        return Diagnosis("znode ACLs", Level.OK, f"{address}: every znode has an owner{besides}")
    return Diagnosis(
        "znode ACLs",
        Level.PROBLEM,
        f"{address}: everyone may change {counted(len(open_znodes), 'znode')}, as {open_znodes[0]}, although "
        "zookeeper.set.acl is true: whoever reaches ZooKeeper governs what is in them",
        f"klamm zookeeper-security-migration --zookeeper.acl secure --zookeeper {address} --command-config FILE; find "
        "the tool that made them, which needs zookeeper.set.acl=true, too",
    )


def check_member(name: str, state: str, ports_in_use: Sequence[int], remedy: str) -> Diagnosis:
    """A process of a cluster on this machine. `ports_in_use`: its ports that others have while it is stopped."""
    if ports_in_use:
        ports = ", ".join(map(str, ports_in_use))
        who = f"ss -ltnp 'sport = :{ports_in_use[0]}' names the program"
        return Diagnosis("ports", Level.PROBLEM, f"{ports} of {name} used by another program", f"{who}: stop it")
    level = Level.OK if state == "running" else Level.PROBLEM
    return Diagnosis("process", level, f"{name} is {state}", "" if level is Level.OK else remedy)


def check_health(issues: Sequence[HealthIssue]) -> Diagnosis:
    """Report what `klamm cluster health` finds, most severe first: a problem, unless all of it is only worth
    knowing.
    """
    if not issues:
        return Diagnosis("cluster", Level.OK, "healthy")
    worst = issues[0]
    detail = f"{counted(len(issues), 'issue')}, the most severe ({worst.severity}): {worst.trouble}: {worst.detail}"
    is_problem = worst.is_at_least(Severity.WARNING)
    remedy = "; ".join(filter(None, (worst.remedy, "'klamm cluster health' lists all issues")))
    return Diagnosis("cluster", Level.PROBLEM if is_problem else Level.OK, detail, remedy if is_problem else "")


def check_versions(klamm: str, libraries: dict[str, str | None]) -> Diagnosis:
    missing = sorted(name for name, version in libraries.items() if version is None)
    known = ", ".join(f"{name} {version}" for name, version in sorted(libraries.items()) if version is not None)
    if missing:
        remedy = f"install klamm again: {', '.join(missing)} must be there"
        return Diagnosis("versions", Level.PROBLEM, f"klamm {klamm}; {known}", remedy)
    return Diagnosis("versions", Level.OK, f"klamm {klamm}; {known}")
