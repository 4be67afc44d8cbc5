"""Progress bars with the time that remains, or silence."""

from collections.abc import Callable

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """One bar a stage. As a context manager it draws; `quiet` draws nothing."""

    def __init__(self, quiet: bool = False):
        columns = (
            TextColumn("{task.description:<20}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bars = Bars(*columns, disable=quiet)

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A new bar; call the answer with how much is done."""
        task = self._bars.add_task(name, total=total)
        return lambda done: self._bars.update(task, completed=done)
