"""Topic ids: recorded as read, written back where somebody else's write drops them, and asked for where they are lost.

Tools of Kafka before 2.8 write a topic znode without its id. Source: klamm (D-102, D-103); for new topics Kafka
KafkaController.processTopicIds.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Final

import structlog
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId, TopicId
from cluster.model.errors import ApiError, PeerUnreachableError
from cluster.model.partition import TopicAssignment, TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.agents import AlterPartitionItem
from controller.active_controller import ActiveController
from controller.changes import TopicIdRead
from controller.context.controller_context import ControllerContext
from controller.context.topics import TopicIdConflictError
from controller.decisions.topics.creation import new_topic_id
from controller.decisions.topics.lost_ids import UndecidedId, decide_id, ids_in_logs, read_ids
from controller.events import PartitionModifications, TopicIdsAnswered, TopicIdsLost
from controller.fenced_writes import Failed, Written
from controller.handlers.partitions.replica_transitions import move_replicas, replicas_of
from controller.topic_id_questions import AnswersTopicIds, AskedTopic, TopicIdAnswer, TopicIdQuestion

ANSWER_MAX_S: Final = 5
"""How long brokers are waited for, twice: to say what they were told, and then, after all requests before, what they
have.
"""
WITHHELD_MAX_S: Final = 10
"""How long the metadata of many topics wait for the questions about all of them; the present one is awaited."""
ASKED_MAX: Final = 1_000
"""Topics asked about at a time."""
CLAIMS_MAX: Final = 100
"""Topics about which a leader is asked with the id that it used for one of them."""
PAUSES_S: Final = (30, 960)
"""Until brokers are asked again: at first, and at most. When a broker joins, they are asked at once."""
_log = structlog.stdlib.get_logger()


async def record_ids(active: ActiveController, topics: Mapping[str, TopicAssignment]) -> None:
    """Record the ids of topics as read. One without an id gets one at once if it was never led, else its brokers are
    asked; likewise one whose id another topic has too (LC-4, TP-13, TI-1, BD-10).
    """
    context = active.context
    read = read_ids(topics, context.topics.names_by_id)
    for topic, topic_id in read.sound.items():
        _record(active, topic, topic_id)
    if not active.config.protocol_version.assigns_topic_ids:
        # Brokers know no ids, and are sent none.
        await _record_oldest(active, read.contested)
        return
    doubtful = [*read.contested, *read.without]
    led = await _led_before(active, {topic: topics[topic] for topic in doubtful}) if doubtful else set()
    claimed = {read.contested[topic] for topic in led if topic in read.contested}
    await _record_oldest(active, {t: i for t, i in read.contested.items() if t not in led and i not in claimed})
    await _give_ids(active, {topic: topics[topic] for topic in read.without if topic not in led})
    if led:
        _log.warning("Topics have no id of their own in ZooKeeper; asking their brokers", topics=len(led))
        active.lost_topic_ids.withheld_until = asyncio.get_running_loop().time() + WITHHELD_MAX_S
        for topic in sorted(led):
            if isinstance(active.brokers, AnswersTopicIds) and topic not in active.lost_topic_ids.topics:
                active.lost_topic_ids.withheld[topic] = None
            active.lost_topic_ids.add(topic)
        active.enqueue(TopicIdsLost())


async def record_missing_ids(active: ActiveController) -> None:
    """Continue with topics whose znode ZooKeeper refused to write before."""
    context = active.context
    for topic in sorted(active.lost_topic_ids.unwritten):
        await restore_id(active, topic)
    if active.config.protocol_version.assigns_topic_ids:
        without_id = sorted(context.topics.names - context.topics.ids.keys())
        await record_ids(active, await active.store.read_topics(without_id))


async def restore_id(active: ActiveController, topic: str) -> None:
    """Write the known id of a topic back into its znode, from which somebody else's write dropped it (D-102).

    Only if it has none: another id may be that of a topic created again.
    """
    lost, known = active.lost_topic_ids, active.context.topics.ids.get(topic)
    lost.unwritten.discard(topic)
    current = (await active.store.read_topics_to_change([topic])).get(topic)
    if known is None or current is None or current[0].topic_id is not None:
        return
    assignment, version = current
    (outcome,) = (await active.store.change_topics({topic: (replace(assignment, topic_id=known), version)})).values()
    if isinstance(outcome, Written):
        _log.warning("A topic's id was dropped from its znode; it is written back", topic=topic, topic_id=known)
    elif isinstance(outcome, Failed):
        lost.unwritten.add(topic)
    else:
        # Somebody was faster.
        active.enqueue(PartitionModifications(topic))


async def take_over_id(active: ActiveController, topic: str, found: TopicAssignment) -> None:
    """Record the id that somebody wrote into the znode of a topic served without one, and tell its brokers."""
    await record_ids(active, {topic: found})
    if topic in active.context.topics.ids:
        active.lost_topic_ids.remove(topic)
        await _announce(active, [topic])


async def ask_for_ids(active: ActiveController) -> None:
    """Ask the brokers of every topic without an id; the answers come as an event."""
    lost = active.lost_topic_ids
    _forget_others(active)
    lost.due.update(dict.fromkeys(lost.topics))
    await _ask_next(active)


def consider_claim(active: ActiveController, sender: BrokerId, item: AlterPartitionItem) -> None:
    """A leader proposes an ISR under an id of no topic: it is in the logs of a topic whose id is lost. Ask the leader
    about each topic that it can be, with this id.
    """
    lost, context = active.lost_topic_ids, active.context
    topic_id = item.topic_id
    if topic_id is None or lost.is_asking or topic_id in context.topics.names_by_id:
        return
    may_be = [
        topic
        for topic in sorted(lost.undisclosed.get(sender, ()))
        if (leadership := context.leaderships.known.get(TopicPartition(topic, item.partition_index))) is not None
        and (leadership.leader, leadership.leader_epoch) == (sender, item.leader_epoch)
        and topic in lost.topics
    ]
    cached = lost.cached.setdefault(sender, {})
    fresh = [topic for topic in may_be[:CLAIMS_MAX] if cached.get(topic) != topic_id]
    if fresh:
        cached.update(dict.fromkeys(fresh, topic_id))
        active.enqueue(TopicIdsLost())


async def topic_ids_answered(active: ActiveController, event: TopicIdsAnswered) -> None:
    """Write the ids that brokers named, and new ones for topics that none of them knows an id of; then tell brokers."""
    if event.controller_epoch != active.epoch:
        return
    lost = active.lost_topic_ids
    lost.is_asking = False
    for broker, answer in event.answers.items():
        lost.cached.setdefault(broker, {}).update(answer.cached)
        lost.undisclosed[broker] = answer.undisclosed
    try:
        await _write_ids(active, event)
    finally:
        _release(active, event.new_ids)
    _forget_others(active)
    if lost.due:
        await _ask_next(active)
    elif lost.topics:
        _ask_later(active)


async def _write_ids(active: ActiveController, event: TopicIdsAnswered) -> None:
    lost, context = active.lost_topic_ids, active.context
    asked = [topic for topic in event.new_ids if topic in lost.topics and _is_lost(context, topic)]
    current = await active.store.read_topics_to_change(asked)
    ids = _decided(active, event, await _by_age(active, current), current)
    changed = {
        topic: (replace(current[topic][0], topic_id=topic_id), current[topic][1])
        for topic, topic_id in ids.items()
        if current[topic][0].topic_id != topic_id
    }
    outcomes = await active.store.change_topics(changed)
    unwritten = [topic for topic, outcome in outcomes.items() if not isinstance(outcome, Written)]
    given = [topic for topic in ids if topic not in unwritten and _record(active, topic, ids[topic])]
    for topic in given:
        lost.remove(topic)
    _log.info("Brokers named topic ids", asked=len(asked), found=len(given), unwritten=len(unwritten))
    await _announce(active, given)


def _forget_others(active: ActiveController) -> None:
    """Forget topics that are deleted, or to be, or have an id by now."""
    lost = active.lost_topic_ids
    others = [topic for topic in lost.topics if not _is_lost(active.context, topic)]
    _release(active, others)
    for topic in others:
        lost.remove(topic)


def _release(active: ActiveController, asked: Iterable[str]) -> None:
    """Send the metadata of topics that were asked about and still have no id; of all once they have waited long."""
    lost, now = active.lost_topic_ids, asyncio.get_running_loop().time()
    released = [*lost.withheld] if now >= lost.withheld_until else [t for t in asked if t in lost.withheld]
    if released:
        for topic in released:
            del lost.withheld[topic]
        batch = active.new_batch()
        batch.add_update_metadata_for_all(tp for topic in released for tp in active.context.topics.partitions_of(topic))
        active.send(batch)


def _decided(
    active: ActiveController,
    event: TopicIdsAnswered,
    topics: Sequence[str],
    current: Mapping[str, tuple[TopicAssignment, object]],
) -> dict[str, TopicId]:
    """The id of each topic, those that a broker named first; `topics`: the older ones first."""
    lost, names = active.lost_topic_ids, dict(active.context.topics.names_by_id)
    ids: dict[str, TopicId] = {}
    named: dict[str, TopicId] = {}
    unknown: dict[str, TopicId] = {}
    for topic in topics:
        answers = {**event.answers, **_on_failed_disks(active.context, topic, event.answers)}
        decided = decide_id(topic, _hosts(active.context, topic), answers)
        in_znode = current[topic][0].topic_id
        if isinstance(decided, UndecidedId):
            lost.topics[topic] = decided.why
        elif decided is not None:
            named[topic] = decided
        else:
            unknown[topic] = event.new_ids[topic] if in_znode is None else TopicId(in_znode)
    for topic, topic_id in (*named.items(), *unknown.items()):
        owner = names.setdefault(topic_id, topic)
        if owner == topic:
            ids[topic] = topic_id
        else:
            lost.topics[topic] = f"the id {topic_id} is that of topic {owner}"
    return ids


async def _by_age(active: ActiveController, topics: Iterable[str]) -> list[str]:
    names = list(topics)
    created = await active.store.creations(names)
    return sorted(names, key=lambda topic: created[topic])


async def _ask_next(active: ActiveController) -> None:
    lost, context = active.lost_topic_ids, active.context
    if lost.is_asking or not lost.due:
        return
    topics = [topic for topic in islice(lost.due, ASKED_MAX) if _is_lost(context, topic)]
    created = await active.store.creations(topics)
    new_ids = {topic: _id_to_invent(topic, created[topic]) for topic in topics}
    lost.due = dict.fromkeys(islice(lost.due, ASKED_MAX, None))
    lost.is_asking = True
    active.run_aside(_ask(active, new_ids, _questions(active, new_ids)))


def _ask_later(active: ActiveController) -> None:
    lost = active.lost_topic_ids
    lost.stop()
    lost.pause_s = min(2 * lost.pause_s, PAUSES_S[1]) or PAUSES_S[0]
    lost.next_question = active.enqueue_later(lost.pause_s, TopicIdsLost())


def _questions(active: ActiveController, new_ids: Mapping[str, TopicId]) -> list[tuple[Broker, TopicIdQuestion]]:
    """Make the question to each registered broker about the topics that it hosts."""
    context = active.context
    topics: dict[BrokerId, dict[str, AskedTopic]] = {}
    for topic, new_id in new_ids.items():
        for broker, hosted in replicas_of(context, context.topics.partitions_of(topic)).items():
            cached = active.lost_topic_ids.cached.get(broker, {}).get(topic)
            topics.setdefault(broker, {})[topic] = AskedTopic(hosted[0].partition, new_id, cached)
    return [
        (broker, TopicIdQuestion(active.config.id, active.epoch, context.brokers.epochs[id_], topics[id_]))
        for id_, broker in sorted(context.brokers.registered.items())
        if id_ in topics
    ]


async def _ask(
    active: ActiveController, new_ids: Mapping[str, TopicId], questions: Sequence[tuple[Broker, TopicIdQuestion]]
) -> None:
    """Ask all brokers at once. Runs beside the event loop."""
    answers = await asyncio.gather(*(_answer_of(active, broker, question) for broker, question in questions))
    answered = {broker.id: answer for (broker, _), answer in zip(questions, answers, strict=True) if answer is not None}
    active.enqueue(TopicIdsAnswered(active.epoch, new_ids, answered))


async def _answer_of(active: ActiveController, broker: Broker, question: TopicIdQuestion) -> TopicIdAnswer:
    cached = {topic: asked.cached for topic, asked in question.topics.items() if asked.cached is not None}
    try:
        if isinstance(active.brokers, AnswersTopicIds):
            async with asyncio.timeout(ANSWER_MAX_S):
                cached = await active.brokers.cached_topic_ids(broker, list(question.topics)) | cached
        async with asyncio.timeout(ANSWER_MAX_S):
            # Before that it does not host what this controller has it host.
            if not await active.channels.delivered(broker.id):
                return TopicIdAnswer(cached=cached)
            if isinstance(active.brokers, AnswersTopicIds):
                return await active.brokers.check_topic_ids(broker, question, cached)
            return ids_in_logs(await active.brokers.describe_replicas(broker, recovers=False), question.topics)
    except (TimeoutError, PeerUnreachableError, ApiError) as error:
        why = str(error) or f"no answer within {ANSWER_MAX_S} s"
        _log.warning("Broker did not say which ids its topics have", broker=broker.id, error=why)
        return TopicIdAnswer(cached=cached)


async def _led_before(active: ActiveController, topics: Mapping[str, TopicAssignment]) -> set[str]:
    """The topics of which some partition has a state: brokers may know them by an id."""
    known = active.context.leaderships.known
    partitions = [TopicPartition(topic, number) for topic, a in topics.items() for number in a.partitions]
    unknown = [tp for tp in partitions if tp not in known]
    led = {tp.topic for tp in partitions if tp in known}
    return led | {tp.topic for tp in await active.store.read_states(unknown)}


async def _give_ids(active: ActiveController, topics: Mapping[str, TopicAssignment]) -> None:
    """A new id for each topic, written to ZooKeeper before it is used (TI-1)."""
    if not topics:
        return
    fresh = {topic: new_topic_id(active.random) for topic in topics}
    outcomes = await active.store.write_topics({t: replace(topics[t], topic_id=fresh[t]) for t in fresh})
    for topic, outcome in outcomes.items():
        if isinstance(outcome, Written):
            _record(active, topic, fresh[topic])
        else:
            _log.error("Assigning a topic id failed", topic=topic, outcome=str(outcome))


async def _record_oldest(active: ActiveController, contested: Mapping[str, TopicId]) -> None:
    """Let the oldest of several topics with one id keep it; the others are served without one (BD-10)."""
    for topic in await _by_age(active, contested) if contested else ():
        _record(active, topic, contested[topic])


def _record(active: ActiveController, topic: str, topic_id: TopicId) -> bool:
    try:
        active.commit(TopicIdRead(topic, topic_id))
    except TopicIdConflictError as error:
        # Somebody edited or copied the znode. The topic is served without an id rather than under that of another.
        _log.error("Topic id conflict", topic=topic, error=str(error))
        return False
    return True


async def _announce(active: ActiveController, topics: Iterable[str]) -> None:
    """Send the topics with their ids to the brokers that host them, and to all as metadata."""
    context = active.context
    partitions = [tp for topic in topics for tp in context.topics.partitions_of(topic)]
    replicas = {
        broker: [tp for tp in hosted if context.replicas.state(broker, tp) is ReplicaState.ONLINE]
        for broker, hosted in replicas_of(context, partitions).items()
    }
    if partitions:
        await move_replicas(active, replicas, ReplicaState.ONLINE)
        batch = active.new_batch()
        # Also of partitions that no replica is online of.
        batch.add_update_metadata_for_all(partitions)
        active.send(batch)


def _id_to_invent(topic: str, creation: int) -> TopicId:
    """The id for a topic that no broker has one of. `creation`: the zxid that created its znode.

    The same whenever it is asked for: brokers of Kafka 2.8 keep an id that they were asked about, and the controller
    may die before it is in ZooKeeper. A topic that is created again has another (TI-3).
    """
    return new_topic_id(Random(f"{topic} {creation}"))  # noqa: S311 - no secret is drawn.


def _hosts(context: ControllerContext, topic: str) -> set[BrokerId]:
    """The hosts of a topic, without brokers that still have a deleted topic of the name, which have nothing of this one
    (D-99).
    """
    hosts = {broker for a in context.topics.assignments.get(topic, {}).values() for broker in a.replicas}
    return {broker for broker in hosts if not context.deletions.has_left_replicas(broker, topic)}


def _on_failed_disks(
    context: ControllerContext, topic: str, answers: Mapping[BrokerId, TopicIdAnswer]
) -> dict[BrokerId, TopicIdAnswer]:
    """Say what is not known of brokers that name no id, but have a replica in a log directory that has failed: they say
    nothing of the logs there.
    """
    registered = context.brokers.registered_ids
    offline = {
        broker
        for tp in context.topics.partitions_of(topic)
        for broker in registered.intersection(context.topics.assignment(tp).replicas)
        if broker not in context.brokers.online_for(tp, include_shutting_down=True)
    }
    hidden = TopicIdAnswer(undisclosed=frozenset([topic]))
    return {b: hidden for b in offline & answers.keys() if answers[b].ids.get(topic) is None}


def _is_lost(context: ControllerContext, topic: str) -> bool:
    return topic in context.topics.names and topic not in context.topics.ids and topic not in context.deletions.queued
