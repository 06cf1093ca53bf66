"""What commands say besides their results."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from admin.cli.elect import _report
from admin.cli.watch import _show
from admin.connecting.connection import ClusterConnection
from cluster.cli.documents import Format
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.cluster import ClusterEvent, WatchResponse
from cluster.requests.elections import ElectLeadersResponse, PartitionElectionResult, ReplicaElectionResult


@pytest.mark.parametrize(
    ("codes", "of_all", "said"),
    [
        ([], True, "0 leaders elected, 0 refused, no other partition needs it\n"),
        ([ErrorCode.NONE], True, "1 leader elected, 0 refused, no other partition needs it\n"),
        ([ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED], False, "1 leader elected, 0 refused, 1 not needed\n"),
    ],
)
def test_an_election_says_how_many_needed_none(codes: list[ErrorCode], of_all: bool, said: str, capsys: Any) -> None:
    partitions = tuple(PartitionElectionResult(number, code) for number, code in enumerate(codes))
    answer = ElectLeadersResponse(results=(ReplicaElectionResult("t", partitions),))
    _report(answer, dry_run=False, form=Format.TABLE, of_all=of_all)
    assert capsys.readouterr().err == said


LED = ClusterEvent(
    "leader_changed",
    1,
    ControllerEpoch(3),
    topic="t",
    partition=0,
    leader=BrokerId(-1),
    leader_epoch=LeaderEpoch(4),
    isr=(BrokerId(2),),
)


def test_a_change_of_leader_and_isr_is_one_line_for_a_person(capsys: Any) -> None:
    same = replace(LED, kind="isr_changed")
    other = replace(same, partition=1)
    _show(WatchResponse("3-1"), (LED, same, other), Format.TABLE)
    assert [line.split("  ")[1:2] for line in capsys.readouterr().out.splitlines()] == [
        ["leader changed"],
        ["isr changed"],
    ]
    _show(WatchResponse("3-1"), (LED, same), Format.JSON)
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ([], "without a result"),
        ([1], "with a wrong number of results (1)"),
        ([1, 2, 3], "with a wrong number of results (3)"),
    ],
)
def test_an_answer_without_a_result_for_each_thing_names_who_gave_it(results: list[int], found: str) -> None:
    async def main() -> None:
        async with ClusterConnection(["h:1"]) as connection:
            assert connection.results_for(["topic a", "topic b"], [1, 2]) == [1, 2]
            with pytest.raises(ApiError) as refused:
                connection.results_for(["topic a", "topic b"], results)
        assert refused.value.message == (
            f"the controller answered {found} for topic a, topic b: is it a klamm of another version?"
        )

    asyncio.run(main())
