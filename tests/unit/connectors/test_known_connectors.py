import pytest

from mirror_connect.connectors.definition import UnknownConnectorClass
from mirror_connect.connectors.known_connectors import connector_definition


@pytest.mark.parametrize(
    "name", ["org.apache.kafka.connect.mirror.MirrorSourceConnector", "MirrorSourceConnector", "MirrorSource"]
)
def test_a_connector_is_found_by_all_its_names(name: str) -> None:
    assert connector_definition(name).simple_name == "MirrorSourceConnector"


def test_an_unknown_class_is_refused_in_connects_words() -> None:
    start = r"^Failed to find any class that implements Connector and which name matches com.example.Nope, available"
    with pytest.raises(UnknownConnectorClass, match=start):
        connector_definition("com.example.Nope")
