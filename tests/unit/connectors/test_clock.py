from mirror_connect.connectors.clock import boot_clock, utc


def test_the_clock_of_leases_never_goes_back() -> None:
    times = [boot_clock() for _ in range(100)]
    assert times == sorted(times)


def test_a_time_is_shown_in_utc_whatever_the_machines_zone_is() -> None:
    assert utc(1_769_903_999.9) == "2026-01-31 23:59:59 UTC"
