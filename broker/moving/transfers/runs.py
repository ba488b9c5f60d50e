"""Runs the shovels or links that declarations ask for, each at a place, which identifies it.

When the declaration of a place changes, the shovel or link there is stopped, and the newly declared
one is started. Changes of one place are applied one after the other, so that there is never more
than one at a place; changes of different places are applied concurrently.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar


class Runnable(Protocol):
    """A shovel or a link."""

    def start(self) -> None:
        """Start running."""


Place = TypeVar("Place")
Thing = TypeVar("Thing", bound=Runnable)


class RunningByPlace(Generic[Place, Thing]):
    """The running shovels or links, by their places.

    make: makes the one to run at a place; None for none. stop: stops the one that ran there.
    by_place: the running ones.
    """

    def __init__(
        self,
        make: Callable[[Place], Thing | None],
        stop: Callable[[Place, Thing], Awaitable[None]],
    ) -> None:
        self._make = make
        self._stop = stop
        self.by_place: dict[Place, Thing] = {}
        # Places whose declarations have changed, and the tasks that apply the changes.
        self._changed: set[Place] = set()
        self._following: dict[Place, asyncio.Task[None]] = {}
        self._has_started = False

    def start(self) -> None:
        """Follow changes from now on."""
        self._has_started = True

    async def stop(self) -> None:
        """Stop everything, including the following of changes. Waits for all of them to end."""
        self._has_started = False
        self._changed.clear()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        running, self.by_place = self.by_place, {}
        await asyncio.gather(*(self._stop(*one) for one in running.items()))

    def follow(self, places: Iterable[Place]) -> None:
        """Restart the shovels or links at these places with their current declarations."""
        if not self._has_started:
            return
        for place in places:
            self._changed.add(place)
            if place not in self._following:
                task = asyncio.get_running_loop().create_task(self._follow_one(place))
                self._following[place] = task

    async def _follow_one(self, place: Place) -> None:
        # The rest of the current change comes first: a parameter that is set may be set again.
        await asyncio.sleep(0)
        while place in self._changed:
            self._changed.remove(place)
            before = self.by_place.pop(place, None)
            if before is not None:
                await self._stop(place, before)
                # The current declarations include changes made in the meantime.
                self._changed.discard(place)
            thing = self._make(place) if self._has_started else None
            if thing is not None:
                self.by_place[place] = thing
                thing.start()
        del self._following[place]
