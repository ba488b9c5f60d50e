"""What runs on a node because of declarations, each thing at a place: a name, as it were.

When the declarations of a place change, what runs there is stopped, and what they ask for then is
started. Changes of one place are applied one after the other, so that no two things run at one
place at a time; those of different places at the same time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar


class Run(Protocol):
    """What runs at a place."""

    def start(self) -> None:
        """Begin."""


Place = TypeVar("Place")
Thing = TypeVar("Thing", bound=Run)


class Runs(Generic[Place, Thing]):
    """See the module.

    make: what is to run at a place from now on; None for nothing. stop: ends what has run there.
    by_place: what runs.
    """

    def __init__(
        self,
        make: Callable[[Place], Thing | None],
        stop: Callable[[Place, Thing], Awaitable[None]],
    ) -> None:
        self._make = make
        self._stop = stop
        self.by_place: dict[Place, Thing] = {}
        # Places that are to be brought where their declarations say, and the tasks that do it.
        self._changed: set[Place] = set()
        self._following: dict[Place, asyncio.Task[None]] = {}
        self._has_started = False

    def start(self) -> None:
        """Follow changes from now on."""
        self._has_started = True

    async def stop(self) -> None:
        """End all that runs, and follow no more changes. What ends already is waited for."""
        self._has_started = False
        self._changed.clear()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        running, self.by_place = self.by_place, {}
        await asyncio.gather(*(self._stop(*one) for one in running.items()))

    def follow(self, places: Iterable[Place]) -> None:
        """Have what runs at these places start anew, as their declarations say by now."""
        if not self._has_started:
            return
        for place in places:
            self._changed.add(place)
            if place not in self._following:
                task = asyncio.get_running_loop().create_task(self._follow_one(place))
                self._following[place] = task

    async def _follow_one(self, place: Place) -> None:
        # The rest of the present change comes first: a parameter that is set may be set again.
        await asyncio.sleep(0)
        while place in self._changed:
            self._changed.remove(place)
            before = self.by_place.pop(place, None)
            if before is not None:
                await self._stop(place, before)
                # What has changed meanwhile is in the declarations by now.
                self._changed.discard(place)
            thing = self._make(place) if self._has_started else None
            if thing is not None:
                self.by_place[place] = thing
                thing.start()
        del self._following[place]
