"""The small interface that every place answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from torchperf_ci.errors import ConflictError, NotDeliveredError
from torchperf_ci.places.keys import check_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Put = Literal["written", "already there"]
Outcome = Put | ConflictError | NotDeliveredError
"""What became of one of several objects; an error is given back, not raised, since the others go on."""


class Place(ABC):
    """Somewhere to keep immutable objects by key; ``name`` says where, for people, without any credential.

    A key is a relative path of safe characters (see :mod:`torchperf_ci.places.keys`),
    ``v3/{repo}/{workflow_id}/{job_id}/{file}``.
    """

    name: str

    @abstractmethod
    def put(self, key: str, body: bytes) -> Put:
        """Keep ``body`` under ``key``, unless something is there already: whoever comes first wins, without a race.

        The same content already there is success. Raises :class:`ConflictError` for different content,
        :class:`NotDeliveredError` when the place cannot be reached or refuses within its deadline, and
        :class:`UnsafeKeyError` for a key that is no safe relative path.
        """

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, Outcome]:
        """:meth:`put` each body under its key, under one deadline; one that fails does not stop the others.

        Raises :class:`UnsafeKeyError`, and then nothing is written.
        """
        check_keys(bodies)
        return {key: self._outcome(key, body) for key, body in bodies.items()}

    def _outcome(self, key: str, body: bytes) -> Outcome:
        try:
            return self.put(key, body)
        except (ConflictError, NotDeliveredError) as error:
            return error

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """All keys, each once, in the place's own order. Raises :class:`PlaceUnreadableError`."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """What was put under ``key``, to the byte.

        Raises :class:`PlaceUnreadableError`, also for an unknown key, and its :class:`UnfitObjectError` for what is no
        object of records, but too large or a link.
        """
