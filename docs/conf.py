"""How Sphinx builds the site of these pages: `make site`. The pages are plain Markdown; the reference is docstrings."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_site"))

project = "Sojourn"
author = copyright = "the Sojourn authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings", "commands"]
exclude_patterns = ["_site"]
source_suffix = {".md": "markdown"}
suppress_warnings = ["myst.xref_missing_external"]
nitpicky = False  # types of signatures belong to libraries whose pages are not at hand offline
default_role = "literal"
smartquotes = False  # two dashes begin an option

myst_heading_anchors = 4  # links between pages name headings as a Git host does
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 100

html_theme = "furo"
html_title = "Sojourn"
html_static_path = ["_site/site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
