"""The benchmarks' own machinery. What they measure is not repeated here: it takes minutes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import commands, grading, inside, mutation
from benchmarks.__main__ import NAMES
from benchmarks.tables import Row, at_least, at_most, markdown, side_by_side, timed
from course_lib.exercises import exercises_to_build

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_list_names_them_all():
    result = run("--list")
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == NAMES


def test_unknown_name():
    result = run("nonsense")
    assert result.returncode == 2 and "choose from checks, mutation, reversal" in result.stderr


def test_hidden_cases_of_one_exercise():
    result = run("hidden", "--only", "causal_mask", "--seeds", "2")
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if "no fault" in line] == [
        "| causal_mask | 2 classes, no fault | no fault | yes |"
    ]


def test_rows():
    rows = [at_least("exact", 97.96, 98, " %"), at_most("time", 1.5, 2, " s"), Row("remark", "3")]
    assert [row.met for row in rows] == [False, True, True]
    assert markdown(rows).splitlines()[2:] == [
        "| exact | 97.96 % | ≥ 98 % | **no** |",
        "| time | 1.50 s | ≤ 2 s | yes |",
        "| remark | 3 |  |  |",
    ]


def test_what_was_found_by_mutation_is_about_the_exercises_that_there_are():
    names, kept = list(exercises_to_build()), mutation.kept_lines()
    new, gone = sorted(set(names) - set(kept)), sorted(set(kept) - set(names))
    command = (
        f"python -m benchmarks mutation --write --only {' '.join(new or names[:1])}"  # removes those that are gone
    )
    assert list(kept) == names, f"mutation.md: new {new}, gone {gone}. Run `{command}`"
    assert mutation.in_readme(list(kept.values())) in (ROOT / "README.md").read_text(encoding="utf-8")
    for file in (mutation.EQUIVALENT, mutation.SAME_MISTAKE):
        found = set(re.findall(r"^(\w+) \| ", file.read_text(encoding="utf-8"), re.MULTILINE))
        assert found and found <= set(names), f"{file.name} has lines on exercises that are gone"


def test_lines_that_may_be_copied_are_printed_with_what_to_do():
    assert mutation.advice([("f", 9, 1, 1, 0, [], [])]) == []
    text = "\n".join(mutation.advice([("f", 9, 1, 1, 0, ["x = 1 → x = 2"], ["x = 1 → x = 3: slip"])]))
    assert "equivalent_variants.txt:\nf | x = 1 → x = 2\n" in text
    assert text.endswith("same_mistakes.txt:\nf | x = 1 → x = 3: slip")


def test_writing_the_findings_changes_the_table_and_the_sums_in_the_readme(monkeypatch, tmp_path):
    for name in ("TABLE", "README"):
        copy = tmp_path / name
        copy.write_bytes(getattr(mutation, name).read_bytes())
        monkeypatch.setattr(mutation, name, copy)
    before = mutation.README.read_text()
    first, *_ = mutation.kept_lines().values()
    mutation.keep([(first[0], first[1] + 1000, *first[2:])])
    sums = mutation.in_readme(list(mutation.kept_lines().values()))
    assert sums in mutation.README.read_text() != before
    mutation.keep([first])
    assert mutation.README.read_text() == before


def test_timing():
    calls = []
    assert len(side_by_side([lambda: calls.append("a"), lambda: calls.append("b")], rounds=3)) == 2
    assert "".join(calls) == "abababab"
    result, seconds = timed(lambda: 5)
    assert result == 5 and seconds >= 0


def test_a_class_of_one_is_refused():
    result = run("grading", "--submissions", "1")
    assert result.returncode == 2 and "at least 2 submissions" in result.stderr


def test_the_readme_gets_what_was_measured_and_nothing_else_in_it_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    class Figures:
        def text(self) -> str:
            return "| new |"

    before = grading.README.read_text(encoding="utf-8")
    copy = tmp_path / "README.md"
    copy.write_text(before, encoding="utf-8")
    monkeypatch.setattr(grading, "README", copy)
    for _ in range(2):
        grading.put_into_readme(Figures())
    head, _, rest = before.partition(grading.BEGIN)
    assert copy.read_text(encoding="utf-8") == (
        f"{head}{grading.BEGIN}\n| new |\n{grading.END}{rest.partition(grading.END)[2]}"
    )


def test_a_factor_is_the_product_of_its_parts():
    found = grading.Factors(stock=8.0, all_cells=4.0, needed_cells=0.2, all_workers=0.1)
    assert [row.measured for row in found.rows()] == ["2.0×", "20.0×", "2.0×"]
    assert "80× as fast as stock nbgrader" in found.sentence()


def test_time_inside_of_something_else_counts_only_there(monkeypatch: pytest.MonkeyPatch):
    clock = iter(range(100))
    monkeypatch.setattr(inside.time, "process_time", lambda: float(next(clock)))
    watch = inside.Stopwatch()
    watch.timed("outer", lambda: watch.timed("inner", lambda: None)())()
    assert watch.seconds == {"the rest of the judge": 1.0, "outer": 2.0, "inner": 1.0}


def test_a_command_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It ends when it has been looked at, however long that takes."""
    look = commands.memory_of

    def look_and_let_go(first: int) -> list[tuple[str, float]]:
        found = look(first)
        (tmp_path / "seen").touch()
        return found

    monkeypatch.setattr(commands, "memory_of", look_and_let_go)
    waits = "import os, time\nwhile not os.path.exists('seen'): time.sleep(0.01)"
    done = commands.run([sys.executable, "-c", waits], tmp_path)
    assert done.seconds > 0
    assert not commands.PROC.exists() or done.megabytes["coordinator"] > 0


def test_a_command_that_fails_says_why(tmp_path: Path):
    with pytest.raises(commands.CommandFailed, match="no such thing"):
        commands.run([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path)


def test_nothing_is_left_of_a_command_when_watching_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(process: subprocess.Popen[bytes]) -> dict[str, float]:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        commands.run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    assert started[0].poll() is not None
