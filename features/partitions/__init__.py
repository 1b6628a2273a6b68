"""Feature rows of a trace in partitions by owner, the same to the bit as those of the whole.

What the history knows of an owner depends on that owner's requests alone, so a partition that holds all requests of
its owners gives their features. What depends on all requests comes from one pass in the order of decision: the means of
categories, and which owner a full table forgets. May import: `creation`, `synthetic`, `trace`.
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
