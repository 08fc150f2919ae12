"""Hidden cases on language models."""

from __future__ import annotations

import torch

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.inputs import CausalTable
from course_lib.exercises import language_model


@hidden(language_model.windows, by_chance=True)
def text_windows(draw: Draw) -> list[Case]:
    def case(size: int, batch: int, length: int) -> Case:
        starts = torch.tensor([draw.integer(0, size - length - 1) for _ in range(batch)])
        return {"ids": draw.ids(size, vocab=40), "starts": starts, "length": length}

    return [
        case(draw.integer(30, 50), *draw.sizes((4, 6), (5, 9))),
        case(draw.integer(12, 20), *draw.sizes((6, 9), (2, 3))),
        case(draw.integer(60, 90), 1, draw.integer(20, 40)),
    ]


@hidden(language_model.ngrams, by_chance=True)
def ngram_model(draw: Draw) -> list[Case]:
    def case(size: int, n: int, vocab: int) -> Case:
        """One token of the vocabulary never occurs."""
        ids = draw.ids(size, vocab=vocab, without=[draw.integer(0, vocab - 1)])
        return {"ids": ids, "n": n, "vocab_size": vocab, "smoothing": draw.number(0.05, 0.8)}

    return [
        case(draw.integer(15, 25), 2, draw.integer(4, 6)),
        case(draw.integer(20, 40), 3, draw.integer(3, 4)),
        case(draw.integer(8, 12), 1, draw.integer(5, 9)),
        case(draw.integer(30, 40), 4, 3),
    ]


@hidden(language_model.bits)
def bits_per_character(draw: Draw) -> list[Case]:
    def case(tokens: int) -> Case:
        """Lengths of 2 or more, at least two different ones."""
        logs = torch.tensor([-draw.number(0.05, 6.0) for _ in range(tokens)], dtype=torch.float64)
        lengths = torch.tensor([2, 5, *(draw.integer(1, 9) for _ in range(tokens - 2))])
        return {"log_probabilities": logs, "lengths": lengths}

    return [case(draw.integer(3, 6)), case(draw.integer(20, 40))]


@hidden(language_model.gpt)
def gpt(draw: Draw) -> list[Case]:
    def case(heads: int, d_k: int, layers: int, batch: int, time: int) -> Case:
        vocab, d_ff = draw.sizes((13, 16), (17, 20))  # neither is d_model: a table is known by its shape
        ids = torch.cat([torch.tensor([[0] * time]), draw.ids(batch, time, vocab=vocab)])
        return {
            "vocab_size": vocab,
            "d_model": heads * d_k,
            "num_heads": heads,
            "d_ff": d_ff,
            "num_layers": layers,
            "ids": torch.cat([draw.ids(1, time, vocab=vocab), ids]),
        }

    return [
        case(2, draw.choice([4, 6]), 3, 1, draw.integer(4, 6)),
        case(4, 2, 2, 2, draw.integer(7, 9)),
    ]


@hidden(language_model.training, by_chance=True)
def train_bpe(draw: Draw) -> list[Case]:
    def case(letters: str, chunks: int, num_merges: int) -> Case:
        """Few letters, so that pairs repeat and overlap."""
        words = {}
        for _ in range(chunks):
            word = "".join(draw.choice(letters) for _ in range(draw.integer(2, 7)))
            words[draw.choice(["", " "]) + word] = draw.integer(1, 9)
        return {"counts": words, "num_merges": num_merges}

    return [
        case("abc", draw.integer(5, 7), draw.integer(6, 9)),
        case("étà", draw.integer(4, 6), draw.integer(5, 8)),
        case("xy", draw.integer(3, 5), 40),
    ]


def learned_from(draw: Draw, letters: str, num_merges: int) -> list[tuple[int, int]]:
    """Merges such as training makes them; chance decides which, and in which order."""
    known = sorted({byte for letter in letters for byte in letter.encode()})
    merges: list[tuple[int, int]] = []
    while len(merges) < num_merges:
        pair = (draw.choice(known), draw.choice(known))
        if pair not in merges:
            known.append(256 + len(merges))
            merges.append(pair)
    return merges


@hidden(language_model.encoding, by_chance=True)
def bpe_encode(draw: Draw) -> list[Case]:
    def case(letters: str, size: int, num_merges: int) -> Case:
        chunk = " " + "".join(draw.choice(letters) for _ in range(size))
        return {"chunk": chunk, "merges": learned_from(draw, letters + " ", num_merges)}

    return [
        case("abc", draw.integer(12, 20), draw.integer(5, 8)),
        case("aé", draw.integer(8, 12), draw.integer(5, 7)),
        case("ab", draw.integer(20, 30), draw.integer(3, 5)),
    ]


@hidden(language_model.decoding_pieces, by_chance=True)
def bpe_decode(draw: Draw) -> list[Case]:
    def case(letters: str, size: int, num_merges: int) -> Case:
        merges = learned_from(draw, letters, num_merges)
        known = [*(byte for letter in letters for byte in letter.encode()), *range(256, 256 + num_merges)]
        return {"ids": [draw.choice(known) for _ in range(size)], "merges": merges}

    return [
        case("ab ", draw.integer(6, 9), draw.integer(3, 5)),
        case("né€", draw.integer(8, 12), draw.integer(2, 4)),
        case("t ô", draw.integer(4, 6), draw.integer(4, 6)),
    ]


@hidden(language_model.writing, by_chance=True)
def generate(draw: Draw) -> list[Case]:
    def case(vocab: int, time: int, new_tokens: int, temperature: float, top_k: int, max_len: int) -> Case:
        model = CausalTable(draw.distinct(1, vocab)[0], draw.normal(6, vocab, vocab, scale=1.2))
        draws = torch.tensor([draw.number(0.02, 0.98) for _ in range(new_tokens)], dtype=torch.float64)
        return {
            "model": model,
            "prompt": draw.ids(time, vocab=vocab),
            "new_tokens": new_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "draws": draws,
            "max_len": max_len,
        }

    return [
        case(draw.integer(6, 9), 2, draw.integer(6, 8), draw.number(0.4, 0.8), draw.integer(3, 4), 3),
        case(draw.integer(5, 8), 4, draw.integer(7, 9), draw.number(1.4, 2.2), 4, 2),
        case(draw.integer(6, 8), 1, draw.integer(8, 10), draw.number(1.2, 1.6), 5, draw.integer(4, 5)),
    ]


@hidden(language_model.fitting)
def fit_power_law(draw: Draw) -> list[Case]:
    def case(points: int, smallest: float, factor: float) -> Case:
        """Losses that fall, and one in the middle that is far off."""
        sizes = torch.tensor([smallest * factor**i for i in range(points)], dtype=torch.float64)
        losses = torch.tensor([5.0 * 0.7**i + draw.number(0.0, 0.3) for i in range(points)], dtype=torch.float64)
        losses[1] *= draw.number(1.2, 1.5)
        return {"sizes": sizes, "losses": losses}

    return [case(draw.integer(3, 4), 3.0, 2.5), case(draw.integer(5, 8), 1000.0, 3.0)]
