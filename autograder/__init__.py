"""The course's grader: from the sources of the notebooks to grades, feedback and a report on the class.

`cli`         the commands: python -m autograder --help
`authoring`   the notebooks, made from solutions/, and their release to a class
`hidden`      how the cases that only the grader runs are made
`classroom`   the folder of a class: what is handed in, graded, and kept in nbgrader's gradebook
`judging`     one submission, from its notebook to a verdict
`walls`       the processes in which student code runs, and what keeps it there
`reporting`   feedback for students, a report for the instructor, tables for the LMS
`working_copy`  the student's own copy of the notebooks; `project` where their sources lie
`files`       writes what commands write, and keeps what people made; `errors` what an instructor is told
`suggest`     the commands that messages suggest; `quick_imports` nbgrader without what no command needs
"""

import sys

# nbformat imports jsonschema, and jsonschema, where it finds this package, has it build a parser for web addresses: a
# second at every start, and nothing here needs it.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
