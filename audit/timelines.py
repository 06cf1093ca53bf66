"""The timeline of each partition: who led it with which ISR, from when until when, and what the cause was."""

from typing import Final

import pyarrow

TIMELINES_TABLE: Final = "timelines"
_TEXT: Final = pyarrow.string()
_BROKERS: Final = pyarrow.list_(pyarrow.int32())
TIMELINES: Final = pyarrow.schema(
    {
        "topic": _TEXT,
        "topic_id": _TEXT,
        "partition": pyarrow.int32(),
        "partition_epoch": pyarrow.int64(),
        "leader": pyarrow.int32(),
        "leader_epoch": pyarrow.int32(),
        "isr": _BROKERS,
        "isr_size": pyarrow.int32(),
        "replicas": _BROKERS,
        "min_insync_replicas": pyarrow.int32(),
        "controller": pyarrow.string(),
        "controller_epoch": pyarrow.int32(),
        "from_ms": pyarrow.int64(),
        "until_ms": pyarrow.int64(),
        "cause_event": _TEXT,
        "cause_id": pyarrow.int64(),
        "reason": _TEXT,
        "elected": pyarrow.bool_(),
        "unclean": pyarrow.bool_(),
        "leaderless_from_ms": pyarrow.int64(),
        "taken_ms": pyarrow.int64(),
        "record": _TEXT,
        "taken_record": _TEXT,
        "status": _TEXT,
        "at_ms": pyarrow.int64(),
    }
)
"""One row for each partition epoch, with the key (topic, topic_id, partition, partition_epoch).

`from_ms`: when the controller wrote the state, by its clock (`at_ms` is the same); `until_ms`: when the next state was
written, never before `from_ms`; null if it still holds. `controller`: the node that wrote it, whose event `cause_event`
number `cause_id` in `controller_epoch` led to it. `elected`: the state begins a leader epoch that has a leader. Then
`leaderless_from_ms` is the time of the first of the states directly before it that had no leader (null: none had no
leader), `taken_ms` the time at which the leader recorded that it leads in this leader epoch, by its own clock (null: it
did not), and `unclean` says whether the leader was outside the ISR before. `min_insync_replicas`: what the leader said
of it in this leader epoch; null if unknown. `record`, `taken_record`: references. `status`: `holds`, or `withdrawn`
where records that arrived late have shown that states of this partition cannot be compared.
"""
