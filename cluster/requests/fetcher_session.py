"""The side of a follower or a consumer of its fetch session with one broker: what the broker knows, and what the next
request has to say.

A session begins with a request that names all partitions. After any error, or an answer that did not come, nobody knows
what the broker knows, and another session begins. A broker that grants none, as one of an earlier release, is asked for
all partitions each time. Source: Kafka FetchSessionHandler; KIP-227.
"""

from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from cluster.model.bounds import INT32_MAX
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    FULL_FETCH_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchResponse,
    ForgottenPartition,
)

SESSION_ERRORS: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
"""The broker does not have the session, or not as its fetcher has it: another one may begin at once."""

State = TypeVar("State")
"""What a fetcher knows of a partition: an answer to a request that was made with another object is dropped."""


class AskedPartition(NamedTuple, Generic[State]):
    """A partition's state when it was named, and how it was named."""

    state: State
    item: FetchPartition


class SessionRequest(NamedTuple):
    """The part of a fetch that depends on the session."""

    session_id: int
    session_epoch: int
    partitions: tuple[FetchPartition, ...]
    forgotten_partitions: tuple[ForgottenPartition, ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether it names all partitions."""
        return self.session_epoch == FULL_FETCH_EPOCH


def next_session_epoch(epoch: int) -> int:
    """The number of the request after this one in its session; it is never that of a full fetch again."""
    return FULL_FETCH_EPOCH + 1 if epoch == INT32_MAX else epoch + 1


class FetcherSession(Generic[State]):
    """The session of one fetcher. `asked`: the partitions that the broker knows, with the last request."""

    def __init__(self) -> None:
        self.asked: dict[TopicPartition, AskedPartition[State]] = {}
        self._id = NO_SESSION
        self._epoch = FULL_FETCH_EPOCH
        self.is_refused = False
        """Whether the broker granted no session when it was asked last."""

    @property
    def id(self) -> int:
        """The number that the broker gave it; that of none if it gave none."""
        return self._id

    @property
    def is_established(self) -> bool:
        """Whether the next request names only what changed."""
        return self._epoch != FULL_FETCH_EPOCH

    def reset(self) -> None:
        """Let the next request name all partitions; it ends the session on the broker, if that has it still."""
        self._epoch = FULL_FETCH_EPOCH
        self.asked = {}

    def request_all(self, wanted: Mapping[TopicPartition, AskedPartition[State]]) -> SessionRequest:
        """Name these partitions, and ask for a session."""
        self.asked = dict(wanted)
        return SessionRequest(self._id, FULL_FETCH_EPOCH, tuple(asked.item for asked in wanted.values()))

    def differs(self, wanted: Mapping[TopicPartition, AskedPartition[State] | None]) -> bool:
        """Whether the broker would have to be told of one of these partitions."""
        return any(not _is_same(self.asked.get(tp), asked) for tp, asked in wanted.items())

    def request_changes(self, wanted: Mapping[TopicPartition, AskedPartition[State] | None]) -> SessionRequest:
        """Name those of these partitions that are asked for in another way than before, also where only the state is
        another: then the answer to the last request is dropped. None: not asked for now.
        """
        named, forgotten = [], []
        for tp, asked in wanted.items():
            if _is_same(self.asked.get(tp), asked):
                continue
            if asked is None:
                del self.asked[tp]
                forgotten.append(ForgottenPartition(*tp))
            else:
                self.asked[tp] = asked
                named.append(asked.item)
        request = SessionRequest(self._id, self._epoch, tuple(named), tuple(forgotten))
        self._epoch = next_session_epoch(self._epoch)
        return request

    def take_answer(self, request: SessionRequest, response: FetchResponse) -> None:
        """Begin the session that a full request was granted, or end it as the broker did. The answer has no error."""
        if request.is_full:
            self._id, self.is_refused = response.session_id, response.session_id == NO_SESSION
            self._epoch = FULL_FETCH_EPOCH if self._id == NO_SESSION else next_session_epoch(FULL_FETCH_EPOCH)
        elif response.session_id != self._id:
            self._id = NO_SESSION
            self.reset()


def _is_same(known: AskedPartition[State] | None, asked: AskedPartition[State] | None) -> bool:
    if known is None or asked is None:
        return known is asked
    return known.state is asked.state and known.item == asked.item
