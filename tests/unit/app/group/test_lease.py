from __future__ import annotations

from mirror_connect.app.group.lease import GroupLease

SESSION_S = 10.0
REBALANCE_S = 60.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_is_two_seconds_shorter_than_the_session() -> None:
    clock = Clock()
    lease = GroupLease(SESSION_S, REBALANCE_S, clock)
    assert lease.remaining() == 0.0
    lease.renew(999.0, settled=True)
    assert lease.remaining() == 7.0
    clock.now += 7.0
    assert lease.remaining() == 0.0


def test_a_group_that_rebalances_renews_the_lease_until_it_may_go_on_without_this_member() -> None:
    clock = Clock()
    lease = GroupLease(SESSION_S, REBALANCE_S, clock)
    lease.renew(clock.now, settled=True)
    for _ in range(5):
        clock.now += 10.0
        lease.renew(clock.now, settled=False)
        assert lease.remaining() == 8.0
    clock.now += 5.0
    lease.renew(clock.now, settled=False)
    # 60 s after the last word of a settled group, and two seconds less.
    assert lease.remaining() == 3.0


def test_a_lease_that_has_ended_is_renewed_only_by_a_settled_group() -> None:
    clock = Clock()
    lease = GroupLease(SESSION_S, REBALANCE_S, clock)
    lease.renew(clock.now, settled=True)
    lease.end()
    lease.renew(clock.now, settled=False)
    assert lease.remaining() == 0.0
    lease.renew(clock.now, settled=True)
    assert lease.remaining() == 8.0


def test_who_got_no_answer_asks_again_at_once_and_says_why_when_the_lease_is_over() -> None:
    clock = Clock()
    lease = GroupLease(SESSION_S, REBALANCE_S, clock)
    assert lease.silence("refused") is None
    lease.renew(clock.now, settled=True)
    lease.no_answer("Connection refused")
    assert lease.last_beat == float("-inf")
    assert lease.silence("") is None
    clock.now += 8.0
    silence = lease.silence("")
    assert silence is not None
    assert silence.why == "Connection refused"
