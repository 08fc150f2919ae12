"""A class: its folder, its submissions, its gradebook.

`class_folder` and `course` are the folder, as an instructor and as nbgrader know it (`nbgrader_config`: its settings in
a new class); `class_file` is what the instructor decides, `roster` who is in the class, `late` what lateness costs,
`seed` the secret.

`collect` places what came from an LMS, and `collected` is what it remembers. `download` finds the notebooks in it,
`archives` says what may be unpacked, `whose` and `releases` tell whose a notebook is and which assignment it belongs
to, and `placing` puts it there.

`grade` plans the work, hands it out (`cluster`: over Dask) and writes the results. `book` is nbgrader's gradebook,
`rows` enters a submission in it, `cells` lets an assignment change after it was released.

`sample` is a fictitious class, made of the exercises' own misconceptions, which `answers` writes as students would.
"""
