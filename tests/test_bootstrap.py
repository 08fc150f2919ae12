"""The set-up cell, run as Colab runs it: a lone notebook in an empty folder, an old Jupyter, no course.

Colab itself is imitated by an environment of its own with Colab's versions and a stub of ``google.colab``.
PyTorch is too big to install twice: that environment borrows it, by links, from the one that runs the tests.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import index_is_reachable
from nbclient.exceptions import CellExecutionError
from packaging.requirements import Requirement

from autograder.authoring.adopt import AdoptError, adopt
from autograder.authoring.bootstrap import PROJECT_FILE, badge_markdown, bootstrap_source, course_settings

pytestmark = pytest.mark.xdist_group("packaging")  # one process builds the wheel

COLAB_PINS = ["ipython==7.34.0", "ipykernel==6.17.1", "numpy==2.1.3", "matplotlib==3.10.0"]
REPOSITORY = "https://github.com/someone/some-course"
# Nothing listens there: the connection is refused at once, as it is without a network.
UNREACHABLE = ["https://127.0.0.1:9/course-1.0-py3-none-any.whl", "git+https://127.0.0.1:9/course.git@main"]


@dataclass
class Colab:
    """An environment with what Colab has."""

    python: Path
    kernels: Path
    stub: Path

    def pip(self, *arguments: str | Path) -> str:
        """Run pip in this environment and return what it prints."""
        command = [self.python, "-m", "pip", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def versions(self) -> dict[str, str]:
        """Every installed distribution and its version."""
        return {entry["name"]: entry["version"] for entry in json.loads(self.pip("list", "--format=json"))}

    def run(self, folder: Path, package: str | Path, in_colab: bool = True) -> nbformat.NotebookNode:
        """Run a notebook of two cells, set-up and import, in ``folder``; return it with its outputs."""
        cells = [bootstrap_source(REPOSITORY, "main"), "import course_lib; print(course_lib.__name__)"]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        own = ("PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PATH")
        env = {name: value for name, value in os.environ.items() if name not in own}
        env |= {"COURSE_PACKAGE": str(package)} | ({"PYTHONPATH": str(self.stub)} if in_colab else {})
        client = nbclient.NotebookClient(
            notebook,
            kernel_name="colab",
            resources={"metadata": {"path": str(folder)}},
            shutdown_kernel="immediate",
        )
        with contextlib.suppress(CellExecutionError):  # the outputs say what happened
            client.execute(env=env)
        return notebook


def needed_by(name: str, found: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """The distribution and all that it requires, from the environment that runs the tests."""
    if name in found:
        return found
    try:
        found[name] = metadata.distribution(name)
    except metadata.PackageNotFoundError:  # a requirement for another platform
        return found
    for requirement in map(Requirement, found[name].requires or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed_by(requirement.name, found)
    return found


def lend_torch(site_packages: Path) -> None:
    """Link PyTorch and what it requires into the other environment, where that has none of its own."""
    for distribution in needed_by("torch", {}).values():
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(Path(str(distribution.locate_file(top))))


def install_pins(colab: Colab) -> None:
    """Install Colab's versions, or skip the tests if no package can be downloaded at all."""
    try:
        colab.pip("install", "-qq", "--no-compile", *COLAB_PINS)
    except subprocess.CalledProcessError as failure:
        if not index_is_reachable():
            pytest.skip("pip reaches no package index, so Colab's versions cannot be installed")
        raise RuntimeError(failure.stderr) from failure


