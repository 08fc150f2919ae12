"""The class report: what it says about a made-up class of thirty, and how it looks in a real browser."""

from __future__ import annotations

import functools
import http.server
import itertools
import re
import threading
from html.parser import HTMLParser

import pytest
from lab import browser_page, contrast, find_chromium, wcag_problems
from made_up_class import (
    ASSIGNMENT,
    HOSTILE,
    HOSTILE_NAME,
    copy_of,
    exercise_names,
    make_class,
    mark_written_answers,
    with_answers,
)
from playwright.sync_api import expect

from autograder.classroom.collected import Lost, remember
from autograder.classroom.course import Course, CourseError
from autograder.judging.verdict import ExerciseVerdict, Verdict, write_verdict
from autograder.reporting import report as reporting
from autograder.reporting.report import (
    OUTCOMES,
    AssignmentReport,
    Submission,
    assignment_report,
    difference,
    failed_property,
    id_of,
    nameless_failures,
    outcome_of,
    rendered,
    walls_of,
    write_report,
)
from autograder.reporting.words import duration, in_words, shortened, visible
from course_lib.checking.grading import grade
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

CHROMIUM = find_chromium()
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

pytestmark = [
    pytest.mark.xdist_group("report"),  # one class for all of these
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own
]


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    return make_class(tmp_path_factory.mktemp("class"))


@pytest.fixture(scope="module")
def report(course) -> AssignmentReport:
    return assignment_report(course, ASSIGNMENT)


@pytest.fixture(scope="module")
def html(course) -> str:
    return write_report(course).read_text(encoding="utf-8")


