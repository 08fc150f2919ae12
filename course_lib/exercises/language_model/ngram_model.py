"""The exercise `ngram_model`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import itertools
from collections import Counter

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect_close, expect_floats

ngrams = Exercise(
    language_model.ngram_model,
    cases=[
        {
            "ids": torch.tensor([0, 1, 2, 0, 1, 1]),
            "n": 2,
            "vocab_size": 3,
            "smoothing": 0.5,
        },
        {
            "ids": torch.tensor([3, 0, 3, 3, 1, 0, 3]),
            "n": 1,
            "vocab_size": 5,
            "smoothing": 0.25,
        },
        {
            "ids": torch.tensor([1, 0, 2, 2, 1, 0, 2, 3, 1, 0, 1, 2, 2, 2, 2]),
            "n": 3,
            "vocab_size": 4,
            "smoothing": 0.1,
        },
        {
            "ids": torch.tensor([5, 2, 2, 4, 5, 2, 0, 2, 4, 5, 5, 3]),
            "n": 2,
            "vocab_size": 6,
            "smoothing": 2.0,
        },
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Count first, divide afterwards. Begin with n = 2: a table with one row for each token and one column for each "
        "token that may follow. Walk through the text and add 1 for each two neighbours.",
        "For any n, the table has n axes: torch.zeros((vocab_size,) * n). A run of n tokens, as a tuple, is the place "
        "of one entry: counts[tuple(run)] += 1.",
        "What follows a context has to sum to 1: divide by the sum of the counts over the last axis, with "
        "keepdim=True, so that each context is divided by its own total.",
        "Smoothing adds the same number to every entry. So a total of vocab_size entries grows by smoothing · "
        "vocab_size.",
        "(counts + smoothing) / (counts.sum(dim=-1, keepdim=True) + smoothing * vocab_size).",
    ],
)


def table_of(subject, case):
    """The student's table: vocab_size entries in each of n axes."""
    return expect_floats(subject(*case.values()), (case["vocab_size"],) * case["n"], "the table")


def right_table(case):
    return language_model.ngram_model(*case.values())


def runs_of(case):
    """How often each run of n tokens occurs."""
    ids = case["ids"].tolist()
    return Counter(tuple(ids[i : i + case["n"]]) for i in range(len(ids) - case["n"] + 1))


def expect_entries(got, case, entries):
    """These entries of the table are right; the message says how often their context and their run occur."""
    want, runs = right_table(case), runs_of(case)
    for entry in entries:
        if abs(float(got[entry]) - float(want[entry])) > 1e-5 + 1e-4 * float(want[entry]):
            *context, token = entry
            after = f" after {', '.join(map(str, context))}" if context else ""
            total = sum(count for run, count in runs.items() if list(run[:-1]) == context)
            whole = "that of its context" if context else "that of all tokens"
            raise Failure(
                f"Entry {list(entry)} of the table is the probability of token {token}{after}. Its count is "
                f"{runs[entry]}, {whole} {total}, and smoothing is {case['smoothing']:g}: that makes "
                f"{float(want[entry]):.4g}, but yours is {float(got[entry]):.4g}."
            )


def entries_of(case):
    return list(itertools.product(range(case["vocab_size"]), repeat=case["n"]))


@ngrams.property("the table has n axes, each with vocab_size entries", points=1)
def ngrams_shape(subject, case):
    table_of(subject, case)


@ngrams.property("the probabilities of what follows a context sum to 1", points=1)
def ngrams_sums(subject, case):
    got = table_of(subject, case)
    sums = got.double().sum(dim=-1)
    wrong = ((sums - 1).abs() > 1e-4).nonzero().tolist()
    if wrong:
        context = wrong[0]
        after = f"after the context {context} " if context else ""
        raise Failure(
            f"All probabilities of what comes next {after}sum to {float(sums[tuple(context)]):.4g} instead of 1."
        )


@ngrams.property("runs that occur in the text get their share", points=2)
def ngrams_seen(subject, case):
    expect_entries(table_of(subject, case), case, [entry for entry in entries_of(case) if entry in runs_of(case)])


