"""Damages the logs of a small simulated cluster at random and audits them with heads, which is never clean.

Run as `python -m tests.audit_corpus.random_damages FIRST LAST`: a line for each seed, then the sum of the verdicts.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from audit.verification import verify_logs
from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_heads import heads
from tests.audit_corpus.in_process import audit_fault
from tests.audit_corpus.logs import SOUND_LOGS, Logs


class DamageVerdicts(NamedTuple):
    """What was said of the damage of a seed. `damage`: its kind, the log, and where in it."""

    seed: int
    damage: str
    audited: str
    verified: str

    def __str__(self) -> str:
        return f"seed {self.seed:<6} audit: {self.audited:10} verify: {self.verified:10} {self.damage}"


def _changed_byte(content: bytes, random: Random, at: int) -> bytes:
    return content[:at] + bytes([random.randrange(256)]) + content[at + 1 :]


def _flipped_bit(content: bytes, random: Random, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]


def _cut_tail(content: bytes, _: Random, at: int) -> bytes:
    return content[:at]


def _bytes_taken_out(content: bytes, random: Random, at: int) -> bytes:
    return content[:at] + content[at + random.randrange(1, 2_000) :]


def _bytes_zeroed(content: bytes, random: Random, at: int) -> bytes:
    end = min(len(content), at + random.randrange(1, 2_000))
    return content[:at] + bytes(end - at) + content[end:]


def _bytes_swapped(content: bytes, random: Random, at: int) -> bytes:
    first, second = sorted((at, random.randrange(len(content))))
    size = min(random.randrange(1, 500), second - first, len(content) - second)
    moved = content[second : second + size]
    return (
        content[:first]
        + moved
        + content[first + size : second]
        + content[first : first + size]
        + content[second + size :]
    )


def _lines_swapped(content: bytes, random: Random, at: int) -> bytes:
    lines = content.splitlines(keepends=True)
    here, there = content.count(b"\n", 0, at), random.randrange(len(lines))
    lines[here], lines[there] = lines[there], lines[here]
    return b"".join(lines)


def _lines_repeated(content: bytes, random: Random, at: int) -> bytes:
    lines = content.splitlines(keepends=True)
    first = content.count(b"\n", 0, at)
    end = first + random.randrange(1, 20)
    return b"".join([*lines[:end], *lines[first:end], *lines[end:]])


_KINDS: Final[tuple[Callable[[bytes, Random, int], bytes], ...]] = (
    *(_changed_byte, _flipped_bit, _cut_tail, _bytes_taken_out),
    *(_bytes_zeroed, _bytes_swapped, _lines_swapped, _lines_repeated),
)


def damage(logs: Logs, random: Random) -> str:
    """Damage one log so that its lines are other ones; returns what was done to it."""
    path = random.choice(logs.all())
    content = path.read_bytes()
    while True:
        kind, at = random.choice(_KINDS), random.randrange(len(content))
        changed = kind(content, random, at)
        if _whole_lines(changed) != _whole_lines(content):
            path.write_bytes(changed)
            return f"{kind.__name__.strip('_').replace('_', ' ')}, {path.name} at byte {at} of {len(content)}"


def _whole_lines(content: bytes) -> list[bytes]:
    """Those that count: a line without its end is not written yet, and a blank one is none."""
    return [line for line in content.split(b"\n")[:-1] if line]


def verdicts_of(seed: int) -> DamageVerdicts:
    """What `klamm audit run` and `klamm audit verify` say of the damage of this seed, both with all heads."""
    random, done = Random(seed), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        fault = Fault(lambda logs: done.append(damage(logs, random)), heads=heads)
        audited = audit_fault(fault, SOUND_LOGS, Path(folder))
        verified = verify_logs([Path(folder, "logs")], heads(Logs(SOUND_LOGS)))
    return DamageVerdicts(seed, done[0], audited.verdict, verified.verdict)


def main(first: str, last: str) -> int:
    """0 if none is clean."""
    said: Counter[str] = Counter()
    for seed in range(int(first), int(last) + 1):
        verdicts = verdicts_of(seed)
        print(verdicts, flush=True)
        said.update([f"audit: {verdicts.audited}", f"verify: {verdicts.verified}"])
    print(", ".join(f"{name} {count}" for name, count in sorted(said.items())))
    return 1 if any(name.endswith(" clean") for name in said) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