class Markup(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def values(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.tags if name in attributes]


# --- what it says -----------------------------------------------------------------------------------------------------


def test_summary_counts_everybody(report):
    assert report.summary.startswith("31 students handed in: 27 graded, 1 zeroed, 2 flagged and 1 not graded yet.")
    assert re.search(r"The median score is \d+\u00a0%\.$", report.summary)
    assert report.ungraded == ("wim",)


def test_what_to_talk_about_counts_those_who_failed_and_not_the_class(report):
    first = report.to_talk_about[0]
    assert (first.exercise, first.id) == ("causal_mask", "hides_the_diagonal")
    assert first.how_many == "11 of the 20 who failed (55\u00a0%)"
    assert first.section.title == "A language model is a product"
    assert first.section.link == f"reading/{ASSIGNMENT}.html#causal_mask"
    assert all(len(m.students) >= 0.25 * m.failed for m in report.to_talk_about)
    assert "no name yet" in report.talking_points[-1]


def test_a_mistake_of_few_is_worth_a_word_if_nearly_all_who_failed_made_it(tmp_path):
    course = with_answers(tmp_path, {"eva": ("causal_mask", "is_additive"), "max": ("causal_mask", "is_additive")})
    right = ExerciseVerdict("causal_mask", "right", 4.0, 4.0, 1.0, 1.0)
    for number in range(60):
        write_verdict(course, Verdict(f"s{number}", ASSIGNMENT, "graded", "", (right,)))
    (only,) = assignment_report(course, ASSIGNMENT).to_talk_about
    assert only.how_many == "all 2 who failed"


def test_what_to_talk_about_names_the_exercise_that_few_solved(tmp_path):
    found = assignment_report(with_answers(tmp_path, {"eva": ("causal_mask", None)}), ASSIGNMENT)
    assert found.talking_points == ["`causal_mask`: none of 1 student got it right."]


def test_histogram_holds_everybody_with_a_score(report):
    assert sum(students for _, students in report.histogram) == len(report.scored) == 28
    assert [label for label, _ in report.histogram][::9] == ["0–9", "90–100"]


def test_exercises_count_every_submission_once(report):
    assert [success.exercise for success in report.successes] == exercise_names()
    for success in report.successes:
        assert tuple(success.counts) == OUTCOMES
        assert sum(success.counts.values()) == 30
        assert 0 <= success.mean_points <= success.max_points
    window = next(success for success in report.successes if success.exercise == "window_mask")
    assert window.counts["not attempted"] == 1
    assert window.counts["not run"] == 3  # zed, yara, and xaver whose first cell never ended


@pytest.mark.parametrize(
    ("outcome", "points", "hidden", "expected"),
    [
        ("right", 4, 1, "right"),
        ("right", 4, 0, "partly"),
        ("wrong", 2, 0, "partly"),
        ("wrong", 0, 0, "wrong"),
        ("raised", 2, 0, "raised"),
        ("not attempted", 0, 0, "not attempted"),
        ("not run", 0, 0, "not run"),
        ("something new", 0, 0, "not run"),
    ],
)
def test_outcomes(outcome, points, hidden, expected):
    assert outcome_of(ExerciseVerdict("causal_mask", outcome, points, 4, hidden, 1)) == expected


@pytest.mark.parametrize("name", exercise_names())
def test_points_tell_which_property_failed(name):
    exercise = all_exercises()[name]
    for wrong in exercise.misconceptions:
        seen = grade(exercise, Subject(wrong))
        if not seen.passed:
            answer = ExerciseVerdict(name, seen.outcome, seen.points, seen.max_points, 0, 1)
            assert failed_property(answer) == next(check.name for check in seen.checks if check.passed is False)
    right = ExerciseVerdict(name, "right", exercise.max_points, exercise.max_points, 0, 1)
    assert "only the grader runs" in failed_property(right)


def test_misconceptions_are_ranked_and_ready_for_the_lecture(report):
    counts = [len(m.students) for m in report.misconceptions]
    assert counts == sorted(counts, reverse=True)
    first = report.misconceptions[0]
    assert (first.exercise, first.id, first.title) == ("causal_mask", "hides_the_diagonal", "hides the diagonal")
    assert first.sentence.startswith("You leave out the diagonal. A position may see itself.")
    assert first.properties == ("the first position sees only itself, the last one sees all",)
    assert first.program == "def causal_mask(n):\n    everything = torch.ones(n, n, dtype=torch.bool)\n    " + (
        "return torch.tril(everything, diagonal=-1)"
    )
    assert first.shown.message.startswith("On the input n = 4: The first row allows no key at all.")
    assert "expected" in first.shown.picture
    assert ("-", "    return torch.tril(everything, diagonal=-1)") in first.difference
    assert ("+", "    return torch.tril(everything, diagonal=0)") in first.difference
    assert "diagonal=-1" in first.examples[0]


def test_two_mistakes_at_once_count_for_both(tmp_path):
    pairs = {"eva": ("causal_mask", "peeks_one_ahead + is_additive"), "max": ("causal_mask", "is_additive")}
    found = assignment_report(with_answers(tmp_path, pairs), ASSIGNMENT).misconceptions
    assert [(m.id, m.students) for m in found] == [("is_additive", ("eva", "max")), ("peeks_one_ahead", ("eva",))]


def test_what_two_mistakes_would_lead_to_counts_for_neither(tmp_path):
    described = {"eva": ("causal_mask", "both#peeks_one_ahead&is_additive"), "max": ("causal_mask", "is_additive")}
    found = assignment_report(with_answers(tmp_path, described), ASSIGNMENT).misconceptions
    students = {m.id: m.students for m in found}
    assert students == {"is_additive": ("max",), "both#peeks_one_ahead&is_additive": ("eva",)}


def test_mistake_that_the_exercise_does_not_know_keeps_its_sentence(tmp_path):
    course = with_answers(tmp_path, {"eva": ("causal_mask", "imports_the_reference"), "max": ("gone", "unknown")})
    found = assignment_report(course, ASSIGNMENT).misconceptions
    assert [(m.id, m.sentence, m.difference) for m in found] == [
        ("imports_the_reference", "A sentence.", ()),
        ("unknown", "A sentence.", ()),
    ]
    assert "imports the reference" in write_report(course).read_text(encoding="utf-8")


def test_every_kind_of_misconception_has_a_difference():
    one_of_each = {exercise.topic: exercise for exercise in all_exercises().values()}
    for exercise in one_of_each.values():
        for wrong in exercise.misconceptions:
            assert {sign for sign, _ in difference(exercise.reference, wrong)} & {"-", "+"}, wrong.__name__


def test_a_difference_shows_the_mistake_and_nothing_beside_it():
    """Neither annotations of variables nor the arguments that only the reference refuses."""
    known = {name: all_exercises()[name] for name in ("wordpiece", "PositionalEncoding")}
    wrong = {m.__name__: (e.reference, m) for e in known.values() for m in e.misconceptions}
    for name in ("marks_the_first_piece", "drops_out_always"):
        changed = [sign for sign, _ in difference(*wrong[name]) if sign in "+-"]
        assert changed == ["-", "+"], name


def test_a_written_test_counts_for_each_mistake_that_it_lets_through(tmp_path):
    name = "accepts_causal_mask"
    missed = {
        "eva": (name, "lets_through_peeks_one_ahead + lets_through_is_additive"),
        "max": (name, "lets_through_peeks_one_ahead"),
        "ida": (name, "looks_at_the_shape"),
        "ken": (name, "refuses_row_by_row"),
    }
    course = with_answers(tmp_path, missed)
    found = {m.id: m for m in assignment_report(course, ASSIGNMENT).misconceptions}
    ahead = found["lets_through_peeks_one_ahead"]
    assert ahead.students == ("eva", "max") and "Your triangle reaches one diagonal too far." in ahead.sentence
    assert ("-", "    return torch.tril(everything, diagonal=1)") in ahead.difference
    assert "mask (0 and -inf)" in found["lets_through_is_additive"].sentence
    assert "a look at the shape" in found["looks_at_the_shape"].sentence and found["looks_at_the_shape"].difference
    assert "refuses a right implementation, `row_by_row`" in found["refuses_row_by_row"].sentence
    assert "lets through peeks one ahead" in write_report(course).read_text(encoding="utf-8")


def test_answers_without_a_name_are_grouped_by_what_they_fail(report):
    first = next(group for group in report.nameless if group.exercise == "causal_mask")
    assert first.property == "the first position sees only itself, the last one sees all"
    assert first.students == ("emmy", "ida", "ken")
    assert first.messages[0][1] == 3
    assert len(first.examples) == 1, "three times the same, except for a comment"
    assert "emmy" not in first.examples[0]


def test_flagged_zeroed_late_slow_and_odd_ones_are_named(report):
    assert {s.student for s in report.with_status("flagged")} == {"yara", HOSTILE_NAME}
    assert [s.verdict.reason for s in report.with_status("zeroed")] == [
        "The file is not a notebook: it ends in the middle of its JSON."
    ]
    assert [(s.student, duration(s.seconds_late)) for s in report.late] == [("ken", "1 day 3 hours"), ("ida", "1 hour")]
    assert [s.student for s in report.slow][:2] == ["xaver", "mary"]
    assert [s.student for s in report.odd] == ["grace", "xaver"]
    assert dict(report.walls) == {
        "limits, namespaces, landlock, seccomp": 27,
        "the code was not run": 2,
        "none recorded": 1,
    }


def test_what_was_not_run_was_behind_no_walls_and_is_not_called_unrecorded():
    not_run = (ExerciseVerdict("causal_mask", "not run", 0, 4, 0, 1),)
    assert walls_of(Verdict("nat", ASSIGNMENT, "zeroed", "", not_run)) == "the code was not run"


def test_a_page_without_penalties_says_so(course, report, tmp_path):
    late = copy_of(course, tmp_path)
    with late.gradebook() as gradebook:
        gradebook.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "ken").late_submission_penalty = 3.0
        gradebook.db.commit()
    assert (report.penalised, assignment_report(late, ASSIGNMENT).penalised) == (0, 1)
    assert "what lateness costs is not taken off" in write_report(late).read_text(encoding="utf-8")
    assert "what lateness costs" not in write_report(copy_of(course, tmp_path / "b")).read_text(encoding="utf-8")


