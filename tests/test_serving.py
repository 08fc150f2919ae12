"""Many sequences in one memory for keys and values."""

from __future__ import annotations

import pytest

from course_lib.long_sequences import BlockTable
from course_lib.serving import Paged, Reserved, answer_lengths, serve


def test_reserved_pieces_take_the_first_gap_that_is_wide_enough():
    widths = {"a": 3, "b": 2, "c": 4, "d": 2, "e": 3}
    memory = Reserved(10, widths.__getitem__)
    assert [memory.append(name) for name in "abc"] == [0, 3, 5]
    assert memory.append("a") == 1
    with pytest.raises(MemoryError):
        memory.append("d")  # one place is left
    memory.free("b")
    with pytest.raises(MemoryError):
        memory.append("e")  # two and one are left, not in one piece
    assert memory.append("d") == 3


def test_pages_are_places():
    memory = Paged(BlockTable(num_blocks=3, block_size=2), block_size=2)
    assert [memory.append(name) for name in "aabab"] == [0, 1, 2, 4, 3]
    memory.free("a")
    assert memory.append("c") == 0


def test_every_sequence_is_served_once():
    lengths = [3, 1, 5, 2, 2]
    service = serve(Reserved(10, lambda name: 5), lengths, steps=9)
    assert service.finished == 5 and service.places == {}
    assert service.running[:4] == [2, 2, 2, 2]
    assert service.held[:3] == [2, 3, 5]  # 3 and 1; then 5 in the place of 1


def test_where_memory_ends_the_newest_begins_again():
    service = serve(Paged(BlockTable(num_blocks=2, block_size=2), 2), [4, 4], steps=8)
    assert service.running == [2, 2, 1, 1, 1, 1, 1, 1]
    assert service.finished == 2


def test_no_place_is_given_twice():
    lengths = answer_lengths(60, 30, mean=8, seed=3)
    service = serve(Paged(BlockTable(num_blocks=16, block_size=4), 4), lengths, steps=25)
    places = [place for own in service.places.values() for place in own]
    assert len(places) > 32 and len(set(places)) == len(places) and max(places) < 64


def test_lengths_are_mostly_short():
    lengths = answer_lengths(1000, 256, mean=40, seed=1)
    assert min(lengths) >= 1 and max(lengths) <= 256
    assert 35 < sum(lengths) / 1000 < 45 and sorted(lengths)[500] < 35
    assert lengths == answer_lengths(1000, 256, mean=40, seed=1)
