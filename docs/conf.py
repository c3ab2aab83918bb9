"""How Sphinx builds the documentation: `make docs`, without network, warnings as errors."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import lrmc

project = "lrmc"
author = "The lrmc developers"
copyright = f"{date.today().year}, {author}"
version = release = lrmc.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples/*.md", "examples/README.rst", "_build"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache", "myst.header"]  # measured pages begin at any level
html_extra_path = []
nitpicky = False
default_role = "code"  # as docstrings have it

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them
autodoc_default_options = {"members": False}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = f"lrmc {release}"
html_static_path = ["_static"]
html_css_files = ["lrmc.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "icon_links": [],
    "external_links": [],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"install": [], "quickstart": [], "comparison": []}

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # a page that would load scripts from elsewhere
    "capture_repr": ("_repr_html_",),  # not what a plotting function happens to return
    "image_scrapers": ("matplotlib",),
    "min_reported_time": 1000,
    "default_thumb_file": None,
    "copyfile_regex": "",
}
