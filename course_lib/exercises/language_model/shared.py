"""What several exercises on language models have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.checking.expect import Failure, expect, name_of_type, sentence
from course_lib.checking.inputs import CausalTable, normal
from course_lib.language_model import merge_pair


def as_whole(value):
    """A whole number, or a tensor with one of them, as an int; everything else as it is."""
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point() and value.dtype != torch.bool:
        return int(value)
    return value


def as_ids(answer):
    """A list, a tuple or a tensor of ids as a list of ints; everything else as it is."""
    if isinstance(answer, Tensor) and answer.dim() == 1 and not answer.is_floating_point():
        return answer.tolist()
    return [as_whole(item) for item in answer] if isinstance(answer, list | tuple) else answer


def expect_list_of_ids(answer, what="the result"):
    """`answer` as a list of ints, or a `Failure`."""
    expect(answer is not None, f"{sentence(what)} is None. Does every path through your code end in a `return`?")
    ids = as_ids(answer)
    expect(isinstance(ids, list), f"{sentence(what)} should be a list of ids, but it is {name_of_type(answer)}.")
    for item in ids:
        if type(item) is not int:
            raise Failure(
                f"{sentence(what)} should hold ids, whole numbers, but one of its entries is {name_of_type(item)}."
            )
    return ids


def as_tensors(answer):
    """What unpacks into tensors as a tuple of them; everything else as it is."""
    return tuple(answer) if isinstance(answer, list) or (isinstance(answer, Tensor) and answer.dim() == 3) else answer


def language_model(vocab, seed, ages=6, scale=1.2):
    """A model whose logits depend on the last `ages` tokens, the older ones no less than the last."""
    start = normal(vocab, seed=seed) + 0.001 * torch.arange(vocab)  # so that no two sums are equal
    return CausalTable(start, normal(ages, vocab, vocab, seed=seed + 1, scale=scale))


# --- wrong ways to merge a pair ---------------------------------------------------------------------------


def merge_first(ids, pair, new_id):
    """Only where the pair occurs first."""
    for place in range(len(ids) - 1):
        if (ids[place], ids[place + 1]) == pair:
            return [*ids[:place], new_id, *ids[place + 2 :]]
    return list(ids)


def merge_from_the_right(ids, pair, new_id):
    """Of "aaa", the last two."""
    return merge_pair(ids[::-1], pair[::-1], new_id)[::-1]


def merge_each_on_its_own(ids, pair, new_id):
    """Of "aaa", the first two and the last two: every place where a pair begins becomes the new id, and the end of the
    last pair goes."""
    begins = [(ids[i], ids[i + 1]) == pair for i in range(len(ids) - 1)] + [False]
    kept = []
    for place, is_begin in enumerate(begins):
        if is_begin:
            kept.append(new_id)
        elif place == 0 or not begins[place - 1]:
            kept.append(ids[place])
    return kept
