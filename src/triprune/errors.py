"""Owns every error that triprune raises on purpose; refuses messages that leave the reader stuck.

Each error is built from three sentences: what was *asked*, what was *found*, and the *remedy*.

::

    TripruneError
    ├── InputError (also a ValueError)   a value, flag or file that cannot be meant
    │   ├── FileFormatError              a file that cannot be read as what it should be
    │   │   ├── TruncatedFileError       a file that ends too early
    │   │   ├── DamagedFileError         a file that its checksum does not fit
    │   │   ├── PlanError                a plan that does not say what a plan must say
    │   │   │   ├── PlanVersionError     a plan from a newer version
    │   │   │   └── PlanIndexError       a plan whose indices do not fit the model
    │   │   └── WeightsError             weights that cannot be read, or belong to another model
    │   │       └── NonFiniteError       weights with NaN or infinity among them
    │   ├── ArchitectureError            a plan for another architecture
    │   ├── ModelError                   a model name that leads to no model
    │   └── DataError                    a data set that is missing, damaged or laid out otherwise
    ├── SurgeryError                     a network that cannot be cut as asked
    ├── BudgetError                      a budget that no scale can meet
    ├── ExportError                      a model that cannot be exported, or answers otherwise then
    ├── MissingExtraError                an optional package that is not installed
    ├── RunError                         a run folder that cannot be used as asked
    │   ├── RunLockedError               a run folder that another process is working on
    │   ├── RunChangedError              a run that was begun with another model, data or settings
    │   ├── RunStoppedError              a run whose time was up before its end
    │   └── ArtifactError                a stored result that is damaged
    ├── ClusterError                     machines that cannot do what a run needs of them
    ├── NotIdentifiedError               observations that do not determine what was asked of them
    └── TrainingError                    a training that could not go on
        ├── DivergedError                the loss became infinite, undefined or far too large
        └── OutOfMemoryError             the batch does not fit in the device's memory
"""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Return the first line of what ``error`` says, or its kind where it says nothing."""
    return str(error).partition("\n")[0] or type(error).__name__


class TripruneError(Exception):
    """An error with a remedy: ``asked``, ``found`` and ``remedy`` are kept apart for programs."""

    def __init__(self, asked: str, found: str, remedy: str) -> None:
        super().__init__(asked, found, remedy)
        self.asked = asked
        self.found = found
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.asked}: {self.found}. {self.remedy}."


class InputError(TripruneError, ValueError):
    """A value, flag or file that cannot be meant."""


class FileFormatError(InputError):
    """A file that cannot be read as what it should be."""


class WeightsError(FileFormatError):
    """Weights that cannot be read, or belong to another model."""


class ModelError(InputError):
    """A model name that leads to no model."""


class DataError(InputError):
    """A data set that is missing, damaged or laid out otherwise."""


class TruncatedFileError(FileFormatError):
    """A file that ends too early."""


class DamagedFileError(FileFormatError):
    """A file that its checksum does not fit."""


class PlanError(FileFormatError):
    """A plan that does not say what a plan must say."""


class PlanVersionError(PlanError):
    """A plan from a newer version."""


class PlanIndexError(PlanError):
    """A plan whose indices do not fit the model."""


class ArchitectureError(InputError):
    """A plan for another architecture."""


class SurgeryError(TripruneError):
    """A network that cannot be cut as asked."""


class BudgetError(TripruneError):
    """A budget that no scale can meet."""


class ExportError(TripruneError):
    """A model that cannot be exported, or answers otherwise once it is."""


class MissingExtraError(TripruneError):
    """An optional package that is not installed."""


class NotIdentifiedError(TripruneError):
    """Observations that do not determine what was asked of them."""


class RunError(TripruneError):
    """A run folder that cannot be used as asked."""


class RunLockedError(RunError):
    """A run folder that another process is working on."""


class RunChangedError(RunError):
    """A run that was begun with another model, data or settings."""


class RunStoppedError(RunError):
    """A run whose time was up before its end."""


class ArtifactError(RunError):
    """A stored result that is damaged."""


class ClusterError(TripruneError):
    """Machines that cannot do what a run needs of them."""


class TrainingError(TripruneError):
    """A training that could not go on."""


class DivergedError(TrainingError):
    """The loss became infinite, undefined or far too large."""


class OutOfMemoryError(TrainingError):
    """The batch does not fit in the device's memory."""


class NonFiniteError(WeightsError):
    """Weights with NaN or infinity among them."""