@pytest.fixture(scope="module")
def fresh_colab(tmp_path_factory: pytest.TempPathFactory) -> Colab:
    """Made once: it takes the longest."""
    folder = tmp_path_factory.mktemp("colab")
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    colab = Colab(folder / "env" / "bin" / "python", folder / "kernels", folder / "stub")
    install_pins(colab)
    lend_torch(next((folder / "env" / "lib").glob("python3.*/site-packages")))
    (colab.stub / "google" / "colab").mkdir(parents=True)
    (colab.stub / "google" / "colab" / "__init__.py").touch()
    spec = {"argv": [str(colab.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    spec |= {"display_name": "Colab", "language": "python"}
    (colab.kernels / "kernels" / "colab").mkdir(parents=True)
    (colab.kernels / "kernels" / "colab" / "kernel.json").write_text(json.dumps(spec))
    return colab


@pytest.fixture
def colab(fresh_colab: Colab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Colab]:
    """The environment as it was, whatever an earlier test installed."""
    monkeypatch.setenv("JUPYTER_PATH", str(fresh_colab.kernels))
    yield fresh_colab
    fresh_colab.pip("uninstall", "--yes", "transformer-course")


@pytest.fixture(scope="module")
def git_address(source_copy: Path) -> str:
    """The course as a branch of a git repository."""
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-qm", "The course"]):
        subprocess.run(["git", *command], cwd=source_copy, check=True)
    return f"git+{source_copy.as_uri()}@main"


def assert_works_silently(notebook: nbformat.NotebookNode) -> None:
    set_up, use = notebook.cells
    assert set_up.outputs == []
    assert [output.get("text", output) for output in use.outputs] == ["course_lib\n"]


def one_sentence_of(notebook: nbformat.NotebookNode) -> str:
    """What the set-up cell says in place of a traceback, where it stops the notebook."""
    set_up, use = notebook.cells
    (error,) = set_up.outputs
    assert error.output_type == "error"
    assert use.outputs == []
    assert use.execution_count is None
    (sentence,) = error.traceback
    return str(sentence)


@pytest.mark.parametrize("kind", ["wheel", "git_address"])
def test_in_colab_it_installs_the_course_and_moves_nothing(
    kind: str, colab: Colab, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = colab.versions()
    assert "transformer-course" not in before
    assert_works_silently(colab.run(tmp_path, package=request.getfixturevalue(kind)))
    after = colab.versions()
    assert after.pop("transformer-course") == metadata.version("transformer-course")
    assert after == before

    # Run again, it does nothing: if it tried to install, it would fail.
    assert_works_silently(colab.run(tmp_path, package=UNREACHABLE[0]))


@pytest.mark.parametrize("package", UNREACHABLE)
def test_offline_it_says_so(package: str, colab: Colab, tmp_path: Path) -> None:
    sentence = one_sentence_of(colab.run(tmp_path, package))
    assert sentence.startswith(f"The course could not be installed from {package} (")
    assert "127.0.0.1" in sentence and "onnect" in sentence
    assert sentence.endswith(". Check the network, then run this cell again.")


@pytest.mark.parametrize(
    "address, reason",
    [
        ("git+file:///no/such/repository@main", "'/no/such/repository' does not appear to be a git repository"),
        ("{git_address}@no-such-branch", "pathspec 'no-such-branch' did not match"),
    ],
)
def test_an_address_or_branch_that_is_not_there_is_told_from_a_missing_network(
    address: str, reason: str, colab: Colab, git_address: str, tmp_path: Path
) -> None:
    sentence = one_sentence_of(colab.run(tmp_path, address.format(git_address=git_address.rpartition("@")[0])))
    assert reason in sentence
    assert sentence.endswith(". Check that this address and branch exist and are public, then run this cell again.")


def test_elsewhere_it_installs_nothing_and_says_what_to_do(colab: Colab, wheel: Path, tmp_path: Path) -> None:
    sentence = (
        f"The course is not installed here: get it from {REPOSITORY}, "
        "run `make lab` in its folder, and open this notebook there."
    )
    assert one_sentence_of(colab.run(tmp_path, wheel, in_colab=False)) == sentence
    assert "transformer-course" not in colab.versions()


def test_where_the_course_is_installed_it_does_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(bootstrap_source(REPOSITORY, "main"), names)
    assert set(names) == {"__builtins__", "importlib"}
    assert capfd.readouterr() == ("", "")


def test_course_is_taken_from_the_repository_and_branch() -> None:
    assert f'"git+{REPOSITORY}@spring"' in bootstrap_source(REPOSITORY, "spring")


def test_settings_come_from_the_project_file(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.course]\nrepository = "https://github.com/a/b"\nbranch = "c"\nother = 1\n')
    assert course_settings(project) == {"repository": "https://github.com/a/b", "branch": "c"}
    assert set(course_settings()) == {"repository", "branch"}


def test_whoever_adopts_the_course_changes_one_place(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    before = PROJECT_FILE.read_text(encoding="utf-8")
    project.write_text(before, encoding="utf-8")
    adopt("https://github.com/me/my-course.git", "spring", project)
    assert course_settings(project) == {"repository": "https://github.com/me/my-course", "branch": "spring"}
    unchanged = [line for line in project.read_text().splitlines() if line in before.splitlines()]
    assert len(unchanged) == len(before.splitlines()) - 2


@pytest.mark.parametrize(
    "address", ["", "https://gitlab.com/me/course", "https://github.com/me", "git@github.com:me/x"]
)
def test_an_address_that_colab_cannot_open_is_refused(address: str, tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(PROJECT_FILE.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(AdoptError, match="Colab opens notebooks only from public GitHub repositories"):
        adopt(address, project_file=project)
    assert project.read_text(encoding="utf-8") == PROJECT_FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("notebook", ["02_masks", "02_masks.ipynb"])
def test_colab_link_is_text_alone(notebook: str) -> None:
    assert badge_markdown(REPOSITORY, "main", notebook) == (
        "[Open in Colab](https://colab.research.google.com/github/"
        "someone/some-course/blob/main/notebooks/02_masks.ipynb)"
    )
