"""What a candidate does about `/controller` as it was read: respect, take, keep or give it up.

Kafka's brokers compete for the same znode. Its holder is a candidate of klamm if `/controllers/ids` has its id, since
every candidate registers before it competes; else it is a broker. docs/decisions/0017 has the safety argument.
"""

from enum import Enum, auto

from msgspec import Struct

from cluster.broker import ControllerId
from cluster.takeover import Takeover

NO_SESSION = 0
"""As in `ephemeral_owner`: a persistent znode, or none."""


class Holding(Struct, frozen=True):
    """`/controller` as read.

    `controller`: the id in it, None if it is malformed. `session`: the session in it, which owns it if it is
    persistent. `registered`: the session that owns `/controllers/ids/<controller>`, 0 if there is no such znode.
    """

    version: int
    controller: ControllerId | None
    ephemeral_owner: int
    session: int | None = None
    registered: int = NO_SESSION

    @property
    def is_persistent(self) -> bool:
        return self.ephemeral_owner == NO_SESSION

    @property
    def owner(self) -> int | None:
        """The session that owns it, by which an ephemeral znode is held as is a persistent one; None: nobody's."""
        return self.session if self.is_persistent else self.ephemeral_owner

    @property
    def is_abandoned(self) -> bool:
        """Whether it is persistent, and the candidate that it names is gone or has another session."""
        return self.is_persistent and self.session is not None and self.registered != self.session


class Candidate(Struct, frozen=True):
    """Who asks, and what it may do. `takeover`: by its setting, else by `/klamm/adoption`.

    `governs_kafka`: whether it sends Kafka's requests, so that the cluster is governed by a broker where it is not.
    """

    id: ControllerId
    session: int
    takeover: Takeover = "never"
    governs_kafka: bool = False

    @property
    def gives_way(self) -> bool:
        """Whether `/controller` is left to Kafka's brokers, even when nobody holds it."""
        return self.governs_kafka and self.takeover == "never"

    def owns(self, holding: Holding | None) -> bool:
        """Whether this candidate's present session is the active controller by `/controller`."""
        return holding is not None and holding.controller == self.id and holding.owner == self.session


class Step(Enum):
    WAIT = auto()
    """Somebody else is active, or is to become it."""
    CREATE = auto()
    """There is no `/controller`: compete."""
    REPLACE = auto()
    """Compete, by deleting what is there in the same transaction."""
    KEEP = auto()
    """This session owns it."""
    DELETE = auto()
    """It is this session's but unusable, or is to be left to the brokers: delete it and do not compete."""


def next_step(candidate: Candidate, holding: Holding | None) -> Step:
    """`holding`: None if there is no `/controller`."""
    if holding is None:
        return Step.WAIT if candidate.gives_way else Step.CREATE
    if candidate.owns(holding):
        return Step.DELETE if candidate.gives_way else Step.KEEP
    if holding.controller is None and holding.owner == candidate.session:
        return Step.DELETE
    if holding.is_abandoned:
        return Step.DELETE if candidate.gives_way else Step.REPLACE
    return Step.REPLACE if candidate.takeover != "never" and _is_no_candidates(holding) else Step.WAIT


def _is_no_candidates(holding: Holding) -> bool:
    """Whether a broker holds it, or it is malformed and would never go by itself."""
    return holding.registered == NO_SESSION and (holding.controller is not None or holding.is_persistent)
