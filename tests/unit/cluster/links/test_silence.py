"""net_ticktime on real connections: silent peers, peers that do not read, and a suspended node."""

import asyncio

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.links.ticks import interval_s
from tests.unit.cluster.links.fakes import linked, linked_by_proxy, nodes, until

TICK_TIME_S = 60.0


class SuspendedClock(VirtualClock):
    """A clock that can go on while no timer runs."""

    def skip(self, seconds):
        """As if the process was suspended for so long."""
        self._now_ms += seconds * 1000
        self._timers = [(due + seconds * 1000, *timer) for due, *timer in self._timers]
        self.advance(interval_s(TICK_TIME_S))


async def test_idle_nodes_stay_linked_by_ticks():
    clock = VirtualClock()
    async with nodes("a", "b", clock=clock) as (a, b):
        a.dial(b)
        await linked(a, b)
        link = a.service.up[b.name]
        # What the nodes told each other first counts at the first check.
        clock.advance(interval_s(TICK_TIME_S))
        for _ in range(20):
            before = link.received_octets
            clock.advance(interval_s(TICK_TIME_S))
            await until(lambda before=before: link.received_octets > before)
        assert [call[0] for call in a.service.calls + b.service.calls] == ["up", "up"]


async def test_a_silent_peer_is_down_after_the_tick_time():
    clock = VirtualClock()
    async with nodes("a", "b", clock=clock) as (a, b), linked_by_proxy(a, b) as proxy:
        proxy.swallows = True
        clock.advance(TICK_TIME_S)
        assert a.service.up
        clock.advance(interval_s(TICK_TIME_S))
        reason = "nothing was heard from it for net_ticktime"
        assert a.service.calls[-1] == ("down", b.name, reason)
        assert b.service.calls[-1] == ("down", a.name, reason)


async def test_a_peer_that_does_not_read_is_down_after_the_tick_time():
    clock = VirtualClock()
    async with nodes("a", "b", clock=clock) as (a, b), linked_by_proxy(a, b) as proxy:
        link = a.service.up[b.name]
        proxy.may_read.clear()
        for _ in range(200):
            a.send(b, bytes(100_000))
        await until(lambda: link.is_paused)
        for _ in range(4):
            clock.advance(interval_s(TICK_TIME_S))
            # Something is heard of it all the time.
            link.received_octets += 1
        assert a.service.up
        clock.advance(interval_s(TICK_TIME_S))
        assert a.service.calls[-1][2].startswith("it has read nothing of what was sent")
        proxy.may_read.set()


async def test_a_node_that_did_not_run_drops_its_links_and_makes_them_again():
    """As after SIGSTOP and SIGCONT: its peers have given it up."""
    clock = SuspendedClock()
    async with nodes("a", "b", clock=clock) as (a, b):
        a.dial(b)
        await linked(a, b)
        clock.skip(3 * TICK_TIME_S)
        await until(lambda: len(a.service.calls) == 3)
        assert "this node did not run for 195 s, longer than net_ticktime" in a.service.calls[1][2]
        await linked(a, b)


async def test_a_congested_link_says_so_and_says_when_it_is_drained():
    async with nodes("a", "b", unsent_octets_max=1_000_000) as (a, b):
        async with linked_by_proxy(a, b) as proxy:
            link = a.service.up[b.name]
            proxy.may_read.clear()
            sent = 0
            while not link.is_congested:
                a.send(b, bytes(100_000))
                sent += 1
                await asyncio.sleep(0)
            assert link.unsent_octets > 1_000_000
            assert a.service.calls == [("up", b.name, b.links.incarnation)]
            proxy.may_read.set()
            await until(lambda: ("drained", b.name) in a.service.calls)
            assert not link.is_congested
            await until(lambda: len(b.service.received_payloads) == sent)
