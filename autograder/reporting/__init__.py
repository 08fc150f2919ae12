"""What people read about the grades: `feedback` for students, `report` for the instructor, `export` for the LMS.

`written` collects all answers to one written question, and enters their marks. For the report, `helped` finds who needs
help, `items` says what each exercise tells about the class, `similar` finds answers that look alike, and `shown` knows
the code that the course itself gives away. `gradebook` reads nbgrader's, and `words` has small words and numbers.
"""
