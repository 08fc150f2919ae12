"""The exercise `bleu`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math
from collections import Counter

import torch

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    expect_equal,
)
from course_lib.decoding import ngrams, require_pairs
from course_lib.exercises.decoding.shared import as_number, asked


def sentences(*texts):
    return [text.split() for text in texts]


measuring = Exercise(
    decoding.bleu,
    cases=[
        {
            "hypotheses": sentences("the cat sees a small dog"),
            "references": sentences("the cat sees a small dog now"),
        },
        {
            "hypotheses": sentences("le chat voit le chien noir et le chat", "il ne dort pas"),
            "references": sentences("le chat noir voit le chien noir", "il ne dort pas ici"),
        },
        {
            "hypotheses": sentences("a b c d e a b c", "a b", "x y z b c d e"),
            "references": sentences("a b c d e", "a b c d e f g", "y b c d e x"),
        },
    ],
    minutes=10,
    difficulty=2,
    hints=[
        "Two parts: the precisions p_1 … p_4, and the penalty for being too short. Begin with p_1 of one sentence: how "
        "many of its words are in the reference, each counted at most as often as it occurs there?",
        "ngrams gives a Counter, and the & of two Counters keeps the smaller count of each entry. Sum matches and "
        "totals over all sentences before you divide.",
        "The fourth root of a product is exp of the mean of the logarithms. If a precision is 0, the logarithm does "
        "not exist, and BLEU is 0.",
        "The penalty is min(1, exp(1 - ratio)), where ratio is the number of tokens in all references divided by that "
        "in all hypotheses.",
    ],
)


def measured(subject, hypotheses, references, what):
    expect_equal(asked(subject, (hypotheses, references), as_number), decoding.bleu(hypotheses, references), what)


@measuring.property("a perfect translation gets 100", points=1)
def bleu_perfect(subject, case):
    references = [reference for reference in case["references"] if len(reference) >= 4]
    measured(subject, references, references, "the BLEU of the references themselves")


@measuring.property("a translation that is longer than its reference is judged by its precisions alone", points=2)
def bleu_long(subject, case):
    hypotheses = [reference + reference[:3] for reference in case["references"]]
    what = "the BLEU of the references, each with its first three words once more at the end,"
    measured(subject, hypotheses, case["references"], what)


@measuring.property("one that is too short pays for it", points=1)
def bleu_short(subject, case):
    references = [reference for reference in case["references"] if len(reference) >= 5]
    measured(subject, [r[:-1] for r in references], references, "the BLEU of references without their last word")


@measuring.property("counts are summed over all sentences before anything is divided", points=2)
def bleu_corpus(subject, case):
    measured(subject, case["hypotheses"], case["references"], "BLEU")


@measuring.property("if no four words in a row are right, BLEU is 0", points=1)
def bleu_zero(subject, case):
    backwards = [reference[::-1] for reference in case["references"]]
    measured(subject, backwards, case["references"], "the BLEU of the references, read backwards,")


@measuring.misconception
def counts_repetitions(hypotheses, references):
    """An n-gram that is repeated counts every time. It counts at most as often as the reference has it.

    'the the the the' would have a p_1 of 1 wherever the reference has a 'the'."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += sum(count for gram, count in found.items() if gram in ngrams(reference, n))
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def counts_each_ngram_once(hypotheses, references):
    """You count every different n-gram once. One that the reference has twice may count twice."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += len(found.keys() & ngrams(reference, n).keys())
            total += len(found)
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def counts_each_match_once(hypotheses, references):
    """Of the matches you count every different n-gram once (`len` of a Counter counts its keys), but you divide by all
    n-grams. One that both sentences have twice matches twice."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += len(found & ngrams(reference, n))
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def clips_over_the_corpus(hypotheses, references):
    """You put the n-grams of all sentences together before you compare. An n-gram matches only in the reference of its
    own sentence: compare sentence by sentence, and sum the matches.

    As it is, a word may be found in the translation of another sentence."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        found = sum((ngrams(hypothesis, n) for hypothesis in hypotheses), Counter())
        wanted = sum((ngrams(reference, n) for reference in references), Counter())
        matches, total = (found & wanted).total(), found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def no_brevity_penalty(hypotheses, references):
    """The brevity penalty is missing.

    Four right words in a row, of a long sentence, would be a perfect translation."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = 0.0
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def rewards_length(hypotheses, references):
    """Your penalty is not limited to 1.

    A translation that is longer than its reference gets a bonus."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = 1 - reference_length / hypothesis_length
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def penalises_length(hypotheses, references):
    """In the penalty you divide the length of the hypotheses by that of the references. It is the other way round.

    Long translations are punished, and short ones are not."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - hypothesis_length / reference_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def plain_ratio_as_penalty(hypotheses, references):
    """Your penalty is the ratio of the two lengths itself. It should be e^(1 - references / hypotheses)."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = math.log(min(1.0, hypothesis_length / reference_length))
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def arithmetic_mean(hypotheses, references):
    """You take the ordinary mean of the four precisions. BLEU takes the geometric one: the fourth root of their
    product."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += matches / total / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty) * log_precision


