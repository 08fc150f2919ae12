"""Models that write: their training, the measures and what is possible without a network."""

from __future__ import annotations

import math

import pytest
import torch
from fake_gpu import FakeGpu
from torch import Tensor, nn

from benchmarks import nano_gpt
from course_lib import writing
from course_lib.docstrings import ALPHABET, decode, encode, make_corpus
from course_lib.language_model import GPT, DecoderBlock, ngram_model
from course_lib.writing import (
    WEIGHTS,
    arithmetic_code,
    arithmetic_decode,
    backoff_log_probabilities,
    chunks_of,
    gzip_bits,
    load_writer,
    log_probabilities,
    longest_matches,
    new_writer,
    random_starts,
    sampler,
    save_writer,
    share_copied,
    text_bits,
    train_on_text,
    write,
    writer_rate,
    xz_bits,
)


@pytest.fixture(scope="module")
def corpus():
    return make_corpus(one_of=10)


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_few_steps_lower_the_loss(corpus):
    torch.manual_seed(0)
    model = GPT(96, 32, 2, 64, 1)
    ids, seen = encode(corpus.train), []
    starts = random_starts(len(ids), 32, 8, steps=40, seed=1)
    losses = train_on_text(model, ids, starts, writer_rate(40, 1e-2), length=32, report=lambda *it: seen.append(it))
    assert losses[0] == pytest.approx(math.log(96), abs=0.3)
    assert sum(losses[-5:]) / 5 < losses[0] - 1
    assert seen == list(enumerate(losses, start=1)) and not model.training


def test_windows_can_begin_at_every_place_that_has_a_target():
    (starts,) = random_starts(12, 10, 200, steps=1, seed=0)
    assert set(starts.tolist()) == {0, 1}
    again = list(random_starts(1000, 10, 4, steps=3, seed=5))
    assert torch.equal(torch.stack(again), torch.stack(list(random_starts(1000, 10, 4, steps=3, seed=5))))


def test_the_rate_rises_and_falls_to_zero():
    for steps in (1, 20, 1000):
        rate = writer_rate(steps, 2e-3)
        rates = [rate(step) for step in range(1, steps + 1)]
        assert max(rates) <= 2e-3 and (steps == 1 or rates[-1] < 1e-9)


# --- measures ---------------------------------------------------------------------------------------------------------


