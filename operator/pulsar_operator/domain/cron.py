"""Times of a cron schedule with five fields: minute, hour, day of the month, month, day of the week. All times are UTC.

The rules are those of Debian's cron as implemented by cronsim: 0 and 7 are Sunday, and if both day fields are
restricted, a match of either is enough. The supported grammar is ``*``, numbers, ranges ``a-b``, steps ``*/n``, ``a/n``
and ``a-b/n``, and lists with commas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from pulsar_operator.api.v1alpha1.compaction import CRON

_ONE_NUMBER = re.compile(r"(?<![0-9])0*([0-9]+)-0*\1/[0-9]+(?![0-9])")
"""A range of one number with a step. cronsim reads it as a number with a step, which continues to the end of the
field."""
_REMEDY = (
    "Use existing values for minute, hour, day of the month, month and weekday, such as '0 2 * * 6' for Saturdays at "
    "two"
)
_SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Schedule:
    """A valid schedule."""

    text: str

    @staticmethod
    def parse(text: str) -> Schedule:
        """Returns the schedule. Raises ValueError that names the wrong field: the day of the month if none of the
        months has that day."""
        if not re.fullmatch(CRON, text):
            raise ValueError(f"{text!r} is not a schedule, because it does not have five fields of numbers. {_REMEDY}")
        schedule = Schedule(_ONE_NUMBER.sub(r"\1", text))
        try:
            schedule._times(_SOME_TIME)
        except CronSimError as error:
            raise ValueError(f"{text!r} is not a schedule ({str(error).lower()}). {_REMEDY}") from None
        return schedule

    def next_after(self, moment: datetime) -> datetime | None:
        """Returns the first time after the moment. None if there is none within fifty years."""
        return next(self._times(moment), None)

    def last_due(self, after: datetime, until: datetime) -> datetime | None:
        """Returns the last time after ``after`` and not later than ``until``. None if there is none."""
        last = next(self._times(until.replace(microsecond=0) + _SECOND, reverse=True), None)
        return last if last is not None and last > after else None

    def _times(self, moment: datetime, *, reverse: bool = False) -> CronSim:
        return CronSim(self.text, moment.astimezone(UTC), reverse)
