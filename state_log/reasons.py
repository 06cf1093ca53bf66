"""The reasons that controllers record with leaderships, by which `klamm audit replay` knows what was decided.

An election under a strategy has its name, such as `Offline`; one because of damage has what found that. A state that
was not decided, but read when its leader announced it, has `state_log.causes.READ_FROM_LEADER`.
"""

from typing import Final

INITIALISED: Final = "initialised"
"""The first leadership of a new partition."""
REPLICA_OFFLINE: Final = "replica offline"
"""`broker` left the ISR, as its replica is offline."""
REPLICA_REMOVED: Final = "replica removed"
"""`broker` left the ISR, as its replica is no longer assigned, or its topic is being deleted."""
OTHER_REPLICAS: Final = "another list of replicas"
"""The leader epoch was raised, so that brokers accept the list."""
ASKED_BY_BROKER: Final = "asked by broker "
"""With the id of the leader that proposed the ISR."""
READ_AFTER_REPAIR: Final = "read after a repair"
"""A state that was read when its malformed znode, or that of its topic, was sound again."""
RECOVERED: Final = "recovered from the brokers"
"""What `klamm cluster recover` wrote."""
