"""Stored batches that change on the disk of a broker that did not crash: only the scrub of the broker finds them."""

from collections.abc import Mapping
from typing import Final

from cluster.requests.agents import SCRUB
from state_log.reader import read_state_changes
from state_log.record import Kind
from tests.chaos.faults.files import Victim, choose_victim
from tests.chaos.faults.registry import Round, fault

_SCRUBS_AT_ONCE: Final[Mapping[str, int]] = {
    "log.initial.task.delay.ms": 1000,
    "klamm.log.scrub.interval.ms": 1000,
    "klamm.log.scrub.bytes.per.second": 50_000_000,
}


@fault("bit-rot-stopped")
async def bit_rot_stopped(on: Round) -> None:
    """One batch of a sealed segment or of the flushed last one, while its broker is stopped cleanly."""
    victim = await choose_victim(on)
    await _stop(victim)
    _damage(victim, sealed_only=False)
    await on.cluster.start(victim.broker)
    await _is_cured(victim)


@fault("bit-rot-running")
async def bit_rot_running(on: Round) -> None:
    """One batch of a sealed segment, below a running broker, which may lead."""
    victim = await choose_victim(on)
    await _stop(victim)
    await on.cluster.start(victim.broker)
    await on.until_in_sync()
    await on.pause_for(0, 6)
    _damage(victim, sealed_only=True)
    await _is_cured(victim)


async def _stop(victim: Victim) -> None:
    """Cleanly; it verifies its batches all the time from its next start on."""
    victim.on.say("SIGTERM")
    await victim.on.cluster.stop(victim.broker)
    victim.on.cluster.processes[victim.broker].settings = _SCRUBS_AT_ONCE


def _damage(victim: Victim, *, sealed_only: bool) -> None:
    segments = victim.segments()
    segment = victim.on.random.choice(segments[:-1] if sealed_only else segments)
    victim.on.say(f"{segment.name} of {len(segments)} segments")
    if victim.on.random.random() < 0.3:
        victim.damage_header(segment)
    else:
        victim.damage_body(segment)


async def _is_cured(victim: Victim) -> None:
    """Until the damage is found and the replica emptied, which is a record each, and it is in sync again."""

    async def emptied() -> bool:
        return _finds(victim) > 1

    await victim.on.until(emptied, f"the scrub of {victim.broker} replaces {victim.directory.name}")
    await victim.on.until_in_sync()


def _finds(victim: Victim) -> int:
    log = victim.on.cluster.folder / "state-changes" / victim.broker
    records = read_state_changes([log])
    return sum(
        record.kind is Kind.TRUNCATION
        and record.reason == SCRUB
        and f"{record.topic}-{record.partition}" == victim.directory.name
        for record in records
    )