def test_copied_answer_is_found_and_honest_ones_are_not(report):
    (group,) = report.alike
    assert group.students == ("hedy", "radia")
    assert group.exercises == ("window_mask",)


def test_page_says_all_of_it(html, report):
    text = " ".join(Markup(html).text.split())
    for wanted in (
        "What to talk about tomorrow",
        "What to say about it in the next lecture",
        "You leave out the diagonal. A position may see itself.",
        "Five cells lost their ids",
        "Stopped after 60 s in cell 12.",
        "1 day 3 hours late",
        "It does not show who wrote it, nor that anybody broke a rule",
        "Who needs help",
        "7 of 8 answers could not be run.",
        "How the exercises work",
        "=1+1 Doe, ada",
        "27 submissions: limits, namespaces, landlock, seccomp",
        "Not graded yet: wim",
    ):
        assert wanted in text
    assert all(success.exercise in text for success in report.successes)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_leave_out_written_answers_until_all_are_marked(course, report, tmp_path):
    before = report
    assert before.code_only and before.awaiting_marks == 27
    ada, alan = (next(s for s in before.submissions if s.student == name) for name in ("ada", "alan"))
    assert ada.percent == 100 and ada.entry.by_hand == 17
    assert (alan.score, alan.max_score) == (alan.verdict.points, alan.verdict.max_points)
    marked = copy_of(course, tmp_path)
    mark_written_answers(marked)
    after = assignment_report(marked, ASSIGNMENT)
    alan_after = next(s for s in after.submissions if s.student == "alan")
    assert not after.code_only
    assert (alan_after.score, alan_after.max_score) == (alan.score + 1, alan.max_score + 2)


