"""Where the course computes: the device, the threads, and that what belongs together is in one place."""

from __future__ import annotations

import pytest
import torch
from fake_gpu import GPU, FakeGpu

from autograder.authoring import build
from course_lib import decoding, grammar, settings, training, transformer, translation
from course_lib.checking.settings import Descent
from course_lib.settings import course_device, device_of


@pytest.fixture(autouse=True)
def threads_as_before(monkeypatch):
    before = torch.get_num_threads()
    settings.say_once.cache_clear()
    for name in (settings.THREADS, "NBGRADER_EXECUTION"):
        monkeypatch.delenv(name, raising=False)
    yield
    torch.set_num_threads(before)


def test_one_thread_unless_somebody_wants_more(monkeypatch, capsys):
    torch.set_num_threads(2)
    course_device()
    assert torch.get_num_threads() == 1
    monkeypatch.setenv(settings.THREADS, "2")
    course_device()
    assert torch.get_num_threads() == 2
    assert "2 threads" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "0", "-1", "two", "1.5"])
def test_a_number_that_is_none_is_named(monkeypatch, text):
    monkeypatch.setenv(settings.THREADS, text)
    with pytest.raises(ValueError, match=r"COURSE_THREADS should be a number"):
        course_device()


def test_it_is_said_once(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert course_device() == course_device() == torch.device("cpu")
    assert capsys.readouterr().out.count("CPU with 1 thread ") == 1


def test_a_gpu_is_used_but_never_while_graded(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a fast one")
    assert course_device().type == "cuda"
    assert "GPU (a fast one)" in capsys.readouterr().out
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert course_device().type == "cpu"


# --- on another device than the CPU ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    return grammar.make_data(train=6, test=1).train


@pytest.fixture
def translator():
    return translation.new_translator().eval()


def on_a_gpu(model):
    return FakeGpu([*model.parameters(), *model.buffers()])


def test_the_fake_gpu_refuses_what_a_gpu_refuses(translator):
    with on_a_gpu(translator):
        assert device_of(translator) == GPU and torch.ones(2).device == torch.device("cpu")
        with pytest.raises(RuntimeError, match="two devices"):
            translator.output.weight + torch.ones(128)
        assert (translator.output.weight[0] + torch.ones(128).to(GPU)).device == GPU
        assert torch.ones(2).to(translator.output.weight).device == GPU
        assert device_of(torch.nn.Linear(2, 2).to(translator.output.weight)) == GPU
        with pytest.raises(TypeError, match=r"use \.cpu\(\)"):
            translator.output.weight.detach().numpy()


def test_training_moves_its_batches(translator, monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", lambda *_, **__: Descent(translator, 0.0))  # which imports no compiler
    batches = translation.random_batches(torch.randint(3, 9, (8, 5)), torch.randint(3, 9, (8, 6)), 4, 2, seed=0)
    with on_a_gpu(translator):
        assert len(training.fit(translator, batches, lambda step: 1e-3, translation.BOS, translation.PAD)) == 2


def test_translating_and_measuring_work_on_a_gpu(translator, pairs):
    with on_a_gpu(translator), torch.no_grad():
        source = translation.encode_pairs(pairs)[0].to(GPU)
        with_cache = decoding.generate(translator, source, translation.BOS, translation.EOS, max_len=5)
        without = decoding.generate(translator, source, translation.BOS, translation.EOS, max_len=5, use_cache=False)
        assert torch.equal(with_cache, without)
        decoding.beam_search(decoding.uncached(translator, source[:1]), 3, translation.BOS, translation.EOS, 4, 1.0)
        assert len(translation.translate(translator, [" ".join(pair.english) for pair in pairs])) == len(pairs)
        translation.translation_quality(translator, pairs)
        assert len(translation.alignment_accuracy(translator, pairs)) == 2


@pytest.mark.parametrize("name", ["reference", "published solution"])
def test_the_transformer_works_on_a_gpu(name):
    made = transformer.Transformer if name == "reference" else published("07_transformer", "Transformer")
    model = made(11, 13, 8, 2, 16, 1)
    ids = torch.randint(1, 11, (2, 5))
    with on_a_gpu(model):
        assert model(ids.to(GPU), ids.to(GPU)).device == GPU


def published(stem: str, name: str):
    """An answer of the solution notebook."""
    cells = {cell.id: cell.source for cell in build.solution_notebook(stem).cells}
    namespace: dict[str, object] = {}
    exec(cells[f"setup_{stem}"] + "\n\n" + cells[name], namespace)
    return namespace[name]
