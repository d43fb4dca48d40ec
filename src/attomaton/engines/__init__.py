"""Run the two passes over a corpus at scale: one kernel, and the engines that run it over token shards."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.engines.choose import Engine as Engine
    from attomaton.engines.duckdb import DuckDBEngine as DuckDBEngine
    from attomaton.engines.memory import MemoryEngine as MemoryEngine
    from attomaton.engines.selection import Selection as Selection
    from attomaton.engines.spark import SparkEngine as SparkEngine
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
