"""Files of a killed broker that are damaged or gone when it starts again, as after a crash of the machine."""

import re
import shutil
from pathlib import Path

from broker_agent.log.record_batch import HEADER_SIZE, walk
from tests.chaos.cluster import SESSION_S
from tests.chaos.faults.registry import Round, fault

_RECORDS = 120
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_CHECKPOINTS = (
    _HIGH_WATERMARKS,
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "leader-epoch-checkpoint",
    ".kafka_cleanshutdown",
)
_DERIVED = {"indexes": (".index", ".timeindex"), "snapshots": (".snapshot",)}
_FIELDS = {
    "base offset": (0, 8),
    "length": (8, 4),
    "leader epoch": (12, 4),
    "magic": (16, 1),
    "checksum": (17, 4),
    "attributes": (21, 2),
    "last offset delta": (23, 4),
    "timestamps": (27, 16),
    "producer": (43, 14),
    "count": (57, 4),
}


class Victim:
    """A broker whose files are damaged, and one partition on its disk."""

    def __init__(self, on: Round, broker: str, partition: int) -> None:
        self.on, self.broker = on, broker
        self.disk = on.cluster.disk(broker)
        self.directory = self.disk / f"{on.topic}-{partition}"

    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

    def segment(self) -> Path:
        """The first segment, the last or any."""
        segments = self.segments()
        place = self.on.random.choice(["first", "last", "any"])
        chosen = {"first": segments[0], "last": segments[-1], "any": self.on.random.choice(segments)}[place]
        self.on.say(f"{place} of {len(segments)} segments, {chosen.name}")
        return chosen

    def overwrite(self, file: Path, position: int, size: int) -> None:
        """Other bytes than those there; nothing else of the file is written."""
        with file.open("r+b") as opened:
            opened.seek(position)
            old = opened.read(size)
            opened.seek(position)
            opened.write(bytes(byte ^ self.on.random.randrange(1, 256) for byte in old))

    def damage_header(self, segment: Path) -> None:
        """One field of one batch header."""
        if batches := list(walk(segment.read_bytes())):
            position, header = self.on.random.choice(batches)
            name = self.on.random.choice(list(_FIELDS))
            self.on.say(f"{name} of the batch at offset {header.base_offset}")
            self.overwrite(segment, position + _FIELDS[name][0], _FIELDS[name][1])

    def damage_body(self, segment: Path) -> None:
        """A few bytes of the records of one batch."""
        if batches := list(walk(segment.read_bytes())):
            position, header = self.on.random.choice(batches)
            at = self.on.random.randrange(HEADER_SIZE, header.size)
            self.on.say(f"byte {at} of the batch at offset {header.base_offset}")
            self.overwrite(segment, position + at, min(self.on.random.randrange(1, 9), header.size - at))


async def choose_victim(on: Round, *, leader: bool | None = None) -> Victim:
    """The leader of a partition, or a follower (None: either), once it has a few segments.

    Its checkpoint has the high watermark of some of them, below which nothing may disappear unnoticed.
    """
    partition = on.partition()
    await on.until_acknowledged(_RECORDS)
    of_leader, *followers = await on.replicas(partition)
    is_leader = on.random.random() < 0.5 if leader is None else leader
    broker = of_leader if is_leader else on.random.choice(followers)
    entry = re.compile(rf"^{re.escape(on.topic)} {partition} (\d+)$", re.MULTILINE)

    async def checkpointed() -> bool:
        checkpoint = on.cluster.disk(broker) / _HIGH_WATERMARKS
        offsets = entry.findall(checkpoint.read_text()) if checkpoint.exists() else []
        return any(int(offset) >= _RECORDS for offset in offsets)

    await on.until(checkpointed, f"a high watermark of {on.topic}-{partition} in the checkpoint of {broker}")
    on.say(f"{broker}, {'leader' if is_leader else 'follower'} of partition {partition}")
    return Victim(on, broker, partition)


async def killed(on: Round, *, leader: bool | None = None) -> Victim:
    """Such a broker, killed."""
    victim = await choose_victim(on, leader=leader)
    on.say("kill -9")
    await on.cluster.kill(victim.broker)
    return victim


