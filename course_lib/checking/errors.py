"""Common errors of torch and Python, in words that say where to look."""

from __future__ import annotations

import re

# A pattern in the error's text, and the sentence for it. Groups of the pattern may be used as {0}, {1}, …
EXPLANATIONS: tuple[tuple[str, str], ...] = (
    (
        r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)",
        "In a matrix product, the last axis of the left factor must be as long as the second-to-last axis of the right "
        "one; here their lengths are {1} and {2}. Should one of them be transposed, or is it the wrong tensor?",
    ),
    (
        r"Expected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]",
        "In a matrix product, the last axis of the left factor must be as long as the second-to-last axis of the right "
        "one; here their lengths are {1} and {3}. Should one of them be transposed?",
    ),
    (
        r"size mismatch, got input \(\d+\), mat \((\d+)x(\d+)\), vec \((\d+)\)",
        "In the product of a matrix and a vector, the last axis of the matrix must be as long as the vector; here "
        "their lengths are {1} and {2}. Should the matrix be transposed, or is it the wrong tensor?",
    ),
    (
        r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)",
        "Two tensors are combined element by element, but along axis {2} one has length {0} and the other {1}. Shapes "
        "are compared from the right, and only an axis of length 1 is stretched: is an axis missing or misplaced?",
    ),
    (
        r"The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
        "A tensor of length {1} is used where length {0} is needed.",
    ),
    (
        r"stack expects each tensor to be equal size, but got (\[.*?\]) at entry (\d+) and (\[.*?\]) at entry (\d+)",
        "Only tensors of the same shape can be stacked, but entry {1} of the list has shape {0}, and entry {3} has "
        "shape {2}.",
    ),
    (
        r"expected input(\[.*?\]) to have (\d+) channels, but got (\d+) channels instead",
        "A convolution takes (batch, channels, time), and this one has {1} channels. An input of shape {0} has {2}: "
        "are time and channels swapped?",
    ),
    (
        r"shape '(\[.*?\])' is invalid for input of size (\d+)",
        "A tensor with {1} numbers cannot have the shape {0}: the lengths of its axes do not multiply to {1}.",
    ),
    (
        r"view size is not compatible",
        "After a transpose the numbers have another order in memory, so `view` does not work: `reshape` does.",
    ),
    (
        r"(?:expected|Expected).*(?:scalar type|dtype).*|.*must have the same dtype.*|.*expected m1 and m2.*",
        "Tensors of different dtypes are combined. Tensors that you create should have the dtype of the input.",
    ),
    (
        r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)",
        "There is no axis {2} here. Inputs may have more or fewer axes than you expect; axes counted from the end "
        "(-1, -2) work for all of them.",
    ),
    (
        r"cannot assign module before Module\.__init__\(\) call|cannot assign parameters before",
        "The first line of __init__ has to be super().__init__(): it prepares the module for its layers.",
    ),
    (
        r"Can't call numpy\(\) on Tensor that requires grad",
        "Numpy does not know gradients. Use torch's own functions.",
    ),
    (
        r"element 0 of tensors does not require grad",
        "There is no gradient to compute: the loss is cut off from the parameters (detach, item, no_grad, …).",
    ),
    (
        r"argument 'input' \(position 1\) must be Tensor, not (int|float)",
        "A torch function got a plain {0}: for numbers, use the functions in `math`.",
    ),
    (
        r"argument 'input' \(position 1\) must be Tensor, not tuple",
        "A layer got a tuple instead of a tensor: does the function that you call return two results?",
    ),
    (
        r"index (-?\d+) is out of bounds for (?:dimension|axis) (\d+) with size (\d+)",
        "Axis {1} has length {2}, so index {0} does not exist.",
    ),
    (r"'NoneType' object", "Something is None: does every path through a function that you call end in a `return`?"),
    (r"got an unexpected keyword argument '(\w+)'", "There is no argument called `{0}`: check its spelling."),
)


def in_plain_words(message: str) -> str:
    """What an error's text means; empty if it is not a common one."""
    for pattern, sentence in EXPLANATIONS:
        found = re.search(pattern, message)
        if found:
            return sentence.format(*found.groups())
    return ""
