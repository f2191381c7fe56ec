"""Builds the course as a site: HTML that needs no network and no kernel."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader

TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent))
