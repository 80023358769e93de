"""Offsets for buffers whose lifetimes are known, so that those never alive together share bytes."""

from collections.abc import Sequence
from typing import Any, Optional, Protocol, Union

__version__: str

class _Array(Protocol):
    def tolist(self) -> Any: ...

_Integers = Union[Sequence[int], _Array]
# (lower, upper, size) or (lower, upper, size, alignment)
_Buffers = Union[Sequence[_Integers], _Array]
# (heap, offset)
_Place = _Integers

class Plan:
    """Offsets, with the proof of how good they are."""

    @property
    def offsets(self) -> tuple[int, ...]: ...
    @property
    def height(self) -> int: ...
    @property
    def load(self) -> int: ...
    @property
    def lower_bound(self) -> int: ...
    @property
    def is_proven(self) -> bool: ...

class Heap:
    """A heap that items may lie in."""

    def __init__(self, capacity: int, *, class_: int = 0, alignment: int = ..., granularity: int = 1) -> None: ...

class Item:
    """An item, and which heaps it may lie in."""

    def __init__(
        self,
        size: int,
        lower: int,
        upper: int,
        *,
        alignment: int = 1,
        kind: int = 0,
        classes: _Integers = ...,
        pinned: Optional[_Place] = None,
    ) -> None: ...

class HeapPlan:
    """Where each item lies: heap and offset."""

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def heights(self) -> tuple[int, ...]: ...
    @property
    def height(self) -> int: ...
    @property
    def fallback_bytes(self) -> int: ...
    @property
    def lower_bound(self) -> int: ...
    @property
    def is_proven(self) -> bool: ...
    @property
    def kept_count(self) -> Optional[int]: ...
    @property
    def has_kept_most(self) -> Optional[bool]: ...

def plan(
    buffers: _Buffers, *, alignment: int = 1, capacity: Optional[int] = None, time_limit: float = 1.0
) -> Plan: ...
def verify(buffers: _Buffers, offsets: _Integers, capacity: int, *, alignment: int = 1) -> None: ...
def plan_heaps(heaps: Sequence[Heap], items: Sequence[Item], *, time_limit: float = 1.0) -> HeapPlan: ...
def replan_heaps(
    heaps: Sequence[Heap],
    items: Sequence[Item],
    last: Union[Sequence[Optional[_Place]], _Array],
    *,
    time_limit: float = 1.0,
) -> HeapPlan: ...
def verify_heaps(heaps: Sequence[Heap], items: Sequence[Item], offsets: Union[Sequence[_Place], _Array]) -> None: ...
