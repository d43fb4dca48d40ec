"""Places behind URLs: object stores and whatever else fsspec reaches, read and written with patience.

``faults`` tries again what failed for the moment and names what failed for good, ``ranged`` is a file of
which parts are read, and ``places`` has the paths: :class:`RemotePath` answers as ``pathlib.Path`` does, as
far as the library asks.
"""

from attomaton.base.remote.places import Place, RemotePath, as_place, is_url, refuse_url

__all__ = ["Place", "RemotePath", "as_place", "is_url", "refuse_url"]