def test_works_without_a_gradebook_and_makes_none(tmp_path):
    course = make_class(tmp_path, gradebook=False)
    found = assignment_report(course, ASSIGNMENT)
    assert all(s.score == s.verdict.points for s in found.submissions)
    assert found.late == [] and write_report(course).exists()
    assert not (tmp_path / "gradebook.db").exists()


def test_class_in_which_nothing_could_be_graded(tmp_path):
    course = Course(tmp_path)
    (tmp_path / "class.toml").write_text('time_zone = "Europe/Berlin"\n')
    write_verdict(course, Verdict("zed", ASSIGNMENT, "flagged", "Not a notebook.", graded_at="2026-03-02T23:30:05Z"))
    found = assignment_report(course, ASSIGNMENT)
    assert found.median_percent is None and found.successes == ()
    page = write_report(course).read_text(encoding="utf-8")
    assert "Not a notebook." in page
    assert "last graded 2026-03-03 00:30 CET" in page, "the time of the class"


def test_several_assignments_have_an_overview(tmp_path):
    course = with_answers(tmp_path, {"eva": ("causal_mask", "is_additive")})
    write_verdict(course, Verdict("eva", "03_positions", "graded"))
    page = Markup(write_report(course).read_text(encoding="utf-8"))
    assert {link for link in page.values("href") if link.startswith("#")} == {"#assignment-1", "#assignment-2"}
    assert "Everybody, across assignments" in page.text
    alone = write_report(course, ["03_positions"])
    assert alone.name == "report_03_positions.html" and (tmp_path / "projector_03_positions.html").exists()
    only = Markup(alone.read_text(encoding="utf-8"))
    assert "03_positions" in only.text and ASSIGNMENT not in only.text


def test_the_roster_gives_names_and_tells_who_is_absent(tmp_path):
    course = with_answers(tmp_path, {"eva": ("causal_mask", "is_additive"), "guest": ("causal_mask", None)})
    (tmp_path / "class.toml").write_text('roster = "roster.csv"\n', encoding="utf-8")
    (tmp_path / "roster.csv").write_text("id,first_name,last_name\neva,Eva,Lu\nmax,Max,Born\n", encoding="utf-8")
    remember(course, tmp_path / "moodle.zip", [], [Lost("moodle.zip", "of_bob.ipynb", "Nobody is called bob.")])
    text = " ".join(Markup(write_report(course).read_text(encoding="utf-8")).text.split())
    assert "Max BornHas handed in nothing." in text and "Eva Lu" in text and "guest" in text
    assert "1 file could not be placed." in text and "Nobody is called bob." in text


