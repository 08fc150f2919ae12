"""Long sequences: the references against the usual forms, and wrong answers that must be recognised."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import check
from course_lib.checking.bench import Bench, NotPossible
from course_lib.checking.settings import BackwardPass, MethodCalls
from course_lib.dot_product_attention import scaled_dot_product_attention
from course_lib.long_sequences import (
    BlockTable,
    attention_memory,
    checkpointed,
    linear_attention,
    online_softmax,
    segment_memory,
    strided_mask,
    tiled_attention,
)


@pytest.fixture(autouse=True)
def own_progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- the references -------------------------------------------------------------------------------------


def test_memory_of_a_worked_example():
    """A thousand tokens, a batch of 16, four copies in single precision: a quarter of a gigabyte for each head."""
    assert attention_memory(16, 1, 1000, 4, 4) == 256_000_000
    assert attention_memory(16, 8, 1000, 4, 2) == 4 * 256_000_000


def test_online_softmax_is_the_softmax():
    scores = 5 * numbers(2, 3, 17)
    scores[0, 0, :5] = -torch.inf
    for size in (1, 5, 17, 20):
        maximum, total = online_softmax(scores.split(size, dim=-1))
        assert torch.allclose(torch.exp(scores - maximum[..., None]) / total[..., None], scores.softmax(dim=-1))


def test_online_softmax_by_hand():
    """log 2 and log 6 stand for 2 and 6: relative to the second, they are 1/3 and 1."""
    maximum, total = online_softmax([torch.tensor([math.log(2.0)]), torch.tensor([math.log(6.0)])])
    assert maximum.item() == pytest.approx(math.log(6)) and total.item() == pytest.approx(4 / 3)


@pytest.mark.parametrize("tile", [1, 4, 11, 30])
def test_tiled_attention_is_attention(tile):
    q, k, v = (numbers(2, 3, 11, size, seed=size) for size in (5, 5, 7))
    whole, _ = scaled_dot_product_attention(q, k, v)
    assert torch.allclose(tiled_attention(q, k, v, tile, causal=False), whole)
    fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(tiled_attention(q, k, v, tile, causal=True), fused)


def test_gradients_flow_through_tiles():
    q, k, v = (numbers(6, 4, seed=seed).requires_grad_() for seed in range(3))
    inputs = (q, k, v)
    whole = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True).pow(2).sum(), inputs)
    tiles = torch.autograd.grad(tiled_attention(q, k, v, 4, causal=True).pow(2).sum(), inputs)
    assert all(torch.allclose(a, b) for a, b in zip(whole, tiles))


def test_linear_attention_both_ways():
    q, k, v = numbers(2, 9, 4), numbers(2, 9, 4, seed=1), numbers(2, 9, 3, seed=2)
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    assert torch.allclose(linear_attention(q, k, v, False), weights @ v / weights.sum(-1, keepdim=True))
    past = weights.tril()
    assert torch.allclose(linear_attention(q, k, v, True), past @ v / past.sum(-1, keepdim=True))
    assert torch.allclose(linear_attention(q, k, v, True)[:, -1], linear_attention(q, k, v, False)[:, -1])


def test_strided_mask_by_hand():
    assert strided_mask(6, 2).int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [1, 0, 1, 1, 1, 0],
        [0, 1, 0, 1, 1, 1],
    ]


def test_two_steps_of_the_strided_mask_reach_everything():
    mask = strided_mask(49, 7).double()
    assert ((mask @ mask) > 0).equal(torch.ones(49, 49).tril().bool())
    assert mask.sum(dim=-1).max() <= 2 * 7


def test_segments_are_one_long_causal_attention():
    """If everything is kept, attention segment by segment is attention over the whole text."""
    x = numbers(2, 12, 5)
    w_q, w_k, w_v = (numbers(5, size, seed=seed) for seed, size in enumerate((4, 4, 3)))
    memory, outputs = x[:, :0], []
    for segment in x.split(5, dim=1):
        output, memory = segment_memory(segment, memory, w_q, w_k, w_v, keep=100)
        outputs.append(output)
    whole = F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, is_causal=True)
    assert torch.allclose(torch.cat(outputs, dim=1), whole)
    assert torch.equal(memory, x)


def test_blocks_go_from_one_sequence_to_another():
    table = BlockTable(num_blocks=3, block_size=2)
    assert [table.append(name) for name in "aabab"] == [(0, 0), (0, 1), (1, 0), (2, 0), (1, 1)]
    with pytest.raises(MemoryError):
        table.append("c")
    table.free("a")
    assert table.append("b") == (0, 0) and table.append("c") == (2, 0)
    assert [table.lookup("b", i) for i in range(3)] == [(1, 0), (1, 1), (0, 0)]


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3).double()
        self.calls: list[bool] = []

    def forward(self, x):
        self.calls.append(torch.is_grad_enabled())
        return self.linear(x).sin()


def test_a_checkpoint_computes_twice_and_gives_the_same_gradients():
    torch.manual_seed(0)
    function, x = Counted(), numbers(5, 4).requires_grad_()
    parameters = [x, *function.parameters()]
    ordinary = torch.autograd.grad(function(x).pow(2).sum(), parameters)
    function.calls.clear()
    checkpointed(function, x).pow(2).sum().backward()
    assert function.calls == [False, True]
    assert all(torch.allclose(p.grad, want) for p, want in zip(parameters, ordinary))


def test_checkpoints_in_a_row():
    torch.manual_seed(0)
    first, second = nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Linear(6, 2)
    x = torch.randn(3, 4, requires_grad=True)
    parameters = [x, *first.parameters(), *second.parameters()]
    ordinary = torch.autograd.grad(second(first(x)).sum(), parameters)
    checkpointed(second, checkpointed(first, x)).sum().backward()
    assert all(torch.allclose(p.grad, want) for p, want in zip(parameters, ordinary))


# --- the settings ---------------------------------------------------------------------------------------


def test_methods_are_called_one_after_the_other():
    calls = [("append", ("a",)), ("append", ("b",)), ("lookup", ("a", 0))]
    answers, _ = Bench(BlockTable).ask("effect", MethodCalls((1, 4), calls, "MemoryError"), ()).value
    assert answers == [(0, 0), "MemoryError", (0, 0)]


def test_a_class_without_a_method_is_told_so():
    with pytest.raises(NotPossible, match="no method `lookup`"):
        Bench(dict).ask("effect", MethodCalls((), [("lookup", ("a", 0))]), ())


def test_a_function_that_changes_between_the_passes():
    """Computed once, it has the gradient of the forward pass; computed again, that of the changed function."""
    setting = BackwardPass(numbers(2, 3), numbers(3, 4), numbers(4), volume=3.0)
    (value, once), _ = Bench(lambda function, x: function(x)).ask("effect", setting, ()).value
    (same_value, again), _ = Bench(checkpointed).ask("effect", setting, ()).value
    assert torch.equal(value, same_value)
    assert all(torch.allclose(3 * once[name], again[name]) for name in ("x", "weight", "bias"))


# --- known mistakes, written as somebody else would write them ------------------------------------------


def memory_of_one_sequence(batch, num_heads, length, copies, bytes_per_number):
    return num_heads * length**2 * copies * bytes_per_number


def online_with_updated_maximum(chunks):
    m = torch.full(chunks[0].shape[:-1], -1e30)
    s = torch.zeros(chunks[0].shape[:-1])
    for c in chunks:
        m = torch.maximum(m, c.max(-1).values)
        s = s * torch.exp(m - m) + torch.exp(c - m.unsqueeze(-1)).sum(-1)
    return m, s


def online_from_minus_infinity(chunks):
    m, s = torch.tensor(-math.inf), torch.tensor(0.0)
    for c in chunks:
        new = torch.maximum(m, c.max(dim=-1)[0])
        s = s * torch.exp(m - new) + torch.exp(c - new[..., None]).sum(dim=-1)
        m = new
    return m, s


def tiles_with_fixed_output(q, k, v, tile, causal):
    d = q.shape[-1]
    m, total, out = -1e300, 0.0, 0.0
    for i in range(0, k.shape[-2], tile):
        s = q @ k[..., i : i + tile, :].mT / d**0.5
        if causal:
            later = torch.arange(i, i + s.shape[-1]) > torch.arange(q.shape[-2])[:, None]
            s = s.masked_fill(later, float("-inf"))
        new = torch.clamp(s.amax(-1, keepdim=True), min=-1e300)
        new = torch.maximum(new, torch.as_tensor(m))
        p = torch.exp(s - new)
        total = total * torch.exp(m - new) + p.sum(-1, keepdim=True)
        out = out + p @ v[..., i : i + tile, :]
        m = new
    return out / total


def tiles_that_never_hide(q, k, v, tile, causal):
    return F.scaled_dot_product_attention(q, k, v)


def stripes_of_the_columns(length, stride):
    i, j = torch.arange(length)[:, None], torch.arange(length)
    return (j <= i) & ((i - j < stride) | (j % stride == 0))


def linear_with_plain_elu_sum(q, k, v, causal):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    w = q @ k.mT
    return (w.tril() if causal else w) @ v


def linear_with_a_softmax(q, k, v, causal):
    products = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    if causal:
        products = products + torch.full(products.shape[-2:], -torch.inf).triu(1)
    return products.softmax(-1) @ v


def segment_with_history(segment, memory, w_q, w_k, w_v, keep):
    x = torch.cat([memory, segment], 1)
    mask = torch.ones(segment.shape[1], x.shape[1]).tril(memory.shape[1]).bool()
    return F.scaled_dot_product_attention(segment @ w_q, x @ w_k, x @ w_v, attn_mask=mask), x[:, -keep:].detach()


def segment_with_a_plain_triangle(segment, memory, w_q, w_k, w_v, keep):
    x = torch.cat([memory.detach(), segment], 1)
    output = F.scaled_dot_product_attention(segment @ w_q, x @ w_k, x @ w_v, is_causal=True)
    return output, x[:, -keep:].detach()


class TableWithAQueue:
    def __init__(self, num_blocks, block_size):
        self.queue, self.size, self.rows, self.used = list(range(num_blocks)), block_size, {}, {}

    def append(self, name):
        n = self.used.get(name, 0)
        if n % self.size == 0:
            if not self.queue:
                raise MemoryError
            self.rows.setdefault(name, []).append(self.queue.pop(0))
        self.used[name] = n + 1
        return self.rows[name][-1], n % self.size

    def lookup(self, name, position):
        return self.rows[name][position // self.size], position % self.size

    def free(self, name):
        self.queue += self.rows.pop(name)
        self.used.pop(name)


class TableWithAQueueThatForgets(TableWithAQueue):
    def free(self, name):
        self.rows.pop(name)
        self.used.pop(name)


def checkpoint_of_nothing(function, x):
    y = function(x)
    return y


def checkpoint_by_gradients_alone(function, x):
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return function(x)

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                x = ctx.x.detach().requires_grad_(True)
                return torch.autograd.grad(function(x), x, g)[0]

    return Checkpoint.apply(x)


KNOWN = [
    ("attention_memory", memory_of_one_sequence, "forgets_the_batch"),
    ("online_softmax", online_with_updated_maximum, "does_not_rescale"),
    ("online_softmax", online_from_minus_infinity, "starts_with_minus_infinity"),
    ("tiled_attention", tiles_with_fixed_output, "output_not_rescaled"),
    ("tiled_attention", tiles_that_never_hide, "ignores_causal"),
    ("strided_mask", stripes_of_the_columns, "columns_at_multiples"),
    ("linear_attention", linear_with_plain_elu_sum, "never_normalises"),
    ("linear_attention", linear_with_a_softmax, "softmax_of_the_products"),
    ("segment_memory", segment_with_history, "gradient_into_the_memory"),
    ("segment_memory", segment_with_a_plain_triangle, "mask_forgets_the_memory"),
    ("BlockTable", TableWithAQueue, "TakesTheBlockFreedFirst"),
    ("BlockTable", TableWithAQueueThatForgets, "GivesNothingBack"),
    ("checkpointed", checkpoint_of_nothing, "keeps_the_activations"),
    ("checkpointed", checkpoint_by_gradients_alone, "no_gradient_for_the_parameters"),
]


@pytest.mark.parametrize(("name", "answer", "mistake"), KNOWN, ids=[answer.__name__ for _, answer, _ in KNOWN])
def test_mistakes_are_named(name, answer, mistake):
    report = check(name, answer)
    assert report.outcome == "wrong" and report.points < report.max_points
    assert report.misconception == mistake


def test_all_scores_at_once_are_told_and_cost_no_point():
    def at_once(q, k, v, tile, causal):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        return scores.softmax(dim=-1) @ v

    report = check("tiled_attention", at_once)
    assert not report.passed and report.points == report.max_points
    assert "a tensor of 4800 numbers" in " ".join(str(report).split()) and report.diagnosis is None
