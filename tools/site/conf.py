"""Sphinx's settings for the site; `python -m tools.site` prepares what it reads."""

project = "torch.compile, measured"
html_title = project
extensions = ["myst_nb"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
templates_path = ["templates"]

nb_execution_mode = "off"  # what is shown is what strict comparison holds to
nb_ipywidgets_js = {}  # a stored page has no live widget, and asks no other host
nb_merge_streams = True
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 3

html_theme = "furo"
html_static_path = ["course.css", "page.js", "find.js"]
html_css_files = ["course.css"]
html_js_files = ["page.js"]
html_use_index = False
html_copy_source = html_show_sourcelink = False
html_show_sphinx = html_show_copyright = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
