"""The exercise `bits_per_character`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import torch

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_equal
from course_lib.exercises.decoding.shared import as_number, asked

bits = Exercise(
    language_model.bits_per_character,
    cases=[
        {
            "log_probabilities": torch.tensor([0.5, 0.125, 0.25]).double().log(),
            "lengths": torch.tensor([1, 4, 3]),
        },
        {
            "log_probabilities": torch.tensor([-0.4, -3.1, -1.7, -0.05, -2.2]).double(),
            "lengths": torch.tensor([2, 5, 1, 3, 7]),
        },
        {
            "log_probabilities": torch.tensor([-1.3, -0.2, -4.6, -2.9]).double(),
            "lengths": torch.tensor([1, 1, 1, 1]),
        },
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "A token to which the model gave probability p costs -log2(p) bits. You are given natural logarithms: how many "
        "bits is one nat?",
        "log2(p) = ln(p) / ln(2). Sum over all tokens: that is what the whole text costs.",
        "Divide once, at the end: all bits by all characters. A mean over tokens would let a long token count as much "
        "as a short one.",
        "-log_probabilities.sum() / math.log(2) / lengths.sum(), and .item() makes a Python number of it.",
    ],
)


def measured(subject, log_probabilities, lengths, what):
    arguments = (log_probabilities, lengths)
    expect_equal(asked(subject, arguments, as_number), language_model.bits_per_character(*arguments), what)


@bits.property("if each character is a token of probability ½, the answer is 1 bit", points=1)
def bits_one(subject, case):
    ones = torch.ones_like(case["lengths"])
    halves = torch.full_like(case["log_probabilities"], math.log(0.5))
    measured(subject, halves, ones, "the number of bits per character, with tokens of one character and p = ½,")


@bits.property("tokens of one character: the mean of -log2(p)", points=1)
def bits_of_characters(subject, case):
    measured(
        subject,
        case["log_probabilities"],
        torch.ones_like(case["lengths"]),
        "the number of bits per character, if every token is one character,",
    )


@bits.property("longer tokens: all bits divided by all characters", points=2)
def bits_of_pieces(subject, case):
    measured(subject, *case.values(), "the number of bits per character")


@bits.property("cutting a token in two changes nothing, if both parts together are as likely as the whole", points=1)
def bits_of_parts(subject, case):
    """The sum of the logarithms and that of the lengths stay as they are."""
    log_probabilities, lengths = case.values()
    first = log_probabilities[:1]
    cut = torch.cat([first * 0.25, first * 0.75, log_probabilities[1:]])
    more = torch.cat([torch.tensor([3, 1]), lengths[1:]])
    whole = torch.cat([torch.tensor([4]), lengths[1:]])
    measured(subject, log_probabilities, whole, "the number of bits per character, before the first token is cut,")
    measured(subject, cut, more, "the number of bits per character, after the first token is cut in two,")


@bits.misconception
def nats_for_bits(log_probabilities, lengths):
    """Your result is in nats: the logarithms given are natural ones. One nat is 1 / ln(2) ≈ 1.44 bits."""
    nats = -log_probabilities.sum()
    bits = nats
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def multiplies_by_ln_2(log_probabilities, lengths):
    """You multiply by ln(2). Divide by it: a number of bits is larger than the number of nats."""
    nats = -log_probabilities.sum()
    bits = nats * math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def decimal_digits(log_probabilities, lengths):
    """You divide by ln(10). That gives decimal digits; bits need ln(2)."""
    nats = -log_probabilities.sum()
    bits = nats / math.log(10)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def divides_by_two(log_probabilities, lengths):
    """You divide the nats by 2. The number to divide by is ln(2)."""
    nats = -log_probabilities.sum()
    bits = nats / 2
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def logarithm_to_base_ten_of_two(log_probabilities, lengths):
    """You divide by log10(2) = 0.301. The logarithms given are natural ones: divide by ln(2) = 0.693."""
    nats = -log_probabilities.sum()
    bits = nats / math.log10(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def bits_per_token(log_probabilities, lengths):
    """You divide by the number of tokens. Divide by the number of characters that they stand for.

    Bits per token grow with the length of the tokens, so models with different tokens cannot be compared."""
    nats = -log_probabilities.sum()
    bits = nats / math.log(2)
    characters = len(lengths)
    return (bits / characters).item()


@bits.misconception
def mean_of_ratios(log_probabilities, lengths):
    """You divide each token's bits by its own length and take the mean. Sum both first, then divide once.

    In a mean of ratios a long token counts as much as a short one."""
    nats = -(log_probabilities / lengths).mean()
    bits = nats / math.log(2)
    return bits.item()


@bits.misconception
def sum_of_ratios(log_probabilities, lengths):
    """You divide each token's bits by its own length and add up the quotients. Sum both first, then divide once."""
    nats = -(log_probabilities / lengths).sum()
    bits = nats / math.log(2)
    return bits.item()


