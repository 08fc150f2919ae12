"""The course as a book: `python -m book` (or `make book`) makes a static website of the notebooks.

- `executed`: the notebooks' outputs, executed once and kept until the code that they depend on changes;
- `pages`: a notebook as a page: its text, its code and its outputs, with or without solutions;
- `references`: the works that the notebooks cite, from references.toml;
- `atlas`: what is known of every misconception; `ideas`: what they are about; `atlas_pages`: the same to be read;
- `site`: all of it as one website, made by Sphinx; `mathml`: its formulas.
"""
