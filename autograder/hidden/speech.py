"""Hidden cases on speech."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.hidden import Case, Draw, hidden
from course_lib.exercises import speech


def recording(draw: Draw, samples: int, scale: float = 1.0) -> Tensor:
    """Samples that are all different."""
    return draw.distinct(1, samples, scale=scale)[0]


@hidden(speech.framing)
def frames(draw: Draw) -> list[Case]:
    """Always among them: samples that are left over, none left over, gaps between the frames, and frames that lie close
    together.
    """

    def case(length: int, hop: int, n_frames: int, left: int) -> Case:
        return {"wave": recording(draw, length + hop * (n_frames - 1) + left), "length": length, "hop": hop}

    length, hop = draw.integer(7, 12), draw.integer(3, 5)
    wide = draw.integer(4, 6)
    return [
        case(length, hop, draw.integer(4, 7), draw.integer(1, hop - 1)),
        case(length + 1, hop, draw.integer(4, 7), 0),
        case(wide, wide + draw.integer(1, 3), draw.integer(3, 5), wide - 1),
        case(draw.integer(20, 40), 1, draw.integer(5, 9), 0),
    ]


@hidden(speech.filters)
def mel_filterbank(draw: Draw) -> list[Case]:
    """Few filters and many, coarse spectra and fine ones. Neighbouring filters keep several bins each."""
    n_filters = draw.integer(4, 6)
    return [
        {"n_filters": n_filters, "n_fft": 2 * draw.integer(30, 45), "sample_rate": 100 * draw.integer(70, 90)},
        {"n_filters": 2, "n_fft": 2 * draw.integer(8, 12), "sample_rate": 100 * draw.integer(25, 45)},
        {"n_filters": draw.integer(9, 14), "n_fft": 512, "sample_rate": draw.choice([16000, 22050, 44100])},
    ]


@hidden(speech.features)
def log_mel(draw: Draw) -> list[Case]:
    """Frames of even and of odd length, and frames that leave gaps."""

    def case(samples: int, length: int, hop: int, n_filters: int, dtype: torch.dtype = torch.float64) -> Case:
        return {
            "wave": recording(draw, samples, scale=1.5).to(dtype),
            "length": length,
            "hop": hop,
            "filterbank": (draw.normal(n_filters, length // 2 + 1).abs() + 0.2).to(dtype),
        }

    return [
        case(draw.integer(50, 70), 2 * draw.integer(7, 11), draw.integer(3, 6), draw.integer(3, 5)),
        case(draw.integer(30, 40), 2 * draw.integer(4, 5) + 1, draw.integer(4, 6), draw.integer(6, 8)),
        case(draw.integer(40, 60), 8, draw.integer(9, 11), 2, dtype=torch.float32),
    ]


@hidden(speech.padding)
def pad_features(draw: Draw) -> list[Case]:
    """Always among them: real frames of zeros, the longest recording first, last and in the middle."""

    def case(lengths: list[int], n_mels: int, dtype: torch.dtype = torch.float64) -> Case:
        features = [(draw.normal(length, n_mels) + 0.005).to(dtype) for length in lengths]
        for recording in features[:2]:
            recording[len(recording) // 2] = 0.0
        return {"features": features}

    short, middle, long = draw.sizes((2, 4), (5, 7), (8, 12))
    return [
        case([middle, long, short], draw.integer(13, 15), dtype=torch.float32),
        case([middle, short, short + 1, long], 2),
        case([long, short], draw.integer(3, 5)),
    ]


@hidden(speech.front_end)
def conv_front_end(draw: Draw) -> list[Case]:
    """Always among them: lengths of every remainder, one too short for any new frame, and one without padding."""

    def case(lengths: list[int], time: int) -> Case:
        n_mels, d_model = draw.sizes((4, 7), (5, 8))
        features = draw.normal(len(lengths), time, n_mels)
        padding = torch.arange(time) >= torch.tensor(lengths)[:, None]
        return {
            "n_mels": n_mels,
            "d_model": d_model,
            "features": torch.where(padding[:, :, None], features - 15.0, features),
            "lengths": torch.tensor(lengths),
        }

    base = 4 * draw.integer(3, 4)
    return [
        case(draw.shuffled([base, base + 1, base + 2, base + 3]), base + 3),
        case([base, draw.integer(1, 2), base + 6], base + 6),
    ]


@hidden(speech.collapsing, by_chance=True)
def ctc_collapse(draw: Draw) -> list[Case]:
    """Paths of a few labels, in which labels last for one frame or for several."""

    def case(vocab: int, runs: int) -> Case:
        blank = draw.integer(0, vocab - 1)
        path: list[int] = []
        for _ in range(runs):
            path += [blank if draw.integer(0, 2) == 0 else draw.integer(0, vocab - 1)] * draw.integer(1, 3)
        return {"ids": path, "blank": blank}

    return [case(3, draw.integer(8, 12)), case(draw.integer(4, 6), draw.integer(12, 20)), case(40, 30)]


@hidden(speech.ctc)
def ctc_loss(draw: Draw) -> list[Case]:
    """Always among them: equal labels beside each other and apart, as many frames as are needed, the label 0, and a
    blank that is neither the first entry of the vocabulary nor the last.
    """

    def case(time: int, vocab: int, labels: list[int], blank: int) -> Case:
        log_probs = draw.normal(time, vocab, scale=1.5).log_softmax(dim=-1)
        return {"log_probs": log_probs, "target": torch.tensor(labels), "blank": blank}

    first, second = draw.shuffled([0, 1, 3])[:2]
    return [
        case(draw.integer(6, 8), draw.choice([5, 6]), [first, second, second, first], 2),
        case(4, 4, [second, first, second], 2),
        case(draw.integer(5, 7), 3, [2, 0, 2], 1),
    ]


@hidden(speech.edits, by_chance=True)
def edit_distance(draw: Draw) -> list[Case]:
    """Sequences over few items, some long, some short; the second is a spoiled copy of the first."""

    def case(items: list[Any], size: int) -> Case:
        reference = [draw.choice(items) for _ in range(size)]
        hypothesis: list[Any] = []
        for item in reference:
            what = draw.integer(0, 6)
            if what > 0:
                hypothesis.append(item if what > 2 else draw.choice(items))
            if what == 6:
                hypothesis.append(draw.choice(items))
        return {"reference": reference, "hypothesis": hypothesis}

    return [
        case([1, 2, 3], draw.integer(4, 6)),
        case(["a", "b", "cd"], draw.integer(5, 6)),
        case([4, 5], draw.integer(4, 6)),
    ]