async def come_back(victim: Victim) -> None:
    """Start it, before or after its session has ended."""
    await victim.on.pause_for(*victim.on.random.choice([(0, 0.5), (SESSION_S, SESSION_S + 2)]))
    await victim.on.cluster.start(victim.broker)


@fault("damaged-header")
async def damaged_header(on: Round) -> None:
    victim = await killed(on)
    victim.damage_header(victim.segment())
    await come_back(victim)


@fault("damaged-body")
async def damaged_body(on: Round) -> None:
    victim = await killed(on)
    victim.damage_body(victim.segment())
    await come_back(victim)


@fault("damaged-tail")
async def damaged_tail(on: Round) -> None:
    """What a crash leaves at the end of the last segment: less, zeros or garbage."""
    victim = await killed(on)
    segment = victim.segments()[-1]
    content = segment.read_bytes()
    kind = on.random.choice(["cut", "zeros", "garbage", "empty"])
    on.say(f"{kind} at the end of {segment.name}")
    cut = on.random.randrange(len(content) + 1)
    segment.write_bytes(
        {
            "cut": content[:cut],
            "zeros": content + bytes(4096),
            "garbage": content + on.random.randbytes(1000),
            "empty": b"",
        }[kind]
    )
    await come_back(victim)


@fault("garbage-checkpoints")
async def garbage_checkpoints(on: Round) -> None:
    """Checkpoints that can be rebuilt hold garbage, or are empty; that of the high watermarks is left."""
    victim = await killed(on)
    name = on.random.choice(["recovery-point-offset-checkpoint", "leader-epoch-checkpoint"])
    content = on.random.choice([b"", b"\xff\xfe\x00garbage", b"0\n99\n", b"0\n1\nnonsense x y\n"])
    files = sorted(victim.disk.rglob(name))
    on.say(f"{content!r} in {len(files)} files {name}")
    for file in files:
        file.write_bytes(content)
    await come_back(victim)


async def _garbage(on: Round, kind: str) -> None:
    victim = await killed(on)
    files = [f for suffix in _DERIVED[kind] for f in sorted(victim.disk.rglob(f"*{suffix}"))]
    empty = on.random.random() < 0.3
    on.say(f"{'nothing' if empty else 'garbage'} in {len(files)} {kind}")
    for file in files:
        file.write_bytes(b"" if empty else on.random.randbytes(max(file.stat().st_size, 64)))
    await come_back(victim)


@fault("garbage-indexes")
async def garbage_indexes(on: Round) -> None:
    await _garbage(on, "indexes")


@fault("garbage-snapshots")
async def garbage_snapshots(on: Round) -> None:
    await _garbage(on, "snapshots")


@fault("deleted-checkpoints")
async def deleted_checkpoints(on: Round) -> None:
    """All checkpoints of a killed broker are gone."""
    victim = await killed(on)
    for name in _CHECKPOINTS:
        for file in victim.disk.rglob(name):
            file.unlink()
    await come_back(victim)


@fault("deleted-segment")
async def deleted_segment(on: Round) -> None:
    victim = await killed(on)
    victim.segment().unlink()
    await come_back(victim)


@fault("deleted-partition")
async def deleted_partition(on: Round) -> None:
    victim = await killed(on)
    on.say(f"{victim.directory.name} deleted")
    shutil.rmtree(victim.directory)
    await come_back(victim)


@fault("deleted-disk")
async def deleted_disk(on: Round) -> None:
    """A new, empty disk."""
    victim = await killed(on)
    on.say(f"everything of {victim.broker} deleted")
    for entry in victim.disk.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    await come_back(victim)


@fault("deleted-while-running")
async def deleted_while_running(on: Round) -> None:
    """A partition's directory disappears below a running broker, which then dies or is killed."""
    partition = on.partition()
    broker = on.random.choice(await on.replicas(partition))
    on.say(f"{on.topic}-{partition} deleted below {broker}")
    shutil.rmtree(on.cluster.disk(broker) / f"{on.topic}-{partition}", ignore_errors=True)
    await on.pause_for(2, SESSION_S)
    if on.cluster.processes[broker].runs:
        await on.cluster.kill(broker)
        await on.cluster.start(broker)
