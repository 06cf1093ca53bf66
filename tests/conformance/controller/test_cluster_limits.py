"""A cluster grows no further than its controllers let it; what is refused changes nothing."""

from cluster.model.errors import ErrorCode
from cluster.requests.topics import CreatePartitionsRequest, CreateTopicsRequest, NewPartitions, NewTopic
from tests.controllers.worlds import quiesce, run_virtually, running_cluster


def test_topics_and_partitions_beyond_the_limits_are_refused_one_by_one() -> None:
    async def scenario() -> None:
        _, c = await running_cluster(1, klamm_max_topics=3, klamm_max_partitions=5)
        created = await c.ask(CreateTopicsRequest((NewTopic("a", 2, 1), NewTopic("b", 4, 1), NewTopic("c", 1, 1))))
        refused, ok = ErrorCode.POLICY_VIOLATION, ErrorCode.NONE
        assert [topic.error_code for topic in created.topics] == [ok, refused, ok]
        assert "klamm.max.partitions (5)" in created.topics[1].error_message
        await quiesce()
        grown = await c.ask(CreatePartitionsRequest((NewPartitions("a", 5), NewPartitions("c", 2))))
        assert [topic.error_code for topic in grown.results] == [refused, ok]
        await quiesce()
        created = await c.ask(CreateTopicsRequest((NewTopic("d", 1, 1), NewTopic("e", 1, 1))))
        assert [topic.error_code for topic in created.topics] == [ok, refused]
        assert "klamm.max.topics (3)" in created.topics[1].error_message

    run_virtually(scenario)
