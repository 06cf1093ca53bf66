"""The options that name a Kafka topic."""

from typing import Annotated, Final

import typer

CONNECTOR_VERSION: Final = "4.2.0"
"""The newest that the Maven repositories had when this was written; it works with later versions of Spark."""
KafkaOption = Annotated[str, typer.Option("--kafka", metavar="HOST:PORT[,…]", help="Brokers of Apache Kafka.")]
TopicOption = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Their topic of state-change logs.")]
ConnectorOption = Annotated[
    str,
    typer.Option(
        "--kafka-connector",
        metavar="VERSION",
        rich_help_panel="Spark",
        help="Version of Spark's connector to Kafka; its jars are fetched once.",
    ),
]
