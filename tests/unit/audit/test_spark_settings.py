"""What an audit asks of Spark: defaults by kind of master, and settings that users give."""

import pytest

from audit.spark.settings import APPENDED, CLUSTER_TASKS, REFUSED, SparkSettings, combined, parse_conf
from cluster.model.errors import ConfigError


@pytest.mark.parametrize(
    ("master", "is_local", "is_on_loopback"),
    [
        ("", True, True),
        ("local", True, True),
        ("local[2]", True, True),
        ("local[*]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://127.0.0.1:7077", False, True),
        ("spark://127.0.0.1:7077,localhost:7077", False, True),
        ("spark://127.0.0.1:7077,10.1.2.3:7077", False, False),
        ("spark://master.example:7077", False, False),
        ("yarn", False, False),
    ],
)
def test_a_master_is_this_process_this_machine_or_another(master: str, is_local: bool, is_on_loopback: bool) -> None:
    settings = SparkSettings(master)
    assert (settings.is_local, settings.is_on_loopback) == (is_local, is_on_loopback)


def test_a_laptop_gives_some_of_its_cores_and_a_cluster_all_that_it_offers() -> None:
    assert 1 <= SparkSettings().tasks <= 4
    assert SparkSettings().master_url == f"local[{SparkSettings().tasks}]"
    assert SparkSettings("local[7]").tasks == 7
    assert SparkSettings("yarn").tasks == CLUSTER_TASKS
    assert SparkSettings("yarn").of_cluster() == {"spark.executor.memory": "1g"}


def test_cores_memory_and_partitions_mean_the_driver_here_and_executors_on_a_cluster() -> None:
    here = SparkSettings(memory="2g", cores=3)
    assert (here.master_url, here.tasks, here.of_cluster()) == ("local[3]", 3, {"spark.driver.memory": "2g"})
    there = SparkSettings("spark://m:7077", "2g", 12, shuffle_partitions=5)
    assert there.tasks == 5
    assert there.of_cluster() == {"spark.executor.memory": "2g", "spark.cores.max": "12"}
    assert SparkSettings(cores=3, shuffle_partitions=8).master_url == "local[3]"


@pytest.mark.parametrize("memory", ["", "much", "1 g", "-1g", "1.5g"])
def test_memory_that_is_no_size_is_refused(memory: str) -> None:
    with pytest.raises(ConfigError, match="such as 512m"):
        SparkSettings(memory=memory)


def test_any_setting_of_sparks_is_taken() -> None:
    assert parse_conf(["spark.a=1", "spark.b=x=y", "spark.c=", "spark.a=2"]) == {
        "spark.a": "2",
        "spark.b": "x=y",
        "spark.c": "",
    }


def test_all_settings_that_are_none_or_cannot_be_given_are_named_with_the_reason() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_conf(["spark.a=1", "nothing", "sparks.a=1", "spark.c", *(f"{name}=x" for name in REFUSED)])
    said = str(raised.value).splitlines()
    assert len(said) == 3 + len(REFUSED)
    for line, (name, reason) in zip(said[3:], REFUSED.items(), strict=True):
        assert name in line
        assert reason in line


def test_what_is_given_comes_after_the_settings_of_the_audit() -> None:
    ours = {"spark.a": "1", "spark.b": "1", **dict.fromkeys(APPENDED, "ours")}
    given = {"spark.b": "2", **dict.fromkeys(APPENDED, "given")}
    assert combined(ours, given) == {
        "spark.a": "1",
        "spark.b": "2",
        "spark.driver.extraJavaOptions": "ours given",
        "spark.executor.extraJavaOptions": "ours given",
        "spark.archives": "ours,given",
    }
