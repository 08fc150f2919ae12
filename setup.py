"""What students install holds no grader: a wheel of this project has course_lib alone.

An editable installation, which is made from the whole repository, has both packages. Instructors without the repository
install a second wheel; `make wheel` builds it (autograder/authoring/wheel.py).
"""

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildForStudents(build_py):
    def run(self) -> None:
        if not self.editable_mode:
            self.packages = [name for name in self.packages if name.partition(".")[0] != "autograder"]
        super().run()


setup(cmdclass={"build_py": BuildForStudents})