@ngrams.property("runs that do not, and contexts that never occur, get theirs by smoothing", points=1)
def ngrams_unseen(subject, case):
    got = table_of(subject, case)
    expect_entries(got, case, [entry for entry in entries_of(case) if entry not in runs_of(case)])
    expect_close(got, right_table(case))


@ngrams.property("more text makes other counts: the end of the text counts like its middle", points=1)
def ngrams_longer(subject, case):
    ids = case["ids"]
    for text in (torch.cat([ids, ids.flip(0), ids[:1]]), ids[-case["n"] :]):  # longer, and a single run
        other = {**case, "ids": text}
        expect_entries(table_of(subject, other), other, entries_of(case))


@ngrams.misconception
def divides_by_the_whole_table(ids, n, vocab_size, smoothing):
    """You divide by the sum of the whole table. Each context has a total of its own.

    What you get is how likely a whole run is, not how likely a token is after its context."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum()
    return (counts + smoothing) / (totals + smoothing * vocab_size**n)


@ngrams.misconception
def divides_all_by_one_total(ids, n, vocab_size, smoothing):
    """Every entry is divided by the number of all runs in the text. Each context has a total of its own."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum()
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def sums_over_the_first_axis(ids, n, vocab_size, smoothing):
    """Your totals are sums over the first axis. What sums to 1 is what may come last, after the same context.

    What you get is how likely each token is to have been the first one, given what followed."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=0, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def totals_without_an_axis(ids, n, vocab_size, smoothing):
    """Your totals have lost their last axis (keepdim), so they are laid along the wrong one: the entries of one context
    are divided by the totals of several."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def smooths_the_counts_alone(ids, n, vocab_size, smoothing):
    """Smoothing is added to the counts and not to the totals. With vocab_size entries in a total, it grows by smoothing
    vocab_size times."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / totals


@ngrams.misconception
def smooths_the_totals_alone(ids, n, vocab_size, smoothing):
    """Smoothing is added to the totals and not to the counts.

    What does not occur in the text gets probability 0, and if it happens after all, the loss is infinite."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return counts / (totals + smoothing * vocab_size)


@ngrams.misconception
def smooths_the_total_once(ids, n, vocab_size, smoothing):
    """You add smoothing once to each total. It was added to vocab_size counts, so the total grows by smoothing ·
    vocab_size."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing)


@ngrams.misconception
def smooths_by_the_text(ids, n, vocab_size, smoothing):
    """You multiply smoothing in the totals by the number of different tokens in the text. Every token of the vocabulary
    gets its share, seen or not: it is vocab_size."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * len(ids.unique()))


@ngrams.misconception
def smooths_for_every_run(ids, n, vocab_size, smoothing):
    """You multiply smoothing in the totals by the number of entries of the whole table. A context has vocab_size
    entries."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size**n)


@ngrams.misconception
def without_smoothing(ids, n, vocab_size, smoothing):
    """There is no smoothing in your table.

    What does not occur in the text gets probability 0, and a context that never occurs gets 0 / 0."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return counts / totals


@ngrams.misconception
def without_smoothing_or_division_by_zero(ids, n, vocab_size, smoothing):
    """There is no smoothing in your table, and after a context that never occurs everything gets 0.

    What does not occur in the text gets probability 0, and if it happens after all, the loss is infinite."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return counts / totals.clamp(min=1)


@ngrams.misconception
def smooths_empty_contexts_only(ids, n, vocab_size, smoothing):
    """Only contexts that never occur are smoothed: after them all tokens are equally likely. Smoothing is added to
    every count.

    A token that was not seen after a known context gets probability 0."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    counts = torch.where(counts.sum(dim=-1, keepdim=True) == 0, 1.0, counts)
    totals = counts.sum(dim=-1, keepdim=True)
    return counts / totals


