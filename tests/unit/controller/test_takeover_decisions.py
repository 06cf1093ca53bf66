"""What a candidate does about `/controller`: the whole table, and what each kind of ownership means."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerId
from cluster.model.errors import MalformedZnodeError
from cluster.model.takeover import Takeover
from cluster.znodes.adoption import Adoption, decode_adoption, encode_adoption
from cluster.znodes.controller import decode_controller, decode_controller_body, encode_controller
from controller.decisions.takeover import Candidate, Holding, Step, next_step
from controller.election_pauses import CALM_S, PAUSE_MAX_S, ElectionPauses

OWN, OTHER, DEAD, SHELL = 11, 12, 13, 14
"""Sessions: of the candidate that decides, of the other candidate or of a broker, of nobody any more, of a tool."""
ME, YOU, BROKER = ControllerId(901), ControllerId(902), ControllerId(1)
WAIT, CREATE, REPLACE, KEEP, DELETE = Step.WAIT, Step.CREATE, Step.REPLACE, Step.KEEP, Step.DELETE
MINE = Holding(0, ME, OWN, registered=OWN)
MINE_PERSISTENT = Holding(0, ME, 0, session=OWN, registered=OWN)


@pytest.mark.rule("TO-1", "TO-4", "TO-5", "EL-1", "EL-10", "D-26", "D-92")
@pytest.mark.parametrize(
    ("holding", "takes", "never", "leaves"),
    [
        pytest.param(None, CREATE, CREATE, WAIT, id="there is none"),
        # Ephemeral: who is named, whose session made it, and which session the named one has registered.
        pytest.param(MINE, KEEP, KEEP, DELETE, id="mine"),
        pytest.param(Holding(0, ME, DEAD, registered=DEAD), WAIT, WAIT, WAIT, id="of my earlier session, which lives"),
        pytest.param(Holding(0, ME, OTHER, registered=OWN), REPLACE, REPLACE, DELETE, id="my id, of another's session"),
        pytest.param(Holding(0, ME, SHELL), REPLACE, WAIT, WAIT, id="my id while I am not registered"),
        pytest.param(Holding(0, YOU, OTHER, registered=OTHER), WAIT, WAIT, WAIT, id="another candidate's"),
        pytest.param(
            Holding(0, YOU, OWN, registered=OTHER), REPLACE, REPLACE, DELETE, id="another's id, of my session"
        ),
        pytest.param(Holding(0, YOU, SHELL, registered=OTHER), REPLACE, REPLACE, DELETE, id="another's id, by a tool"),
        pytest.param(Holding(0, BROKER, OTHER), REPLACE, WAIT, WAIT, id="a broker's"),
        pytest.param(Holding(0, BROKER, OWN), REPLACE, REPLACE, DELETE, id="a broker's id, of my session"),
        pytest.param(Holding(0, None, OTHER), REPLACE, REPLACE, WAIT, id="malformed, of another's session"),
        pytest.param(Holding(0, None, OWN), REPLACE, REPLACE, DELETE, id="malformed, of my session"),
        # Persistent: who is named, which session is written in it, and which one the named one has registered.
        pytest.param(MINE_PERSISTENT, KEEP, KEEP, DELETE, id="mine, persistent"),
        pytest.param(Holding(0, ME, 0, DEAD, OWN), REPLACE, REPLACE, DELETE, id="of my earlier session, persistent"),
        pytest.param(Holding(0, YOU, 0, OTHER, OTHER), WAIT, WAIT, WAIT, id="another candidate's, persistent"),
        pytest.param(Holding(0, YOU, 0, OWN, OTHER), REPLACE, REPLACE, DELETE, id="another's id with my session"),
        pytest.param(Holding(0, YOU, 0, DEAD), REPLACE, REPLACE, DELETE, id="of a candidate that is gone"),
        pytest.param(Holding(0, YOU, 0, DEAD, OTHER), REPLACE, REPLACE, DELETE, id="of one that restarted"),
        pytest.param(Holding(0, ME, 0, None, OWN), REPLACE, REPLACE, DELETE, id="my id without a session"),
        pytest.param(Holding(0, YOU, 0, None, OTHER), REPLACE, REPLACE, DELETE, id="another's id without a session"),
        pytest.param(Holding(0, BROKER, 0), REPLACE, REPLACE, DELETE, id="a broker's id, persistent"),
        pytest.param(Holding(0, BROKER, 0, OTHER), REPLACE, REPLACE, DELETE, id="a broker's id with a session"),
        pytest.param(Holding(0, None, 0), REPLACE, REPLACE, DELETE, id="malformed, persistent"),
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


_SESSIONS = (OWN, OTHER, SHELL)
_OF_TWO = {ME: OWN, YOU: OTHER}


@pytest.mark.rule("D-92", "INV-5")
@pytest.mark.parametrize("names", [None, ME, YOU, BROKER])
@pytest.mark.parametrize("made_by", [0, *_SESSIONS])
@pytest.mark.parametrize("written", [None, *_SESSIONS, DEAD])
@pytest.mark.parametrize("takeover", ["never", "atomic", "persistent"])
def test_of_two_live_candidates_one_is_active_or_one_competes_whatever_is_written(
    names: ControllerId | None, made_by: int, written: int | None, takeover: Takeover
) -> None:
    """Every content, for every session that may have made the znode."""
    holding = Holding(0, names, made_by, written, _OF_TWO.get(names, 0) if names is not None else 0)
    candidates = [Candidate(id_, session, takeover) for id_, session in _OF_TWO.items()]
    steps = [next_step(candidate, holding) for candidate in candidates]
    assert steps.count(KEEP) == sum(candidate.owns(holding) for candidate in candidates) <= 1
    assert KEEP in steps or REPLACE in steps or (names, takeover) == (BROKER, "never")
    assert not (KEEP in steps and REPLACE in steps)


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
        for brokers in ((), (BrokerId(1), BrokerId(2**31 - 1))):
            adoption = Adoption(mode, "root@host", 1_700_000_000_000, brokers=brokers)  # type: ignore[arg-type]
            assert decode_adoption(encode_adoption(adoption)) == adoption


@pytest.mark.rule("TO-6")
def test_an_adoption_of_an_earlier_release_names_no_brokers() -> None:
    assert decode_adoption(b'{"version":1,"mode":"atomic","by":"","at_ms":0}').brokers == ()


@pytest.mark.rule("TO-6")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version":1,"mode":"never","by":"","at_ms":0}',
        b'{"version":2,"mode":"atomic","by":"","at_ms":0}',
        b'{"version":1,"mode":"atomic","by":7,"at_ms":0}',
        b'{"version":1,"mode":"atomic","by":"","at_ms":0,"brokers":[-1]}',
        b'{"version":1,"mode":"atomic","by":"","at_ms":0,"brokers":[2147483648]}',
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
    assert waited == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, PAUSE_MAX_S, PAUSE_MAX_S]
    assert pauses.take_over_pause(now + CALM_S) == 0.0
