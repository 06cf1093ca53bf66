"""The inter-broker protocol version and the features it enables.

During a rolling upgrade all nodes use the older protocol until every node supports the newer one, so behaviour depends
on the configured version, not on the code's. Source: Kafka MetadataVersion.
"""

from typing import Final

from msgspec import Struct

_LAST_CHANGES: Final[dict[tuple[int, ...], int]] = {
    (2, 4): 1, (2, 5): 0, (2, 6): 0, (2, 7): 2, (2, 8): 1, (3, 0): 1, (3, 1): 0, (3, 2): 0, (3, 3): 3, (3, 4): 0,
    (3, 5): 2, (3, 6): 2, (3, 7): 4, (3, 8): 0, (3, 9): 0,
}  # fmt: skip
"""The last change of each release that governed brokers may have."""
_LAST_OF_RELEASE: Final = 1_000
"""The latest change of a release, for a version given without `-IVn`."""


class ProtocolVersion(Struct, frozen=True, order=True):
    """A release, e.g. (2, 7) or (0, 10, 2), and the number of the incompatible change within it."""

    release: tuple[int, ...]
    change: int = _LAST_OF_RELEASE

    @classmethod
    def parse(cls, text: str) -> "ProtocolVersion":
        """Parse `3.4`, `2.7-IV2`, `0.10.2-IV0`. Raises ValueError for anything else or newer than NEWEST."""
        release, separator, change = text.strip().partition("-IV")
        parts = release.split(".")
        if not all(part.isdecimal() for part in parts) or (separator and not change.isdecimal()):
            raise ValueError("must be a version such as 3.4 or 2.7-IV2")
        # Before 1.0 the second number was a major release and the third a minor one; later the third is a bug-fix
        # release.
        significant = 3 if parts[0] == "0" else 2
        if len(parts) < significant:
            raise ValueError("must be a version such as 3.4 or 2.7-IV2")
        version = cls(tuple(int(part) for part in parts[:significant]), int(change) if change else _LAST_OF_RELEASE)
        if version.release > NEWEST.release:
            raise ValueError(f"must not be newer than {NEWEST}")
        return version

    def __str__(self) -> str:
        release = ".".join(map(str, self.release))
        return release if self.change == _LAST_OF_RELEASE else f"{release}-IV{self.change}"

    @property
    def exact(self) -> "ProtocolVersion":
        """The same version with the number of its change: 2.8 is 2.8-IV1."""
        if self.change != _LAST_OF_RELEASE:
            return self
        return ProtocolVersion(self.release, _LAST_CHANGES.get(self.release, _LAST_OF_RELEASE))

    @property
    def has_features(self) -> bool:
        """Whether `/feature` is used and brokers register with version 5 (IBP 2.7-IV0)."""
        return self >= ProtocolVersion((2, 7), 0)

    @property
    def has_alter_partition(self) -> bool:
        """ISR changes go through the controller; otherwise leaders write state znodes (IBP 2.7-IV2)."""
        return self >= ProtocolVersion((2, 7), 2)

    @property
    def assigns_topic_ids(self) -> bool:
        """New and existing topics are assigned topic ids (IBP 2.8-IV0)."""
        return self >= ProtocolVersion((2, 8), 0)

    @property
    def sends_topic_ids(self) -> bool:
        """LeaderAndIsr and UpdateMetadata carry topic ids (IBP 2.8-IV1)."""
        return self >= ProtocolVersion((2, 8), 1)

    @property
    def has_leader_recovery_state(self) -> bool:
        """An unclean election marks its partition as recovering (IBP 3.2-IV0)."""
        return self >= ProtocolVersion((3, 2), 0)

    @property
    def feature_znode_version(self) -> int:
        """Format version of `/feature`: 2 from IBP 3.3-IV0."""
        return 2 if self >= ProtocolVersion((3, 3), 0) else 1

    @property
    def registration_version(self) -> int:
        """Version of the broker registration: 5 from IBP 2.7-IV0, 4 from 0.10.0-IV1, else 2."""
        if self.has_features:
            return 5
        return 4 if self >= ProtocolVersion((0, 10, 0), 1) else 2


OLDEST_KAFKA: Final = ProtocolVersion((2, 4), 0)
"""The oldest that brokers of Apache Kafka under klamm's controllers may have."""
NEWEST: Final = ProtocolVersion((3, 9), 0)
