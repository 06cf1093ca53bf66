"""Configuration files and environment variables that are nearly right: a configuration, or errors that name the key."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from cluster.config.config import load_config
from cluster.config.settings import Settings
from cluster.model.errors import ConfigError
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.damage import damaged, documents
from tests.fuzz.messages import HOSTILE_TEXTS, Draw

_FIELDS: Final[dict[str, Any]] = {
    "id": 1,
    "zookeeper": "127.0.0.1:2181/klamm",
    "listen": "127.0.0.1:0",
    "advertised": "localhost:9092",
    "control_listen": "[::1]:0",
    "control_advertised": "localhost:9093",
    "metrics_listen": "127.0.0.1:9100",
    "data": ["a", "b"],
    "rack": "r1",
}
_SETTINGS: Final[dict[str, Any]] = {
    field.alias or name: value
    for name, field in Settings.model_fields.items()
    if isinstance(value := getattr(Settings(), name), bool | int | float | str)
}
_OF_KAFKA: Final[dict[str, Any]] = {
    "broker.id": 1,
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://h:1,CONTROL://h:2",
    "log.dirs": "a,b",
    "zookeeper.connect": "127.0.0.1:2181",
}


@st.composite
def tables(draw: Draw) -> dict[str, bytes]:
    """Keys of a configuration, each with a value as JSON, which is mostly TOML too."""
    values: dict[str, Any] = dict(_FIELDS)
    settings: dict[str, Any] = {}
    for key in draw(st.lists(st.sampled_from(sorted(_SETTINGS | _OF_KAFKA)), max_size=4)):
        settings[key] = (_SETTINGS | _OF_KAFKA)[key]
    for key in draw(st.lists(st.sampled_from(sorted(values)), max_size=3, unique=True)):
        if key not in {"zookeeper", "listen", "data"}:
            del values[key]
    texts = {key: json.dumps(value).encode() for key, value in values.items()}
    if draw(st.booleans()):
        key = draw(st.sampled_from(sorted(texts)))
        texts[key] = draw(documents([values[key]]))
    texts |= {f'settings."{key}"': json.dumps(value).encode() for key, value in settings.items()}
    if settings:
        key = draw(st.sampled_from(sorted(settings)))
        texts[f'settings."{key}"'] = draw(documents([settings[key], str(settings[key])]))
    return texts


def check_loading(path: Path) -> None:
    """Load the file. What it is refused for must be short lines for an operator."""
    try:
        config = load_config(path)
    except ConfigError as error:
        refused = error.errors
    else:
        refused = ["nothing"]
        assert config.endpoints(1, 2)
    assert refused
    assert all(len(line) < 2000 for line in refused)


@fuzz(examples=150)
@given(st.data())
def test_toml_files(data: st.DataObject) -> None:
    count_case("toml files")
    text = b"".join(b"%b = %b\n" % (key.encode(), value) for key, value in data.draw(tables()).items())
    if data.draw(st.integers(0, 3)) == 0:
        text = data.draw(damaged(text))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "broker.toml")
        path.write_bytes(text)
        check_loading(path)


_TEXTS: Final = st.sampled_from([text for text in HOSTILE_TEXTS if "\0" not in text]) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20
)


@fuzz(examples=150)
@given(
    st.dictionaries(
        st.sampled_from([*_FIELDS, "settings", "unknown"]),
        _TEXTS | documents([*_FIELDS.values(), _SETTINGS]).filter(lambda text: b"\0" not in text).map(os.fsdecode),
        max_size=3,
    )
)
def test_environment_variables(variables: dict[str, str]) -> None:
    count_case("environment variables")
    environment = {f"KLAMM_{name.upper()}": value for name, value in variables.items()}
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, environment):
        path = Path(folder, "broker.toml")
        path.write_text('zookeeper = "127.0.0.1:2181"\nlisten = "127.0.0.1:0"\ndata = "data"\n')
        check_loading(path)
