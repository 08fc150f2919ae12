"""The exercise `rnn_influence`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib import decoding
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect_close, expect_equal, expect_floats
from course_lib.exercises.decoding.shared import asked

forgetting = Exercise(
    decoding.rnn_influence,
    cases=[
        {"n": 4, "a": 0.5, "b": 2.0},
        {"n": 1, "a": 0.9, "b": 3.0},
        {"n": 6, "a": -0.8, "b": 0.5},
        {"n": 5, "a": 1.2, "b": -1.0},
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "Write out n = 3: h_3 = a h_2 + b x_3 = a (a h_1 + b x_2) + b x_3 = a² b x_1 + a b x_2 + b x_3.",
        "The newest input has the factor b. Each step further back has one more factor a.",
        "The exponents of a, from the first input to the last, are n - 1, n - 2, …, 1, 0.",
        "b * a ** torch.arange(n - 1, -1, -1), with a tensor of floating point numbers.",
    ],
)


def in_double_precision(answer):
    """Plain numbers go in, so no precision is asked for."""
    return answer.double() if isinstance(answer, Tensor) and answer.is_floating_point() else answer


def influence(subject, case):
    return expect_floats(asked(subject, case.values(), in_double_precision), (case["n"],))


@forgetting.property("the result has one number for each input: (n,)", points=1)
def influence_shape(subject, case):
    influence(subject, case)


@forgetting.property("the first input, the oldest, counts a^(n - 1) · b", points=1)
def influence_first(subject, case):
    n, a, b = case.values()
    expect_equal(float(influence(subject, case)[0]), a ** (n - 1) * b, "the influence of the first input")


@forgetting.property("the last input counts b", points=1)
def influence_last(subject, case):
    last = float(influence(subject, case)[-1])
    expect_equal(last, case["b"], "the influence of the last input")


@forgetting.property("all of them are a^(n - t) · b", points=1)
def influence_values(subject, case):
    expect_close(influence(subject, case), decoding.rnn_influence(*case.values()))


@forgetting.misconception
def newest_first(n, a, b):
    """Your list is the other way round: entry 0 belongs to the first, oldest input, which has been weakened most."""
    age = torch.arange(0, n)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def one_factor_too_many(n, a, b):
    """Each input has one factor a too many. The last input comes in without any: h_n = … + b x_n."""
    age = n - torch.arange(0, n)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def weakened_from_the_start(n, a, b):
    """Your exponent is the input's number. It should be its age.

    The last input has been weakened most."""
    age = torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def forgets_b(n, a, b):
    """The factor b is missing: an input comes in as b x_t."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept


@forgetting.misconception
def b_at_every_step(n, a, b):
    """You multiply by b at every step. An input is multiplied by b once, when it comes in, and by a from then on."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a * b, dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def multiplies_by_the_age(n, a, b):
    """You multiply a by the age. Every step multiplies by a once more, which makes a power."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) * age
    return kept * b


@forgetting.misconception
def fades_in_a_straight_line(n, a, b):
    """You take the same amount off at every step. The recurrence multiplies: the same *share* is kept at every step."""
    age = n - torch.arange(1, n + 1)
    kept = 1 - (1 - torch.tensor(a, dtype=torch.float64)) * age
    return kept * b


@forgetting.misconception
def loses_the_sign(n, a, b):
    """The sign of a is lost.

    A negative a makes the influence change its sign at every step."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(abs(a), dtype=torch.float64) ** age
    return kept * b


@forgetting.misconception
def all_alike(n, a, b):
    """Every input counts b in your answer. Each step multiplies what was there before by a."""
    age = n - torch.arange(1, n + 1)
    kept = torch.ones(n, dtype=torch.float64)
    return kept * b


@forgetting.misconception
def adds_them_up(n, a, b):
    """You return running sums. Return each input's own influence, not that of all before it together."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return (kept * b).cumsum(0)


@forgetting.misconception
def normalised_to_one(n, a, b):
    """You made the influences sum to 1, as the weights of attention do. An RNN does not normalise them."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept / kept.sum() * b


@forgetting.misconception
def adds_a_and_b(n, a, b):
    """You add b to the power of a. The influence is their product."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a, dtype=torch.float64) ** age
    return kept + b


@forgetting.misconception
def power_of_the_product(n, a, b):
    """You raise the product a · b to the power of the age and leave out the b with which an input comes in."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(a * b, dtype=torch.float64) ** age
    return kept


@forgetting.misconception
def exchanges_a_and_b(n, a, b):
    """a and b are swapped: an input comes in times b, and every step multiplies by a."""
    age = n - torch.arange(1, n + 1)
    kept = torch.tensor(b, dtype=torch.float64) ** age
    return kept * a


@forgetting.alternative
def by_autograd(n, a, b):
    x = torch.zeros(n, requires_grad=True)
    h = torch.zeros(())
    for t in range(n):
        h = a * h + b * x[t]
    (slope,) = torch.autograd.grad(h, x)
    return slope


@forgetting.alternative
def by_one_impulse_after_the_other(n, a, b):
    influences = []
    for pulse in range(n):
        h = 0.0
        for t in range(n):
            h = a * h + b * (t == pulse)
        influences.append(h)
    return torch.tensor(influences)


@forgetting.alternative
def by_repeated_multiplication(n, a, b):
    factors = torch.full((n,), a)
    factors[0] = b
    return factors.cumprod(dim=0).flip(0)


@forgetting.alternative
def as_a_list_of_powers(n, a, b):
    return torch.tensor([b * a ** (n - 1 - i) for i in range(n)], dtype=torch.float64)
