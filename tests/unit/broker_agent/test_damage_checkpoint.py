"""The file of a log directory that names its damaged replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.log.checkpoints import MalformedCheckpointError
from broker_agent.log.known_damage import decode_damaged_replicas, encode_damaged_replicas
from broker_agent.log_damage import DamagedReplica, LogDamage, in_doubt
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition

TP = TopicPartition("orders", 3)
REPLICAS = (
    DamagedReplica(TP, None, "/a", LogDamage(Offset(5), Offset(9), 100, "at byte 7 of /a\u2028b: garbage\n")),
    DamagedReplica(
        TP,
        TopicId("AAAAAAAAAAAAAAAAAAAAAQ"),
        "/a",
        LogDamage(Offset(5), Offset(9), 0, "", is_cut=False, is_end_known=False),
        "scrub",
        has_led=True,
        left_isr_in=LeaderEpoch(4),
    ),
    in_doubt(TP, TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), "/a", Offset(0)),
)


@pytest.mark.rule("R9.33")
def test_what_is_written_is_read() -> None:
    assert decode_damaged_replicas(encode_damaged_replicas(REPLICAS), "/a") == list(REPLICAS)
    assert decode_damaged_replicas(None, "/a") == []
    assert decode_damaged_replicas(encode_damaged_replicas(()), "/a") == []


@pytest.mark.rule("R9.33")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"0\n", b"1\n"),
        (b'"partition": 3', b'"partition": -1'),
        (b'"to_offset": 9', b'"to_offset": 99999999999999999999'),
        (b'"topic": "orders"', b'"topic": "../x"'),
        (b'"reason"', b'"because"'),
    ],
)
def test_a_malformed_file_is_refused(before: bytes, after: bytes) -> None:
    content = encode_damaged_replicas(REPLICAS)
    assert before in content
    with pytest.raises(MalformedCheckpointError):
        decode_damaged_replicas(content.replace(before, after, 1), "/a")


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_other_content_is_refused_by_name_or_read(garbage: bytes, at: int) -> None:
    content = encode_damaged_replicas(REPLICAS)
    try:
        decode_damaged_replicas(content[:at] + garbage + content[at + len(garbage) :], "/a")
    except MalformedCheckpointError:
        return