class Recorder(nn.Module):
    """Finds each token as likely as its table says, and remembers what it was shown."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.log())
        self.shown: list[Tensor] = []

    def forward(self, ids: Tensor) -> Tensor:
        self.shown.append(ids)
        return self.table[ids]


@pytest.mark.parametrize("number", [9, 10, 12, 13, 29, 600])
def test_every_token_but_the_first_is_counted_once(number):
    torch.manual_seed(number)
    ids = torch.randint(0, 5, (number,))
    table = ngram_model(ids, 2, 5, 1.0)
    result = log_probabilities(Recorder(table), ids, length=8)
    torch.testing.assert_close(result, table.log()[ids[:-1], ids[1:]])
    assert text_bits(Recorder(table), ids, length=8) == pytest.approx(-result.mean().item() / math.log(2))


def test_half_a_window_of_context():
    """A model that knows a token only if it has seen four before it is right everywhere after the first four."""
    seen_enough = torch.tensor([1e-9] * 4 + [1.0] * 4)  # (position,)

    class ByPosition(nn.Module):
        def __init__(self):
            super().__init__()
            self.nothing = nn.Parameter(torch.zeros(1))

        def forward(self, ids):
            right = seen_enough.log().expand(len(ids), -1)
            return torch.stack([right, (1 - seen_enough).log().expand(len(ids), -1)], dim=-1)

    result = log_probabilities(ByPosition(), torch.zeros(50, dtype=torch.long), length=8).exp()
    assert (result[:4] < 0.1).all() and (result[4:] > 0.9).all()


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="8 tokens is too short"):
        log_probabilities(Recorder(torch.ones(3, 3)), torch.zeros(8, dtype=torch.long), length=8)


def test_longest_matches():
    assert longest_matches("xabcab", "zabcz ab") == [0, 3, 2, 1, 2, 1]
    assert share_copied("xabcab", "zabcz ab", at_least=3) == 0.5
    assert share_copied("xabcab", "zabcz ab", at_least=2) == pytest.approx(5 / 6)
    assert longest_matches("aaa", "aa") == [2, 2, 1]


# --- without a network ------------------------------------------------------------------------------------------------


def test_backing_off_by_hand():
    """Text abaabb…: after a come a and b, after b comes a only (or nothing)."""
    train, ids = torch.tensor([0, 1, 0, 0, 1]), torch.tensor([1, 1, 0])
    unigram = [(3 + 2 * 1 / 3) / (5 + 2), (2 + 2 * 1 / 3) / (5 + 2)]  # 2 of 3 tokens occur, in 5 places
    after_b = [(1 + 1 * unigram[0]) / (1 + 1), (0 + 1 * unigram[1]) / (1 + 1)]
    assert backoff_log_probabilities(train, ids, 1, 3).exp().tolist() == pytest.approx(
        [unigram[1], unigram[1], unigram[0]]
    )
    assert backoff_log_probabilities(train, ids, 2, 3).exp().tolist() == pytest.approx([after_b[1], after_b[0]])
    never = backoff_log_probabilities(train, torch.tensor([2, 2, 0]), 3, 3).exp()  # a context that was never seen
    assert never.tolist() == pytest.approx([unigram[0]])


def test_probabilities_of_all_tokens_sum_to_one(corpus):
    train, context = encode(corpus.train[:5000]), encode("the ")
    each = [backoff_log_probabilities(train, torch.cat([context, torch.tensor([z])]), 5, 96)[-1] for z in range(96)]
    assert torch.stack(each).exp().sum() == pytest.approx(1)


def test_longer_contexts_need_fewer_bits(corpus):
    train, held_out = encode(corpus.train), encode(corpus.held_out)
    bits = [-backoff_log_probabilities(train, held_out, n, 96).mean().item() / math.log(2) for n in (1, 2, 3)]
    assert 4.3 < bits[0] < 5.2 and bits[0] > bits[1] + 0.5 > bits[2] + 1


def test_compression():
    text = "Return the length of the sequence. " * 30
    assert gzip_bits(text) < 1 and xz_bits(text) < 1
    new = "Raise an error if the argument is not a list."
    assert xz_bits(new, primed_with=text + new) < 0.5 * xz_bits(new)


def test_a_text_becomes_bits_and_the_bits_the_text(corpus):
    ids = encode("Return the value of the second argument.")
    table = ngram_model(encode(corpus.train), 2, 96, 0.1)
    bits = arithmetic_code(ids, 1, lambda so_far: table[so_far[-1]])
    surprise = -table.log2()[ids[:-1], ids[1:]].sum().item()
    assert surprise <= len(bits) + 0.1 and len(bits) < surprise + 2.1
    assert set(bits) == {"0", "1"}
    assert torch.equal(arithmetic_decode(bits, ids[:1], len(ids), lambda so_far: table[so_far[-1]]), ids)


def test_what_is_certain_costs_no_bits():
    certain = torch.eye(3)
    assert len(arithmetic_code(torch.tensor([0, 0, 0, 0]), 1, lambda _: certain[0])) <= 1


def test_chunks():
    text = "x = f(10,  'ab')\n\n  return the_length"
    assert "|".join(chunks_of(text)) == "x| =| f|(|10|,|  |'|ab|')|\n\n  |return| the|_|length"
    everything = make_corpus(one_of=20).train
    assert "".join(chunks_of(everything)) == everything


# --- writing ----------------------------------------------------------------------------------------------------------


def test_it_writes_with_a_sliding_window():
    table = torch.full((4, 4), 1e-6)
    table[[0, 1, 2, 3], [1, 2, 3, 0]] = 1.0  # counts to three and begins again
    model = Recorder(table)
    written = write(model, torch.tensor([[0], [2]]), 6, lambda logits: logits.argmax(dim=-1), length=3)
    assert written.tolist() == [[0, 1, 2, 3, 0, 1, 2], [2, 3, 0, 1, 2, 3, 0]]
    assert [shown.shape[1] for shown in model.shown] == [1, 2, 3, 3, 3, 3]


def test_samples_are_the_same_for_a_seed():
    torch.manual_seed(0)
    model, prompt = GPT(96, 16, 2, 16, 1).eval(), encode("Return")[None]
    first, second, other = (write(model, prompt, 20, sampler(1.0, 96, seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second) and not torch.equal(first, other)


# --- the model that comes with the course -----------------------------------------------------------------------------


def test_the_shipped_model_is_small_and_good(corpus):
    model = load_writer()
    assert WEIGHTS.stat().st_size < 2e6
    assert not model.training
    assert text_bits(model, encode(corpus.held_out[:6000])) < 2.4
    written = decode(write(model, encode("Return True if the ")[None], 60, sampler(0.5, 10, seed=1))[0])
    assert set(written) <= set(ALPHABET) and len(set(written.split()) & set(corpus.train.split())) >= 5


class OtherNames(nn.Module):
    """A right answer to the exercise with other names and a tied output layer."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.last = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, vocab_size, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.last(x))


