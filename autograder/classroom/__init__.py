"""A class: its folder, its submissions, its gradebook.

`class_folder` and `course` are the folder, as an instructor and as nbgrader know it; `class_file` is what the
instructor decides, `roster` who is in the class, `late` what lateness costs, `seed` the secret. `collect` places what
came from an LMS, `collected` is what it remembers. `grade` plans the work, hands it out (`cluster`: over Dask) and
writes the results; `book` is nbgrader's gradebook, `cells` lets an assignment change after it was released. `sample` is
a fictitious class, made of the exercises' own misconceptions, which `answers` writes as students would.
"""