@measuring.misconception
def arithmetic_mean_with_zeros(hypotheses, references):
    """You take the ordinary mean of the four precisions. BLEU takes the geometric one, the fourth root of their
    product, and it is 0 if one of them is."""
    require_pairs(hypotheses, references)
    precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        precision += matches / max(total, 1) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty) * precision


@measuring.misconception
def product_without_root(hypotheses, references):
    """You multiply the four precisions and leave out the fourth root."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total)
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def single_words_only(hypotheses, references):
    """You look at single words only. n should run from 1 to 4.

    The order of the words does not matter."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 1, 1, 1):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def four_word_runs_only(hypotheses, references):
    """You look at runs of four words only. All four lengths count, from 1 to 4."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (4, 4, 4, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def stops_at_three(hypotheses, references):
    """Your n stops at 3. It should run from 1 to 4."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 3
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def fourth_root_of_three(hypotheses, references):
    """Your n stops at 3, and you take the fourth root. There are four precisions: n should run from 1 to 4."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def recall_instead_of_precision(hypotheses, references):
    """You divide by the number of n-grams of the references. A precision divides by those of the hypotheses."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += ngrams(reference, n).total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def between_zero_and_one(hypotheses, references):
    """Your BLEU lies between 0 and 1. Here it is given between 0 and 100."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return math.exp(log_penalty + log_precision)


@measuring.misconception
def log_of_zero(hypotheses, references):
    """You take the logarithm of a precision of 0, which does not exist. If no n-gram of some length is right, BLEU is
    0."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def smoothed(hypotheses, references):
    """You add 1 to the counts so that no precision is 0. That is done for single sentences; here nothing is
    smoothed."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        log_precision += math.log((matches + 1) / (total + 1)) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def leaves_out_a_precision_of_zero(hypotheses, references):
    """You leave a precision of 0 out of the mean. One 0 makes the whole product 0.

    A translation without a single right run of words gets a good score."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total()
            total += found.total()
        if matches == 0:
            continue
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def mean_over_sentences(hypotheses, references):
    """You compute a BLEU for each sentence and take the mean. Matches and totals are summed over the whole corpus
    first.

    A short sentence without a run of four counts as 0."""
    scores = []
    for pair in zip(hypotheses, references):
        scores.append(decoding.bleu([pair[0]], [pair[1]]))
    return sum(scores) / len(scores)


@measuring.misconception
def mean_of_precisions(hypotheses, references):
    """You take each sentence's precision and average them. Sum the matches and the totals, then divide once.

    A sentence of two words counts as much as one of twenty."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(reference, n)).total() / max(1, found.total())
            total += 1
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.misconception
def any_reference_will_do(hypotheses, references):
    """You look for a sentence's n-grams in all references. Each translation is compared with its own reference."""
    require_pairs(hypotheses, references)
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references):  # noqa: B007
            found = ngrams(hypothesis, n)
            matches += (found & sum((ngrams(each, n) for each in references), Counter())).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    hypothesis_length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    log_penalty = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(log_penalty + log_precision)


@measuring.alternative
def with_counts_by_hand(hypotheses, references):
    precisions = []
    for n in range(1, 5):
        right = everything = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            unused = [tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)]
            for i in range(len(hypothesis) - n + 1):
                everything += 1
                gram = tuple(hypothesis[i : i + n])
                if gram in unused:
                    unused.remove(gram)
                    right += 1
        precisions.append(right / everything if everything else 0.0)
    r, h = (sum(len(text) for text in texts) for texts in (references, hypotheses))
    penalty = 1.0 if h > r else math.exp(1 - r / h)
    return penalty * math.prod(precisions) ** 0.25 * 100


@measuring.alternative
def with_tensors_at_the_end(hypotheses, references):
    right, everything = torch.zeros(4).double(), torch.zeros(4).double()
    for h, r in zip(hypotheses, references, strict=True):
        for i in range(4):
            grams = [Counter(zip(*(text[k:] for k in range(i + 1)))) for text in (h, r)]
            right[i] += sum(min(count, grams[1][gram]) for gram, count in grams[0].items())
            everything[i] += max(0, len(h) - i)
    ratio = sum(map(len, references)) / sum(map(len, hypotheses))
    return 100 * (right / everything).log().mean().exp() * min(1.0, math.exp(1 - ratio))


@measuring.alternative
def by_the_geometric_mean(hypotheses, references):
    def share(n):
        pairs = [(ngrams(h, n), ngrams(r, n)) for h, r in zip(hypotheses, references, strict=True)]
        right = sum(sum((h & r).values()) for h, r in pairs)
        return right / max(1, sum(sum(h.values()) for h, _ in pairs))

    length = [sum(map(len, texts)) for texts in (hypotheses, references)]
    product = share(1) * share(2) * share(3) * share(4)
    return 100 * math.sqrt(math.sqrt(product)) * math.exp(-max(0.0, length[1] / length[0] - 1))
