"""What is said of a link that is too slow for a transaction. The model and test_copy_transactions.py show when."""

from __future__ import annotations

from mirror_connect.spark_jobs.copy.slow_link import Carried, transaction_too_slow


def test_the_rate_is_what_the_link_did_not_reach() -> None:
    assert Carried(1_000_000, 50.0).rate == "the link carried less than 20.0 kB/s"
    # A transaction that has just begun.
    assert Carried(10, 0.0).rate == "the link carried less than 10.0 kB/s"


def test_a_transaction_that_is_too_much_says_that_the_next_one_is_smaller() -> None:
    assert transaction_too_slow(Carried(1_000_000, 50.0), 60_000) == (
        "the target has not acknowledged all of its 1,000,000 bytes within transaction.timeout.ms (60000); the link "
        "carried less than 20.0 kB/s. The next one has fewer"
    )