def test_one_student_across_assignments(course, html, monkeypatch):
    monkeypatch.delattr(reporting, "near_identical")  # the page says nothing of it, and it takes most of the time
    path = write_report(course, student="ken")
    assert path.name == "report_of_ken.html"
    page = Markup(path.read_text(encoding="utf-8"))
    text = " ".join(page.text.split())
    assert "=1+1 Doe, ken" in text and "1 day 3 hours late" in text and "not marked yet" in text
    with course.gradebook() as gradebook:
        gradebook.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "ken").late_submission_penalty = 2.5
        gradebook.db.commit()
        try:
            again = write_report(course, student="ken").read_text(encoding="utf-8")
        finally:
            gradebook.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "ken").late_submission_penalty = None
            gradebook.db.commit()
    assert "1 day 3 hours late, 2.5 points off" in again
    assert "hedy" not in text and "radia" not in text
    links = [link for link in page.values("href") if link.startswith("#")]
    assert links == ["#02_masks"] and "02_masks" in page.values("id")
    assert write_report(course, student="=1+1 doe, KEN") == path
    with pytest.raises(CourseError, match="no student nobody"):
        write_report(course, student="nobody")


def test_two_of_one_name_are_told_apart_by_their_ids():
    names = {"al1": "Li Wei", "al2": "Li Wei", "Li": "Ada"}
    assert [id_of(said, names) for said in ("al2", "ADA", "Li")] == ["al2", "Li", "Li"]
    with pytest.raises(CourseError, match="li wei may be al1 or al2: use the id"):
        id_of("li wei", names)


def test_projector_shows_nothing_of_any_student(course, html, report):
    page = (course.root / "projector.html").read_text(encoding="utf-8")
    text = " ".join(Markup(page).text.split())
    assert "hides_the_diagonal" not in text and "A position may see itself." in text
    assert "diagonal=-1" in text and "11 of the 20 who failed" in text
    for student in report.names.values():
        assert student not in text
    assert not re.search(r"\b(ada|hedy|radia|emmy|ken)\b", text) and "Doe" not in text
    assert not any(
        line.strip() in text
        for m in report.misconceptions
        for e in m.examples
        for line in e.splitlines()
        if len(line) > 40 and line.strip() not in m.program
    )


def test_the_text_of_the_notebook_is_there_to_link_to(course, html):
    page = Markup((course.root / "reading" / f"{ASSIGNMENT}.html").read_text(encoding="utf-8"))
    assert set(exercise_names()) <= set(page.values("id"))
    assert "The causal mask" in page.text and "of 4 points" not in page.text


def test_nothing_graded_yet_says_what_to_do(tmp_path):
    with pytest.raises(CourseError, match="autograder grade"):
        write_report(Course(tmp_path))
    with pytest.raises(CourseError, match="autograder grade 03_positions"):
        write_report(Course(tmp_path), ["03_positions"])


@pytest.mark.parametrize(
    "content",
    [b"{", b"", b"[]", b"7", b"{}", b"\xff\xfe", b"[" * 99_999, b'{"exercises": 7}', b'{"exercises": [], "notes": []}',
     b'{"exercises": [{"name": "x", "outcome": "x", "points": "7", "max_points": 1, "hidden_points": 1, '
     b'"hidden_max_points": 1}], "student": "ada", "assignment": "x", "status": "graded", "notes": [], "walls": []}'],
)  # fmt: skip
def test_broken_verdict_costs_only_its_student(content, tmp_path):
    course = Course(tmp_path)
    write_verdict(course, Verdict("ada", ASSIGNMENT, "graded"))
    write_verdict(course, Verdict("ben", ASSIGNMENT, "graded")).write_bytes(content)
    report = assignment_report(course, ASSIGNMENT)
    assert [s.student for s in report.with_status("graded")] == ["ada"]
    [broken] = report.with_status("flagged")
    assert broken.student == "ben"
    assert "The verdict cannot be read" in broken.verdict.reason
    assert "python -m autograder grade 02_masks" in broken.verdict.reason
    assert "ben" in write_report(course).read_text(encoding="utf-8")


# --- one safe file ----------------------------------------------------------------------------------------------------


def test_page_is_the_same_each_time(course, html):
    assert write_report(course).read_text(encoding="utf-8") == html
    assert not list(course.root.glob("*.part"))


def test_page_asks_for_nothing(html):
    page = Markup(html)
    assert not page.values("src") and not re.search(r"@import|url\(|https?:", html)
    links = {link.partition("#")[0] for link in page.values("href")}
    assert links == {
        *("", "data:,", "projector.html"),
        *(f"feedback/ada/{ASSIGNMENT}/{ASSIGNMENT}.html", f"reading/{ASSIGNMENT}.html"),
    }
    policy = next(v for v in page.values("content") if "default-src" in v)
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy


def test_what_students_wrote_is_only_text(html):
    page = Markup(html)
    names = [tag for tag, _ in page.tags]
    assert names.count("script") == names.count("style") == 1
    assert not {"img", "iframe", "object", "b>"} & set(names)
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert html.count("</style>") == html.count("</script>") == 1
    assert "document.title" in page.text, "it is shown"
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f") & set(html)
    assert "\\u202egnp.exe" in page.text


def test_strange_texts_do_not_break_the_page():
    strange = "{{ 7 * 7 }}{% raw %}\x00\x1b[31m\u2028 \ud83d " + "x" * 100_000 + "\n" * 5000
    answer = ExerciseVerdict("causal_mask", "wrong", 0, 4, 0, 1, None, None, strange, strange)
    verdict = Verdict("eve", ASSIGNMENT, "flagged", strange, (answer,), (strange,) * 50, (strange,))
    submission = Submission(verdict, None, 0, 5, "")
    nameless = tuple(nameless_failures([verdict]))
    report = AssignmentReport(ASSIGNMENT, "", (submission,), (), False, (), (), nameless, (), {"eve": strange})
    pages = {
        "everybody": ["eve"],
        "lost": [Lost(strange, strange, strange)],
        "projector": "projector.html",
        "course_id": "transformer",
        "last_graded": "",
    }
    page = rendered("report.html.j2", reports=[report], **pages)
    page.encode("utf-8")
    assert len(page) < 60_000
    assert "{{ 7 * 7 }}{% raw %}" in page and "\\ud83d" in page and "\\u001b" in page


def test_headings_and_tables_are_marked_up(html):
    page = Markup(html)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in itertools.pairwise(levels))
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert next(attributes for tag, attributes in page.tags if tag == "html") == {"lang": "en"}
    ids = page.values("id")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_enough_contrast(html, scheme):
    colours = dict(re.findall(r"--(\w+): (#\w{6})", re.findall(r":root \{(.*?)\}", html, re.DOTALL)[scheme]))
    for text, ground in [
        *(("ink", ground) for ground in ("paper", "sheet", "tint", "minus", "plus", "code")),
        *((text, ground) for text in ("soft", "accent") for ground in ("paper", "sheet")),
    ]:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for bar in ("right", "partly", "wrong", "raised", "blank"):
        assert contrast(colours[bar], colours["sheet"]) >= 3, bar


# --- words ------------------------------------------------------------------------------------------------------------


def test_words():
    assert in_words("hides_the_diagonal") == in_words("HidesTheDiagonal") == "hides the diagonal"
    assert in_words("TiesWithABias") == "ties with a bias"
    assert [duration(s) for s in (5, 3600, 97200, 90060)] == ["1 minute", "1 hour", "1 day 3 hours", "1 day 1 hour"]
    assert shortened("a\nb\nc", lines=2) == "a\nb\n… 1 more line"
    assert shortened("abcdef", width=4) == "abc…"
    assert visible("é 日本 \u00a0\t\n\u202e\u200b\x07") == "é 日本 \u00a0\t\n\\u202e\\u200b\\u0007"