@bits.misconception
def mean_bits_by_all_characters(log_probabilities, lengths):
    """You take the mean over the tokens and then divide by the number of all characters: two divisions where there is
    one."""
    nats = -log_probabilities.mean()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def long_tokens_count_more(log_probabilities, lengths):
    """You weigh each token by its length. A token costs its bits once, however many characters it stands for."""
    nats = -(log_probabilities * lengths).sum()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def all_bits(log_probabilities, lengths):
    """You return the bits of the whole text. Divide them by the number of its characters."""
    nats = -log_probabilities.sum()
    bits = nats / math.log(2)
    return bits.item()


@bits.misconception
def characters_per_bit(log_probabilities, lengths):
    """Your quotient is upside down: characters per bit. Return bits per character."""
    nats = -log_probabilities.sum()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (characters / bits).item()


@bits.misconception
def keeps_the_sign(log_probabilities, lengths):
    """The sign is missing. Logarithms of probabilities are negative; what they cost in bits is positive."""
    nats = log_probabilities.sum()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def perplexity_of_a_character(log_probabilities, lengths):
    """You return a perplexity: 2 to the power of the bits, or e to the power of the nats. The bits themselves are
    wanted."""
    nats = -log_probabilities.sum()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (2 ** (bits / characters)).item()


@bits.misconception
def perplexity_of_a_token(log_probabilities, lengths):
    """You return the perplexity of a token, e to the power of its mean nats. Return bits per character."""
    nats = -log_probabilities.mean()
    return nats.exp().item()


@bits.misconception
def logarithm_of_the_mean(log_probabilities, lengths):
    """You take the mean of the probabilities before the logarithm. Take the logarithm of each: they are added up,
    because the probabilities are multiplied."""
    nats = -log_probabilities.exp().mean().log() * len(lengths)
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def bits_of_bits(log_probabilities, lengths):
    """You take a logarithm once more. What is given are logarithms already: only their base has to change."""
    nats = -log_probabilities.sum()
    bits = torch.log2(nats)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.misconception
def expects_probabilities(log_probabilities, lengths):
    """You turn the logarithms into probabilities and add those up. Bits are counted with the logarithms."""
    nats = log_probabilities.exp().sum()
    bits = nats / math.log(2)
    characters = lengths.sum()
    return (bits / characters).item()


@bits.alternative
def token_by_token(log_probabilities, lengths):
    total, characters = 0.0, 0
    for log_probability, length in zip(log_probabilities.tolist(), lengths.tolist(), strict=True):
        total -= math.log2(math.exp(log_probability))
        characters += length
    return total / characters


@bits.alternative
def as_a_tensor(log_probabilities, lengths):
    return -torch.sum(log_probabilities * math.log2(math.e)) / lengths.sum()


@bits.alternative
def as_a_weighted_mean(log_probabilities, lengths):
    each = -log_probabilities / (lengths * torch.tensor(2.0).log())
    return float((each * lengths / lengths.sum()).sum())


@bits.alternative
def by_means(log_probabilities, lengths):
    return (torch.log2(torch.exp(log_probabilities)).mean() / -lengths.double().mean()).reshape(1)
