"""What runs inside the walls, beside student code. Nothing here is secret, and nothing here is trusted.

`wire`    messages of plain data, followed by the bytes of tensors; also used by the judge outside
`walls`   limits, namespaces, Landlock, seccomp: raised by the runner around itself
`warm`    a process that has imported what notebooks import, and forks a runner for each submission
`runner`  answers the judge's questions about what a student's cells have defined
`cells`   runs these cells

These modules import nothing of the course: they must not lead student code to it. What a notebook may use of
`course_lib` is sent by the judge (see `autograder/judging/references.py`).
"""
