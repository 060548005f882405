from benchmarks.accounting import CpuAccount, Reading, parse_pss, product_kind

ROOT = (10, 1.0)
CHILD = (11, 2.0)
GRANDCHILD = (12, 3.0)


def reading(parent: int, own: float, reaped: float = 0.0, kind: str = "java") -> Reading:
    return Reading(parent, kind, own, reaped)


def test_the_seconds_of_a_tree_are_those_of_all_its_processes() -> None:
    account = CpuAccount()
    assert account.update({ROOT: reading(1, 2.0), CHILD: reading(10, 3.0)}) == 5.0


def test_a_child_that_was_waited_for_counts_once() -> None:
    account = CpuAccount()
    account.update({ROOT: reading(1, 2.0), CHILD: reading(10, 3.0)})
    assert account.update({ROOT: reading(1, 2.0, reaped=3.5)}) == 5.5


def test_a_process_whose_parent_is_gone_keeps_what_was_last_read() -> None:
    account = CpuAccount()
    account.update({ROOT: reading(1, 2.0), CHILD: reading(10, 3.0), GRANDCHILD: reading(11, 4.0)})
    assert account.update({ROOT: reading(1, 2.0, reaped=3.0)}) == 5.0 + 4.0


def test_a_process_given_to_init_is_kept_when_it_ends() -> None:
    account = CpuAccount()
    account.update({ROOT: reading(5, 2.0), CHILD: reading(1, 3.0)})
    assert account.update({ROOT: reading(5, 2.5)}) == 5.5


def test_a_number_that_was_given_away_again_is_another_process() -> None:
    account = CpuAccount()
    account.update({ROOT: reading(5, 2.0), CHILD: reading(1, 3.0)})
    assert account.update({ROOT: reading(5, 2.0), (11, 9.0): reading(1, 0.5)}) == 5.5


def test_the_total_never_falls() -> None:
    account = CpuAccount()
    account.update({ROOT: reading(1, 2.0), CHILD: reading(10, 3.0)})
    # The parent ignored the child's end: nothing of it came back.
    assert account.update({ROOT: reading(1, 2.0)}) == 5.0


def test_what_children_used_counts_for_the_kind_of_their_parent() -> None:
    account = CpuAccount()
    account.update({ROOT: reading(1, 2.0, kind="worker"), CHILD: reading(10, 3.0, reaped=1.0, kind="daemon")})
    assert account.by_kind() == {"worker": 2.0, "daemon": 4.0}


def test_pss_is_read_in_bytes() -> None:
    assert parse_pss("00400000-7ffe [rollup]\nRss:   200 kB\nPss:   123 kB\nPss_Anon: 7 kB\n") == 123 * 1024


def test_an_ended_process_has_no_pss() -> None:
    assert parse_pss("") == 0


def test_the_process_forked_by_the_daemon_is_a_task() -> None:
    daemon = ["python", "-m", "mirror_connect.spark_jobs.daemon"]
    assert product_kind(daemon, daemon) == "Python task"


def test_the_daemon_is_the_one_that_java_started() -> None:
    java = ["/usr/bin/java", "--conf", "spark.python.daemon.module=mirror_connect.spark_jobs.daemon"]
    assert product_kind(["python", "-m", "mirror_connect.spark_jobs.daemon"], java) == "Python daemon"


def test_java_is_java_whatever_its_settings_name() -> None:
    command = ["/usr/bin/java", "--conf", "spark.python.daemon.module=mirror_connect.spark_jobs.daemon"]
    assert product_kind(command, ["python", "-m", "mirror_connect.spark_jobs"]) == "Spark's JVM"


def test_driver_worker_and_jvm_are_told_apart() -> None:
    commands = (["python", "-m", "mirror_connect.spark_jobs"], ["python", "-m", "mirror_connect.app", "f"], ["/j/java"])
    assert [product_kind(command, []) for command in commands] == ["Spark driver", "worker", "Spark's JVM"]
