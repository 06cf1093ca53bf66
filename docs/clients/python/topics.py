"""Create a topic and list all: python topics.py HOST:PORT NAME. The address may be that of any controller or broker."""

import sys

import grpc

from klamm.v1 import cluster_pb2, cluster_pb2_grpc, controller_pb2_grpc, topics_pb2


def active_controller(address: str) -> str:
    """Ask any process which controller is active."""
    with grpc.insecure_channel(address) as channel:
        cluster = cluster_pb2_grpc.ClusterServiceStub(channel).DescribeCluster(
            cluster_pb2.DescribeClusterRequest(), timeout=10, wait_for_ready=True
        )
    if not cluster.controller_address:
        raise SystemExit("no controller is active; try again")
    return cluster.controller_address


def main(address: str, name: str) -> None:
    with grpc.insecure_channel(active_controller(address)) as channel:
        controller = controller_pb2_grpc.ControllerServiceStub(channel)
        topic = topics_pb2.NewTopic(name=name, num_partitions=3, replication_factor=1)
        created = controller.CreateTopics(topics_pb2.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), timeout=15)
        for result in created.topics:
            if result.error_code:
                raise SystemExit(f"{result.name}: error {result.error_code}: {result.error_message}")
        for listed in controller.ListTopics(topics_pb2.ListTopicsRequest(), timeout=10).topics:
            print(listed.name)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
