"""How a controller candidate treats Apache Kafka's brokers, which compete for `/controller` too (`klamm.takeover`)."""

from typing import Literal

AdoptedMode = Literal["atomic", "persistent"]
"""`atomic`: `/controller` is taken from a broker in one transaction; it is ephemeral, so that a broker takes it when no
candidate is left. `persistent`: the same, but `/controller` is persistent and names its owner's session, so that no
broker ever competes for it.
"""
Takeover = Literal[AdoptedMode, "never"]
"""`never`: a broker that holds `/controller` is respected."""
