# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2 · Masks: who may look at whom

# %% setup
import matplotlib.pyplot as plt
import torch

from course_lib import check, hint, solution

# %% [markdown]
# ## The causal mask
#
# {{exercise causal_mask}}
#
# Write the mask.


# %% exercise causal_mask
def causal_mask(n: int) -> torch.Tensor:
    """May position i look at position j? Only if j is not in the future.

    Returns: (n, n) boolean, True where position i (row) may look at position j (column).
    """
    ### BEGIN SOLUTION
    return torch.tril(torch.ones(n, n, dtype=torch.bool))
    ### END SOLUTION


# %% check causal_mask
check(causal_mask)

# %% answer why_the_diagonal 2 [markdown]
# **In your own words** (2 points, marked by hand). Why may a position look at itself?
#
# ### BEGIN SOLUTION
# Because ...
# ### END SOLUTION
