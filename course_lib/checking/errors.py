"""Common errors of torch and Python, in words that say where to look."""

from __future__ import annotations

import re

# A pattern in the error's text, and the sentence for it. Groups of the pattern may be used as {0}, {1}, …
EXPLANATIONS: tuple[tuple[str, str], ...] = (
    (
        r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)",
        "In a matrix product the last axis of the left one and the last but one of the right one must have the same "
        "length: here these are {1} and {2}. Is one of them to be transposed, or is it another tensor?",
    ),
    (
        r"Expected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]",
        "In a matrix product the last axis of the left one and the last but one of the right one must have the same "
        "length: here these are {1} and {3}. Is one of them to be transposed?",
    ),
    (
        r"size mismatch, got input \(\d+\), mat \((\d+)x(\d+)\), vec \((\d+)\)",
        "In the product of a matrix and a vector the last axis of the matrix must be as long as the vector: here these "
        "are {1} and {2}. Is the matrix to be transposed, or is it another tensor?",
    ),
    (
        r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)",
        "Two tensors are combined element by element, but along axis {2} one has length {0} and the other {1}. Shapes "
        "are compared from the right, and only an axis of length 1 is stretched: is an axis missing or misplaced?",
    ),
    (
        r"The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
        "A tensor of length {1} is put into a place of length {0}.",
    ),
    (
        r"stack expects each tensor to be equal size, but got (\[.*?\]) at entry (\d+) and (\[.*?\]) at entry (\d+)",
        "Only tensors of the same shape can be stacked, but number {1} of the list has shape {0}, number {3} {2}.",
    ),
    (
        r"expected input(\[.*?\]) to have (\d+) channels, but got (\d+) channels instead",
        "A convolution takes (batch, channels, time), and this one has {1} channels. An input of shape {0} has {2}: is "
        "time in their place?",
    ),
    (
        r"shape '(\[.*?\])' is invalid for input of size (\d+)",
        "A tensor with {1} numbers cannot take the shape {0}: the product of its axes is another one.",
    ),
    (
        r"view size is not compatible",
        "After a transpose the numbers lie in another order in memory, and `view` cannot be used: `reshape` can.",
    ),
    (
        r"(?:expected|Expected).*(?:scalar type|dtype).*|.*must have the same dtype.*|.*expected m1 and m2.*",
        "Tensors of different dtypes meet. What you make yourself should have the dtype of the input.",
    ),
    (
        r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)",
        "There is no axis {2} here. Inputs may have more or fewer axes than you expect; axes counted from the end "
        "(-1, -2) fit all of them.",
    ),
    (
        r"cannot assign module before Module\.__init__\(\) call|cannot assign parameters before",
        "The first line of __init__ has to be super().__init__(): it prepares the module for its layers.",
    ),
    (
        r"Can't call numpy\(\) on Tensor that requires grad",
        "Numpy knows nothing of gradients. Stay with torch's own functions.",
    ),
    (
        r"element 0 of tensors does not require grad",
        "There is nothing to follow back: the loss is cut off from the parameters (detach, item, no_grad, …).",
    ),
    (
        r"argument 'input' \(position 1\) must be Tensor, not (int|float)",
        "A function of torch got a plain {0}: for numbers there are the functions in `math`.",
    ),
    (
        r"argument 'input' \(position 1\) must be Tensor, not tuple",
        "A layer got a tuple where it wants one tensor: does what you call return two results?",
    ),
    (
        r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)",
        "Axis {1} has places 0 to {2} - 1; place {0} does not exist.",
    ),
    (r"'NoneType' object", "Something is None: does every path through a function that you call end in a `return`?"),
    (r"got an unexpected keyword argument '(\w+)'", "There is no option called `{0}`: look at its spelling."),
)


def in_plain_words(message: str) -> str:
    """What an error's text means; empty if it is not a common one."""
    for pattern, sentence in EXPLANATIONS:
        found = re.search(pattern, message)
        if found:
            return sentence.format(*found.groups())
    return ""
