"""Interactive figures in a browser: what is on the screen is what torch computes, and nothing leaves the machine."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter

import pytest
import torch
from lab import browser_page, find_chromium

from autograder.reporting.feedback import cleaned
from course_lib.decoding import beam_search, sample, top_k_filter, top_p_filter, uncached
from course_lib.dot_product_attention import scaled_dot_product_attention
from course_lib.encoder_decoder import DecoderLayer, EncoderLayer
from course_lib.interactive import (
    AttentionMap,
    Beam,
    Hypothesis,
    attention_explorer,
    beam_tree,
    next_token_filters,
    paint_a_mask,
    position_waves,
    query_among_keys,
    recorded_beam,
    scale_and_softmax,
    translation_attention,
    translation_beam,
)
from course_lib.masks import causal_mask, masked_softmax, padding_mask, window_mask
from course_lib.positions import sinusoidal_encoding
from course_lib.training import shift_right
from course_lib.transformer import cross_attention_weights
from course_lib.translation import BOS, EOS, english_vocabulary, french_vocabulary, load_translator, new_translator

CHROMIUM = find_chromium()
in_a_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
pytestmark = pytest.mark.xdist_group("interactive")  # one process, one browser

SENTENCE = "the cat is on the mat"
SCORES = torch.tensor([0.3, 1.6, 0.5, -0.8, 0.1, 1.0], dtype=torch.float64)
LOGITS = torch.tensor([2.0, 1.0, -math.inf, 0.5, 3.0, 0.0, -1.0, 0.9], dtype=torch.float64)
WORDS = ["le", "la", "un", "une", "chat", "chien", "dort", "noir"]


@pytest.fixture(scope="module")
def translator():
    return load_translator()


@pytest.fixture(scope="module")
def source():
    return english_vocabulary().encode(SENTENCE.split())[None]


@pytest.fixture(scope="module")
def maps(translator):
    return translation_attention(translator, SENTENCE)


@pytest.fixture(scope="module")
def beam(translator):
    return translation_beam(translator, SENTENCE)


@pytest.fixture(scope="module")
def figures(maps, beam):
    return [
        scale_and_softmax(),
        query_among_keys(),
        paint_a_mask(),
        position_waves(),
        attention_explorer(maps),
        next_token_filters(WORDS, LOGITS),
        beam_tree(beam),
    ]


@pytest.fixture(scope="module")
def browser():
    with browser_page(CHROMIUM) as (page, elsewhere):
        yield page
        assert elsewhere == [], "requests left the machine"


@pytest.fixture
def page(browser):
    problems: list[str] = []
    browser.on("pageerror", note := lambda error: problems.append(str(error)))
    yield browser
    browser.remove_listener("pageerror", note)
    assert problems == []


def show(page, *figures):
    """A page of these figures that follows the system's theme, and nothing else."""
    body = "".join(figure.html for figure in figures)
    page.set_content(
        f"<!doctype html><html><style>:root {{ color-scheme: light dark }}</style><body>{body}</body></html>"
    )
    return page.locator(".cf-panel")


def numbers(locator) -> list[float]:
    """All numbers in the texts of these elements, in their order."""
    texts = " ".join(locator.all_text_contents()).replace("\u2212", "-")
    return [float(text) for text in re.findall(r"-?\d*\.?\d+", texts)]


def assert_shown(locator, expected, digits: int = 3) -> None:
    """The numbers on the screen are the expected ones, rounded."""
    flat = torch.as_tensor(expected, dtype=torch.float64).flatten().tolist()
    assert numbers(locator) == pytest.approx(flat, abs=0.51 * 10**-digits)


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def entropy(p):
    return -torch.special.xlogy(p, p).sum()


# --- all of them --------------------------------------------------------------------------------------------------


def test_outputs_are_the_same_each_time(figures):
    assert [figures[0].html, figures[2].html] == [scale_and_softmax().html, paint_a_mask().html]