class NormFirst(OtherNames):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        layers = self.layers
        del self.layers
        self.layers = layers  # now after the norm


def test_a_students_class_gets_the_weights(capsys):
    ids = encode("Return the list.")[None]
    expected = load_writer()(ids)
    torch.testing.assert_close(load_writer(OtherNames)(ids), expected)
    assert capsys.readouterr().out == ""


def test_a_class_that_the_weights_do_not_fit_costs_nothing(capsys):
    model = load_writer(NormFirst)
    assert isinstance(model, GPT) and "in a different order" in capsys.readouterr().out


def test_a_new_model_can_be_kept(tmp_path):
    torch.manual_seed(0)
    fresh = new_writer()
    assert sum(each.numel() for each in fresh.parameters()) == 607_360
    save_writer(fresh, tmp_path / "fresh.pt")
    state = torch.load(tmp_path / "fresh.pt", weights_only=True)
    assert all(torch.equal(state[name].float(), value.half().float()) for name, value in fresh.state_dict().items())


def test_it_works_on_a_gpu():
    fresh = GPT(96, 16, 2, 16, 1)
    with FakeGpu([*fresh.parameters(), *fresh.buffers()]):
        ids = torch.arange(40)
        train_on_text(fresh, ids, random_starts(40, 8, 2, steps=1, seed=0), lambda _: 0.0, length=8)
        assert log_probabilities(fresh, ids, length=8).shape == (39,)
        assert write(fresh, ids[None, :3], 2, sampler(1.0, 5, 0)).shape == (1, 5)


def test_the_yardstick_is_causal_and_has_its_schedule():
    torch.manual_seed(0)
    model = nano_gpt.NanoGPT()
    ids = torch.arange(20)[None]
    changed = ids.clone()
    changed[0, 12] = 50
    moved = (model(ids) - model(changed)).abs().amax(dim=-1)[0] > 0
    assert moved.tolist() == [False] * 12 + [True] * 8
    rates = [nano_gpt.learning_rate(iteration, 2000) for iteration in range(2001)]
    assert max(rates) == rates[100] == 1e-3 and rates[2000] == pytest.approx(1e-4)


def test_resolution_is_enough():
    assert sum(writing.whole_parts(torch.full((96,), 1 / 96))) > 0.99 * writing.RESOLUTION
