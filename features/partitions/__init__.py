"""Feature rows of a trace in partitions by owner, with the bits of those of the whole trace.

An owner's history depends only on its requests, so a partition with all requests of its owners gives their features.
The rest comes from one pass over all requests in the order of decision: the means of categories, and the owners that a
full table removes. May import: `creation`, `synthetic`, `trace`.
"""

from sojourn.features.partitions.history import (
    OwnerGroups,
    PartitionRows,
    RequestChunk,
    SharedHistory,
    chunks_of,
    merged_history,
    owner_arrays,
    owner_replay,
    partition_count,
    partition_tables,
)
from sojourn.features.partitions.trace_parts import TraceParts, is_in_parts, part_files, write_synthetic_parts

__all__ = [
    "OwnerGroups", "PartitionRows", "RequestChunk", "SharedHistory", "TraceParts", "chunks_of", "is_in_parts",
    "merged_history", "owner_arrays", "owner_replay", "part_files", "partition_count", "partition_tables",
    "write_synthetic_parts",
]  # fmt: skip
