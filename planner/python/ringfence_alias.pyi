"""Offsets for buffers with known lifetimes: buffers that are never alive at the same time can share bytes."""

from collections.abc import Sequence
from typing import Any, Optional, Protocol, Union, final

__all__ = [
    "CapacityNotMet",
    "Heap",
    "HeapPlan",
    "Item",
    "Plan",
    "plan",
    "plan_heaps",
    "replan_heaps",
    "verify",
    "verify_heaps",
    "__version__",
]
__version__: str

class _Array(Protocol):
    def tolist(self) -> Any: ...

_Integers = Union[Sequence[int], _Array]
# (lower, upper, size) or (lower, upper, size, alignment)
_Buffers = Union[Sequence[_Integers], _Array]
# (heap, offset)
_Place = _Integers

class CapacityNotMet(ValueError):
    """The plan is higher than the capacity. `plan` is the lowest plan that was found."""

    plan: Plan

@final
class Plan:
    """Offsets, with a proven lower bound of the height. Equal plans have the same hash; a plan can be pickled."""

    def __new__(cls, offsets: _Integers, height: int, load: int, lower_bound: int) -> Plan: ...
    def __getnewargs__(self) -> tuple[tuple[int, ...], int, int, int]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
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

@final
class Heap:
    """A heap that items can be placed in. Equal heaps have the same hash; a heap can be pickled."""

    def __new__(cls, capacity: int, *, class_: int = 0, alignment: int = ..., granularity: int = 1) -> Heap: ...
    def __getnewargs_ex__(self) -> tuple[tuple[int], dict[str, int]]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def capacity(self) -> int: ...
    @property
    def class_(self) -> int: ...
    @property
    def alignment(self) -> int: ...
    @property
    def granularity(self) -> int: ...

@final
class Item:
    """An item, and the heaps that it can be placed in. Equal items have the same hash; an item can be pickled."""

    def __new__(
        cls,
        size: int,
        lower: int,
        upper: int,
        *,
        alignment: int = 1,
        kind: int = 0,
        classes: _Integers = ...,
        pinned: Optional[_Place] = None,
    ) -> Item: ...
    def __getnewargs_ex__(self) -> tuple[tuple[int, int, int], dict[str, Any]]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def lower(self) -> int: ...
    @property
    def upper(self) -> int: ...
    @property
    def alignment(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def classes(self) -> tuple[int, ...]: ...
    @property
    def pinned(self) -> Optional[tuple[int, int]]: ...

@final
class HeapPlan:
    """Heap and offset of each item. Equal plans have the same hash; a plan can be pickled."""

    def __new__(
        cls,
        offsets: Union[Sequence[_Place], _Array],
        heights: Sequence[int],
        fallback_bytes: int,
        lower_bound: int,
        is_proven: bool,
        kept_count: Optional[int],
        has_kept_most: Optional[bool],
    ) -> HeapPlan: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
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
    buffers: _Buffers,
    *,
    alignment: int = 1,
    capacity: Optional[int] = None,
    time_limit: float = 1.0,
    threads: int = 1,
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
