"""What a candidate does about `/controller` as it was read: respect, take, keep or give it up.

Kafka's brokers compete for the same znode. Its holder is a candidate of klamm if `/controllers/ids` has its id, since
every candidate registers before it competes; else it is a broker. docs/decisions/0017 has the safety argument.
"""

from enum import Enum, auto

from msgspec import Struct

from cluster.model.broker import ControllerId
from cluster.model.takeover import Takeover

NO_SESSION = 0
"""As in `ephemeral_owner`: a persistent znode, or none."""


class Holding(Struct, frozen=True):
    """`/controller` as read.

    `controller`: the id in it, None if it is malformed. `session`: the session in it, which owns it if it is
    persistent. `registered`: the session that owns `/controllers/ids/<controller>`, 0 if there is no such znode, or if
    it is a broker of this id that holds `/controller`.
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
        """Whether nobody is the active controller by it.

        The candidate that it names has another session than the one that owns it: somebody wrote the id by hand, or
        the candidate restarted. Or it is persistent, and names no session or one whose candidate is gone.
        """
        if self.is_persistent:
            return self.session in {None, NO_SESSION} or self.registered != self.session
        return self.registered not in {NO_SESSION, self.ephemeral_owner}


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
    """Nobody but this candidate would remove it, and it is to be left to the brokers: delete it and do not compete."""


def next_step(candidate: Candidate, holding: Holding | None) -> Step:
    """Decide the next step of a candidate. `holding`: None if there is no `/controller`."""
    if holding is None:
        return Step.WAIT if candidate.gives_way else Step.CREATE
    if candidate.owns(holding):
        return Step.DELETE if candidate.gives_way else Step.KEEP
    if holding.is_abandoned or holding.owner == candidate.session:
        # It does not go by itself, or not before the session of somebody who is not active by it.
        return Step.DELETE if candidate.gives_way else Step.REPLACE
    if holding.controller is None:
        return Step.WAIT if candidate.gives_way else Step.REPLACE
    return Step.REPLACE if candidate.takeover != "never" and is_of_broker(candidate, holding) else Step.WAIT


def is_of_broker(candidate: Candidate, holding: Holding) -> bool:
    """Whether a broker is the active controller by it, as far as can be seen: it names no registered candidate."""
    is_named = holding.controller is not None and holding.registered == NO_SESSION
    return is_named and not holding.is_persistent and holding.owner != candidate.session
