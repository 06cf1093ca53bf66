"""What a candidate does about `/controller`: the whole table, and what each kind of ownership means."""

import pytest
from msgspec.structs import replace

from cluster.broker import ControllerId
from cluster.errors import MalformedZnodeError
from cluster.takeover import Takeover
from cluster.znodes.adoption import Adoption, decode_adoption, encode_adoption
from cluster.znodes.controller import decode_controller, decode_controller_body, encode_controller
from controller.decisions.takeover import Candidate, Holding, Step, next_step
from controller.election_pauses import CALM_S, TAKE_OVER_PAUSE_MAX_S, ElectionPauses

OWN, OTHER, DEAD = 11, 12, 13
ME = ControllerId(901)
BROKER = Holding(0, ControllerId(1), OTHER)
CANDIDATE = Holding(0, ControllerId(902), OTHER, registered=OTHER)
PERSISTENT = Holding(0, ControllerId(902), 0, session=OTHER, registered=OTHER)
ABANDONED = Holding(0, ControllerId(902), 0, session=DEAD)
RESTARTED = Holding(0, ControllerId(902), 0, session=DEAD, registered=OTHER)
MINE = Holding(0, ME, OWN, registered=OWN)
MINE_PERSISTENT = Holding(0, ME, 0, session=OWN, registered=OWN)
EARLIER_OF_MINE = Holding(0, ME, DEAD, registered=DEAD)
EARLIER_PERSISTENT = Holding(0, ME, 0, session=DEAD, registered=OWN)
MALFORMED = Holding(0, None, OTHER)
MALFORMED_MINE = Holding(0, None, OWN)
MALFORMED_PERSISTENT = Holding(0, None, 0)
BY_HAND = Holding(0, ControllerId(1), 0)

WAIT, CREATE, REPLACE, KEEP, DELETE = Step.WAIT, Step.CREATE, Step.REPLACE, Step.KEEP, Step.DELETE


@pytest.mark.rule("TO-1", "TO-4", "TO-5", "EL-1", "D-26")
@pytest.mark.parametrize(
    ("holding", "takes", "never", "leaves"),
    [
        (None, CREATE, CREATE, WAIT),
        (BROKER, REPLACE, WAIT, WAIT),
        (CANDIDATE, WAIT, WAIT, WAIT),
        (PERSISTENT, WAIT, WAIT, WAIT),
        (ABANDONED, REPLACE, REPLACE, DELETE),
        (RESTARTED, REPLACE, REPLACE, DELETE),
        (MINE, KEEP, KEEP, DELETE),
        (MINE_PERSISTENT, KEEP, KEEP, DELETE),
        (EARLIER_OF_MINE, WAIT, WAIT, WAIT),
        (EARLIER_PERSISTENT, REPLACE, REPLACE, DELETE),
        (MALFORMED, WAIT, WAIT, WAIT),
        (MALFORMED_MINE, DELETE, DELETE, DELETE),
        (MALFORMED_PERSISTENT, REPLACE, WAIT, WAIT),
        (BY_HAND, REPLACE, WAIT, WAIT),
    ],
)
def test_what_is_done_about_each_holder_of_the_controller_znode(
    holding: Holding | None, takes: Step, never: Step, leaves: Step
) -> None:
    """`takes`: in either mode; `never`: over klamm's brokers; `leaves`: over Kafka's, and not adopted."""
    modes: tuple[Takeover, ...] = ("atomic", "persistent")
    for takeover in modes:
        for governs_kafka in (False, True):
            assert next_step(Candidate(ME, OWN, takeover, governs_kafka), holding) is takes
    assert next_step(Candidate(ME, OWN), holding) is never
    assert next_step(Candidate(ME, OWN, governs_kafka=True), holding) is leaves


def test_a_znode_that_names_another_id_is_not_owned_whoever_made_it() -> None:
    assert not Candidate(ME, OWN).owns(replace(MINE, controller=ControllerId(7)))
    assert not Candidate(ME, OWN).owns(replace(MINE_PERSISTENT, controller=ControllerId(7)))
    assert not Candidate(ME, OWN).owns(None)


@pytest.mark.rule("TO-4")
@pytest.mark.parametrize("session", [1, 0x100000A7F3C0002, 2**63 - 1, -(2**63), -1])
def test_a_persistent_controller_znode_names_the_session_that_owns_it(session: int) -> None:
    data = encode_controller(ME, 5, session)
    body = decode_controller_body(data)
    assert body is not None
    assert (body.brokerid, body.session) == (ME, session)
    assert decode_controller(data) == ME


def test_the_session_is_written_as_zookeeper_prints_it() -> None:
    assert b'"klammSession":"0x100000a7f3c0002"' in encode_controller(ME, 5, 0x100000A7F3C0002)
    assert decode_controller(b'{"version":2,"brokerid":1,"timestamp":"1","klammSession":"12"}') is None


@pytest.mark.rule("TO-6")
def test_an_adoption_is_read_as_it_was_written() -> None:
    for mode in ("atomic", "persistent"):
        adoption = Adoption(mode, "root@host", 1_700_000_000_000)  # type: ignore[arg-type]
        assert decode_adoption(encode_adoption(adoption)) == adoption


@pytest.mark.rule("TO-6")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version":1,"mode":"never","by":"","at_ms":0}',
        b'{"version":2,"mode":"atomic","by":"","at_ms":0}',
        b'{"version":1,"mode":"atomic","by":7,"at_ms":0}',
    ],
)
def test_an_adoption_that_means_nothing_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError) as malformed:
        decode_adoption(data)
    assert malformed.value.path == "/klamm/adoption"


@pytest.mark.rule("TO-7")
def test_each_take_over_in_a_row_waits_longer_and_calm_ends_that() -> None:
    pauses = ElectionPauses()
    now, waited = 0.0, []
    for _ in range(8):
        pause = max(0.0, pauses.take_over_pause(now))
        waited.append(pause)
        now += pause
        pauses.took_over(now)
    assert waited == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, TAKE_OVER_PAUSE_MAX_S, TAKE_OVER_PAUSE_MAX_S]
    assert pauses.take_over_pause(now + CALM_S) == 0.0
