"""The topics of one controller epoch whose znode does not say which id they have, although brokers serve them."""

import asyncio

from cluster.model.broker import BrokerId, TopicId


class LostTopicIds:
    """Kept until a broker has said which id each has; meanwhile requests to brokers carry none (D-102)."""

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}
        """Topic -> why its id is not known; empty until brokers have answered."""
        self.due: dict[str, None] = {}
        """Those that brokers are to be asked about."""
        self.withheld: dict[str, None] = {}
        """Those that brokers get no metadata of: before they have said which id they know, one without it would make
        brokers of Kafka forget it.
        """
        self.withheld_until: float = 0
        """On the clock of the event loop."""
        self.cached: dict[BrokerId, dict[str, TopicId]] = {}
        """What each broker has named so far."""
        self.undisclosed: dict[BrokerId, frozenset[str]] = {}
        """The topics of which each broker's logs have another id than it names, by its last answer."""
        self.is_asking = False
        self.next_question: asyncio.TimerHandle | None = None
        self.pause_s: float = 0
        """The last one before asking again; 0: none yet."""
        self.unwritten: set[str] = set()
        """Topics with a known id that ZooKeeper refused to write back."""

    def add(self, topic: str) -> None:
        self.topics.setdefault(topic, "")
        self.due[topic] = None

    def remove(self, topic: str) -> None:
        self.topics.pop(topic, None)
        self.due.pop(topic, None)
        self.withheld.pop(topic, None)
        for ids in self.cached.values():
            ids.pop(topic, None)

    def stop(self) -> None:
        if self.next_question is not None:
            self.next_question.cancel()