@ngrams.misconception
def always_adds_one(ids, n, vocab_size, smoothing):
    """You add 1 to every count, whatever smoothing is. The number to add is given."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + 1) / (totals + vocab_size)


@ngrams.misconception
def counts_the_last_context(ids, n, vocab_size, smoothing):
    """You count a context at the end of the text too, where nothing follows. Only what is followed by a token belongs
    to the total.

    The probabilities after that context sum to less than 1."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    if n > 1:
        totals[tuple(ids[len(ids) - n + 1 :])] += 1
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def counts_each_run_once(ids, n, vocab_size, smoothing):
    """Every run counts once, however often it occurs. (counts[places] += 1 with many places at once adds only once to
    each of them.)"""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)))
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def runs_side_by_side(ids, n, vocab_size, smoothing):
    """Your runs lie side by side: you move on by n tokens. Every token but the first few ends a run: move on by one."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=n)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def misses_the_last_run(ids, n, vocab_size, smoothing):
    """You leave out the last run of the text. There are len(ids) - n + 1 runs."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)[:-1]
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def joins_end_and_beginning(ids, n, vocab_size, smoothing):
    """You count runs that begin at the end of the text and continue at its beginning. The text is not a circle."""
    counts = torch.zeros((vocab_size,) * n)
    runs = torch.cat([ids, ids[: n - 1]]).unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def reads_backwards(ids, n, vocab_size, smoothing):
    """Your axes are in the opposite order: the table says what comes before. The first axis is the oldest token, the
    last axis the one that is predicted."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.flip(1).T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def context_of_n_tokens(ids, n, vocab_size, smoothing):
    """Your context has n tokens. With the token that is predicted a run has n tokens, so the context has n - 1."""
    counts = torch.zeros((vocab_size,) * (n + 1))
    runs = ids.unfold(dimension=0, size=n + 1, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts + smoothing) / (totals + smoothing * vocab_size)


@ngrams.misconception
def returns_counts(ids, n, vocab_size, smoothing):
    """You return the counts. They still have to be divided by their totals."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    return counts + smoothing


@ngrams.misconception
def returns_logarithms(ids, n, vocab_size, smoothing):
    """You return the logarithms of the probabilities. The probabilities themselves are wanted."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)
    return ((counts + smoothing) / (totals + smoothing * vocab_size)).log()


@ngrams.misconception
def softmax_of_the_counts(ids, n, vocab_size, smoothing):
    """You take a softmax of the counts. Counts become probabilities by a plain division by their sum.

    In a softmax one more occurrence multiplies a probability by e, whether there were 2 before or 2000."""
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)
    places = tuple(runs.T)
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    return (counts + smoothing).softmax(dim=-1)


@ngrams.alternative
def by_walking(ids, n, vocab_size, smoothing):
    table = torch.full((vocab_size,) * n, float(smoothing))
    text = ids.tolist()
    for i in range(len(text) - n + 1):
        table[tuple(text[i : i + n])] += 1
    return table / table.sum(-1, keepdim=True)


@ngrams.alternative
def by_numbering_the_runs(ids, n, vocab_size, smoothing):
    count = len(ids) - n + 1
    code = torch.zeros(count, dtype=torch.long)
    for i in range(n):
        code = code * vocab_size + ids[i : i + count]
    table = torch.bincount(code, minlength=vocab_size**n).double().reshape(-1, vocab_size) + smoothing
    return (table / table.sum(dim=1)[:, None]).reshape((vocab_size,) * n)


@ngrams.alternative
def by_a_counter(ids, n, vocab_size, smoothing):
    text = ids.tolist()
    seen = Counter(zip(*(text[i:] for i in range(n)), strict=False))
    values = []
    for context in itertools.product(range(vocab_size), repeat=n - 1):
        total = sum(seen[(*context, z)] for z in range(vocab_size))
        values += [(seen[(*context, z)] + smoothing) / (total + smoothing * vocab_size) for z in range(vocab_size)]
    return torch.tensor(values).reshape([vocab_size] * n)


@ngrams.alternative
def by_one_hot_vectors(ids, n, vocab_size, smoothing):
    hot = torch.nn.functional.one_hot(ids, vocab_size).float()
    table = hot[: len(ids) - n + 1]
    for i in range(1, n):
        table = table[..., None] * hot[i : len(ids) - n + 1 + i].reshape(-1, *[1] * i, vocab_size)
    table = table.sum(dim=0) + smoothing
    return torch.nn.functional.normalize(table, p=1, dim=-1)
