"""A topic with the lines of state-change logs, and what errors of Spark's mean there.

A record's key is `node/incarnation`, its value one line without newline; all lines of a key are in one partition, in
their order. A line may be there twice: a publisher that was killed repeats what it is not certain of.
"""

import re
from typing import Final

from msgspec import Struct

from cluster.model.errors import ClusterError

REQUEST_TIMEOUT_MS: Final = 20_000
_MISFITS: Final = re.compile(
    r"Failed to find (the )?data source: ?`?kafka|NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError"
    r"|ClassNotFoundException|AbstractMethodError|IncompatibleClassChangeError|UnsupportedClassVersionError"
    # Where Spark has only the message of such an error: a signature, a class by its path, a receiver.
    r"|exception: ('\S+ (org\.apache|scala)\.[^']*'|(org/apache|scala)/\S+|Receiver class )"
)
"""The JVM's errors where two jars do not fit together."""


class TopicError(ClusterError):
    """Raised when a topic, or its brokers, did not do what was asked."""


class Topic(Struct, frozen=True):
    """A topic. `bootstrap`: addresses of brokers; `connector`: version of Spark's connector to Kafka."""

    bootstrap: str
    name: str
    connector: str = ""

    def __str__(self) -> str:
        return f"topic {self.name} at {self.bootstrap}"

    def explain(self, why: str) -> str:
        """Explain what Spark says of an audit of the topic, and what to do about it."""
        if _MISFITS.search(why):
            return (
                f"Spark's connector to Kafka {self.connector} does not fit this Spark ({why}): set --kafka-connector "
                "to the version of Spark, or the nearest one that there is"
            )
        if "failOnDataLoss" in why or "data may have been lost" in why:
            return f"{self}: records that were not read yet are gone; audit it again into a new --output"
        return f"{self}: {why}"