def test_outputs_are_small_and_self_contained(figures):
    for figure in figures:
        bundle, about = figure._repr_mimebundle_()
        assert about == {"image/png": {"alt": figure.alt}}
        assert sum(map(len, bundle.values())) < 150_000
        assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
        addresses = set(re.findall(r"https?://[^\s\"'`]+", bundle["text/html"]))
        assert addresses == {"http://www.w3.org/2000/svg"}  # SVG's namespace, which is never fetched
        assert not re.search(r"\bid=|eval\(|innerHTML|\bvar \w", bundle["text/html"])


def test_feedback_pages_show_the_still_picture_alone(figures):
    page = cleaned(figures[0].html)
    assert "<img" in page and "data:image/png;base64," in page
    assert "function" not in page and "--cf-blue" not in page


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: scale_and_softmax([]), "at least one"),
        (lambda: scale_and_softmax([1.0, 2.0], ["one"]), "2 scores and 1 names"),
        (lambda: scale_and_softmax([1.0, math.nan], ["a", "b"]), "one of them is nan"),
        (lambda: query_among_keys([[1.0, 2.0, 3.0]]), "points of the plane"),
        (lambda: query_among_keys([[1.0, 2.0]], values=[[1.0, 2.0], [3.0, 4.0]]), "1 keys and 2 values"),
        (lambda: paint_a_mask(99), "room for 1 to 12"),
        (lambda: paint_a_mask(3, scores=torch.zeros(2, 3)), "(3, 3)"),
        (lambda: position_waves(d_model=7), "even number"),
        (lambda: position_waves(position=64), "positions 0 to 63"),
        (lambda: attention_explorer([]), "at least one"),
        (
            lambda: attention_explorer([AttentionMap("x", "ab", "ab", torch.zeros(1, 1, 2, 3))]),
            "(layer, head, 2, 2)",
        ),
        (lambda: attention_explorer([AttentionMap("x", "a" * 80, "b" * 80, torch.zeros(2, 2, 80, 80))]), "shorter"),
        (lambda: next_token_filters(["a"], torch.zeros(1, 1)), "(vocab,)"),
        (lambda: next_token_filters(["a"], torch.tensor([-math.inf])), "at least one a number"),
        (lambda: beam_tree(Beam([], 0.6)), "at least one step"),
        (lambda: beam_tree(Beam([[Hypothesis(("le", "chat"), -1.0, "kept")]], 0.6)), "does not continue"),
    ],
)
def test_wrong_arguments_are_met_with_a_sentence(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


class TestInABrowser:
    pytestmark = in_a_browser

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_every_figure_runs_and_can_be_read_in_both_themes(self, page, figures, scheme):
        page.emulate_media(color_scheme=scheme)
        panels = show(page, *figures)
        assert panels.count() == len(figures)
        assert page.locator(".course-still:visible").count() == 0
        brightness = """() => [...document.querySelectorAll(
            '.cf-panel svg text, .cf-panel button, .cf-panel select, .cf-panel p, .cf-panel label')].map((node) => {
              const style = getComputedStyle(node);
              const colour = node.ownerSVGElement ? style.fill : style.color;
              const [r, g, b] = colour.startsWith('color(srgb')
                ? colour.match(/[\\d.]+/g).slice(0, 3).map((x) => 255 * x) : colour.match(/[\\d.]+/g).map(Number);
              return [node.textContent, 0.2126 * r + 0.7152 * g + 0.0722 * b];
            })"""
        for words, value in page.evaluate(brightness):
            on_a_filled_square = value > 250
            assert value > 200 if scheme == "dark" else value < 60 or on_a_filled_square, words
        page.emulate_media(color_scheme="light")

    def test_still_pictures_show_where_scripts_do_not_run(self, page, figures):
        without = page.context.browser.new_page(java_script_enabled=False)
        show(without, *figures)
        for figure, still in zip(figures, without.locator(".course-still img").all(), strict=True):
            assert still.is_visible() and still.bounding_box()["width"] > 200
            assert still.get_attribute("alt") == figure.alt
        assert without.locator("input, button, svg").count() == 0
        without.close()

    def test_figures_do_not_disturb_each_other(self, page):
        one = scale_and_softmax()
        panels = show(page, one, one, scale_and_softmax([1.0, 2.0], ["a", "b"]))
        panels.nth(1).locator("input").focus()
        press(page, "End")
        assert [panels.nth(i).locator("label output").text_content() for i in range(3)] == ["× 1.0", "× 8.0", "× 1.0"]
        assert page.evaluate("['start', 'build', 'bars', 'softmax'].filter((name) => name in window)") == []
        assert page.locator("[id]").count() == 0

    @pytest.mark.parametrize("says_which", [True, False])
    def test_an_output_that_is_put_into_a_page_later_runs_too(self, page, says_which):
        """As JupyterLab does it: HTML first, then a copy of each script. Some pages run scripts that do not know where
        they are."""
        page.set_content("<body></body>")
        page.evaluate(
            """([html, saysWhich]) => {
                 for (const time of [1, 2]) {
                   const output = document.createElement('div');
                   output.innerHTML = html;
                   document.body.append(output);
                   const old = output.querySelector('script');
                   const script = document.createElement('script');
                   script.textContent = old.textContent;
                   if (saysWhich) old.replaceWith(script);
                   else document.head.append(script);
                 }
               }""",
            [scale_and_softmax().html, says_which],
        )
        assert page.locator(".course-figure").count() == page.locator(".cf-panel").count() == 2

    def test_a_page_that_was_saved_while_it_ran_opens_again(self, page):
        show(page, scale_and_softmax())
        page.set_content(page.content())
        assert page.locator(".cf-panel").count() == 1
        page.locator("input").focus()
        press(page, "End")
        assert page.locator("label output").text_content() == "× 8.0"

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("word", ["</script><img src=x onerror=alert(1)><b>&amp;", "$x^$", "猫"])
    def test_words_are_words_whatever_they_say(self, page, word):
        weights = torch.ones(1, 1, 1, 1)
        show(
            page,
            scale_and_softmax([1.0], [word]),
            query_among_keys([[1.0, 0.0]], names=[word]),
            paint_a_mask(1, words=[word]),
            attention_explorer([AttentionMap(word, [word], [word], weights)]),
            next_token_filters([word], torch.zeros(1)),
            beam_tree(Beam([[Hypothesis((word,), -1.0, "finished", -1.0)]], 0.6)),
        )
        assert page.locator(".cf-panel").count() == 6
        assert page.locator("img:not(.course-still img)").count() == 0
        assert page.locator(".cf-most").text_content() == word

    # --- one by one -----------------------------------------------------------------------------------------------

    def test_scale_and_softmax(self, page):
        panel = show(page, scale_and_softmax())
        panel.locator("input").focus()
        press(page, *["ArrowRight"] * 12)
        weights = (2.2 * SCORES).softmax(dim=0)
        assert_shown(panel.locator(".cf-score"), 2.2 * SCORES, digits=2)
        assert_shown(panel.locator(".cf-weight"), weights)
        assert_shown(panel.locator(".cf-entropy"), [entropy(weights), entropy(weights) / math.log(2)])
        press(page, "Home")
        assert_shown(panel.locator(".cf-weight"), [1 / 6] * 6)

    def test_query_among_keys(self, page):
        keys = torch.tensor([[1.5, 0.5], [-1.0, 1.0], [0.5, -1.5]])
        values = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
        panel = show(page, query_among_keys(keys.tolist(), values.tolist(), query=(0.5, 0.5)))

        def assert_query(x: float, y: float) -> None:
            output, weights = scaled_dot_product_attention(torch.tensor([[x, y]]), keys, values)
            assert_shown(panel.locator(".cf-query"), [x, y], digits=2)
            assert_shown(panel.locator(".cf-weight"), weights)
            assert_shown(panel.locator(".cf-output"), output, digits=2)

        assert_query(0.5, 0.5)
        panel.locator("[role=slider]").focus()
        press(page, "ArrowLeft", "ArrowLeft", "Shift+ArrowUp")
        assert_query(0.3, 1.0)
        plane = panel.locator("svg").first.bounding_box()
        x, y = plane["x"] + plane["width"] / 2, plane["y"] + plane["height"] / 2
        page.mouse.move(x + 50, y + 50)
        page.mouse.down()
        page.mouse.move(x + 80, y, steps=3)
        page.mouse.up()
        page.mouse.move(x, y - 80)
        moved = numbers(panel.locator(".cf-query"))
        assert moved == pytest.approx([80 / 170 * 2.5, 0.0], abs=0.05)
        assert_query(*moved)

    def test_paint_a_mask(self, page):
        scores = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
        panel = show(page, paint_a_mask(5, scores=scores))
        cells = panel.locator("[role=checkbox]")

        def assert_mask(mask, layers: int = 1, residual: bool = False) -> None:
            assert [cell.get_attribute("aria-checked") == "true" for cell in cells.all()] == mask.flatten().tolist()
            step = (mask | torch.eye(5, dtype=torch.bool) if residual else mask).long()
            reached = torch.linalg.matrix_power(step, layers) > 0
            signs = [bool(sign) for sign in panel.locator(".cf-reach").all_text_contents()]
            assert signs == reached.flatten().tolist()
            assert f"(▲): {int(reached.triu(1).sum())}." in panel.locator(".cf-says").text_content()
            assert_shown(panel.locator(".cf-weight"), masked_softmax(scores, mask), digits=2)

        real = padding_mask(torch.tensor([3]), 5)
        presets = {
            "none": torch.ones(5, 5, dtype=torch.bool),
            "causal": causal_mask(5),
            "padding": real.expand(5, 5),
            "causal + padding": causal_mask(5) & real,
            "window": window_mask(5, 1),
        }
        for name, mask in presets.items():
            panel.get_by_role("button", name=name, exact=True).click()
            assert_mask(mask)
        panel.locator("select").select_option("3")
        assert_mask(presets["window"], layers=3)
        panel.locator("select").select_option("2")

        panel.locator("[role=checkbox][tabindex='0']").focus()
        press(page, "Space", "ArrowRight", "Enter")  # the first row can now look at nothing
        painted = presets["window"].clone()
        painted[0] = False
        assert_mask(painted, layers=2)
        assert "weights 0: x0 (0)" in panel.locator(".cf-says").text_content()
        panel.locator("input[type=checkbox]").check()
        assert_mask(painted, layers=2, residual=True)

        cells.nth(3).hover()
        page.mouse.down()
        cells.nth(4).hover()
        page.mouse.up()
        cells.nth(9).hover()
        painted[0, 3:] = True
        assert_mask(painted, layers=2, residual=True)

    def test_position_waves(self, page):
        panel = show(page, position_waves(n=40, d_model=16, position=7))

        def assert_table(d_model: int, position: int, base: float = 10000.0) -> None:
            table = sinusoidal_encoding(40, d_model).double()
            if base != 10000.0:
                pairs = torch.arange(d_model) // 2
                angles = torch.arange(40)[:, None] * base ** (-2 * pairs.double() / d_model)
                table = torch.where(torch.arange(d_model) % 2 == 0, angles.sin(), angles.cos())
            products = table @ table[position]
            assert_shown(panel.locator(".cf-vector"), table[position, :4])
            assert_shown(panel.locator(".cf-itself"), products[position], digits=2)
            assert_shown(panel.locator(".cf-next"), products[min(39, position + 1)], digits=2)
            titles = [text.split(": ")[1] for text in panel.locator("circle title").all_text_contents()]
            assert [float(t.replace("\u2212", "-")) for t in titles] == pytest.approx(products.tolist(), abs=6e-4)

        assert_table(16, 7)
        panel.get_by_label("position", exact=True).focus()
        press(page, "ArrowRight", "ArrowRight")
        panel.get_by_label("d_model").focus()
        press(page, "ArrowRight")
        assert_table(18, 9)
        panel.get_by_label("base").focus()
        press(page, *["ArrowLeft"] * 10)
        assert panel.get_by_label("base").get_attribute("aria-valuetext") == "1000"
        assert_table(18, 9, base=1000.0)

    def test_attention_explorer(self, page, translator, source, maps):
        panel = show(page, attention_explorer(maps))
        ids = french_vocabulary().encode(["le", "chat", "est", "sur", "le", "tapis"])[None]
        with torch.no_grad():
            cross = cross_attention_weights(translator, source, shift_right(ids, BOS))[:, 0]  # (layer, head, …)
        words = panel.locator(".cf-word")
        assert words.all_text_contents()[1] == "le → chat"
        assert_shown(panel.locator(".cf-weight"), cross[1].mean(dim=0)[0])
        panel.locator(".cf-word[tabindex='0']").focus()
        press(page, "ArrowDown")
        assert_shown(panel.locator(".cf-weight"), cross[1].mean(dim=0)[1])
        assert panel.locator(".cf-most").text_content() == "cat"
        panel.get_by_label("layer").select_option("1")
        panel.get_by_label("head").select_option("3")
        words.nth(4).hover()
        assert_shown(panel.locator(".cf-weight"), cross[0, 2, 4])
        panel.get_by_label("attention").select_option("encoder, self")
        assert_shown(panel.locator(".cf-weight"), maps[0].weights[0, 2, 4])

    def test_next_token_filters(self, page):
        panel = show(page, next_token_filters(WORDS, LOGITS))
        order = LOGITS.argsort(descending=True)

        def assert_filtered(temperature: float, k: int, p: float) -> None:
            logits = top_p_filter(top_k_filter(LOGITS / temperature, k), p)
            left = logits.softmax(dim=0)
            shown = panel.locator(".cf-probability").all_text_contents()
            assert [text == "✕ out" for text in shown] == (left[order] == 0).tolist()
            assert_shown(panel.locator(".cf-probability"), [q for q in left[order].tolist() if q])
            assert numbers(panel.locator(".cf-kept")) == [int((left > 0).sum())]
            assert_shown(panel.locator(".cf-entropy"), [entropy(left), entropy(left) / math.log(2)])
            panel.get_by_role("button", name="draw a token").click()
            u = re.search(r"u = (0\.\d+)", panel.inner_text())
            assert u is not None
            drawn = sample(logits[None], 1.0, torch.tensor([float(u[1])]))
            assert panel.locator(".cf-drawn").text_content() == WORDS[int(drawn)]

        assert_filtered(1.0, 8, 1.0)
        panel.get_by_label("temperature").focus()
        press(page, *["ArrowRight"] * 10)
        assert_filtered(1.5, 8, 1.0)
        panel.get_by_label("top-k").focus()
        press(page, *["ArrowLeft"] * 3)
        assert_filtered(1.5, 5, 1.0)
        panel.get_by_label("top-p").focus()
        press(page, *["ArrowLeft"] * 25)
        assert_filtered(1.5, 5, 0.75)
        panel.get_by_role("button", name="draw 100").click()
        assert sum(numbers(panel.locator(".cf-count"))) == 101
        panel.get_by_label("temperature").focus()
        press(page, "Home")
        assert panel.locator(".cf-probability").first.text_content() == "1.000"
        assert numbers(panel.locator(".cf-kept")) == [1]

    def test_beam_tree(self, page, beam):
        panel = show(page, beam_tree(beam))
        assert panel.locator(".cf-node").count() == len(beam.steps[0])
        panel.get_by_role("button", name="next").focus()
        press(page, "Enter")
        assert_shown(panel.locator(".cf-total"), [h.log_probability for step in beam.steps[:2] for h in step])
        panel.get_by_label("step", exact=True).focus()
        press(page, "End")
        states = Counter(node.get_attribute("data-state") for node in panel.locator(".cf-node").all())
        assert states == Counter(h.state for step in beam.steps for h in step)
        best = max(h.score for step in beam.steps for h in step if h.score is not None)
        assert_shown(panel.locator(".cf-best"), best, digits=4)
        assert "le chat est sur le tapis <eos>" in panel.locator(".cf-says").text_content()
        panel.get_by_role("button", name="back").click()
        assert panel.locator(".cf-best").count() == 0


# --- what the figures are given -----------------------------------------------------------------------------------


def test_attention_of_all_three_kinds(translator, source, maps):
    assert [each.kind for each in maps] == ["encoder, self", "decoder, self", "decoder, cross"]
    for each in maps:
        assert each.weights.shape == (2, 4, len(each.queries), len(each.keys))
        torch.testing.assert_close(each.weights.sum(dim=-1), torch.ones(2, 4, len(each.queries)))
    assert maps[1].weights.triu(1).abs().max() == 0  # nobody looks ahead
    first = translator.encoder.layers[0]
    with torch.no_grad():
        h = first.norm_1(translator.positions(translator.src_embedding(source)))
        torch.testing.assert_close(maps[0].weights[0], first.attention(h, h, h)[1][0])


class PlainEncoderLayer(EncoderLayer):
    """As a student may write it: the attention is called, and its weights are left behind."""

    def attend(self, h, mask):
        output, _ = self.attention(self.dropout(h), h.clone(), h.clone(), mask)
        return output


class PlainDecoderLayer(DecoderLayer):
    def attend_to_targets(self, h, mask):
        return self.self_attention(h, h, h, mask)[0]

    def attend_to_source(self, h, memory, memory_mask):
        return self.cross_attention(h, memory, memory, memory_mask)[0]


def test_attention_of_a_model_that_is_written_differently(maps):
    model = load_translator().train()
    for layer in model.encoder.layers:
        layer.__class__ = PlainEncoderLayer
    for layer in model.decoder.layers:
        layer.__class__ = PlainDecoderLayer
    for mine, theirs in zip(translation_attention(model, SENTENCE.upper() + "."), maps, strict=True):
        assert (mine.kind, list(mine.queries), list(mine.keys)) == (theirs.kind, theirs.queries, theirs.keys)
        torch.testing.assert_close(mine.weights, theirs.weights)
    assert model.training


def test_a_model_that_finds_no_end_can_be_shown_too():
    torch.manual_seed(0)
    model = new_translator()
    maps, beam = translation_attention(model, SENTENCE), translation_beam(model, SENTENCE)
    assert len(maps[1].keys) == len(beam.steps) == 17  # the longest sentence of the data, and its end
    for figure in (attention_explorer(maps), beam_tree(beam)):
        assert sum(map(len, figure._repr_mimebundle_()[0].values())) < 150_000


def test_an_unknown_word_is_named(translator):
    with pytest.raises(ValueError, match="zebra"):
        translation_attention(translator, "the zebra")
    with pytest.raises(ValueError, match="zebra"):
        translation_beam(translator, "the zebra")


def test_a_recorded_beam_leaves_out_what_is_impossible():
    logits = torch.tensor([-math.inf, 1.0, 0.0, -math.inf])  # BOS and the last word never follow

    beam = recorded_beam(lambda ids: logits.expand(len(ids), -1), ["<bos>", "a", "<eos>", "b"], 3, 0, 2, 2, 0.0)
    assert [[h.tokens[-1] for h in step] for step in beam.steps] == [["a", "<eos>"], ["a", "<eos>"]]
    assert "beam search" in repr(beam_tree(beam))
    assert "Infinity" not in beam_tree(beam).html.split("start(")[-1]


@pytest.mark.parametrize("max_len", [4, 40])
def test_recorded_beam_is_the_search_itself(translator, source, max_len):
    with torch.no_grad():
        ids, score = beam_search(uncached(translator, source), 3, BOS, EOS, max_len, 0.6)
    words = french_vocabulary().words
    beam = recorded_beam(uncached(translator, source), words, 3, BOS, EOS, max_len, 0.6, pruned=1)
    finished = [h for step in beam.steps for h in step if h.state == "finished"]
    best = max(finished, key=lambda h: h.score)
    assert best.tokens == tuple(words[i] for i in ids)
    assert best.score == pytest.approx(score, abs=1e-5)
    assert all(sum(h.state == "pruned" for h in step) == 1 for step in beam.steps)
