"""Searches the nodes of a cluster for one that knows something, and says what they answered if none does.

The next node is asked as soon as one fails, or after a short silence, so that nodes that hang do not use up the time in
which others would answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from admin.connecting.waiting import together
from cluster.model.errors import (
    ApiError,
    ConnectionRefusedByHostError,
    ErrorCode,
    ForeignProtocolError,
    PeerUnreachableError,
    TlsFailedError,
    TlsMissingError,
    TlsRefusedError,
    UnresolvableHostError,
)
from cluster.requests.cluster import NO_ZOOKEEPER, DescribeClusterResponse

_T = TypeVar("_T")

_RECENT_S: Final = 1.0
"""A node that was asked for less than this has had no time to answer."""
SILENCE_S: Final = 0.25
"""After this many seconds without an answer the next node is asked as well."""
_NOT_AUTHENTICATED: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
)
_RUNNING: Final = "running"
_BUSY: Final = "running, but has not answered this request"
Describe = Callable[[str], Awaitable[DescribeClusterResponse]]


class NoAnswerError(PeerUnreachableError):
    """Raised when no node gives the wanted answer.

    `missing`: what was not found; `reasons`: what the nodes did; `cause`: why, if known.
    `may_be_done`: whether a request that changes something was sent and may still be carried out.
    """

    def __init__(self, missing: str, reasons: str, cause: str = "", *, may_be_done: bool = False) -> None:
        said = "; ".join(filter(None, (missing, reasons))) if cause else f"{missing}: {reasons}"
        after = "; the controller may still carry it out" if may_be_done else ""
        super().__init__("cluster", f"{cause}{': ' if cause else ''}{said}{after}")
        self.missing, self.reasons, self.cause, self.may_be_done = missing, reasons, cause, may_be_done

    def __str__(self) -> str:
        return self.why

    @property
    def so_far(self) -> str:
        """The text that describes the search while it lasts."""
        return NoAnswerError(f"{self.missing} yet", self.reasons, self.cause).why


async def first_answer(addresses: Iterable[str], ask: Callable[[str], Coroutine[Any, Any, _T | None]]) -> _T | None:
    """Ask one node after the other, the next as soon as one has no answer, and shortly after one that is silent.

    Returns the first answer; None if no node has one.
    """
    waiting = list(addresses)
    running: set[asyncio.Task[_T | None]] = set()
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(ask(waiting.pop(0))))
            done, running = await asyncio.wait(
                running, timeout=SILENCE_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (answer := task.result()) is not None:
                    return answer
        return None
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class NodeSearch:
    """Searches among the nodes of one cluster. `names` maps addresses to names such as "controller 1001"."""

    def __init__(self, bootstrap: Iterable[str], names: Mapping[str, str], origin: str = "") -> None:
        """Take the addresses to begin with. `origin`: where they come from, "" if no user can correct them."""
        self._origin = origin
        self._wrong: set[str] = set()
        self._fails_by_tls = self._lacks_tls = False
        self._bootstrap = tuple(dict.fromkeys(bootstrap))
        self._names = dict(names)
        self._outcomes: dict[str, str] = {}
        self._asked_at: dict[str, float] = {}
        self._former: Mapping[str, str] = {}
        """The outcomes of the round before."""
        self._called = ""
        self._any_answered = self._has_ever_answered = False

    async def first(
        self, describe: Describe, is_wanted: Callable[[DescribeClusterResponse], bool]
    ) -> DescribeClusterResponse | None:
        """Ask all nodes once; return the first wanted description, None if no node gives one.

        A refusal says only that this node does not know. If a node names the active controller, that is asked next.
        Raises ApiError if a node does not accept who this client is: a wrong password is not tried again and again.
        """
        self._former = {address: said for address, said in self._outcomes.items() if said != _silence(None)}
        self._outcomes, self._any_answered, self._called = {}, False, ""
        waiting, asked = list(self._bootstrap), set[str]()
        running: set[asyncio.Task[DescribeClusterResponse | None]] = set()
        try:
            while True:
                # Several name the same controller, and the last may name one that was asked already.
                waiting = [address for address in waiting if address not in asked]
                if waiting:
                    address = waiting.pop(0)
                    asked.add(address)
                    self._outcomes[address] = _silence(None)
                    self._asked_at[address] = asyncio.get_running_loop().time()
                    running.add(asyncio.create_task(self._ask(address, describe)))
                if not running:
                    return None
                done, running = await asyncio.wait(
                    running, timeout=SILENCE_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
                )
                for answer in (task.result() for task in done):
                    if answer is not None and is_wanted(answer):
                        # The nodes that were still silent had no time to answer: nothing is known of them.
                        self._outcomes = {a: said for a, said in self._outcomes.items() if said != _silence(None)}
                        return answer
                    if answer is not None and answer.controller_address:
                        waiting.insert(0, answer.controller_address)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """The addresses with which the search begins."""
        return self._bootstrap

    @property
    def is_hopeless(self) -> bool:
        """Whether it is no use to wait: every address is wrong, or TLS cannot be agreed on.

        An address is wrong if it cannot be resolved, is no klamm port, or refuses and is the only one that a user
        gave; of several that refuse, one may be about to start.
        """
        return not self._has_ever_answered and self._wrong.issuperset(self._bootstrap)

    @property
    def is_unproven(self) -> bool:
        """Whether a user gave these addresses and nothing has ever answered at them."""
        return bool(self._origin) and not self._has_ever_answered

    @property
    def advice(self) -> str:
        """Advise about addresses at which nothing has ever answered; "" if something has."""
        if not self.is_unproven:
            return ""
        if self._lacks_tls:
            return (
                "give --command-config FILE, with security.protocol=SSL and ssl.* or sasl.* of a client: of a cluster "
                "that 'klamm up --secure' started it is certs/admin.properties in its data folder"
            )
        if self._fails_by_tls:
            return "the TLS settings of this side are those of --command-config"
        this, it = ("this address", "it") if len(self._bootstrap) == 1 else ("these addresses", "them")
        return f"{self._origin} has {this}: correct {it}, or start the cluster"

    def name(self, address: str) -> str:
        """The name of the node at an address, for messages."""
        return self._names.get(address, address)

    async def survey(self, describe: Describe) -> None:
        """Ask all nodes while a controller is called, so that `failure` can say what they answer."""

        async def ask(address: str) -> None:
            with suppress(ApiError):
                await self._ask(address, describe)

        await asyncio.gather(*map(ask, self._bootstrap))

    def called(self, controller: str, why: str | None = None) -> None:
        """Record why the controller that the last round found has not answered a call; without `why`, not yet.

        Other nodes may name a controller that no longer runs, until they notice its end.
        """
        self._outcomes[controller] = _silence(why)
        self._called = controller

    def refused(self, controller: str, error: ApiError) -> None:
        """Record that the active controller that the last round found refused a call for a reason of its own."""
        self._outcomes[controller] = _refusal(error)
        self._called = controller

    def failure(self) -> NoAnswerError:
        """Describe what the nodes have answered since the last round began, equal answers together.

        Of a node that had no time to answer in it, what it answered in the round before.

        Controllers without ZooKeeper come first, because they are the reason that there is no answer; answers without
        a fault come last.
        """
        groups: dict[str, list[str]] = {}
        for address, outcome in {**self._former, **self._outcomes}.items():
            before = self._former.get(address, outcome)
            groups.setdefault(before if self._had_no_time(address) else outcome, []).append(address)
        without_zookeeper = groups.pop(NO_ZOOKEEPER, [])
        order = sorted(groups, key=lambda outcome: outcome == _RUNNING)
        said = "; ".join(f"{self._together(groups[outcome])} {outcome}" for outcome in order)
        found = bool(self._called) or not self._any_answered or bool(without_zookeeper)
        cause = f"{self._together(without_zookeeper)} {NO_ZOOKEEPER}" if without_zookeeper else ""
        return NoAnswerError("no answer" if found else "no active controller", said, cause)

    def _had_no_time(self, address: str) -> bool:
        """Whether the node was asked again just now."""
        asked_at = self._asked_at.get(address)
        is_recent = asked_at is not None and asyncio.get_running_loop().time() - asked_at < _RECENT_S
        return is_recent and address != self._called and self._outcomes.get(address) == _silence(None)

    @property
    def has_answered(self) -> bool:
        """Whether any node has answered since the last round began."""
        return self._any_answered

    @property
    def is_calling(self) -> bool:
        """Whether the active controller was called since the last round, and has not answered yet."""
        return self._outcomes.get(self._called) in {_silence(None), _BUSY}

    async def _ask(self, address: str, describe: Describe) -> DescribeClusterResponse | None:
        answer: DescribeClusterResponse | None = None
        try:
            answer = await describe(address)
        except ApiError as error:
            self._outcomes[address] = _refusal(error)
            if error.code in _NOT_AUTHENTICATED:
                raise
        except PeerUnreachableError as error:
            self._outcomes[address] = _silence(error.why)
            if self._is_final(error):
                self._wrong.add(address)
            else:
                self._wrong.discard(address)
            return None
        else:
            self._outcomes[address] = _BUSY if address == self._called else _state(answer)
            self._learn_names(address, answer)
        self._any_answered = self._has_ever_answered = True
        return answer

    def _is_final(self, error: PeerUnreachableError) -> bool:
        if isinstance(error, ConnectionRefusedByHostError):
            return self.is_unproven and len(self._bootstrap) == 1
        self._fails_by_tls = isinstance(error, TlsFailedError | TlsRefusedError)
        self._lacks_tls = isinstance(error, TlsMissingError)
        return isinstance(error, UnresolvableHostError | ForeignProtocolError | TlsFailedError)

    def _learn_names(self, address: str, answer: DescribeClusterResponse) -> None:
        self._names |= {c.address: f"controller {c.id}" for c in answer.controllers}
        self._names |= {b.endpoint.address: f"broker {b.id}" for b in answer.brokers}
        if answer.node_role:
            self._names[address] = f"{answer.node_role} {answer.node_id}"

    def _together(self, addresses: list[str]) -> str:
        return together(map(self.name, addresses))


def _state(answer: DescribeClusterResponse) -> str:
    unfit = [c.unfit for c in answer.controllers if c.id == answer.node_id and c.unfit]
    return f"{_RUNNING}, but not standing for election ({unfit[0]})" if unfit else _RUNNING


def _refusal(error: ApiError) -> str:
    return NO_ZOOKEEPER if error.message == NO_ZOOKEEPER else f"{_RUNNING} ({error.message})"


def _silence(why: str | None) -> str:
    return "not answering" if why is None else f"not answering ({why})"
