import pytest

from mirror_connect.connectors.config.table import CLASS, HIGH, INT, LOW, REQUIRED, STRING, ConfigTable, Key
from mirror_connect.connectors.config.validators import between
from mirror_connect.connectors.errors import ConfigError

TABLE = ConfigTable(
    Key("tasks", INT, 1, HIGH, "How many.", validator=between(1)),
    Key("alias", STRING, REQUIRED, HIGH, "Who."),
    Key("policy", CLASS, None, LOW, "Which."),
)


def test_parsing_raises_the_first_error_with_its_name() -> None:
    with pytest.raises(
        ConfigError, match=r"^Invalid value x for configuration tasks: Not a number of type INT$"
    ) as caught:
        TABLE.parse_all({"tasks": "x", "alias": "A"})
    assert caught.value.name == "tasks"


def test_unknown_names_are_kept_in_the_originals() -> None:
    assert TABLE.parse_all({"alias": "A", "other": "1"}).originals["other"] == "1"


def test_settings_do_not_show_values_when_rendered() -> None:
    assert "hunter2" not in repr(TABLE.parse_all({"alias": "A", "sasl.jaas.config": "hunter2"}))


def test_asking_for_a_value_that_is_not_set_names_the_setting() -> None:
    with pytest.raises(ConfigError, match="policy"):
        TABLE.parse_all({"alias": "A"}).text("policy")


def test_a_name_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="tasks is declared twice"):
        TABLE + ConfigTable(Key("tasks", INT, 1, HIGH, "Again."))


@pytest.mark.parametrize("name", ["tasks", "policy"])
def test_errors_quote_the_reference_and_not_the_secret_it_stood_for(name: str) -> None:
    reference = {name: "${file:/run/s:k}", "alias": "A"}
    result = TABLE.validate_all({name: "hunter2", "alias": "A"}, as_written=reference)[name]
    assert result.errors[0].startswith(f"Invalid value ${{file:/run/s:k}} for configuration {name}: ")
    assert "hunter2" not in str(result.info())


def test_a_valid_value_from_a_provider_is_answered_as_its_reference() -> None:
    result = TABLE.validate_all({"alias": "hunter2"}, as_written={"alias": "${file:/run/s:k}"})["alias"]
    assert result.value == "${file:/run/s:k}"


def test_of_a_null_a_validator_says_all_there_is_to_say() -> None:
    assert TABLE.validate_all({"tasks": None})["tasks"].errors == [
        "Invalid value null for configuration tasks: Value must be non-null"
    ]


def test_a_null_is_refused_for_a_name_that_nobody_knows() -> None:
    results = TABLE.validate_all({"alias": None, "x": None})
    text = ["Null value can not be supplied as the configuration value."]
    assert (results["alias"].errors, results["x"].errors) == ([], text)
