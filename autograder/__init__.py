"""Everything an instructor needs: building the notebooks, the hidden cases, nbgrader's configuration."""