# --- in a browser -----------------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(course, html):
    """The report, served on this machine."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(course.root))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/report.html"
        server.shutdown()


@pytest.fixture(scope="module")
def page(address):
    with browser_page(CHROMIUM) as (page, elsewhere):
        page.requests, page.complaints = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto(address)
        yield page
        assert elsewhere == [], "requests left the machine"


def scrolls_sideways(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


@pytest.mark.browser
@in_a_browser
def test_browser_shows_the_page_and_asks_for_nothing_else(page, address):
    assert page.requests == [address]
    assert page.complaints == []
    assert page.title() == "Class report · transformer"
    for name in ("Class report", "Who needs help", "Exercises", "Misconceptions", "Near-identical answers"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    heights = page.locator(".histogram .column span").evaluate_all("bars => bars.map(bar => bar.clientHeight)")
    assert len(heights) == 10 and max(heights) > 100 and min(heights) == 0
    widths = page.locator(".ranking .bar span").evaluate_all("bars => bars.map(bar => bar.clientWidth)")
    assert widths[0] > widths[1] > 0
    expect(page.locator(".stack span").first).to_be_visible()


@pytest.mark.browser
@in_a_browser
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_needs_no_sideways_scrolling(page, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    assert not scrolls_sideways(page)
    if width == 390:
        assert wcag_problems(page) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background))) / 3
    assert brightness > 200 if scheme == "light" else brightness < 60


@pytest.mark.browser
@in_a_browser
def test_browser_shows_tables_and_long_names_whole_on_a_phone(page, tmp_path):
    """What could not be placed is named by the LMS: such names are long, and have no spaces."""
    course = with_answers(tmp_path, {"eva": ("causal_mask", "is_additive")})
    name = "Zoe Unknown_412353_assignsubmission_file_/" + "homework_" * 9 + ".ipynb"
    remember(course, tmp_path / "moodle.zip", [], [Lost("moodle.zip", name, "Who is that?")])
    other = page.context.browser.new_page(viewport={"width": 420, "height": 900})
    other.goto(write_report(course).as_uri())
    assert not scrolls_sideways(other)
    notable = other.get_by_role("table").locator("td", has_text="Most fail at").first
    assert notable.bounding_box()["x"] + notable.bounding_box()["width"] <= 420
    other.close()


@pytest.mark.browser
@in_a_browser
def test_browser_shows_the_projector_large_and_whole(page, address, course):
    """Nothing is cut off or smaller than 18 pixels, on a projector and on a phone."""
    other = page.context.browser.new_page()
    other.goto(address.replace("report.html", "projector.html"))
    other.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    for width in (1920, 420):
        other.set_viewport_size({"width": width, "height": 1080})
        assert not scrolls_sideways(other)
    other.set_viewport_size({"width": 1920, "height": 1080})
    sizes = other.locator("p, li, pre code").evaluate_all(
        "all => all.map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 18
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline').length"
    assert other.locator("main *").evaluate_all(cut) == 0
    for name in ("projector.html", write_report(course, student="ken").name):
        assert other.goto(address.replace("report.html", name)).ok
        assert wcag_problems(other) == [], name
    other.close()


@pytest.mark.browser
@in_a_browser
def test_browser_sorts_and_filters(page):
    page.set_viewport_size({"width": 1200, "height": 900})
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    table = page.locator("#all-1")
    table.get_by_role("button", name="Seconds").click()
    table.get_by_role("button", name="Seconds").click()
    expect(table.locator("tbody tr").first).to_contain_text("xaver")
    page.locator("label.filter input").fill("grace")
    assert table.locator("tbody tr:visible").count() == 1


@pytest.mark.browser
@in_a_browser
def test_browser_without_javascript_and_on_paper(page, address):
    context = page.context.browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(address)
    expect(plain.get_by_role("heading", name="Misconceptions")).to_be_visible()
    expect(plain.locator("button.unfold")).to_be_hidden()
    cards = plain.locator("#ranking-1 > li > details")
    expect(cards.nth(0).locator(".steps")).to_be_visible()
    expect(cards.nth(2).locator(".steps")).to_be_hidden()
    cards.nth(2).locator("summary").first.click()
    plain.emulate_media(media="print", color_scheme="dark")
    plain.set_viewport_size({"width": 720, "height": 1000})
    expect(cards.nth(2).locator(".steps")).to_be_visible()
    assert not scrolls_sideways(plain)
    context.close()


@pytest.mark.browser
@in_a_browser
def test_browser_runs_nothing_that_a_student_wrote(page, course):
    """Even if escaping failed one day, the page's policy would stop a script."""
    page.evaluate(
        """text => new Promise(failed => {
            const box = document.createElement('div');
            document.body.append(box);
            box.innerHTML = text;
            box.querySelector('img[alt=last]').addEventListener('error', failed);  // after its own onerror
        }).then(() => null)""",
        HOSTILE + "<img alt=last src='data:,' onerror=\"document.title = 'stolen'\">",
    )
    assert page.title() == "Class report · transformer"
