"""What people read about the grades: `feedback` for students, `report` for the instructor, `export` for the LMS.

`similar` finds answers that look alike.
"""
