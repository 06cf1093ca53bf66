"""The network between the processes of a run, as faults see it: one-way links between named hosts."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.chaos.switch import CLIENTS, Link, address

CUT: Final = Link(drop=1.0)


def one_way(sources: Iterable[str], destinations: Iterable[str]) -> list[tuple[str, str]]:
    """The links from some hosts to others."""
    to = tuple(destinations)
    return [(a, b) for a in sources for b in to if a != b]


def both_ways(left: Iterable[str], right: Iterable[str]) -> list[tuple[str, str]]:
    """The links between two sets of hosts."""
    links = one_way(left, right)
    return [*links, *((b, a) for a, b in links)]


class Network:
    """A namespace for each host and the switch between them. Rules hold until they are replaced or cleared."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = [CLIENTS, *hosts]
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.switch", *self.hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._holders: dict[str, int] = json.loads(self._answer())
        self._rules: dict[tuple[str, str], Link] = {}

    def address(self, host: str) -> str:
        return address(self.hosts, host)

    def prefix(self, host: str) -> list[str]:
        """What precedes a command that is to run on this host."""
        return ["nsenter", f"--net=/proc/{self._holders[host]}/ns/net", "--"]

    def set(self, links: Iterable[tuple[str, str]], link: Link) -> None:
        """Set what happens on these one-way links."""
        self._rules |= dict.fromkeys(links, link)
        self._apply()

    def restore(self, links: Iterable[tuple[str, str]]) -> None:
        """These links as they should be."""
        for link in links:
            self._rules.pop(link, None)
        self._apply()

    def clear(self) -> None:
        """All links as they should be."""
        self._rules = {}
        self._apply()

    def close(self) -> None:
        assert self._switch.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._switch.stdin.close()
        self._switch.wait()

    def _apply(self) -> None:
        rules: list[tuple[str, str, dict[str, Any]]] = [(a, b, link._asdict()) for (a, b), link in self._rules.items()]
        assert self._switch.stdin is not None
        self._switch.stdin.write(json.dumps(rules) + "\n")
        self._switch.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._switch.stdout is not None
        line = self._switch.stdout.readline()
        assert line, "the switch has ended; its error is above"
        return line
