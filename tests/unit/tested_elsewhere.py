"""Modules of the product without a test file of their own, and the tests that test them instead.

Row: path below mirror_connect/ → "test file: reason". The reason ends with "through FILE" where the test does not import
the module itself: FILE imports it. test_mirror_paths.py checks the rows.
"""
# ruff: noqa: E501 – a row is one line, so that changes to different rows merge

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# One line for each module, sorted.
TESTED_ELSEWHERE: Final[Mapping[str, str]] = {
    "app/__main__.py": "tests/unit/app/test_start_imports.py: reads arguments and settings, and makes the worker",
    "app/backing.py": "tests/unit/app/test_tasks_lease.py: protocols only, through app/worker.py",
    "app/config/common_config.py": "tests/unit/app/config/test_worker_config.py: what a worker of a group takes over, through app/config/worker_config.py",
    "app/config/name_lookups.py": "tests/unit/app/config/test_kubernetes_providers.py: a name server that does not answer, through app/config/kubernetes_providers.py",
    "app/config/worker_keys.py": "tests/unit/app/config/test_worker_config.py: a table of settings, through app/config/worker_config.py",
    "app/dedicated/__main__.py": "tests/unit/app/dedicated/test_program.py: arguments and settings of the program",
    "app/dedicated/cluster_checks.py": "tests/unit/app/dedicated/test_mm2_mistakes.py: findings of whole files, through app/dedicated/mm2_file.py",
    "app/dedicated/findings.py": "tests/unit/app/dedicated/test_mm2_mistakes.py: the lines of findings",
    "app/dedicated/mm2_properties.py": "tests/unit/app/dedicated/test_mm2_file.py: a file that has been read, through app/dedicated/mm2_file.py",
    "app/dedicated/name_checks.py": "tests/unit/app/dedicated/test_mm2_warnings.py: findings of whole files, through app/dedicated/mm2_file.py",
    "app/dedicated/property_places.py": "tests/unit/app/dedicated/test_mm2_warnings.py: which names have an effect, through app/dedicated/name_checks.py",
    "app/dedicated/value_checks.py": "tests/unit/app/dedicated/test_mm2_mistakes.py: findings of whole files, through app/dedicated/mm2_file.py",
    "app/distributed.py": "tests/unit/app/test_tasks_lease.py: puts the parts of a worker's process together",
    "app/errors.py": "tests/unit/app/herder/test_validation.py: error classes",
    "app/foreground.py": "tests/unit/app/test_own_log.py: its log; exit codes are in tests/e2e/test_bad_start.py",
    "app/group_backing.py": "tests/unit/app/test_tasks_lease.py: its membership gives the lease, through app/distributed.py",
    "app/herder/interfaces.py": "tests/unit/app/herder/test_herder.py: protocols only, through tests/fakes/connect_worker.py",
    "app/herder/starts.py": "tests/unit/app/standalone/test_program.py: what answers wait for, through app/herder/herder.py",
    "app/mirror_maker/__main__.py": "tests/e2e/test_mirror_maker1.py: started by its script",
    "app/mirror_maker/program.py": "tests/e2e/test_mirror_maker1.py: the flows of all sources, with Spark",
    "app/rest/admin.py": "tests/unit/app/rest/test_loggers.py: routes, called over HTTP, through app/rest/application.py",
    "app/rest/bodies.py": "tests/unit/app/rest/test_connectors.py: bodies of the answers, through app/rest/plugins.py",
    "app/rest_listeners.py": "tests/unit/app/test_start_imports.py: opens ports, through app/distributed.py",
    "app/standalone/__main__.py": "tests/e2e/test_standalone.py: started by its script",
    "app/steps.py": "tests/unit/app/test_process.py: time limits of the end, through app/process.py",
    "app/supervisor/interfaces.py": "tests/unit/app/supervisor/test_internal_api.py: protocols only",
    "app/supervisor/launcher.py": "tests/spark/test_spark_does_not_start.py: needs Spark",
    "app/version.py": "tests/unit/app/rest/test_application.py: two constants in the answer of GET /, through app/rest/application.py",
    "app/worker.py": "tests/unit/app/test_tasks_lease.py: builds the parts, through app/distributed.py",
    "check/__main__.py": "tests/unit/cli/test_commands.py: its process is in tests/unit/check/test_main.py",
    "check/clients.py": "tests/unit/check/test_connector_judge.py: one part of what it tells, through check/connector_judge.py",
    "check/command_line.py": "tests/unit/check/test_main.py: lines and exit codes, through check/__main__.py",
    "check/connector_deviations.py": "tests/unit/check/test_deviations.py: rows",
    "check/document.py": "tests/unit/check/test_documents.py: values",
    "check/judgement.py": "tests/unit/check/test_connector_judge.py: values, and what of them is shown",
    "check/report.py": "tests/unit/check/test_judge.py: values, and their JSON, through check/judge.py",
    "check/table.py": "tests/unit/cli/test_commands.py: what the command prints is in tests/unit/check/test_main.py, through check/__main__.py",
    "check/worker_deviations.py": "tests/unit/check/test_deviations.py: rows",
    "check/yaml_lines.py": "tests/unit/check/test_strimzi.py: reads the resources, through check/documents.py",
    "cli/__main__.py": "tests/unit/cli/test_commands.py: the entry of all commands",
    "connectors/config/framework_settings.py": "tests/unit/connectors/mirror/test_mirror_source.py: a table of settings, through connectors/definition.py",
    "connectors/config/security_settings.py": "tests/unit/kafka_io/client/test_client_settings.py: a table of settings, through kafka_io/client/client_keys.py",
    "connectors/errors.py": "tests/unit/app/supervisor/test_task_requests.py: error classes",
    "connectors/user_code/hidden_memory.py": "tests/unit/connectors/user_code/test_user_class.py: one system call",
    "kafka_io/admin/all_topics.py": "tests/unit/kafka_io/admin/test_nameless_brokers.py: one call of librdkafka, through kafka_io/admin/admin.py",
    "kafka_io/client/client_keys.py": "tests/unit/kafka_io/client/test_client_settings.py: a table of settings",
    "kafka_io/client/store_process.py": "tests/unit/kafka_io/client/test_stores.py: the main function of its process, through kafka_io/client/stores.py",
    "kafka_io/consumer/batch_heads.py": "tests/unit/verify/test_reading.py: used by verification only",
    "kafka_io/consumer/fetch_positions.py": "tests/unit/kafka_io/consumer/test_fetch_truncation.py: one part of the fetcher, through kafka_io/consumer/fetch_upkeep.py",
    "kafka_io/consumer/fetch_state.py": "tests/unit/kafka_io/consumer/test_fetcher.py: one part of the fetcher, through kafka_io/consumer/fetcher.py",
    "kafka_io/consumer/topic_tail.py": "tests/unit/app/storage/test_poison_records.py: read with the log it feeds",
    "kafka_io/producer/leader_producer.py": "tests/integration/test_leader_writes.py: needs brokers",
    "kafka_io/producer/target_partition.py": "tests/unit/kafka_io/producer/test_in_flight.py: against a scripted broker",
    "kafka_io/producer/write_problems.py": "tests/unit/kafka_io/producer/test_sender.py: problems that the sender reports, through kafka_io/producer/sender.py",
    "spark_jobs/__main__.py": "tests/unit/spark_jobs/test_query_states.py: its loop, with fake queries",
    "spark_jobs/copy/stalled_partition.py": "tests/unit/spark_jobs/copy/test_stalled_partitions.py: a dataclass, through spark_jobs/copy/stalled_partitions.py",
    "spark_jobs/mapping/offset_ranges_writer.py": "tests/unit/spark_jobs/mapping/test_offset_mapping_troubles.py: when the topic refuses",
    "spark_jobs/tasks/mirror_source.py": "tests/unit/spark_jobs/tasks/test_stalled_partitions.py: the whole task, with fake clusters",
    "verify/batch_side.py": "tests/unit/verify/test_reading.py: one way of reading",
    "verify/cluster_logs.py": "tests/unit/verify/test_reading.py: one way of reading",
    "verify/clusters.py": "tests/unit/verify/test_truncation.py: constants and a type",
    "verify/errors.py": "tests/unit/verify/test_link.py: one error",
    "verify/record_side.py": "tests/unit/verify/test_reading.py: one way of reading",
}
